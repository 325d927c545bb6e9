"""Worked examples: what is planned, what forecasts may see, and one small campaign as a whole."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import os
import shutil
import stat
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console
from tests.lab import lab

from dispatchsim.calibration.measure.campaign import CampaignSummary
from dispatchsim.calibration.measure.macro import Timing
from dispatchsim.calibration.observed.observed_run import ObservedRun, Source, read_observed
from dispatchsim.calibration.observed.observing import Bench
from dispatchsim.calibration.observed.server_process import started
from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.calibration.records.measured_runs import DataError, append
from dispatchsim.calibration.records.noise import QUIET, Series
from dispatchsim.calibration.testbed.c_build import Programs, build
from dispatchsim.calibration.testbed.processes import RunError
from dispatchsim.calibration.testbed.testbed import open_testbed, why_no_namespaces
from dispatchsim.validation.real_servers import campaign
from dispatchsim.validation.real_servers import report as reporting
from dispatchsim.validation.real_servers.campaign import (
    CALLS_FILE,
    FIT_FILE,
    HELD_OUT_FILE,
    judged,
    measure_cases,
    runs_of,
    why_absent,
)
from dispatchsim.validation.real_servers.forecasting import (
    Compared,
    compared,
    forecast_all,
    summary,
)
from dispatchsim.validation.real_servers.plan import SERVERS, Case, cases_of

MEMCACHED, NGINX = SERVERS["memcached"], SERVERS["nginx"]
SHORT = Timing(warm_up_s=0.1, warm_up_accept_limited_s=0.1, window_s=0.2, after_s=0.5,
               calibration_ms=20)  # fmt: skip

QUICKLY_NS = 100_000_000


def seen(case: Case, per_s: float, *, accepted: bool = True) -> ObservedRun:
    """Return a run of *case* at that rate."""
    return case.asked.model_copy(
        update={
            "window_ns": 1_000_000_000,
            "replied": round(per_s),
            "busy_share": 1.0,
            "accepted": accepted,
        }
    )


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("quick", [True, False])
def test_a_fit_sees_one_variant_without_idle_connections(name: str, *, quick: bool) -> None:
    cases = cases_of(SERVERS[name], quick=quick)
    fitted = [case for case in cases if case.is_fitted]
    assert [(case.requests, case.idle) for case in fitted] == [(1, 0), (1000, 0)]
    assert len(set(cases)) == len(cases)
    for case in cases:
        assert [other for other in cases if other.is_of(case.asked)] == [case]


def test_select_never_meets_a_descriptor_that_its_set_cannot_hold() -> None:
    idle = {case.idle for case in cases_of(MEMCACHED) if case.variant.name == "select"}
    assert idle == {0, 250}


def test_a_configuration_is_written_for_the_place_where_it_is_read(tmp_path: Path) -> None:
    with open_testbed("loopback") as testbed:
        command = NGINX.variant("reuseport").prepared(tmp_path, testbed)
    text = (tmp_path / "reuseport.conf").read_text()
    assert f"listen {testbed.address}:{NGINX.port} backlog=4096 reuseport;" in text
    assert command[-1] == str(tmp_path / "reuseport.conf")
    assert "{" not in "".join(command)


def as_nobody(*command: str) -> int:
    """Return the exit status of *command* run by a user without rights."""
    return subprocess.run(command, user=65534, group=65534, extra_groups=(), check=False).returncode


def test_nobody_else_may_change_what_a_server_of_root_is_told() -> None:
    variant = NGINX.variant("reuseport")
    with tempfile.TemporaryDirectory() as name, open_testbed("loopback") as testbed:
        folder = Path(name)
        file = Path(variant.prepared(folder, testbed)[-1])
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, file)] == [0o711, 0o644]
        if os.geteuid() != 0:
            pytest.skip("only root can try it as another user")
        assert as_nobody("cat", str(file)) == 0  # the tools are there, and the folder is passable
        assert as_nobody("rm", "-f", str(file)) != 0
        assert as_nobody("ln", "-s", "/etc/passwd", str(folder / "calls")) != 0


def test_nginx_serves_from_a_folder_that_its_workers_cannot_write_to(tmp_path: Path) -> None:
    if reason := why_absent(NGINX):
        pytest.skip(reason)
    variant = NGINX.variant("two workers")
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        with (
            open_testbed("loopback") as testbed,
            started(
                variant.prepared(folder, testbed), NGINX.port, testbed=testbed, programs=build()
            ),
        ):
            url = f"http://{testbed.address}:{NGINX.port}/"
            with urllib.request.urlopen(url, timeout=20) as reply:
                assert reply.read().startswith(b"dispatchsim dispatchsim ")
            assert folder.stat().st_uid == os.geteuid()
            assert (folder / "client_body").is_dir()
    finally:
        shutil.rmtree(folder)


def test_a_tracer_writes_where_no_server_can_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    places: dict[str, Path] = {}

    @contextlib.contextmanager
    def started(command: list[str], *_: object, **__: object) -> Iterator[None]:
        places["server"] = Path(command[-1]).parent
        yield

    def tracing_to(_tracer: object, _box: object, output: Path, **_: object) -> None:
        places["calls"] = output.parent
        assert stat.S_IMODE(output.parent.stat().st_mode) == 0o700
        raise RunError("far enough")

    monkeypatch.setattr(campaign, "started", started)
    monkeypatch.setattr(campaign, "tracing", tracing_to)
    with open_testbed("loopback") as testbed:
        programs = Programs(Path("nowhere"), "c-0")
        with pytest.raises(RunError, match="far enough"):
            campaign.traced(Case(NGINX, NGINX.fitted, 1), Bench(testbed, programs, Series(), SHORT))
    assert places["server"].parent == places["calls"].parent
    assert places["server"] != places["calls"]


def run(folder: Path, cases: Sequence[Case], repeats: int = 2) -> CampaignSummary:
    with open_testbed("loopback") as testbed:
        bench = Bench(testbed, build(), Series(), SHORT)
        return measure_cases(folder, cases, repeats, bench, trace=lambda case, _: case.asked)


def test_a_campaign_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, other = cases_of(MEMCACHED)[:2]
    asked: list[tuple[str, int]] = []

    def measure(of: Case, _bench: Bench, *, seed: int) -> ObservedRun:
        asked.append((of.label, seed))
        return seen(of, 100, accepted=len(asked) > 1)

    monkeypatch.setattr(campaign, "measured", measure)
    append(tmp_path / FIT_FILE, seen(case, 100), seen(case, 100, accepted=False))
    summary = run(tmp_path, [case, other])
    assert (summary.skipped, summary.measured, summary.rejected) == (1, 3, 1)
    # A run that is made again has arrivals of its own.
    assert asked == [
        (other.label, other.load.seed(0)),
        (other.label, other.load.seed(1)),
        (case.label, case.load.seed(2)),
        (other.label, other.load.seed(2)),
    ]
    again = run(tmp_path, [case, other])
    assert (again.skipped, again.measured) == (4, 0)


def test_a_line_that_was_cut_is_dropped_before_others_follow(tmp_path: Path) -> None:
    case = cases_of(MEMCACHED)[0]
    append(tmp_path / FIT_FILE, seen(case, 100))
    with (tmp_path / FIT_FILE).open("a") as file:
        file.write('{"format": "dispatch')
    assert run(tmp_path, []).notices == ["fit.jsonl line 2: torn by an interrupted write, dropped"]
    append(tmp_path / FIT_FILE, seen(case, 200))
    assert [run.replied for run in runs_of(tmp_path, case)] == [100, 200]


def test_a_busy_cache_is_forgiven_and_a_server_that_ended_is_not() -> None:
    case = Case(NGINX, NGINX.fitted, 1)
    busy = QUIET.model_copy(update={"memory_ratio": 1.5})
    rejected = {"noise": busy, "accepted": False}
    forgiven = judged(
        seen(case, 100).model_copy(
            update={**rejected, "reason": "memory_ratio must be below 1.3, got 1.500"}
        ),
        case,
    )
    assert (forgiven.accepted, forgiven.reason) == (True, "")
    ended = "nginx ended during the run: it printed nothing"
    run = judged(seen(case, 0).model_copy(update={**rejected, "reason": ended}), case)
    assert (run.accepted, run.reason) == (False, ended)


def test_errors_and_order_are_of_held_out_points_only() -> None:
    fitted, first, second = cases_of(MEMCACHED)[1:4]
    machine = example_profile()
    fit_runs = [seen(fitted, rate) for rate in (40_000, 40_400)]
    said = forecast_all(
        machine, [fitted, first, second], fit_runs, [], draws=2, simulated_ns=QUICKLY_NS
    )
    right = said.of_case[second].central.throughput_per_s
    runs = [
        *fit_runs,
        seen(first, 100, accepted=False),
        *(seen(second, right * factor) for factor in (0.9, 1.0, 1.1)),
    ]
    entries = compared(said.of_case, runs, [fitted, first, second])
    assert [entry.case for entry in entries] == [fitted, second]
    found = summary(entries)
    assert (found.n_cases, found.pairs) == (1, 0)
    assert found.median == pytest.approx(0, abs=1e-4)
    assert found.noise == pytest.approx(0.1, abs=1e-3)


def test_points_that_were_measured_once_have_no_order() -> None:
    fitted = cases_of(MEMCACHED)[1]
    said = forecast_all(
        example_profile(), [fitted], [seen(fitted, 40_000)], [], draws=0, simulated_ns=QUICKLY_NS
    )
    held_out = [case for case in cases_of(MEMCACHED) if case.idle == 250 and case.requests == 1]

    def n_pairs(repeats: int) -> int:
        rates = [(100.0 * (i + 1),) * repeats for i in range(2)]
        return summary(
            Compared(case, own, 0, said.of_case[fitted])
            for case, own in zip(held_out[:2], rates, strict=True)
        ).pairs

    assert [n_pairs(1), n_pairs(2)] == [0, 1]


def test_a_report_says_what_it_lacks_and_is_on_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quickly = functools.partial(forecast_all, draws=2, simulated_ns=QUICKLY_NS)
    monkeypatch.setattr(reporting, "forecast_all", quickly)
    monkeypatch.setattr(reporting, "cases_of", functools.partial(cases_of, quick=True))
    _, kept, idle = cases_of(SERVERS["redis"], quick=True)
    (tmp_path / "redis").mkdir()
    fit, held_out = (tmp_path / "redis" / name for name in (FIT_FILE, HELD_OUT_FILE))

    def made(case: Case, per_s: float, machine: str) -> ObservedRun:
        source = Source(tool="dispatchsim", machine=machine)
        return seen(case, per_s).model_copy(update={"source": source})

    here = str(example_profile().machine["id"])
    append(fit, made(kept, 40_000, here), made(kept, 40_400, here))
    append(held_out, made(idle, 39_000, here), made(idle, 39_500, here))
    with held_out.open("a") as file:
        file.write('{"format"')
    printed = io.StringIO()
    reporting.report(
        tmp_path, ["redis", "nginx"], output=tmp_path, console=Console(file=printed, width=132)
    )
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["summary"]["n_cases"] == 1
    assert [point["fitted"] for point in scores["points"]] == [True, False]
    for sentence in (
        "redis, not measured: no undisturbed run of epoll, idle 0, requests 1\n",
        "redis: no calls were counted",
        "redis: heldout.jsonl line 3: torn by an interrupted write",
    ):
        assert sentence in printed.getvalue()
    held_out.unlink()
    append(held_out, made(idle, 39_000, "elsewhere"))
    with pytest.raises(DataError, match=f"redis: runs must be of {here}, .* runs of elsewhere"):
        reporting.report(tmp_path, ["redis"])


def test_a_folder_without_runs_ends_with_a_sentence(
    tmp_path: Path,
) -> None:
    done = lab("report-servers", "--runs", tmp_path, "--server", "nginx")
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: {tmp_path}: must hold runs of nginx, got none: "
        f"`dispatchsim lab measure-servers --output {tmp_path}` writes them\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("report-servers", "--runs", "nowhere"), "--runs: must be a folder, got nowhere"),
        (("report-servers", "--server", "ngin"), '(did you mean "nginx"?), got "ngin"'),
        (("measure-servers", "--server", "x"), "--server: must be one of memcached"),
    ],
)
def test_what_cannot_be_asked_of_real_servers_ends_with_a_sentence(
    words: tuple[str, ...], sentence: str
) -> None:
    done = lab(*words)
    assert done.exit_code == 2
    assert sentence in done.stderr


def test_changes_of_interest_cost_a_request_where_epoll_is_told_of_them() -> None:
    server = SERVERS["transmission"]
    cases = [case for case in cases_of(server) if case.idle == 0 and case.requests == 1000]
    kept = cases[0]
    operations = {"ADD": 2_010, "DEL": 2_010}
    counted = kept.asked.model_copy(
        update={
            "replied": 1_000,
            "calls": {"accept4": 10}
            | {f"epoll_ctl EPOLL_CTL_{k}": n for k, n in operations.items()},
        }
    )
    fit_runs = [seen(kept, rate) for rate in (40_000, 40_400)]
    said = forecast_all(example_profile(), cases, fit_runs, [counted], draws=0)
    costs = example_profile().costs("epoll_level", open_connections=64).mechanism
    assert said.changes_ns == pytest.approx(2 * (costs.add_ns + costs.delete_ns), abs=1)
    rates = {case.variant.name: f.central.throughput_per_s for case, f in said.of_case.items()}
    assert rates["epoll"] == pytest.approx(40_200, rel=0.01)
    assert 1e9 / rates["epoll"] - 1e9 / rates["poll"] == pytest.approx(said.changes_ns, rel=0.2)


def test_memcached_is_measured_fitted_and_forecast(tmp_path: Path) -> None:
    reason = why_absent(MEMCACHED) or why_no_namespaces()
    if len(os.sched_getaffinity(0)) < 2:
        reason = "a testbed needs two CPUs"
    if reason:
        pytest.skip(reason)
    poll = MEMCACHED.variant("poll")
    cases = [*cases_of(MEMCACHED)[:2], Case(MEMCACHED, poll, 1000, 100)]
    with open_testbed() as testbed:
        bench = Bench(testbed, build(), Series(), SHORT, machine="here")
        measure_cases(tmp_path, cases, 2, bench, trace=lambda case, _: case.asked)
    assert len(read_observed(tmp_path / CALLS_FILE).rows) == 2
    for name in (FIT_FILE, HELD_OUT_FILE, CALLS_FILE):
        assert (tmp_path / name).stat().st_size > 0
    # On a busy machine the harness may sleep through a short window, in which nothing is then.
    measured = [max(runs_of(tmp_path, case), key=lambda run: run.replied) for case in cases]
    runs = [run.model_copy(update={"accepted": True}) for run in measured]
    assert all(run.replied > 0 and not run.errors for run in runs)
    assert [run.load.idle for run in runs] == [0, 0, 100]
    fit_runs = [run.model_copy(update={"busy_share": 1.0}) for run in runs[:2]]
    found = forecast_all(example_profile(), cases, fit_runs, [], draws=2, simulated_ns=QUICKLY_NS)
    (entry,) = compared(found.of_case, runs[2:], cases)
    assert entry.forecast_per_s > 0


def test_a_server_that_is_not_what_it_says_is_an_error() -> None:
    reason = why_absent(MEMCACHED) or why_no_namespaces()
    if reason:
        pytest.skip(reason)
    if shutil.which("strace") is None:
        pytest.skip("there is no program strace")
    liar = dataclasses.replace(MEMCACHED.variant("poll"), environment={})
    with open_testbed() as testbed:
        bench = Bench(testbed, build(), Series(), SHORT)
        with pytest.raises(RunError, match="mechanism: must be poll by its configuration"):
            campaign.traced(Case(MEMCACHED, liar, 1), bench)
