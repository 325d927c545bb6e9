"""The picture of a recording: what is drawn is what was recorded, at any width."""

from __future__ import annotations

import numpy as np
import pytest
from tests.pictures import check_picture

import dispatchsim as ds
from dispatchsim.recording.timeline import COLUMNS, SPANS_MAX, Window, extremes, shares
from dispatchsim.sim.figures.recording import Span
from dispatchsim.sim.state.kinds import Activity
from dispatchsim.validation.drawing.figures import ShownFigure, to_svg


def recorded(length: str, mechanism: str = "epoll_level", workers: int = 1) -> ds.Recording:
    """Return a recording of that length of a busy server."""
    scenario = ds.Scenario.of(
        server={"mechanism": mechanism, "workers": workers},
        machine={"cpus": workers},
        load={"loop": "open", "rate": "15000/s"},
        run={"duration": "100 ms", "warm_up": "10 ms"},
    )
    return ds.record(scenario, length=length)


@pytest.mark.parametrize(
    ("length", "workers", "lanes"),
    [
        ("200 us", 1, ["arrivals", "CPU 0", "interrupts", "replies"]),
        ("1 ms", 2, ["arrivals", "CPU 0", "interrupts", "CPU 1", "worker 0"]),
        ("25 ms", 1, ["arrivals\n(≤ 5 per column)", "CPU 0", "interrupts"]),
    ],
)
def test_lanes_and_queues_have_names_and_units(length: str, workers: int, lanes: list[str]) -> None:
    drawing = check_picture(recorded(length, workers=workers).timeline())
    top, *queues = drawing.axes
    assert [label.get_text() for label in top.get_yticklabels()][: len(lanes)] == lanes
    assert {"accept queue\n(connections)", "ready\n(descriptors)"} <= {
        axes.get_ylabel() for axes in queues
    }
    unit = "ms" if length == "25 ms" else "µs"
    assert queues[-1].get_xlabel() == f"time from 10 ms of the run ({unit})"


def test_a_picture_drawn_again_is_the_same_bytes() -> None:
    first, second = (to_svg(recorded("300 us").timeline(), "loop") for _ in range(2))
    assert first == second
    assert "epoll_wait" in first


def test_shares_of_columns_are_those_of_the_spans() -> None:
    recording = recorded("25 ms")
    assert len(recording.spans) > SPANS_MAX
    window = Window(recording.begin_ns, recording.end_ns, 1_000, 500)
    found = shares(recording.spans, window)
    assert sum(found.values()) == pytest.approx(np.ones(COLUMNS))
    for name, of_columns in found.items():
        spent_ns = sum(
            s.end_ns - s.begin_ns for s in recording.spans if Activity(s.activity).name == name
        )
        assert of_columns.sum() * window.column_ns == pytest.approx(spent_ns)


def test_a_span_over_several_columns_is_shared_out() -> None:
    window = Window(0, COLUMNS * 10, 1, 500)
    read = int(Activity.READ)
    found = shares([Span(5, 22, 0, 0, read), Span(22, 24, 0, 0, read)], window)["READ"]
    assert found[:4] == pytest.approx([0.5, 1.0, 0.4, 0.0])


def test_a_queue_of_many_steps_keeps_its_least_its_mean_and_its_greatest() -> None:
    window = Window(0, COLUMNS * 10, 1, 500)
    found = extremes([0, 2, 4, 15], [1, 9, 3, 0], window)
    assert found.least[:3] == pytest.approx([1, 0, 0])
    assert found.greatest[:3] == pytest.approx([9, 3, 0])
    assert found.mean[:3] == pytest.approx([(2 * 1 + 2 * 9 + 6 * 3) / 10, 1.5, 0])


def test_a_notebook_shows_it_without_pyplot() -> None:
    drawing = recorded("300 us").timeline()
    assert isinstance(drawing, ShownFigure)
    assert drawing._repr_png_().startswith(b"\x89PNG")
