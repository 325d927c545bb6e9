"""A mechanism looks the same in every figure, and like no other."""

from __future__ import annotations

from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.validation.drawing.looks import look_of, nth_look


def test_every_mechanism_has_a_look_of_its_own() -> None:
    looks = [look_of(name) for name in CATALOGUE]
    assert len(set(looks)) == len(CATALOGUE)
    assert look_of("smoke_signals") not in looks
    pairs = {(entry.colour, entry.marker) for entry in looks}
    assert len(pairs) == len(CATALOGUE), "error strips have no lines to tell them by"


def test_the_three_that_every_machine_has_differ_in_colour_marker_and_dashes() -> None:
    for values in zip(*map(look_of, ("select", "poll", "epoll_level")), strict=True):
        assert len(set(values)) == 3


def test_any_number_has_a_look() -> None:
    assert nth_look(11).colour == nth_look(4).colour
