"""Overload measured beside simulated: the same runs, on both engines, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.lab import lab
from tests.overload_records import MS, record_of

from dispatchsim.calibration.points.overload_points import OverloadPoint, overload_point_at
from dispatchsim.calibration.profiles.cost_profile import Profile, shipped_profiles
from dispatchsim.calibration.records.measured_runs import append
from dispatchsim.calibration.records.overload_records import OVERLOAD_FILE, OverloadRecord
from dispatchsim.calibration.running.preparation import settings_of_job
from dispatchsim.sim.state.kinds import Count
from dispatchsim.validation.forecast.provenance import MachineRuns
from dispatchsim.validation.overload.overload import (
    capacities,
    compare,
    job_of_record,
    shares,
    simulated,
    syn_seconds,
)
from dispatchsim.validation.overload.verdicts import counts_of, judged_figures, overload_tables
from dispatchsim.validation.report.overload_section import (
    CAPTIONS,
    kept_overload,
    overload_figures,
    overload_section,
)

POINT = overload_point_at(mechanism="epoll_level", backlog=16, load=1.4)
MACHINE = "epyc-family25-2cpu-linux-6.18"
CAPACITY_PER_S = 10_000.0
"""About what its profile gives."""


@pytest.fixture(scope="module")
def profile() -> Profile:
    """Return the profile of the machine on which overload was measured."""
    return Profile.read(shipped_profiles()[MACHINE])


def short(point: OverloadPoint, run_ms: int = 1_600) -> OverloadRecord:
    """Return a record of a run of so many ms in which nothing happened."""
    return record_of(point, 0).model_copy(
        update={
            "run_ns": run_ms * MS,
            "warm_up_ns": run_ms // 8 * MS,
            "window_ns": run_ms * 7 // 8 * MS,
            "capacity_before_per_s": CAPACITY_PER_S * 0.9,
            "capacity_after_per_s": CAPACITY_PER_S * 1.1,
            "rate_per_s": point.share * CAPACITY_PER_S,
        }
    )


def test_syns_are_sent_while_there_is_patience() -> None:
    linear = overload_point_at(mechanism="epoll_level", backlog=16, load=1.2, linear_syn_timeouts=4)
    assert syn_seconds(POINT) == (0, 1, 3)
    assert syn_seconds(linear) == (0, 1, 2, 3)


def test_each_share_is_of_the_syn_that_got_through() -> None:
    bins = [0] * 80
    bins[0], bins[8], bins[10], bins[28], bins[29], bins[32] = 50, 5, 10, 2, 4, 1
    assert shares(POINT, bins, 100) == pytest.approx((0.55, 0.12, 0.05, 0.0, 0.28))


@pytest.mark.parametrize(
    "point",
    [
        POINT,
        overload_point_at(mechanism="blocking", workers=4, backlog=16, load=1.4),
        overload_point_at(
            mechanism="epoll_level", backlog=64, load=1.6, surge=1.0, retries=2, timeout_ns=50 * MS
        ),
    ],
    ids=lambda point: point.label,
)
def test_both_engines_agree_on_overload(point: OverloadPoint, profile: Profile) -> None:
    record = short(point, 160)
    reference = simulated(record, profile, engine="reference")
    assert reference.same_as(simulated(record, profile, engine="fast"))
    # It is overloaded: clients find the queue full, or lose patience.
    assert reference.counts[Count.SYN_DROPS] + reference.counts[Count.RETRIES] > 0


def test_a_capacity_is_the_median_of_all_closed_loops_of_a_server() -> None:
    slow = short(POINT).model_copy(update={"capacity_before_per_s": 5_000.0})
    other = short(overload_point_at(mechanism="blocking", workers=4, backlog=16, load=1.4))
    found = capacities([short(POINT), slow, other])
    assert found == {("epoll_level", 0, 1): 10_000.0, ("blocking", 0, 4): CAPACITY_PER_S}


def test_packets_without_a_tcp_stack_take_no_cpu_of_the_server(profile: Profile) -> None:
    of_sockets = short(POINT)
    of_packets = of_sockets.model_copy(update={"steering": "far_end"})
    for record, shares_cpu in ((of_sockets, True), (of_packets, False)):
        settings = settings_of_job(job_of_record(record, profile))
        assert settings.network.one_machine == shares_cpu


def test_goodput_of_a_light_load_is_the_load(profile: Profile) -> None:
    record = short(overload_point_at(mechanism="epoll_level", backlog=4096, load=0.5))
    (entry,) = compare([record], profile)
    assert entry.simulated.goodput == pytest.approx(0.5, rel=0.1)  # Poisson, some 7,000 connections
    # One whose SYN comes last may still wait for its interrupt when the run ends.
    assert entry.simulated.never < 0.001
    assert (entry.n_runs, entry.n_rejected, len(entry.simulated_goodput)) == (1, 0, 16)


def test_every_figure_has_a_row_and_only_what_is_bounded_a_verdict(profile: Profile) -> None:
    entries = compare([short(POINT), record_of(POINT, 1, accepted=False)], profile)
    rows = judged_figures(entries)
    assert entries[0].n_rejected == 1
    assert {row.figure for row in rows} >= {"goodput", "by the first SYN", "by the SYN after 1 s"}
    assert all(row.verdict in ("reached", "missed", "") for row in rows)
    # Nothing was replied in this record, so no error can be told; what is simulated is wrong.
    goodput = next(row for row in rows if row.figure == "goodput")
    assert np.isnan(goodput.error)
    assert goodput.verdict == "missed"
    counted = {name: n for name, _within, n in counts_of(rows)}
    assert counted["goodput past 1.1 of the capacity"] == 1
    assert counted["share by the first SYN"] == 1
    summary, every = overload_tables(entries)
    assert len(every.rows) == len(rows)
    assert len(summary.rows) == len(counted)


def test_a_folder_without_overload_is_refused(
    tmp_path: Path,
) -> None:
    path = shipped_profiles()[MACHINE]
    done = lab("overload", tmp_path, "--profile", path)
    assert done.exit_code == 2
    assert "overload.jsonl: must hold accepted runs of overload: `dispatchsim" in done.stderr
    append(tmp_path / OVERLOAD_FILE, short(POINT))
    done = lab("overload", tmp_path)
    assert done.exit_code == 2
    assert "--profile: must be given" in done.stderr


def test_the_command_prints_measured_simulated_error_and_verdict(
    tmp_path: Path,
) -> None:
    append(tmp_path / OVERLOAD_FILE, short(POINT))
    path = shipped_profiles()[MACHINE]
    done = lab("overload", tmp_path, "--profile", path)
    assert done.exit_code == 0, done.output
    text = done.stdout
    assert "epoll_level backlog 16 load 1.4: 1 accepted, 0 rejected" in text
    assert "by the first SYN" in text
    assert "goodput past 1.1 of the capacity" in text


def test_what_was_simulated_is_kept_and_equal(profile: Profile, tmp_path: Path) -> None:
    records = [short(POINT)]
    first = compare(records, profile, simulate=kept_overload(tmp_path))
    (line,) = (tmp_path / "simulated_overload.jsonl").read_text().splitlines()
    again = compare(records, profile, simulate=kept_overload(tmp_path))
    assert repr(first) == repr(again) == repr(compare(records, profile))
    assert (tmp_path / "simulated_overload.jsonl").read_text() == f"{line}\n"


def test_figures_show_what_there_is(profile: Profile) -> None:
    entries = compare([short(POINT)], profile)
    assert list(overload_figures(entries)) == ["overload_goodput", "overload_shares"]
    assert set(overload_figures(entries)) <= set(CAPTIONS)
    storm = overload_point_at(mechanism="epoll_level", backlog=64, load=0.5, surge=0.5)
    figure = overload_figures(compare([short(storm)], profile))["overload_storms"]
    measured, simulation = figure.axes[0].get_lines()
    assert np.asarray(simulation.get_ydata()).max() > 0
    assert len(np.asarray(measured.get_ydata())) == 16


def test_a_machine_without_overload_has_no_section(tmp_path: Path) -> None:
    path = shipped_profiles()[MACHINE]
    assert overload_section(MachineRuns(path, tmp_path)) is None
