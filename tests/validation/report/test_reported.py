"""The README's pictures of measured runs are what the code makes of the committed scores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.lab import lab

from dispatchsim.validation.report.reported import (
    DIFFERENCE_MAX,
    MACHINE,
    PICTURES,
    REPORTED,
    difference,
    drawn,
    made,
    reported_scores,
)


@pytest.mark.parametrize("name", PICTURES)
def test_a_committed_picture_is_what_the_code_makes(name: str) -> None:
    assert difference(made(name), (REPORTED / name).read_bytes()) <= DIFFERENCE_MAX


def test_a_forecast_that_moves_by_a_tenth_shows() -> None:
    moved = []
    for score in reported_scores(MACHINE):
        central = score.forecast.central
        changed = central._replace(throughput_per_s=0.9 * central.throughput_per_s)
        moved.append(replace(score, forecast=replace(score.forecast, central=changed)))
    picture = drawn("closed_loop.png", moved)
    assert difference(picture, (REPORTED / "closed_loop.png").read_bytes()) > DIFFERENCE_MAX


def test_it_says_so() -> None:
    done = lab("reported")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("up to date") == len(PICTURES)


def test_a_picture_that_the_code_does_not_make_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatchsim.validation.report.reported.DIFFERENCE_MAX", -1.0)
    done = lab("reported")
    assert done.exit_code == 1
    assert done.stdout.count("differs from what the code makes") == len(PICTURES)


def test_a_machine_without_scores_is_named() -> None:
    with pytest.raises(ValueError, match="got pdp-11"):
        reported_scores("pdp-11")
