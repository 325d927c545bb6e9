"""The shipped records of what was never merged: complete, and they say what README.md says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dispatchsim.calibration.emulated.kernel_mechanisms import INSERTIONS
from dispatchsim.calibration.emulated.kernel_mechanisms.unmerged_tables import (
    ACCEPT_LIMIT,
    OVERLOADS,
    SHIPPED,
    Measured,
    cpu_ns,
    dispatch_calls,
    tables_of,
)
from dispatchsim.calibration.emulated.kernel_mechanisms.unmerged_target import ID, UnmergedTarget
from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.points.points import EMULATED
from dispatchsim.calibration.records.measured_runs import DataError, RunRecord, read_rows

README = INSERTIONS[0].parents[1] / "README.md"


@pytest.fixture(scope="module")
def measured() -> Measured:
    return Measured.read(SHIPPED)


def calls_a_reply(run: RunRecord) -> float:
    return dispatch_calls(run) / run.result.calls["replies"]


def test_the_tables_of_the_readme_are_those_of_the_records() -> None:
    readme = README.read_text()
    tables = tables_of(SHIPPED).split("### ")[1:]
    assert len(tables) == 5
    missing = [table.partition("\n")[0] for table in tables if table not in readme]
    assert missing == []


def test_every_point_was_measured_twice_alike(measured: Measured) -> None:
    points = EMULATED.points("unmerged", capacity_per_s=measured.capacity_per_s)
    assert set(points) == set(measured.runs)
    runs = [
        run
        for name in ("fit", "heldout")
        for run in read_rows(SHIPPED / f"{name}.jsonl", RunRecord).rows
    ]
    assert [run.point.label for run in runs if not run.accepted] == []


def test_no_connection_failed(measured: Measured) -> None:
    failed = [
        run.point.label
        for run in measured.runs.values()
        if any(run.result.errors.model_dump().values()) or run.result.calls["accept_no_fd"]
    ]
    assert failed == []


def test_the_machine_names_its_kernels_insertions() -> None:
    facts = json.loads((SHIPPED / "machine.json").read_text())
    assert facts["id"] == ID
    assert [entry.split(":")[0] for entry in facts["kernel_patches"].split()] == [
        path.name for path in INSERTIONS
    ]


def test_all_mechanisms_have_the_same_arrivals(measured: Measured) -> None:
    seeds: dict[Point, set[int]] = {}
    for point, run in measured.runs.items():
        load = point_at(point, mechanism="poll", idle=0, fd_limit=0, signal_queue=0)
        seeds.setdefault(load, set()).add(run.seed)
    assert all(len(values) == 1 for values in seeds.values())
    target = UnmergedTarget.__new__(UnmergedTarget)  # seeds need nothing of a target
    assert all(target.seed_of(point, 0) == run.seed for point, run in measured.runs.items())


# What the literature says, and is so here: README.md


def bursts(measured: Measured, mechanism: str, queue: int) -> list[RunRecord]:
    return [
        measured.runs[point_at(point, signal_queue=queue)] for point in measured.bursts(mechanism)
    ]


def overloads(measured: Measured, mechanism: str, queue: int) -> list[RunRecord]:
    return [
        measured.runs[measured.at(mechanism, fraction, signal_queue=queue)]
        for fraction in OVERLOADS
    ]


def test_queued_signals_overflow_a_small_queue(measured: Measured) -> None:
    runs = [*bursts(measured, "rt_signals", 128), *overloads(measured, "rt_signals", 128)]
    assert all(run.result.calls["overflows"] > 0 for run in runs)


def test_a_signal_per_descriptor_cannot_overflow_a_queue_of_as_many(measured: Measured) -> None:
    queue = 4096
    runs = [*bursts(measured, "signal_per_fd", queue), *overloads(measured, "signal_per_fd", queue)]
    assert [run.result.calls["overflows"] for run in runs] == [0] * len(runs)


def test_sigtimedwait4_takes_many_signals_a_call(measured: Measured) -> None:
    for fraction in OVERLOADS:
        calls = measured.runs[
            measured.at("sigtimedwait4", fraction, accept_limit=ACCEPT_LIMIT)
        ].result.calls
        assert calls["notices"] > 5 * calls["asks"]


def test_a_vectored_epoll_ctl_saves_calls_where_many_connections_come_at_once(
    measured: Measured,
) -> None:
    one, many = (measured.runs[measured.bursts(name)[0]] for name in ("epoll_level", "epoll_ctlv"))
    assert calls_a_reply(many) < 0.6 * calls_a_reply(one)


def test_hints_spare_dev_poll_most_of_a_scan(measured: Measured) -> None:
    def added_ns(mechanism: str) -> float:
        none, idle = (measured.runs[measured.at(mechanism, 0.5, idle=idle)] for idle in (0, 250))
        waits = idle.result.calls["waits"] / idle.result.calls["replies"]
        return (cpu_ns(idle) - cpu_ns(none)) / waits / 250

    assert 0 < added_ns("dev_poll") < added_ns("poll") / 5


def test_a_folder_without_a_capacity_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"fit\.jsonl: must hold an accepted run of epoll_level"):
        tables_of(tmp_path)
