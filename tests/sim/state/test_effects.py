"""Effects by name: which costs hold them, and runs without them."""

from __future__ import annotations

import pytest
from tests.toy import CALL, INTERRUPT, WAY, toy_costs

from dispatchsim.calibration.profiles.choosing import find_profile
from dispatchsim.calibration.running.preparation import job_of
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.costs import NO_CLIENT
from dispatchsim.sim.state.effects import EFFECTS, effect_names, without

CLIENT = NO_CLIENT._replace(connect_ns=500, interrupt_ns=150, connect_after_ns=120)
COSTS = toy_costs(
    "epoll_level",
    CLIENT,
    interrupt=INTERRUPT._replace(way=WAY, cold_ns=45, syn_saved_ns=90),
    call=CALL._replace(delivery_ns=250, close_delivery_ns=170),
)


def test_without_an_effect_its_costs_are_at_their_defaults_and_no_others() -> None:
    less = without(COSTS, ["interrupt-way", "own-fins"])
    assert less == COSTS._replace(
        interrupt=INTERRUPT._replace(cold_ns=45, syn_saved_ns=90),
        call=CALL._replace(delivery_ns=250),
        client=CLIENT._replace(interrupt_ns=0),
    )
    assert without(COSTS, []) == COSTS


def test_without_an_effect_another_cost_may_have_its_time() -> None:
    costs = COSTS._replace(interrupt=COSTS.interrupt._replace(displaced_ns=70))
    less = without(costs, ["displaced-caches"])
    application = costs.application._replace(connection_ns=costs.application.connection_ns + 70)
    assert less == COSTS._replace(application=application)


@pytest.mark.parametrize("name", EFFECTS)
def test_the_costs_of_an_effect_have_defaults_that_are_nothing(name: str) -> None:
    for cost in EFFECTS[name].costs:
        table, field = cost.split(".")
        default = getattr(COSTS, table)._field_defaults[field]
        assert default == 0 or not any(default.ns), cost


def test_no_cost_is_of_two_effects() -> None:
    costs = [cost for effect in EFFECTS.values() for cost in effect.costs]
    assert len(costs) == len(set(costs))


def test_a_name_that_is_no_effect_is_refused() -> None:
    with pytest.raises(ValueError, match=r'must be none, or of interrupt-way, .*, got "own-fin"'):
        effect_names("interrupt-way, own-fin")


def test_a_scenario_leaves_effects_out() -> None:
    measured = find_profile("xeon-family6-model207-2cpu-linux-6.18")
    whole = Scenario.model_validate(
        {
            "server": {"mechanism": "poll"},
            "load": {"loop": "open", "rate": "1000/s"},
            "machine": {"clients": "generator"},
        }
    )
    less = whole.with_values(machine={"without": "interrupt-way, cold-handshakes"})
    costs = job_of(whole, measured, 1).costs
    assert costs.client.interrupt_ns > 10_000
    assert job_of(less, measured, 1).costs == without(costs, ["interrupt-way", "cold-handshakes"])
    with pytest.raises(ScenarioError, match=r'machine.without: must be none, or of .* "nothing"'):
        whole.with_values(machine={"without": "nothing"})
