"""Rules between settings: each can be kept and broken, and says which, why and what it got."""

from __future__ import annotations

import pytest

from dispatchsim.scenario.declared import refuse
from dispatchsim.sim.assembly.checks import check
from dispatchsim.sim.state.rules import RULES, Rule, broken_rules, too_few_epoll_sets
from dispatchsim.sim.state.settings import RunSettings, given, having


def _with(settings: RunSettings, name: str, value: int) -> RunSettings:
    found = given(settings, name)
    record = getattr(settings, found.field)._replace(**{name: found.declared.kind(value)})
    return settings._replace(**{found.field: record})


def _on_its_edge(rule: Rule, *, is_broken: bool) -> RunSettings:
    """Return settings in which the cause of *rule* holds, for as many workers as may be."""
    step = (-1 if "least" in rule.must else 1) if is_broken else 0
    settings = having(RunSettings(), workers=2)
    return _with(_with(settings, rule.cause, rule.value), rule.setting, rule.bound + step)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.setting}-{rule.cause}")
def test_each_rule_can_be_kept_and_broken(rule: Rule) -> None:
    check(_on_its_edge(rule, is_broken=False))
    broken = _on_its_edge(rule, is_broken=True)
    with pytest.raises(ValueError, match=f"^{rule.setting} must {rule.must} .*{rule.why}, got "):
        check(broken)
    check(_with(broken, rule.cause, 1 - rule.value if rule.value < 2 else 1))
    (found,) = broken_rules(broken)
    with pytest.raises(ValueError, match=rf"^\w+\.\w+: must {rule.must} .*\({rule.why}\), got "):
        refuse(found)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.of_several], ids=str)
def test_a_single_worker_has_nobody_to_agree_with(rule: Rule) -> None:
    check(having(_on_its_edge(rule, is_broken=True), workers=1))


def test_a_sentence_has_the_names_and_values_of_a_run_or_of_a_file() -> None:
    settings = having(RunSettings(), workers=2, sharing=2, request_timeout_ns=5_000_000_000)
    (broken,) = broken_rules(settings)
    because = "another worker may be serving the late client"
    assert str(broken) == (
        "request_timeout_ns must be 0 where sharing is Sharing.READY_LIST and workers is "
        f"above 1: {because}, got 5000000000"
    )
    with pytest.raises(ValueError, match=r"^server") as caught:
        refuse(broken)
    assert str(caught.value) == (
        'server.request_timeout: must be 0 s where server.share is "ready list" and server.workers '
        f"is above 1 ({because}), got 5 s"
    )


@pytest.mark.parametrize(("instances", "is_refused"), [(0, False), (2, True), (3, False)])
def test_each_worker_has_an_epoll_set_of_its_own(instances: int, *, is_refused: bool) -> None:
    settings = having(RunSettings(), workers=3, epoll_instances=instances)
    assert (too_few_epoll_sets(settings) is not None) == is_refused
    assert too_few_epoll_sets(having(settings, sharing=2)) is None
