"""Which engine runs, what is compiled when, and servers of several workers."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.served import on_server, served
from typer.testing import Result

import dispatchsim as ds
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.profiles.choosing import find_profile_path
from dispatchsim.calibration.running import compiling, preparation
from dispatchsim.calibration.running.compiling import Side, compile_engines, uncompiled, warm
from dispatchsim.calibration.running.preparation import effort
from dispatchsim.command_line.rendering import _difference, print_result, rows_shown
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.sim.engine.c import library
from dispatchsim.sim.engine.c.run import CannotCompileError
from dispatchsim.sim.native import library as native_library
from dispatchsim.sim.state.kernel_settings import EVERY_CPU
from dispatchsim.sim.state.program_settings import Sharing, Wakes
from dispatchsim.studies.rows import estimate
from dispatchsim.validation.forecast.forecast import Lengths, forecast

Call = Callable[..., Result]

RUN = {"duration": "60 ms", "warm_up": "10 ms", "replications": 2}


def scenario(mechanism: str = "epoll_level", **sections: Any) -> ds.Scenario:
    server = {"mechanism": mechanism, **sections.pop("server", {})}
    load = {"loop": "open", "rate": "5000/s"}
    return ds.Scenario.of(**{"server": server, "load": load, "run": RUN, **sections})


# Engines


def test_the_engine_is_said_and_changes_no_figure(profile: ds.Profile) -> None:
    fast = ds.run(scenario(), profile=profile, engine="fast")
    reference = ds.run(scenario(), profile=profile, engine="reference")
    assert (fast.engine, reference.engine) == ("fast", "reference")
    assert fast.estimates == reference.estimates or str(fast.estimates) == str(reference.estimates)
    content = reference.to_dict()
    assert content["engine"] == "reference"
    assert content["scenario"]["run"]["engine"] == "reference"
    assert [r["engine"] for r in content["replications"]] == ["reference"] * 2


@pytest.mark.parametrize(
    "load",
    [{"loop": "open", "rate": "5000/s"}, {"loop": "closed", "users": 5, "think_time": "100 us"}],
    ids=["open", "closed"],
)
def test_a_long_run_is_streamed_to_the_same_figures(
    load: dict[str, Any], profile: ds.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = ds.run(scenario(load=load), profile=profile).replications[0].summary
    monkeypatch.setattr(preparation, "_STREAMED_FROM", 100)
    streamed = ds.run(scenario(load=load), profile=profile).replications[0].summary
    assert streamed.latency_ns.p99 == pytest.approx(kept.latency_ns.p99, rel=0.001)
    lifetimes = streamed.connections.lifetime_ns, kept.connections.lifetime_ns
    assert lifetimes[0].p50 == pytest.approx(lifetimes[1].p50, rel=0.001)
    assert streamed.latency_ns.mean == kept.latency_ns.mean
    for name in ("offered", "replied", "errors", "calls", "cpu", "queue_max", "verdict"):
        assert getattr(streamed, name) == getattr(kept, name), name


def test_a_scenario_says_its_engine_and_an_argument_overrules_it(profile: ds.Profile) -> None:
    asked = scenario(run={**RUN, "engine": "reference"})
    assert ds.run(asked, profile=profile).engine == "reference"
    assert ds.run(asked, profile=profile, engine="auto").engine == "fast"


def test_a_program_that_cannot_be_compiled_runs_on_the_reference(
    profile: ds.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulate(*arguments: Any, engine: str, **_: Any) -> ds.Outcome:
        if engine == "fast":
            raise CannotCompileError("the fast engine cannot run this")
        return ds.simulate(*arguments, engine="reference")

    monkeypatch.setattr(preparation, "simulate", simulate)
    result = ds.run(scenario(), profile=profile)
    assert result.engine == "reference"
    assert any("could not be compiled" in warning for warning in result.warnings)
    with pytest.raises(CannotCompileError):
        ds.run(scenario(), profile=profile, engine="fast")


def test_an_engine_that_cannot_be_had_is_one_sentence(
    call: Call, scenario_path: Path, profile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulate(*arguments: Any, engine: str, **_: Any) -> ds.Outcome:
        raise CannotCompileError("the fast engine cannot run this")

    monkeypatch.setattr(preparation, "simulate", simulate)
    options = ("--profile", profile_path, "--workers", 1, "--engine", "fast")
    result = call("run", scenario_path, *options)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "error: the fast engine cannot run this"


@pytest.mark.parametrize("command", ["run", "compare"])
def test_the_command_line_takes_an_engine(
    call: Call, scenario_path: Path, profile_path: Path, command: str
) -> None:
    options = ("--profile", profile_path, "--workers", 1, "--cost-samples", 0, "--json")
    content = json.loads(call(command, scenario_path, *options, "--engine", "reference").stdout)
    result = content["results"]["poll"] if command == "compare" else content
    assert result["engine"] == "reference"


# Compilation


def test_engines_are_compiled_once_and_told_of(
    profile: ds.Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPATCHSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(native_library, "_loaded", {})  # by other tests of this process
    assert uncompiled(["select", "poll"], profile) == ["select", "poll"]
    told: list[Sequence[str]] = []

    @contextmanager
    def telling(mechanisms: Sequence[str]) -> Iterator[None]:
        told.append(mechanisms)
        yield
        told.append([])

    compile_engines(["select"], profile, telling=telling)
    assert told == [["select"], []]
    assert uncompiled(["select", "poll"], profile) == ["poll"]
    compile_engines(["select"], profile, telling=telling)
    assert told == [["select"], []]


def test_engines_of_testbed_runs_are_compiled_in_the_variant_that_these_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISPATCHSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(native_library, "_loaded", {})
    monkeypatch.setattr(library, "_announced", set())
    profile = ds.example_profile()  # whose other runs take the folded variant
    compile_engines(["poll"], profile, side=Side.of_testbed())
    point, lengths = point_at(mechanism="poll", users=2), Lengths(1_000_000, 5_000_000)
    made = forecast(point, profile, seeds=[1], draws=0, lengths=lengths)
    assert made.central.throughput_per_s > 0
    assert capsys.readouterr() == ("", "")


def test_engines_are_compiled_before_runs_that_take_them(
    profile: ds.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[str] = []
    # Whatever this process has loaded meanwhile.
    monkeypatch.setattr(compiling, "uncompiled", lambda names, *_: list(names))
    monkeypatch.setattr(compiling, "warm", lambda mechanism, *_: warmed.append(mechanism))
    run = {**RUN, "engine": "reference"}
    with ThreadPoolExecutor(1) as executor:
        ds.compare(scenario(run=run), ["poll", "select"], profile=profile, executor=executor)
        assert warmed == []
        ds.compare(scenario(), ["poll", "select"], profile=profile, executor=executor)
    assert sorted(warmed) == ["poll", "select"]


def test_warming_is_silent_and_forgives_what_cannot_be_compiled(
    profile: ds.Profile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    costs = profile.costs("poll", open_connections=0)
    assert warm("poll", costs)

    def simulate(*_: Any, **__: Any) -> ds.Outcome:
        raise CannotCompileError("no")

    monkeypatch.setattr(compiling, "simulate", simulate)
    assert not warm("poll", costs)
    assert capsys.readouterr() == ("", "")


def test_the_command_line_says_that_it_compiles(
    call: Call,
    scenario_path: Path,
    profile_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Whatever this process has loaded meanwhile.
    monkeypatch.setattr(compiling, "uncompiled", lambda names, *_: list(names))
    monkeypatch.setattr(compiling, "warm", lambda *_: True)
    options = ("--profile", profile_path, "--workers", 1, "--cost-samples", 0)
    told = "compiling the fast engine for epoll_level (once, about 2 seconds)"
    assert told in call("run", scenario_path, *options).stderr
    assert told not in call("run", scenario_path, *options, "--engine", "reference").stderr


# Workers


def test_workers_become_settings_of_the_run() -> None:
    asked = scenario(
        server={"workers": 4, "share": "ready list", "wake": "one"},
        machine={"cpus": 2, "interrupts": "every cpu"},
    )
    found = served(settings_of(asked, 0, 1))
    assert (found.workers, found.cpus) == (4, 2)
    assert found.sharing == Sharing.READY_LIST
    assert found.wakes == Wakes.ONE
    assert found.interrupt_cpu == EVERY_CPU
    assert served(settings_of(scenario(), 0, 1)) == on_server()


@pytest.mark.parametrize("share", ["nothing", "accept queue", "ready list"])
def test_several_workers_run_and_the_result_says_what_is_not_in_it(
    profile: ds.Profile, share: str
) -> None:
    asked = scenario(server={"workers": 2, "share": share}, machine={"cpus": 2})
    result = ds.run(asked, profile=profile)
    assert result.verdict is ds.Verdict.STABLE
    assert any("capacity may be lower" in warning for warning in result.warnings)
    alone = ds.run(scenario(), profile=profile)
    assert not any("upper bound" in warning for warning in alone.warnings)
    busy = "cpu_busy"
    assert result.estimates[busy].mean < alone.estimates[busy].mean


def test_each_worker_has_its_share_of_the_connections(profile: ds.Profile) -> None:
    result = ds.run(scenario(machine={"cpus": 2}), profile=profile)
    first, second = result.to_dict()["worker_shares"]
    assert first + second == pytest.approx(1)
    shares = f"{100 * first:.1f}%, {100 * second:.1f}%"
    assert f"connections of the 2 workers: {shares}" in printed(result)
    assert "busiest CPU busy" in printed(result)
    alone = ds.run(scenario(), profile=profile)
    assert alone.to_dict()["worker_shares"] == []
    assert "workers" not in printed(alone)
    assert "busiest" not in printed(alone)


def test_shares_of_many_workers_are_one_line(profile: ds.Profile) -> None:
    result = ds.run(scenario(machine={"cpus": 17}), profile=profile)
    (line,) = (each for each in printed(result).splitlines() if "of the 17 workers" in each)
    assert line.endswith(" each")


def test_warnings_begin_with_the_cpus_that_cannot_be_used(profile: ds.Profile) -> None:
    result = ds.run(scenario(server={"workers": 1}, machine={"cpus": 2}), profile=profile)
    unused = "server.workers: must be at least 2 to use all CPUs (machine.cpus), got 1"
    assert result.warnings[0] == unused
    used = ds.run(scenario(machine={"cpus": 2}), profile=profile)
    assert not any("server.workers" in warning for warning in used.warnings)


def test_a_capacity_of_several_workers_is_marked(profile: ds.Profile) -> None:
    asked = scenario(machine={"cpus": 2}, run={"duration": "40 ms", "warm_up": "10 ms"})
    answer = ds.capacity(asked, "p99 < 100 ns", profile=profile, replications=1)
    assert any("capacity may be lower" in warning for warning in answer.warnings)


def test_what_no_kernel_does_is_refused() -> None:
    with pytest.raises(ds.ScenarioError, match=r'server\.wake: must not be "one" where .*"poll"'):
        scenario("poll", server={"workers": 2, "wake": "one"})


def test_compare_leaves_out_what_cannot_share_a_ready_list(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    text = scenario_path.read_text()
    scenario_path.write_text(text.replace("[load]", 'share = "ready list"\n[load]'))
    options = ("--profile", profile_path, "--workers", 1)
    result = call("compare", scenario_path, *options, "--json")
    assert list(json.loads(result.stdout)["results"]) == ["epoll_level"]
    assert "left out: select, poll" in result.stderr
    refused = call("compare", scenario_path, *options, "--mechanisms", "epoll_level,poll")
    assert refused.exit_code == 2
    assert 'where server.mechanism is "poll"' in refused.stderr


# What is shown


def test_a_replication_tells_each_figure_once(profile: ds.Profile) -> None:
    (first, _) = ds.run(scenario(), profile=profile).to_dict()["replications"]
    assert sorted(first) == ["cost_draw", "engine", "seed", "summary"]
    assert first["summary"]["latency_due_ns"]["p99"] > 0


def test_only_figures_that_say_something_are_shown(profile: ds.Profile) -> None:
    short = ds.run(scenario(), profile=profile)
    shown = rows_shown(short.scenario, short.replications)
    assert "p99_ns" in shown
    assert "p99_answered_ns" not in shown  # none failed, so it would be the same
    assert "p99_9_ns" not in shown
    assert "lifetime_p50_ns" not in shown
    first = short.replications[0]
    failing = first._replace(summary=replace(first.summary, errors={"timeout": 1}))
    assert "p99_answered_ns" in rows_shown(short.scenario, [failing])
    assert {"p99_9_answered_ns", "lifetime_p99_ns"} < set(short.to_dict()["estimates"])
    busy = {"loop": "open", "rate": "50000/s", "requests": 2}
    asked = scenario(load=busy, machine={"cpus": 1})
    result = ds.run(asked, profile=profile)
    assert "lifetime_p99_ns" in rows_shown(asked, result.replications)


def test_the_last_thousandth_is_shown_where_there_is_one(profile: ds.Profile) -> None:
    result = ds.run(scenario(run={**RUN, "duration": "500 ms"}), profile=profile)
    assert result.replications[0].summary.replied > 2000
    assert "p99_9_ns" in rows_shown(result.scenario, result.replications)


def printed(result: ds.Result) -> str:
    text = io.StringIO()
    print_result(Console(file=text, width=150), result)
    return text.getvalue()


def test_dropped_packets_and_signals_are_shown_where_there_are_some() -> None:
    counted = ds.Profile.read(find_profile_path("counted-linux-6.1"))
    load = {"loop": "open", "rate": "90000/s"}
    result = ds.run(scenario("rt_signals", load=load, server={"backlog": 1}), profile=counted)
    text = printed(result)
    summaries = [each.summary for each in result.replications]
    assert result.estimates["packets_dropped"].mean > 0
    assert result.estimates["signal_queue_max"].mean > 0
    n = sum(summary.dropped["accept_queue"] for summary in summaries)
    together = "in all replications together"
    assert f"packets dropped, {together}: {n:,} SYNs at a full accept queue" in text
    for row in ("packets dropped", "signals lost", "signals merged", "longest signal queue"):
        assert f"{row}  " in text
    calm = ds.run(scenario(), profile=counted)
    assert "dropped" not in printed(calm)
    assert "signal" not in printed(calm)
    both = ["epoll_level", "rt_signals"]
    assert "signals_lost" in rows_shown(scenario(), calm.replications, both)


def test_a_long_simulation_is_announced(
    call: Call, scenario_path: Path, profile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--profile", profile_path, "--workers", 1, "--cost-samples", 0)
    assert "requests to simulate" not in call("run", scenario_path, *options).stderr
    monkeypatch.setattr("dispatchsim.command_line.run.LONG_S", 0.0)
    told = call("run", scenario_path, *options).stderr
    assert "360 requests to simulate, about 1 min (" in told


def test_the_effort_is_that_of_the_engine_and_unknown_where_the_server_decides() -> None:
    fast, slow = effort(scenario()), effort(scenario(run={**RUN, "engine": "reference"}))
    assert fast is not None
    assert slow is not None
    assert fast[0] == slow[0] == 300
    assert slow[1] > 10 * fast[1]
    assert effort(scenario(load={"loop": "closed", "users": 4})) is None


def test_a_difference_without_an_end_says_which_way() -> None:
    endless = [estimate([math.inf, math.inf]), estimate([-math.inf, -math.inf])]
    assert [_difference(each, str) for each in endless] == [
        "infinitely longer",
        "infinitely shorter",
    ]
    both_ways = estimate([math.inf, -math.inf])
    assert math.isnan(both_ways.mean)
    assert math.isnan(both_ways.half_width)
