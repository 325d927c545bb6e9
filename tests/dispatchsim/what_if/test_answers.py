"""What is asked in which order, what counts, and what it comes to in words and tables."""

from __future__ import annotations

import csv
import io
import math
import tomllib
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import pytest
from tests.dispatchsim.what_if.made_up import known, reply
from tests.pictures import check_picture

from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.figures.fates import Fate
from dispatchsim.sim.figures.summary import Verdict
from dispatchsim.studies.comparison import run
from dispatchsim.validation.drawing.looks import look_of
from dispatchsim.what_if.answers import (
    REQUESTS_MAX,
    Answer,
    Reply,
    loads_of,
    questions_of,
    reply_to,
    runs_of,
)
from dispatchsim.what_if.charts import PANELS, bokeh_dash, bokeh_marker
from dispatchsim.what_if.choices import RATE, STYLE
from dispatchsim.what_if.downloads import curves_figure, data_csv, figure_png, scenario_toml
from dispatchsim.what_if.series import FATE_PARTS, FATES, bounds, curve, fate_share, said, stack
from dispatchsim.what_if.view import View

VIEW = View(profile="epyc-family26-2cpu-linux-6.18")
FAST = View(VIEW.profile, ("epoll_level", "poll"), rate=1_000, idle=10)


def test_the_chosen_load_of_all_mechanisms_is_asked_first() -> None:
    asked = questions_of(VIEW, VIEW.mechanisms)
    first = [question for level, question in asked if level == 0]
    assert [q.mechanism for q in first[:3]] == list(VIEW.mechanisms)
    assert {q.view.rate for q in first[:3]} == {VIEW.rate}
    assert len(first) == 9
    assert [level for level, _ in asked] == sorted(level for level, _ in asked)
    assert len({question for _, question in asked}) == len(asked)


def test_neighbouring_steps_of_the_slider_share_their_loads() -> None:
    here, there = loads_of(VIEW), loads_of(VIEW.alone("poll", 20_000))
    assert len(set(here) & set(there)) == len(here) - 1
    assert VIEW.rate in here
    assert 12_345 in loads_of(VIEW.alone("poll", 12_345))


@pytest.mark.parametrize("rate", [RATE.values[0], 16_000, RATE.values[-1]])
@pytest.mark.parametrize("style", STYLE.options)
def test_no_view_costs_more_than_it_may(rate: int, style: str) -> None:
    view = View(VIEW.profile, rate=rate, style=style)
    n_requests = sum(
        question.view.requests_per_s * question.duration_ms / 1_000
        for _, question in questions_of(view, tuple(CATALOGUE)[:6])
    )
    assert n_requests <= REQUESTS_MAX
    assert all(each.duration_ms >= 100 for each in runs_of(view, 6))


def test_all_mechanisms_meet_the_same_arrivals() -> None:
    asked = [question for _, question in questions_of(VIEW, VIEW.mechanisms)]
    by_name = [
        {(q.view.rate, q.duration_ms, q.seed) for q in asked if q.mechanism == name}
        for name in VIEW.mechanisms
    ]
    assert by_name[0] == by_name[1] == by_name[2]


def test_longer_runs_replace_shorter_ones_when_three_are_known() -> None:
    answer = Answer(VIEW, VIEW.mechanisms)
    runs = runs_of(VIEW, 3)
    seen = []
    for _, question in answer.asked:
        answer.add(question, reply(question))
        row = answer.row("poll", VIEW.rate)
        if row is not None:
            seen.append((row.run.duration_ms, len(row.replies)))
    assert list(dict.fromkeys(seen)) == [
        (runs[0].duration_ms, 1), (runs[1].duration_ms, 3),
        *((runs[2].duration_ms, n) for n in (3, 4, 5)),
    ]  # fmt: skip
    assert answer.is_finished


def test_mechanisms_show_runs_of_the_same_length() -> None:
    view, _ = View.read({"mechanisms": ["poll,select"]})
    answer = Answer(view, view.mechanisms)
    for level, question in answer.asked:
        if level < 2 or question.mechanism == "poll":
            answer.add(question, reply(question))
    first, second = answer.chosen
    assert first.run == second.run
    assert (len(first.replies), len(second.replies)) == (1, 1)
    for level, question in answer.asked:
        if level == 2 and question.mechanism == "select":
            answer.add(question, reply(question))
    longer, other = answer.chosen
    assert longer.run == other.run != first.run
    assert len(longer.replies) == len(other.replies) >= 3


def test_runs_count_without_a_gap_in_their_seeds() -> None:
    answer = Answer(VIEW, ("poll",))
    coarse, middle = runs_of(VIEW, 1)[:2]
    assert coarse != middle
    late = [q for _, q in answer.asked if q.duration_ms == middle.duration_ms and q.seed > 1]
    for question in late:
        answer.add(question, reply(question))
    assert answer.row("poll", VIEW.rate) is None


def test_what_belongs_to_another_view_is_not_taken() -> None:
    answer = Answer(VIEW, ("poll",))
    other = Answer(View(VIEW.profile, idle=0), ("poll",)).asked[0].question
    assert not answer.add(other, reply(other))
    assert answer.n_known == 0


def test_a_run_that_failed_does_not_hold_up_the_rest() -> None:
    answer = Answer(VIEW, ("poll",))
    for _, question in answer.asked:
        answer.add(question, None)
    assert answer.is_finished
    assert answer.is_first_known
    assert answer.chosen == []
    assert said(answer) == "There is no answer for poll: the runs failed."


def test_intervals_are_those_of_the_runs_that_count() -> None:
    row = known(VIEW).row("poll", 10_000)
    assert row is not None
    found = row.estimate("throughput_per_s")
    assert found.mean == 10_003.0
    # Five runs that differ by 1: s = sqrt(2.5), t(4) = 2.776.
    assert found.half_width == pytest.approx(2.776 * math.sqrt(2.5 / 5), rel=1e-3)
    single = known(VIEW, levels=1).row("poll", VIEW.rate)
    assert single is not None
    assert math.isnan(single.estimate("throughput_per_s").half_width)


def test_the_sentence_says_who_keeps_up_and_who_waits_longest() -> None:
    assert said(Answer(VIEW, VIEW.mechanisms)) == "Simulating."
    assert said(Answer(VIEW, ())) == "None of the chosen mechanisms can be simulated here."
    answer = known(View(VIEW.profile, rate=12_500))
    assert bounds(answer, "poll") == (12_500, 16_000)
    assert said(answer) == (
        "epoll_level keeps up with all loads to 25,000/s; poll and select keep up to 12,500/s, "
        "but not at 16,000/s. At 12,500/s, 99% of the clients have their reply within 400 µs with "
        "epoll_level; with select it takes 10.5 times as long (4.2 ms)."
    )
    late = known(View(VIEW.profile, ("poll",), rate=50_000))
    assert said(late) == (
        "poll keeps up to 12,500/s, but not at 16,000/s. At 50,000/s clients wait longer and "
        "longer."
    )


def test_who_is_reset_does_not_wait_longer_and_longer() -> None:
    answer = Answer(VIEW, ("poll", "select"))
    for _, question in answer.asked:
        answered = reply(question)
        figures = {**answered.figures, "p99_ns": math.inf, "p99_answered_ns": 2e6}
        n_reset = 70 if question.mechanism == "poll" else 3
        fates = {"replied": 100 - n_reset, "reset": n_reset}
        answer.add(question, Reply(figures, fates, Verdict.BACKLOGGED, answered.queues))
    assert said(answer) == (
        "poll and select keep up with none of these loads. At 16,000/s 70% of the clients fail "
        "(mostly: reset by the server) with poll; 3% of the clients fail (mostly: reset by the "
        "server) with select."
    )
    (slowest,) = [panel for panel in PANELS if panel.key == "p99"]
    assert slowest.data(answer)["sources"]["points"]["y"] == []
    assert slowest.table(answer).rows[0][1:] == ["1% or more fail", "1% or more fail"]


def test_all_that_may_become_of_a_client_has_a_name() -> None:
    assert set(FATES) == {fate.name.lower() for fate in Fate}


def test_curves_say_where_the_server_falls_behind() -> None:
    found = curve(known(VIEW), "poll", "p99_answered_ns", 1e6)
    behind = dict(zip(found.x, found.falls_behind, strict=True))
    assert behind[12_500.0] is False
    assert behind[16_000.0] is True
    assert found.y[0] == 4.0


def test_shares_of_the_clients_add_up() -> None:
    shares = stack(known(VIEW), FATE_PARTS, fate_share)
    assert shares["reply received"] == pytest.approx([0.9] * 3)
    assert [sum(column) for column in zip(*shares.values(), strict=True)] == [
        pytest.approx(1.0)
    ] * 3


def test_every_chart_has_its_numbers_as_a_table() -> None:
    answer = known(VIEW)
    for panel in PANELS:
        table = panel.table(answer)
        assert table.rows, panel.key
        assert {len(row) for row in table.rows} == {len(table.headings)}
        sources = panel.data(answer)["sources"]
        for columns in sources.values():
            assert len({len(column) for column in columns.values()}) == 1
    (queues,) = [panel for panel in PANELS if panel.key == "accepts"]
    assert queues.table(answer).rows[0] == ["epoll_level", "2", "4", "4"]


def test_mechanisms_look_as_in_all_reports() -> None:
    answered = PANELS[0].data(known(VIEW))["sources"]
    assert answered["lines"]["ink"] == [look_of(name).colour for name in VIEW.mechanisms]
    assert answered["lines"]["dash"] == ["solid", "12 4", "4 3"]
    looks = {(look_of(n).colour, tuple(bokeh_dash(n)), bokeh_marker(n)) for n in CATALOGUE}
    assert len(looks) == len(CATALOGUE)


def test_the_scenario_that_is_taken_along_runs_to_the_figures_that_are_shown() -> None:
    answer = Answer(FAST, FAST.mechanisms)
    for level, question in answer.asked:
        if level <= 2 and question.view.rate == FAST.rate:
            answer.add(question, reply_to(question, "reference"))
    text = scenario_toml(answer)
    assert "dispatchsim compare FILE --mechanisms epoll_level,poll" in text
    scenario = Scenario.check(tomllib.loads(text), "taken along")
    assert len(scenario.seeds) == 3
    result = run(scenario, engine="reference")
    row = answer.row("epoll_level", FAST.rate)
    assert row is not None
    for figure in ("throughput_per_s", "p50_answered_ns", "p99_answered_ns", "cpu_busy"):
        assert row.estimate(figure) == result.estimates[figure]


def test_the_scenario_has_the_runs_that_are_shown_of_all() -> None:
    answer = Answer(VIEW, VIEW.mechanisms)
    for level, question in answer.asked:
        if level == 0 or (level < 3 and question.mechanism == VIEW.mechanisms[0]):
            answer.add(question, reply(question))
    assert len(answer.scenario().seeds) == len(answer.chosen[0].replies) == 1
    assert Answer(VIEW, ("poll",)).scenario().server.mechanism == "poll"


def test_figures_that_are_drawn_at_once_all_have_their_looks() -> None:
    answer = known(VIEW)
    alone = figure_png(answer)
    before = dict(matplotlib.rcParams)
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(figure_png, [answer] * 4)) == {alone}
    assert dict(matplotlib.rcParams) == before


def test_the_data_hold_a_row_a_mechanism_and_load() -> None:
    answer = known(VIEW)
    rows = list(csv.DictReader(io.StringIO(data_csv(answer))))
    assert len(rows) == 3 * len(loads_of(VIEW))
    assert rows[0]["mechanism"] == "epoll_level"
    assert float(rows[0]["p99_answered_ns"]) == 400_000.0
    assert rows[0]["replications"] == "5"


def test_the_figure_is_a_picture_as_all_others() -> None:
    check_picture(curves_figure(known(VIEW)))
    assert figure_png(known(VIEW)).startswith(b"\x89PNG")
