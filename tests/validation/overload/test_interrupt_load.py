"""Floods by hand, and the forecast of the shipped ones beside what was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.lab import lab
from tests.pictures import check_picture
from tests.validation.overload.flood_timeline import (
    BACKLOG_MAX,
    PASS_PACKETS,
    TICK_NS,
    flood_forecast,
)

from dispatchsim.calibration.fit.packets import FloodPrices
from dispatchsim.calibration.points.flood_points import FloodPoint
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.flood_records import FLOOD_FILE
from dispatchsim.calibration.testbed.c_build import SOURCE_FOLDER
from dispatchsim.validation.overload import interrupt_load
from dispatchsim.validation.overload.flood_simulated import arrivals_ns, simulated_progress
from dispatchsim.validation.overload.interrupt_load import (
    FIGURE_CAPTION,
    FloodScore,
    flood_figure,
    read_machine,
    score_floods,
    table,
)
from dispatchsim.validation.report.overload_section import OverloadSection, drawn_overload

MEASURED = SOURCE_FOLDER / "measured/epyc-family25-2cpu-linux-6.18"
PROFILE = SOURCE_FOLDER / "profiles/epyc-family25-2cpu-linux-6.18.toml"
PRICES = FloodPrices(
    since_us=(0, 1000),
    entry_ns=(5_000, 15_000),
    spread=(1.0,),
    packet_ns=900,
    segment_ns=100,
    stop_ns=6_000,
    calling_ns=8_000,
    call_ns=2_000,
)


def test_packets_that_come_alone_interrupt_each_for_itself() -> None:
    forecast = flood_forecast(range(0, 10_000_001, 100_000), PRICES)
    assert (forecast.sent, forecast.interrupts, forecast.dropped) == (101, 101, 0)
    # The first comes after a long time (the last knot). From then on 100 us are the period: an
    # entry at x us since the last end takes 5,000 + 10 x ns, and x = 100 - 1 - (5 + x / 100).
    since_us = (100 - 1 - 5) / 1.01
    entry_ns = 5_000 + 10 * since_us
    taken_ns = (15_000 + 1_000) + 100 * (entry_ns + 1_000)
    assert forecast.progress == pytest.approx(1 - taken_ns / 10_000_000, abs=2e-4)


def test_a_packet_that_comes_while_another_is_on_its_way_rides_along() -> None:
    # The second one is called for when the first call has ended, at 8 us, and is in the queue 1 us
    # later; the first one's interrupt ends at 6 + 15 + 1 = 22 us.
    forecast = flood_forecast([0, 0, 100_000], PRICES)
    assert (forecast.sent, forecast.interrupts) == (3, 2)
    assert forecast.progress * 100_000 == pytest.approx(
        100_000 - (15_000 + 2_000) - (5_000 + 10 * (106 - 23) + 1_000)
    )


def test_late_senders_send_less_than_they_were_asked_for() -> None:
    forecast = flood_forecast(range(0, 1_000_001, 1_000), PRICES)
    assert forecast.sent < 500  # a call takes 2 us at least


@pytest.mark.parametrize(("nice", "share"), [(0, 0.5), (-20, 1 - 1024 / (88761 + 1024))])
def test_a_flood_that_cannot_be_handled_leaves_the_process_its_share(
    nice: int, share: float
) -> None:
    length_ns = 2_000_000_000
    forecast = flood_forecast(range(0, length_ns + 1, 2_000), PRICES, segments=20, nice=nice)
    pass_share = PASS_PACKETS * PRICES.taken_ns(20) / TICK_NS
    assert forecast.progress == pytest.approx(share * (1 - pass_share), abs=0.02)
    assert forecast.dropped > BACKLOG_MAX
    assert forecast.interrupts == 1  # deferred packets have no signals


def flood_of(segments: int, nice: int = 0) -> FloodPoint:
    """Return a flood of so many datagrams a packet, beside a process of that nice value."""
    return FloodPoint(use="heldout", rate_per_s=1000, segments=segments, nice=nice)


@pytest.fixture(scope="module")
def scores() -> list[FloodScore]:
    """Return the shipped floods and their forecasts."""
    return score_floods(read_machine(MEASURED), Profile.read(PROFILE))


def test_most_shipped_floods_are_forecast_within_a_tenth(scores: list[FloodScore]) -> None:
    assert len(scores) >= 36
    assert sum(score.is_within for score in scores) >= 31
    below = [score for score in scores if score.point.rate_per_s <= 100_000]
    assert all(score.is_within for score in below)
    n_within = sum(score.is_within for score in scores)
    assert table(scores).note.startswith(f"forecast: {n_within} of {len(scores)} within 10%")


def test_an_engine_leaves_the_process_what_the_timeline_does() -> None:
    profile = Profile.read(PROFILE)
    for gap_ns in (100_000, 30_000, 9_000):
        due_ns = range(0, 20_000_001, gap_ns)
        forecast = flood_forecast(due_ns, PRICES)
        assert arrivals_ns(due_ns, PRICES) == list(forecast.arrivals_ns)
        simulated = simulated_progress(due_ns, PRICES, flood_of(1), profile, fast=False)
        assert simulated == pytest.approx(forecast.progress, abs=0.02)


def test_an_engine_and_the_timeline_share_a_cpu_with_ksoftirqd_alike() -> None:
    due_ns = range(0, 100_000_001, 2_000)
    forecast = flood_forecast(due_ns, PRICES, segments=20)
    profile = Profile.read(PROFILE)
    assert arrivals_ns(due_ns, PRICES, 20) == list(forecast.arrivals_ns)
    simulated = simulated_progress(due_ns, PRICES, flood_of(20), profile, fast=False)
    assert simulated == pytest.approx(forecast.progress, abs=0.05)
    assert 0.4 < simulated < 0.55


def test_an_engine_lets_a_process_alone_that_weighs_more_than_ksoftirqd() -> None:
    due_ns, profile = range(0, 100_000_001, 2_000), Profile.read(PROFILE)
    forecast = flood_forecast(due_ns, PRICES, segments=20, nice=-20)
    simulated = simulated_progress(due_ns, PRICES, flood_of(20, -20), profile, fast=False)
    assert simulated == pytest.approx(forecast.progress, abs=0.1)
    assert simulated > 0.85


def test_a_figure_shows_every_flood_of_single_packets_and_every_overload(
    scores: list[FloodScore],
) -> None:
    by_rate, overload = check_picture(flood_figure(scores)).axes
    # A line of measured points, and one of the forecast, for each law and each nice value.
    n_points = [
        [np.asarray(line.get_xdata()).size for line in axes.lines] for axes in (by_rate, overload)
    ]
    assert n_points == [[11, 11, 10, 10], [3, 3, 3, 3]]


def test_a_report_shows_floods_beside_overload(scores: list[FloodScore]) -> None:
    drawn = drawn_overload(OverloadSection("a machine", [], scores))
    assert list(drawn) == ["flood_progress"]
    assert drawn["flood_progress"].caption == FIGURE_CAPTION
    assert drawn_overload(OverloadSection("another", [])) == {}


def test_a_folder_without_floods_is_refused(
    tmp_path: Path,
) -> None:
    done = lab("interrupt-load", tmp_path, "--profile", PROFILE)
    assert done.exit_code == 2
    assert f"{FLOOD_FILE}: must hold runs beside floods of packets, got none" in done.stderr


def test_the_table_of_the_shipped_folder_is_printed(
    tmp_path: Path, scores: list[FloodScore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupt_load, "score_floods", lambda *_: scores)
    picture = tmp_path / "floods.png"
    done = lab("interrupt-load", MEASURED, "--profile", PROFILE, "--plot", picture)
    assert done.exit_code == 0, done.output
    assert "15,000/s constant" in done.stdout
    assert picture.stat().st_size > 0
