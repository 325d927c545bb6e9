"""The README's pictures of measured runs are what the code makes of the committed scores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatchsim.validation.report.reported import (
    DIFFERENCE_MAX,
    MACHINE,
    PICTURES,
    REPORTED,
    difference,
    drawn,
    made,
    main,
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


def test_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.count("as made") == len(PICTURES)


def test_a_machine_without_scores_is_named() -> None:
    with pytest.raises(ValueError, match="got pdp-11"):
        reported_scores("pdp-11")
