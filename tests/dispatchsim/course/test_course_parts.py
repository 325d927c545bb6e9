"""Predictions, hidden answers, experiments, own mechanisms: what the lessons are made of."""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from dispatchsim import course
from dispatchsim.course.drawing import looks_of
from dispatchsim.course.experiments import Experiment
from dispatchsim.scenario.errors import UserError
from dispatchsim.sim.state.mechanism import Mechanism
from dispatchsim.sim.state.world import Worker, World
from dispatchsim.validation.drawing.looks import look_of

FOLDER = Path(course.__file__).parent


def oldest_first(world: World, worker: Worker) -> Iterator[int]:
    yield world.costs.mechanism.call_ns
    while not course.ready(world, worker):
        yield from course.sleep(world, worker)
    fds = course.ready(world, worker)
    yield len(fds) * world.costs.mechanism.event_ns
    course.hand_over(world, worker, fds)


def newest_first(world: World, worker: Worker) -> Iterator[int]:
    yield world.costs.mechanism.call_ns
    while not course.ready(world, worker):
        yield from course.sleep(world, worker)
    newest = course.ready(world, worker)[-1]
    yield world.costs.mechanism.event_ns
    course.hand_over(world, worker, [newest])


def small_race(*mechanisms: str | Mechanism, rate: float = 14_000) -> Experiment:
    return course.race(
        mechanisms, rates_per_s=[rate], run={"duration": "160 ms", "replications": 2}
    )


def test_every_lesson_is_a_module_and_every_name_is_there() -> None:
    found = {name: getattr(course, name) for name in course.__all__}
    modules = [name for name, value in found.items() if isinstance(value, ModuleType)]
    # A module that is imported becomes an attribute, which must not hide a function of its name.
    assert sorted(modules) == sorted(course.LESSONS)


# Predictions


@pytest.mark.parametrize(
    ("predicted", "measured", "factor"), [(2, 40, 20), (40, 2, 20), (3, 3, 1), (0, 0, 1)]
)
def test_a_prediction_is_compared_by_a_factor(
    predicted: float, measured: float, factor: float
) -> None:
    assert course.predict("?", predicted).beside(measured).factor == factor


def test_a_prediction_is_set_beside_the_run_and_not_judged() -> None:
    beside = course.predict("How many <times>?", 2, unit="times").beside(41.23)
    shown = beside._repr_html_()
    assert "How many &lt;times&gt;?" in shown
    assert "2 times" in shown
    assert "41.2 times" in shown
    assert "What did you leave out?" in beside.remark
    assert "wrong" not in shown


def test_a_prediction_that_is_close_is_asked_for_its_reason() -> None:
    assert "why" in course.predict("?", 10).beside(11).remark


def test_who_says_otherwise_is_named() -> None:
    beside = course.predict("?", 10).beside(75, source="the formula")
    assert "<th scope='row'>the formula</th>" in beside._repr_html_()
    assert beside.remark.startswith("The formula gives more, by a factor of 7.5.")


def test_no_measured_value_is_shown_before_the_prediction_is_written() -> None:
    prediction = course.predict("How many <times>?", None, unit="times")
    first = "Write your prediction first: replace None by a number."
    expected = f"<p>How many &lt;times&gt;?<br><strong>{first}</strong></p>"
    assert prediction._repr_html_() == expected
    beside = prediction.beside(41.23)
    assert beside._repr_html_() == expected
    assert repr(beside) == first
    assert np.isnan(beside.factor)


def test_a_run_without_the_figure_says_so() -> None:
    assert "no such value" in course.predict("?", 1).beside(float("nan")).remark


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "ten", True])
def test_a_prediction_is_a_number(value: float) -> None:
    with pytest.raises(UserError, match="value: must be a finite number, got"):
        course.predict("?", value)


# Hidden answers


def test_an_answer_is_folded_away_and_has_the_figures_of_runs() -> None:
    hidden = course.answer("{x} < 3.\n\nSo it is.", x=1.234)
    assert hidden._repr_html_() == (
        "<details><summary>Answer</summary><p>1.23 &lt; 3.</p><p>So it is.</p></details>"
    )
    assert "1.23" not in repr(hidden)


def test_every_answer_has_figures_of_runs_in_it() -> None:
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "answer":
                (text,) = node.args
                assert isinstance(text, ast.Constant)
                assert "{" in str(text.value), path.name


# Experiments


def test_an_experiment_is_a_table_and_a_picture() -> None:
    of = small_race("epoll_level", "poll")
    assert of.frame["mechanism"].tolist() == ["epoll_level", "poll"]
    assert of.value("latency_p50_us", "poll", 14_000) > 0
    shown = of._repr_html_()
    assert '<div role="img" aria-label="epoll_level against poll' in shown
    assert "<svg" in shown
    assert "<?xml" not in shown
    assert [axes.get_title() for axes in of.plot().axes if axes.get_visible()] == [
        "median of replies (µs)",
        "p99 of replies (µs)",
        "CPU busy (%)",
    ]


def test_mechanisms_look_the_same_whatever_stands_beside_them() -> None:
    looks = looks_of(["poll", "epoll_level", "newest first", "oldest first"])
    assert {name: looks[name] for name in ("poll", "epoll_level")} == {
        name: look_of(name) for name in ("poll", "epoll_level")
    }
    assert len({look.colour for look in looks.values()}) == 4
    assert len(set(looks_of([f"series {i}" for i in range(20)] + ["poll"]).values())) == 21


def test_a_single_place_is_drawn_as_bars_with_their_numbers() -> None:
    of = small_race("epoll_level", "poll")
    axes = of.plot().axes[0]
    widths = [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
    assert widths == [of.value("latency_p50_us", name, 14_000) for name in of.names]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["epoll_level", "poll"]


def test_a_point_that_is_not_there_is_named_with_those_that_are() -> None:
    of = small_race("epoll_level")
    with pytest.raises(UserError, match=r"must be one of 14,000 with mechanism one of epoll_level"):
        of.value("latency_p50_us", "poll", 1)


def test_an_unknown_figure_is_refused_before_anything_runs() -> None:
    with pytest.raises(UserError, match="did you mean"):
        course.race(["poll"], figures=["latency_p50_u"])


# A mechanism of one's own


def test_a_mechanism_of_ones_own_that_does_as_epoll_is_as_fast() -> None:
    mine = course.own_mechanism("oldest first", oldest_first)
    of = small_race("epoll_level", mine)
    theirs, own = (of.value("latency_p50_us", name, 14_000) for name in of.names)
    assert own == pytest.approx(theirs, rel=0.02)  # it pays for no look in vain


def test_who_serves_the_newest_first_has_a_short_median_and_a_long_tail() -> None:
    mine = course.own_mechanism("newest first", newest_first)
    of = small_race("epoll_level", mine, rate=18_000)
    p50 = {name: of.value("latency_p50_us", name, 18_000) for name in of.names}
    p99 = {name: of.value("latency_p99_us", name, 18_000) for name in of.names}
    assert p50["newest first"] < p50["epoll_level"]
    assert p99["newest first"] > 2 * p99["epoll_level"]


def test_a_wait_must_hand_over_what_is_ready() -> None:
    def makes_one_up(world: World, worker: Worker) -> Iterator[int]:
        yield 100
        course.hand_over(world, worker, [10_000])

    def returns_nothing(world: World, worker: Worker) -> Iterator[int]:
        yield 100

    with pytest.raises(UserError, match="must be ready descriptors"):
        small_race(course.own_mechanism("makes one up", makes_one_up))
    with pytest.raises(UserError, match="a wait must end with hand_over"):
        small_race(course.own_mechanism("returns nothing", returns_nothing))


def test_names_and_bases_are_checked() -> None:
    with pytest.raises(UserError, match="name: must not be that of an existing mechanism"):
        course.own_mechanism("poll", oldest_first)
    with pytest.raises(UserError, match="base: must be one of epoll_level, poll, got"):
        course.own_mechanism("mine", oldest_first, base="select")
    with pytest.raises(UserError, match="mechanisms: must be at least 1, each once"):
        course.race(["poll", "poll"])


def test_a_students_server_is_held_against_as_many_customers() -> None:
    at_ns = course.single_queue.arrivals_ns(0.5, 100)
    with pytest.raises(UserError, match="must be one for each of the 100 customers, got 3"):
        course.single_queue.agreement(at_ns, np.ones(3))
    with pytest.raises(UserError, match="load: must be above 0"):
        course.single_queue.arrivals_ns(0)
