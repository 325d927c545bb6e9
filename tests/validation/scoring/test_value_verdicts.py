"""What a value beside its forecast is worth, and how its error is written."""

from __future__ import annotations

import math

import pytest

from dispatchsim.validation.scoring.value_verdicts import judge, signed, unsigned

NAN = float("nan")


@pytest.mark.parametrize(
    ("forecast", "noise", "in_noise", "verdict"),
    [
        (104.0, (95.0, 105.0), True, "within noise"),
        (130.0, (60.0, 140.0), True, "within noise"),
        (106.0, (95.0, 105.0), False, "within 15%"),
        (116.0, (95.0, 105.0), False, "missed"),
        (100.0, (NAN, NAN), None, "within 15%"),
        (84.0, (NAN, NAN), None, "missed"),
    ],
)
def test_a_value_is_in_the_noise_or_near_or_missed(
    forecast: float, noise: tuple[float, float], in_noise: bool | None, verdict: str
) -> None:
    assert judge(100.0, forecast, noise) == (forecast / 100 - 1, in_noise, verdict)


@pytest.mark.parametrize(("measured", "forecast"), [(NAN, 1.0), (0.0, 1.0), (NAN, NAN), (0.0, NAN)])
def test_what_was_not_measured_has_no_verdict(measured: float, forecast: float) -> None:
    assert judge(measured, forecast, (NAN, NAN)) is None


@pytest.mark.parametrize(("noise", "in_noise"), [((NAN, NAN), None), ((0.5, 2.0), False)])
def test_a_forecast_without_a_reply_is_missed(
    noise: tuple[float, float], in_noise: bool | None
) -> None:
    found = judge(1.0, NAN, noise)
    assert found is not None
    assert math.isnan(found.error)
    assert found[1:] == (in_noise, "missed")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (0.0, "+0.0%"), (-0.0994, "-9.9%"), (0.14, "+14%"), (-0.5, "-50%"), (1.0, "+100%"),
        (1.01, "x2"), (-0.51, "/2"), (2.1, "x3.1"), (-0.583, "/2.4"), (8.4, "x9.4"),
        (8.6, "x10"), (-0.999, "/1000"), (-1.0, "/inf"), (None, "\N{EN DASH}"),
    ],
)  # fmt: skip
def test_beyond_a_factor_of_two_an_error_is_that_factor(error: float | None, text: str) -> None:
    assert signed(error) == text
    assert unsigned(error) == text.lstrip("+-")
