"""The benchmark measures what it says and judges by its targets; how fast, no test says."""

from __future__ import annotations

import gc
import json
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from dispatchsim.calibration.cost_profile import Profile
from dispatchsim.sim.units import SECOND_NS
from dispatchsim.validation.benchmarks import __main__ as program
from dispatchsim.validation.benchmarks import rates
from dispatchsim.validation.benchmarks.by_hand import CompileError, compile_by_hand
from dispatchsim.validation.benchmarks.contestants import (
    BY_HAND,
    FAST,
    FIRST_MODEL,
    REFERENCE,
    DisagreementError,
    Ran,
    Row,
    bytes_per_connection,
    run_engine,
)
from dispatchsim.validation.benchmarks.plan import Plan, read_options
from dispatchsim.validation.benchmarks.rates import EngineTimes, check_means
from dispatchsim.validation.benchmarks.scenarios import QUEUE, Case, Scenario, costs_of, scenario_of
from dispatchsim.validation.benchmarks.single_figures import Figure
from dispatchsim.validation.benchmarks.tables import (
    figure_table,
    rate_table,
    ratio_table,
    ratio_verdict,
)
from dispatchsim.validation.benchmarks.targets import IDLE_RATIO, Target, ratios
from dispatchsim.validation.benchmarks.timing import Measured, interleave, spread

EPOLL = Case("epoll_level", 1_000, 64)


def text_of(table: Table) -> list[list[str]]:
    """Return the words of every line of *table*."""
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return [line.split() for line in capture.get().splitlines()]


# The whole


def test_the_engines_are_timed_and_written(
    tmp_path: Path, profile: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    profile.write(tmp_path / "toy.toml")
    program.main(
        [
            *("--only", "engines", "--connections", "1000", "--repetitions", "2"),
            *("--idle", "0", "--profile", str(tmp_path / "toy.toml")),
            *("--json", str(tmp_path / "raw.json")),
        ]
    )
    raw = json.loads((tmp_path / "raw.json").read_text())
    assert raw["format"] == "dispatchsim-benchmark/1"
    assert {"Python", "NumPy", "Numba", "SimPy", "Ciw", "salabim", "gcc"} < set(raw["versions"])
    rows = {(row["engine"], row["mechanism"], row["users"]): row for row in raw["rows"]}
    assert len(raw["rows"]) == len(rows) == 2 * (3 + 3 + 1 + 1)
    sizes = {FAST: 1_000, REFERENCE: 40, BY_HAND: 1_000, FIRST_MODEL: 8}
    for engine, n in sizes.items():
        assert rows[engine, "epoll_level", 64]["n"] == [n, n]
    for row in raw["rows"]:
        assert len(row["run_s"]) == len(row["set_up_s"]) == 2
        assert min(row["run_s"]) > 0
        assert row["bytes_per_connection"] >= 0
    assert rows[FAST, "poll", 64]["bytes_per_connection"] > 0
    assert len(raw["ratios"]) == 2 * (3 + 1 + 1)
    assert raw["figures"] == []
    printed = capsys.readouterr()
    assert "fast / C by hand" in printed.out
    assert "Ciw 3" in printed.out
    assert "engines: done" in printed.err


def test_the_queue_is_timed_with_every_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program.main(
        [
            *("--only", "queue", "--connections", "10000", "--repetitions", "1"),
            *("--json", str(tmp_path / "raw.json")),
        ]
    )
    raw = json.loads((tmp_path / "raw.json").read_text())
    sizes = {row["engine"]: row["n"] for row in raw["rows"]}
    assert sizes == {FAST: [10_000], "SimPy": [400], "Ciw": [400], "salabim": [400]}
    assert all(row["bytes_per_connection"] is None for row in raw["rows"])
    (ratio,) = raw["ratios"]
    assert (ratio["name"], ratio["bound"]) == ("fast / Ciw", 50)
    assert "mean 50,000, at least 64" in capsys.readouterr().out


def test_interrupting_leaves_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rates, "run_engine", stop)
    with pytest.raises(SystemExit) as ended:
        program.main(["--only", "engines", "--json", str(tmp_path / "raw.json")])
    assert ended.value.code == 130
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "nothing was printed or written" in printed.err
    assert list(tmp_path.iterdir()) == []


def test_without_a_compiler_the_program_by_hand_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: Profile
) -> None:
    def fail(_: Path) -> None:
        raise CompileError("gcc is not installed")

    monkeypatch.setattr(program, "compile_by_hand", fail)
    notes: list[str] = []
    assert program._by_hand(tmp_path, notes) is None
    assert notes == ["gcc is not installed"]
    assert BY_HAND not in {row.engine for row in EngineTimes(Plan(), profile, None).rows}


# All simulate the same


def small(profile: Profile, case: Case = EPOLL) -> Scenario:
    return scenario_of(case, costs_of(profile, case), 300)


def test_an_unanswered_connection_is_an_error(profile: Profile) -> None:
    scenario = small(profile)
    short = scenario.settings._replace(duration_ns=1_000_000)
    with pytest.raises(DisagreementError, match=r"300 connections were offered, \d+ answered"):
        run_engine(FAST, scenario._replace(settings=short))


def test_outcomes_that_differ_are_an_error(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = EngineTimes(Plan(connections=2_500), profile, None)
    times.check(EPOLL)

    def shifted(engine: str, scenario: Scenario, by_hand: Path | None = None) -> Ran:
        ran = run_engine(engine, scenario, by_hand)
        if engine == REFERENCE:
            assert ran.outcome is not None
            ran.outcome.reply_ns[-1] += 1
        return ran

    monkeypatch.setattr(rates, "run_engine", shifted)
    with pytest.raises(DisagreementError, match="reference, epoll_level at 64 users"):
        times.check(EPOLL._replace(idle=0))


def test_means_that_differ_are_an_error() -> None:
    check_means({FAST: 3.0, "Ciw": 3.00001})
    with pytest.raises(DisagreementError, match=r"Ciw, M/M/1: .* 3\.1 s, not 3\.0 s"):
        check_means({FAST: 3.0, "Ciw": 3.1})


@pytest.mark.parametrize("case", [Case("select", 50_000), Case("poll", 50_000, 64)])
def test_long_scans_leave_time_for_every_connection(profile: Profile, case: Case) -> None:
    scenario = small(profile, case)
    assert run_engine(FAST, scenario).measured.n == len(scenario.trace)


def test_idle_connections_weigh_as_much_as_others(profile: Profile) -> None:
    # A tenth of the connections has all the events, so the bytes are those of the idle ones.
    case = Case("epoll_level", 90_000)
    weight = bytes_per_connection(Row(FAST, case), costs_of(profile, case), 10_000, None)
    assert 64 < weight < 400


def test_repetitions_run_without_the_collector_and_some_only_once() -> None:
    order: list[tuple[str, bool]] = []
    told: list[None] = []

    def case(name: str) -> Measured:
        order.append((name, gc.isenabled()))
        return Measured(n=1, run_s=1)

    cases: dict[str, Any] = {name: lambda name=name: case(name) for name in "ab"}
    measured = interleave(cases, 3, once={"b"}, told=lambda: told.append(None))
    assert order == [(name, False) for name in "abaa"]
    assert len(measured["b"]) == 1
    assert len(told) == 4
    assert gc.isenabled()


def test_the_steps_announced_are_those_taken(profile: Profile, tmp_path: Path) -> None:
    compile_by_hand(tmp_path)
    times = EngineTimes(Plan(connections=1_000, repetitions=1, idle=(0,)), profile, tmp_path)
    taken: list[None] = []
    times.measure(lambda: taken.append(None))
    assert len(taken) == times.steps


# Ratios and targets


def test_ratios_are_of_the_rates_and_judged_by_the_targets() -> None:
    many = EPOLL._replace(idle=1_000_000)
    found = ratios(
        {
            Row(FAST, EPOLL): 600.0,
            Row(BY_HAND, EPOLL): 1_000.0,
            Row(REFERENCE, EPOLL): 20.0,
            Row(FIRST_MODEL, EPOLL): 3.0,
            Row(FAST, many): 500.0,
            Row(BY_HAND, many): 1_001.0,
            Row(FAST, Case(QUEUE)): 500.0,
            Row("Ciw", Case(QUEUE)): 11.0,
            Row("SimPy", Case(QUEUE)): 50.0,
        }
    )
    expected = {
        ("fast / C by hand", 1_000): (0.6, True),
        ("fast / C by hand", 1_000_000): (500 / 1_001, False),
        ("fast / reference", 1_000): (30, False),
        ("fast / first SimPy model", 1_000): (200, True),
        ("fast / Ciw", 0): (500 / 11, False),
        (IDLE_RATIO, 1_000_000): (1.2, False),
    }
    assert {(r.name, r.case.idle): r.reached for r in found} == {
        key: reached for key, (_, reached) in expected.items()
    }
    for ratio in found:
        assert ratio.value == pytest.approx(expected[ratio.name, ratio.case.idle][0])


def test_a_target_is_reached_at_its_bound_and_never_by_nothing() -> None:
    for at_least in (True, False):
        assert Target(2.0, at_least).reached(2.0)
        assert not Target(2.0, at_least).reached(math.nan)
    assert Target(2.0, at_least=True).reached(2.1)
    assert not Target(2.0, at_least=False).reached(2.1)


def test_the_ratios_of_a_mechanism_stand_side_by_side() -> None:
    fast = {0: 600.0, 1_000: 400.0}
    given = {Row(FAST, EPOLL._replace(idle=idle)): rate for idle, rate in fast.items()}
    given |= {Row(BY_HAND, EPOLL._replace(idle=idle)): 1_000.0 for idle in fast}
    found = ratios(given)
    lines = text_of(ratio_table(found))
    expected = "fast / C by hand epoll_level 64 users 0.60 0.40 ≥ 0.5 missed at 1,000 idle"
    assert expected.split() in lines
    assert ratio_verdict(found[:1]) == "reached"
    assert ratio_verdict(found[1:]) == "missed"


def test_a_row_shows_median_lowest_and_highest() -> None:
    measured = [Measured(1_000_000, s, 0.25, 120.4) for s in (0.5, 1.0, 2.0)]
    lines = text_of(rate_table({Row(FAST, EPOLL): (spread(measured), 3)}))
    expected = "fast epoll_level 64 users 1,000 1,000,000 500,000 2,000,000 0.250 s 120 3"
    assert expected.split() in lines


def test_single_figures_are_judged_by_their_median() -> None:
    bound = Target(1.5, at_least=False)
    figures = [
        Figure("start", (1.4, 9.0, 1.0), "s", bound),
        Figure("late", (1.6,), "s", bound),
        Figure("memory", (3e9,), "B"),
    ]
    assert [figure.reached for figure in figures] == [True, False, None]
    lines = text_of(figure_table(figures))
    assert ["start", "1.40", "s", "1.00", "s", "9.00", "s", "≤", "1.50", "s", "reached"] in lines
    assert ["late", "1.60", "s", "≤", "1.50", "s", "missed"] in lines
    assert ["memory", "3,000", "MB", "-"] in lines


# Options


def test_the_plan_is_what_the_options_say() -> None:
    plan = read_options([]).plan
    assert (plan.connections, plan.reference_connections) == (500_000, 20_000)
    assert (plan.first_model_connections, plan.repetitions, plan.slow_once) == (4_000, 5, True)
    assert read_options(["--repetitions", "5"]).plan.slow_once is False
    assert read_options(["--long"]).plan.stream_connections == 100_000_000
    assert read_options(["--idle", "7", "0", "7"]).plan.idle == (0, 7)
    quick = read_options(["--quick", "--only", "queue", "--stream", "5000"]).plan
    assert quick.groups == ("queue",)
    assert quick.connections < plan.connections
    assert quick.stream_connections == 5_000


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--connections", "999"], "must be at least 1000"),
        (["--repetitions", "0"], "must be at least 1"),
        (["--stream", "0"], "must be at least 1000"),
        (["--idle", "0", "-1"], "must be 0 to 10000000"),
        (["--long", "--stream", "5000"], "both say"),
        (["--json", "no-such-folder/raw.json"], "does not exist"),
        (["--profile", "no-such.toml"], "there is no file"),
        (["--only", "nothing"], "invalid choice"),
    ],
)
def test_an_option_out_of_range_is_refused(
    option: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read_options(option)
    assert message in capsys.readouterr().err


def test_the_runs_of_the_slow_model_are_stated(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"versions": {}, "cpu_model": "some CPU", "cpu_count": 2, "profile": "toy"}
    row = Row(FIRST_MODEL, Case("epoll_level", 1_000_000))
    program._print(facts, Plan(), {row: [Measured(10, 1.0)]}, [], ["a note"])
    printed = capsys.readouterr().out
    assert "timed once with 1,000,000 idle connections" in printed
    assert "note: a note" in printed
    program._print(facts, Plan(slow_once=False), {row: [Measured(10, 1.0)]}, [], [])
    assert "timed once" not in capsys.readouterr().out


def test_a_scenario_offers_what_was_asked_for(profile: Profile) -> None:
    closed = small(profile)
    assert len(closed.trace) == 300
    assert closed.trace.users == 64
    opened = small(profile, Case("poll"))
    assert len(opened.trace) == pytest.approx(300, rel=0.2)
    assert opened.settings.duration_ns > opened.trace.at_ns[-1] + SECOND_NS
