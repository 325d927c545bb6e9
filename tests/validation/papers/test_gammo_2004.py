"""The Xeon of Gammo et al. 2004: costs of one code are free together, and rows of table 1 hold."""

from __future__ import annotations

import pytest

from dispatchsim.calibration.period.machine import MACHINES, solve
from dispatchsim.calibration.profiles.cost_profile import Profile, period_profiles

XEON = MACHINES["xeon-2400-linux-2.6.5"]


@pytest.fixture(scope="module")
def middle() -> Profile:
    """Return the machine with all that is free in the middle; test_register derives it anew."""
    return Profile.read(period_profiles()[XEON.name])


@pytest.fixture(scope="module")
def other_ends() -> tuple[Profile, Profile]:
    """Return it where few are served and EPOLL_CTL_ADD is dear, and where all are served."""
    few = {"served of 22,000/s": -1.0, "EPOLL_CTL_ADD": 1.0}
    return (
        XEON.profile(lambda name: few.get(name, 0.0)),
        XEON.profile(lambda name: 1.0 if name == "served of 22,000/s" else 0.0),
    )


def ratio(profile: Profile, mechanism: str) -> float:
    """Return what EPOLL_CTL_ADD of *mechanism* is of that of epoll_level."""
    tables = profile.cost
    return tables[mechanism]["add_ns"].value[0] / tables["epoll_level"]["add_ns"].value[0]


def test_one_piece_of_code_is_one_constant(
    middle: Profile, other_ends: tuple[Profile, Profile]
) -> None:
    high, _ = other_ends
    assert len(XEON.constants) == len(set(XEON.constants))
    assert "EPOLL_CTL_ADD" in XEON.constants
    assert not any(name.endswith("epoll_edge.add_ns") for name in XEON.constants)
    assert ratio(high, "epoll_edge") == pytest.approx(ratio(middle, "epoll_edge"), rel=1e-3)
    adds = [p.cost["epoll_level"]["add_ns"].value[0] for p in (middle, high)]
    assert adds[1] > 1.05 * adds[0]


def test_what_the_rows_leave_open_moves_their_targets(
    other_ends: tuple[Profile, Profile],
) -> None:
    read_ns = [profile.cost["call"]["read_ns"].value[0] for profile in other_ends]
    # The row read, 21.51%, of what a reply takes where 90%, or all, of 22,000/s are served.
    assert read_ns == pytest.approx([0.2151 / 0.9 * 1e9 / 22_000, 0.2151 * 1e9 / 22_000], rel=5e-3)


@pytest.mark.parametrize("rises", [True, False])
def test_a_factor_is_found_on_a_curve_with_an_offset(*, rises: bool) -> None:
    def figure(factor: float) -> float:
        found = 3 + 2 * factor
        return found if rises else 1 / found

    factor = solve(figure, figure(7.0), rises=rises, what="toy")
    assert factor == pytest.approx(7, rel=5e-3)


def test_a_change_that_finds_its_descriptor_ready_lists_it(middle: Profile) -> None:
    costs = middle.cost
    add_ns = [costs[name]["add_ns"].value[0] for name in ("epoll_level", "epoll_edge")]
    assert add_ns[0] == pytest.approx(add_ns[1], rel=1e-3)


def test_what_no_factor_gives_is_refused() -> None:
    with pytest.raises(ValueError, match="toy must be 2, got at best 3"):
        solve(lambda factor: 3 + factor / 1e6, 2.0, rises=True, what="toy")
