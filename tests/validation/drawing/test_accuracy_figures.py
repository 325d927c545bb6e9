"""The pictures that a report begins with, on points made up by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from tests.pictures import check_picture
from tests.validation.scoring.test_knee import NAN, curve

from dispatchsim.validation.drawing.accuracy_figures import (
    accuracy_figures,
    error_grid,
)
from dispatchsim.validation.scoring.scoring import PointScore


def lowest(axes: Axes) -> float:
    """Return the least coordinate of what is drawn: markers, lines, bars and bands."""
    parts = [np.asarray(line.get_xydata()) for line in axes.get_lines()]
    parts += [np.asarray(path.vertices) for drawn in axes.collections for path in drawn.get_paths()]
    return float(min(np.nanmin(part) for part in parts if part.size))


def test_nothing_is_drawn_below_zero_on_a_logarithmic_axis() -> None:
    # Repeats that scatter by more than their median, one run a point, and a forecast of 0.
    scores = [
        *curve((1, 10, 100), (2, 9, 300), noise=1.5),
        *curve((1, 10, 100), (2, 9, 300), noise=NAN, mechanism="poll"),
        *curve((1, 10, 100), (0, 0, 0), mechanism="select"),
    ]
    figure = check_picture(accuracy_figures(scores)["predicted_measured"])
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_visible()}
    assert list(panels) == ["Load at which p99 exceeds a bound", "p50", "p99"]
    for axes in panels.values():
        assert axes.get_xscale() == axes.get_yscale() == "log"
        assert axes.get_xlim() == axes.get_ylim()
        assert axes.get_xlim()[0] > 0
        assert lowest(axes) > 0


def test_a_point_is_drawn_at_its_measured_and_forecast_value() -> None:
    figure = accuracy_figures(curve((1, 10, 100), (2, 9, 300)))["predicted_measured"]
    (p99,) = (axes for axes in figure.axes if axes.get_title() == "p99")
    spots = np.concatenate([np.asarray(line.get_xydata()) for line in p99.get_lines()])
    assert {(1.0, 2.0), (10.0, 9.0), (100.0, 300.0)} <= {(x, y) for x, y in spots.tolist()}


def test_what_a_fit_saw_is_not_drawn() -> None:
    fitted: list[PointScore] = [replace(s, role="fit") for s in curve((1, 2, 3), (1, 2, 3))]
    assert accuracy_figures(fitted) == {}
    drawn = accuracy_figures([*fitted, *curve((1, 2, 3), (1, 2, 3), mechanism="poll")])
    assert list(drawn) == ["predicted_measured", "error_by_load"]
    for figure in drawn.values():
        check_picture(figure)


def test_a_heat_map_has_the_median_error_by_server_and_load() -> None:
    # 10,000, 20,000 and 30,000/s are 40, 80 and 120% of the capacity.
    scores = [
        *curve((1, 10, 100), (1.5, 9, 300)),
        *curve((1, 10, 100), (1.1, NAN, 100), mechanism="poll"),
        *curve((1, 10, 100), (1.3, 9, 500), mechanism="poll"),
    ]
    grid = error_grid(scores, "p99_ns")
    assert grid.servers == ["epoll_level", "poll"]
    assert grid.loads[1] == "up to 40%"
    assert grid.loads[-1] == "past 100%"
    assert grid.errors[0] == pytest.approx([NAN, 0.5, NAN, -0.1, NAN, 2.0], nan_ok=True)
    assert grid.errors[1] == pytest.approx([NAN, 0.2, NAN, -0.1, NAN, 2.0], nan_ok=True)
