"""The grids: which points a fit may see, and that a file which breaks a rule is refused."""

from pathlib import Path

import pytest

from dispatchsim.calibration.emulated.target import EmulatedTarget
from dispatchsim.calibration.points.point import FDS_MAX, Point, point_at, stored
from dispatchsim.calibration.points.points import (
    EMULATED,
    FIT_POINTS,
    FIT_POINTS_OF,
    FURTHER_MECHANISMS,
    HARDWARE,
    MECHANISMS,
    RINGS,
    SIGNALS,
    SIGNALS_QUEUE,
    STOCK_MECHANISMS,
    Grids,
    held_out_points,
)
from dispatchsim.calibration.profiles.cost import MECHANISM_TABLES
from dispatchsim.calibration.profiles.lent_costs import LENDERS
from dispatchsim.scenario.errors import ScenarioError

CAPACITY_PER_S = 24_000


def on_hardware(name: str) -> list[Point]:
    return HARDWARE.points("held_out", name, capacity_per_s=CAPACITY_PER_S)


def in_guests(index: int, *, quick: bool = False) -> list[Point]:
    """Return what a target with these fit points measures; guests have no part in that."""
    target = EmulatedTarget.__new__(EmulatedTarget)
    return list(target.held_out(index, CAPACITY_PER_S, quick=quick))


def test_no_held_out_point_is_seen_by_a_fit() -> None:
    assert not set(FIT_POINTS) & set(held_out_points(CAPACITY_PER_S))
    assert not set(FIT_POINTS) & set(held_out_points(CAPACITY_PER_S, quick=True))


def test_the_grids_have_the_promised_sizes_and_no_point_twice() -> None:
    assert len(on_hardware("closed")) == 3 * 3 * 3
    assert len(on_hardware("open")) == 3 * 2 * 8
    assert len(on_hardware("application")) == 2 * 2 * 4
    assert len(on_hardware("kept")) == 3 * 2 * 5
    assert len(on_hardware("accept")) == 3 * 2 * 2
    assert len(on_hardware("further")) == 7 * (3 + 2 * 4) + (1 + 2 + 4 + 2)
    assert len(on_hardware("onset")) == 5
    points = held_out_points(CAPACITY_PER_S)
    assert len(points) == len(set(points)) == 26 + 48 + 12 + 77 + 9 + 16 + 30 + 5


def test_further_mechanisms_leave_the_points_of_the_first_as_they_were() -> None:
    grids = [*on_hardware("closed"), *on_hardware("open"), *on_hardware("accept")]
    first = [point for point in grids if point not in FIT_POINTS]
    assert held_out_points(CAPACITY_PER_S)[: len(first)] == first
    asked = held_out_points(CAPACITY_PER_S, mechanisms=MECHANISMS)
    assert [point for point in asked if not point.server.request_cpu] == first


def test_held_out_points_are_of_the_mechanisms_asked_for() -> None:
    for quick in (False, True):
        of_all = held_out_points(CAPACITY_PER_S, quick=quick)
        assert {point.server.mechanism for point in of_all} == set(STOCK_MECHANISMS)
        for name in STOCK_MECHANISMS:
            own = held_out_points(CAPACITY_PER_S, quick=quick, mechanisms=[name])
            assert own == [point for point in of_all if point.server.mechanism == name]


def test_signals_have_the_queue_of_the_literature_on_hardware_too() -> None:
    points = held_out_points(CAPACITY_PER_S, mechanisms=FURTHER_MECHANISMS)
    queues = {point.server.mechanism: stored(point)["signal_queue"] for point in points}
    assert {name for name, queue in queues.items() if queue} == {"rt_signals", "signalfd"}
    assert set(queues.values()) == {0, SIGNALS_QUEUE}


def test_the_onset_lies_within_the_loads_of_the_small_grid() -> None:
    grid = [
        p
        for p in on_hardware("further")
        if p.server.mechanism == "rt_signals" and p.rate_per_s and p.idle.connections == 0
    ]
    points = [*grid, *on_hardware("onset")]
    assert sorted(point.rate_per_s / CAPACITY_PER_S for point in points) == pytest.approx(
        [0.5, 0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.2]
    )
    assert len({point_at(point, rate_per_s=1000.0) for point in points}) == 1


def test_fit_points_of_signals_have_a_queue_with_a_bound() -> None:
    points = {point.server.mechanism: point for point in FIT_POINTS_OF["emulated"]}
    bounded = {name for name, point in points.items() if point.server.signal_queue < FDS_MAX}
    # What has lent prices only, or none, was never measured.
    assert set(points) == set(MECHANISM_TABLES) - {*LENDERS, "in_kernel"} | {*RINGS}
    assert bounded == set(SIGNALS)
    assert {point.idle.connections for point in points.values()} == {0}


def test_open_rates_are_fractions_of_the_capacity() -> None:
    rates = {point.rate_per_s for point in on_hardware("open")}
    assert min(rates) == 4_800
    assert max(rates) == 26_400


def test_rates_beside_an_application_are_shares_of_what_it_leaves() -> None:
    # 1 / (1/25000 s + 20 us) = 16667/s, and 1 / (1/50000 s + 20 us) = 25000/s over kept ones.
    points = held_out_points(25_000, kept_per_s=50_000, mechanisms=["epoll_level"])
    brief = [point for point in points if point.server.request_cpu == 20_000]
    assert sorted(p.rate_per_s for p in brief if not p.keeps) == [8333, 13_333, 15_833, 18_333]
    kept = sorted(p.rate_per_s for p in brief if p.keeps)
    assert kept == [7500, 15_000, 20_000, 23_750, 27_500]
    as_new = held_out_points(25_000, mechanisms=["epoll_level"])
    assert min(p.rate_per_s for p in as_new if p.keeps and p.server.request_cpu == 20_000) == 5000


def test_the_quick_grid_is_a_part_of_the_whole() -> None:
    assert set(held_out_points(CAPACITY_PER_S, quick=True)) < set(held_out_points(CAPACITY_PER_S))


def test_no_fit_point_of_guests_is_held_out() -> None:
    assert not set(FIT_POINTS_OF["emulated"]) & set(in_guests(0))


def test_every_round_of_guests_has_all_points() -> None:
    first, later = (set(in_guests(index)) for index in (0, 1))
    assert later == first
    assert {point.load.loop for point in later} == {"open", "closed"}
    assert sum(point.server.accept_limit > 0 for point in first) == 12


def test_threads_that_block_have_a_grid_of_their_own() -> None:
    points = EMULATED.points("rounds", "blocking", capacity_per_s=CAPACITY_PER_S)
    assert len(set(points)) == 16
    assert all(point.blocks for point in points)
    assert {point.server.threads for point in points} == {"pool", "on demand", "processes"}
    assert set(points) <= set(in_guests(0))


def test_each_ring_has_loads_idle_connections_and_several_requests() -> None:
    points = EMULATED.points("rounds", "rings", capacity_per_s=CAPACITY_PER_S)
    assert len(set(points)) == len(points) == 28
    for name in RINGS:
        own = [point for point in points if point.server.mechanism == name]
        assert {point.idle.connections for point in own} == {0, 4000}
        assert {point.users for point in own} == {0, 4, 64, 256}
        assert {point.load.requests for point in own} == {1, 4}
    assert set(points) <= set(in_guests(0))


def test_the_quick_points_of_guests_are_few_of_the_same() -> None:
    points, quick = (set(in_guests(0, quick=quick)) for quick in (False, True))
    assert quick < points
    assert {point.load.loop for point in quick} == {"open", "closed"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('server.mechanims = "poll"', r"server.mechanims: unknown key .*mechanism.*"),
        ('serve.mechanism = ["poll", "select"]', r"serve: unknown .*server.*"),
        ('server.mechanism = ["poll", "pol"]', r'server.mechanism: must be .* got "?pol"?.*'),
        (
            "server.mechanism = 'poll'\nload = { loop = 'closed', users = 0 }",
            "load.users: must be at least 1, got 0",
        ),
        ("load.of_capacity = 0", "load.of_capacity: must be a number above 0, got 0"),
        (
            "load = { of_capacity = 1, requests = 0 }",
            "load.requests: must be a number above 0, got 0",
        ),
        ("burst = -2\nload.of_capacity = 1", "burst: must be a number above 0, got -2"),
    ],
)
def test_a_grid_that_breaks_a_rule_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    load = "" if "load" in text else "\nload = { loop = 'closed', users = 4 }"
    path.write_text(f"[[held_out.closed]]\n{text}{load}\n")
    grids = Grids.read(path)
    with pytest.raises(ScenarioError, match=f"^own.toml: held_out.closed: {message}$"):
        grids.points("held_out")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[of]\npol.server.backlog = 3", r'of.pol: server.mechanism: must be .* got "?pol"?.*'),
        ("[of]\npoll.server.backlog = [3]", "of.poll: server.backlog: must be .*"),
        ("[of", "is not TOML: .*end of document.*"),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=f"^own.toml: {message}$"):
        Grids.read(path)


def test_a_capacity_is_above_0() -> None:
    with pytest.raises(ValueError, match=r"^capacity_per_s must be above 0, got 0$"):
        held_out_points(0)


def test_keys_that_go_together_are_one_level_of_a_grid(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        """
        of.poll.server.backlog = 16
        [[rounds]]
        server.mechanism = ["poll", "select"]
        loads = [
            { load = { loop = "closed", users = [1, 2] } },
            { load = { of_capacity = 0.5, requests = 2 }, idle.connections = 9 },
        ]
        """
    )
    points = Grids.read(path).points("rounds", capacity_per_s=1000)
    closed, opened = {"loop": "closed"}, {"loop": "open", "rate_per_s": 250, "requests": 2}
    assert points == [
        point_at(mechanism=name, backlog=backlog, **load)
        for name, backlog in (("poll", 16), ("select", 4096))
        for load in (closed | {"users": 1}, closed | {"users": 2}, opened | {"idle": 9})
    ]
