"""The register of papers keeps its promises: what it names can be run, is there, is said once."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from dispatchsim.calibration.period.machine import MACHINES
from dispatchsim.calibration.profiles.cost_profile import Profile, period_profiles
from dispatchsim.scenario.examples import example_scenarios
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.validation.papers.paper import Claim, Paper
from dispatchsim.validation.papers.quantities import FIGURES, OVER_TIME
from dispatchsim.validation.papers.runs import (
    ABLATIONS,
    PAPERS,
    constants_of,
    draws,
    points_of,
    scenario_of,
)

ROOT = Path(__file__).parents[3]
EACH = pytest.mark.parametrize("paper", PAPERS.values(), ids=list(PAPERS))


def all_claims() -> list[Claim]:
    """Return the claims of all papers."""
    return [claim for paper in PAPERS.values() for claim in paper.claims]


def test_no_two_claims_have_a_name_in_common() -> None:
    counts = Counter(claim.name for claim in all_claims())
    assert [name for name, n in counts.items() if n > 1] == []


@EACH
def test_every_condition_can_be_run_at_both_ends_of_what_is_unstated(paper: Paper) -> None:
    low = dict.fromkeys(constants_of(paper), -1.0)
    high = dict.fromkeys(constants_of(paper), 1.0)
    for condition in paper.all_conditions:
        assert set(condition.few_at) <= set(condition.at)
        assert condition.warm_up_s < condition.few_seconds <= condition.seconds
        for server in condition.servers:
            for x in (condition.at[0], condition.at[-1]):
                for drawn in (low, high):
                    scenario = scenario_of(condition, server, x, drawn)
                    assert scenario.machine.profile == paper.machine


@EACH
def test_conditions_and_questions_have_names_of_their_own(paper: Paper) -> None:
    names = [condition.name for condition in paper.all_conditions]
    assert len(set(names)) == len(names)


@EACH
def test_every_plot_shows_servers_and_figures_that_are_there(paper: Paper) -> None:
    conditions = {condition.name: condition for condition in paper.all_conditions}
    for plot in paper.plots:
        assert plot.figure in FIGURES
        assert set(plot.servers) <= set(conditions[plot.condition].servers)


@EACH
def test_every_test_that_stands_for_a_rule_is_there(paper: Paper) -> None:
    for omitted in paper.omitted:
        for word in omitted.why.replace(",", " ").replace(";", " ").split():
            if word.startswith("tests/"):
                assert (ROOT / word).is_file(), f"{omitted.name}: {word}"
                source = (ROOT / word).read_text()
            elif word.startswith("test_"):
                assert f"def {word}(" in source, f"{omitted.name}: {word}"


@pytest.mark.parametrize("name", MACHINES)
def test_a_period_profile_is_what_its_rows_give(name: str) -> None:
    shipped = Profile.read(period_profiles()[name])
    made = MACHINES[name].profile()
    assert made.machine == shipped.machine
    for table, costs in made.cost.items():
        for cost_name, cost in costs.items():
            other = shipped.cost[table][cost_name]
            assert cost == other, f"{table}.{cost_name}"


@pytest.mark.parametrize("name", MACHINES)
def test_the_last_row_holds_in_every_draw_and_what_is_free_is_drawn(name: str) -> None:
    machine = MACHINES[name]
    profiles = []
    for drawn in draws(machine.constants, 2):
        profile = machine.profile(drawn.__getitem__)
        profiles.append(profile)
        if machine.steps:  # a later step may move what an earlier one has met
            step = machine.steps[-1]
            target = machine.target_of(step, drawn.__getitem__)
            assert step.simulated(profile) == pytest.approx(target, rel=0.01)
    assert profiles[0].cost != profiles[1].cost


def test_the_scenario_of_a_paper_runs_as_any_other() -> None:

    named = {c.scenario for paper in PAPERS.values() for c in paper.all_conditions}
    examples = example_scenarios()
    for name in named:
        Scenario.read(examples[name])


@EACH
def test_claims_and_hypotheses_can_be_judged_by_whatever_figures(paper: Paper) -> None:
    for few in (False, True):
        seen = {
            (condition.name, server, x): {
                name: 1.0 + 0.01 * number + 0.001 * x for number, name in enumerate(FIGURES)
            }
            for condition in paper.all_conditions
            for server in condition.servers
            for x in points_of(condition, few=few)
        }
        expected = [(claim.name, claim.expects) for claim in paper.claims]
        expected += [(h.name, h.expects) for q in paper.questions for h in q.hypotheses]
        for name, expects in expected:
            assert expects, name
            for comparison in expects:
                assert comparison.holds(seen) in (True, False)


@pytest.mark.filterwarnings("ignore:invalid value")  # no line through points that are all alike
def test_every_figure_of_a_run_is_one_that_something_speaks_of() -> None:
    asked: defaultdict[str, float] = defaultdict(lambda: 1.0)
    for paper in PAPERS.values():
        seen = {
            (condition.name, server, x): asked
            for condition in paper.all_conditions
            for server in condition.servers
            for x in condition.at
        }
        expected = [claim.expects for claim in paper.claims]
        expected += [h.expects for question in paper.questions for h in question.hypotheses]
        for comparison in itertools.chain(*expected):
            comparison.holds(seen)
    plotted = {plot.figure for paper in PAPERS.values() for plot in paper.plots}
    assert set(FIGURES) == {*asked, *plotted, *OVER_TIME}


@EACH
def test_revised_claims_and_reasons_are_of_claims_that_are_there(paper: Paper) -> None:
    named = {*paper.revised, *paper.beyond, *paper.why_not}
    assert named <= {claim.name for claim in paper.claims}


@EACH
def test_every_condition_can_be_run_without_each_rule(paper: Paper) -> None:
    for rule in ABLATIONS.values():
        for condition in paper.conditions:
            for server in condition.servers:
                scenario_of(condition, server, condition.at[0], ablation=rule)
