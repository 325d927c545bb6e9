"""When a run waits for a calm core, what is rejected, and what a fit leaves out."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.calibration.records.test_precision import runs

from dispatchsim.calibration.fit.medians import MicroTable
from dispatchsim.calibration.measure import calm
from dispatchsim.calibration.measure.calm import CalmCore, measure_neighbours
from dispatchsim.calibration.records.measured_runs import MicroResult, RunRecord, append, read_rows
from dispatchsim.calibration.records.neighbour_records import (
    NEIGHBOUR_FILE,
    NeighbourRecord,
    neighbour_text,
)
from dispatchsim.calibration.records.noise import (
    CALM_QUANTILE,
    FLOOR_RATIO_MOST,
    judged_by_file,
    never_calm_text,
)
from dispatchsim.calibration.testbed.c_build import Programs
from dispatchsim.calibration.testbed.testbed import Testbed, open_testbed


def bench(median: float, *, number: int = 0, floor_ratio: float = 0) -> MicroResult:
    return MicroResult(
        date="",
        code="",
        bench="floor",
        command="floor",
        parameters={},
        round=number,
        unit="ns",
        median=median,
        p10=median,
        p90=median,
        operations=1,
        floor_ratio=floor_ratio,
    )


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> CalmCore:
    """A core of which nothing is measured: see `looks`."""
    monkeypatch.setattr(calm, "_FIRST_CHECKS", 1)
    return CalmCore(Testbed("loopback", "127.0.0.1"), Programs(Path(), ""))


def looks(core: CalmCore, monkeypatch: pytest.MonkeyPatch, *calls_ns: float) -> list[float]:
    """Have the looks at the core find these, the last ever after; return the limits asked for."""
    found = itertools.chain(calls_ns, itertools.repeat(calls_ns[-1]))
    limits: list[float] = []

    def watch(
        _programs: Programs, _cpus: tuple[int, int], _seconds: float, limit_ns: float
    ) -> dict[str, float]:
        limits.append(limit_ns)
        return {"last_ns": 190, "beside_last_ns": next(found)}

    monkeypatch.setattr(calm, "_watch", watch)
    return limits


def test_a_run_counts_if_calls_were_as_fast_before_and_after_it(
    core: CalmCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = runs(1000)
    limits = looks(core, monkeypatch, 200, 200, 210, 205, 300)
    good = core.judged(lambda: run)  # 200 ns to begin with; 200 before, 210 after
    assert good.accepted
    assert (good.noise.floor_ns, good.noise.floor_ratio) == (210, 1.05)
    bad = core.judged(lambda: run)
    assert (bad.accepted, bad.reason) == (False, "floor_ratio must be at most 1.15, got 1.50")
    assert limits == [0, pytest.approx(230), 0, pytest.approx(230), 0]


def test_calls_beside_earlier_runs_are_remembered_and_a_rare_fast_one_is_not_the_bound(
    core: CalmCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = runs(1000)

    def earlier(ns: float) -> RunRecord:
        return run.model_copy(
            update={"noise": run.noise.model_copy(update={"floor_ns": ns, "floor_ratio": 1.0})}
        )

    core.recall([run, bench(5)])  # beside these nobody has looked
    core.recall([earlier(ns) for ns in (100, *[200] * 30)])
    limits = looks(core, monkeypatch, 225)
    assert core.judged(lambda: run).accepted
    assert limits == [pytest.approx(230), 0]


def test_a_bench_is_repeated_until_the_core_was_calm(
    core: CalmCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks(core, monkeypatch, 200, 200, 300, 200, 200)
    numbers = itertools.count()
    (row,) = core.bench(lambda: [bench(next(numbers))])
    assert (row.median, row.floor_ratio) == (1, 1.0)
    looks(core, monkeypatch, 400, 400, 300, 300, 400)
    (row,) = core.bench(lambda: [bench(next(numbers))])
    assert (row.median, row.floor_ratio) == (3, 1.5)  # the calmest of three, and it says so


def test_the_bench_and_what_reads_it_have_the_same_bounds() -> None:
    source = (Path(calm.__file__).parents[1] / "c" / "micro" / "calm.c").read_text()

    def in_c(name: str) -> float:
        (found,) = re.findall(rf"\b{name} = ([\d.]+)[,;]", source)
        return float(found)

    assert in_c("PARTS") * in_c("PART_NS") / 1e9 == calm._CHECK_S
    assert in_c("calm_quantile") == CALM_QUANTILE
    assert in_c("busy_ratio") == FLOOR_RATIO_MOST


def test_a_fit_takes_calm_rounds_where_a_line_has_any() -> None:
    rows = [bench(100), bench(150, number=1, floor_ratio=1.4), bench(104, number=2, floor_ratio=1)]
    assert MicroTable(rows).medians().one("floor") == 102
    assert MicroTable(rows[1:2]).medians().one("floor") == 150


def test_a_fit_judges_the_first_rounds_by_calm_moments_of_later_ones() -> None:
    first = [
        bench(median, number=number).model_copy(update={"floor_ns": 300.0, "floor_ratio": 1.0})
        for number, median in enumerate([150, 154])
    ]
    later = bench(100, number=2).model_copy(update={"floor_ns": 200.0, "floor_ratio": 1.0})
    assert MicroTable(first).medians().one("floor") == 152
    assert MicroTable([*first, later]).medians().one("floor") == 100


def test_benches_without_a_calm_round_are_counted() -> None:
    shared = bench(150, floor_ratio=1.4)
    other = shared.model_copy(update={"command": "clock"})
    assert never_calm_text([shared, bench(100, number=1, floor_ratio=1.0)]) == ""
    text = never_calm_text([shared, bench(100, number=1, floor_ratio=1.0), other])
    assert text.startswith("1 of 2 benches were only measured while another guest used the core")


def test_runs_beside_the_busy_begin_of_a_file_do_not_count_by_all_of_it() -> None:
    (run,) = runs(1000)

    def beside(floor_ns: float) -> RunRecord:
        noise = run.noise.model_copy(update={"floor_ns": floor_ns, "floor_ratio": 1.0})
        return run.model_copy(update={"noise": noise})

    busy, calm_one = beside(300), beside(200)
    assert judged_by_file([busy, busy]) == [busy, busy]
    assert judged_by_file([run, run]) == [run, run]  # from before calls were measured
    first, second = judged_by_file([busy, calm_one])
    assert (first.accepted, first.reason) == (
        *(False, "floor_ratio must be at most 1.15, got 1.50"),
    )
    assert second == calm_one


def test_a_brief_bench_waits_a_moment_and_all_of_them_together_ten_seconds(
    core: CalmCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched_s: list[float] = []
    clock_s = 100.0

    def watch(
        _programs: Programs, _cpus: tuple[int, int], seconds: float, _limit_ns: float
    ) -> dict[str, float]:
        nonlocal clock_s
        clock_s += seconds
        watched_s.append(seconds)
        return {"last_ns": 200.0 if len(watched_s) == 1 else 300.0, "beside_last_ns": 190.0}

    monkeypatch.setattr(calm, "_watch", watch)
    monkeypatch.setattr(calm, "time", SimpleNamespace(monotonic=lambda: clock_s))
    (row,) = core.brief(lambda: [bench(7)])
    assert (row.median, row.floor_ns, row.floor_ratio) == (7, 300, 1.5)
    assert watched_s == [0.05, 0.3]
    for _ in range(50):
        core.brief(lambda: [bench(7)])
    # Each waits 0.25 s longer than a look takes: after 10 s of that a look is all.
    assert watched_s[2:40] == [pytest.approx(0.3)] * 38
    assert watched_s[42:] == [pytest.approx(0.05)] * 10


def test_the_bench_measures_a_call(c_programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calm, "PATIENCE_S", 0.1)
    monkeypatch.setattr(calm, "_FIRST_CHECKS", 1)
    (run,) = runs(1000)
    with open_testbed("loopback") as testbed:
        core = CalmCore(testbed, c_programs)
        found: RunRecord = core.judged(lambda: run)
    noise = found.noise
    assert 10 < noise.floor_ns < 1_000_000
    assert noise.floor_ratio == noise.floor_ns / core.calm_ns


def test_both_cores_are_watched_for_a_record(c_programs: Programs, tmp_path: Path) -> None:
    with open_testbed("loopback") as testbed:
        records = measure_neighbours(testbed, c_programs, seconds=0.1)
    assert [record.of_task[1] for record in records] == [
        "server",
        "client",
        "server beside spinning",
        "client beside spinning",
    ]
    assert all(record.calm_ns > 0 and record.elapsed_ns >= 100_000_000 for record in records)
    append(tmp_path / NEIGHBOUR_FILE, *records)
    assert read_rows(tmp_path / NEIGHBOUR_FILE, NeighbourRecord).rows == records


def test_the_words_say_whose_core_is_used_how_often_and_what_it_costs() -> None:
    record = NeighbourRecord(
        date="", code="", machine="", cpu="server", beside="spinning", elapsed_ns=1,
        calm_ns=200, busy_share=0.62,
        busy_ratio=1.41,
    )  # fmt: skip
    idle = record.model_copy(update={"busy_share": 0.0, "busy_ratio": 1.0})
    assert neighbour_text([record, idle]) == (
        "server's CPU, with the other CPU busy: for 62% of the time calls take 1.4 times as long, "
        "most likely on a shared core"
    )
