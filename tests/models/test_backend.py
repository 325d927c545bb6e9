"""Servers with a backend: timelines by hand, and what both engines make of drawn scenes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.laws import check_all
from tests.scenes import on_fast, on_reference, scenes

MECHANISMS = ("epoll_level", "epoll_edge", "epoll_oneshot", "poll", "rt_signals", "blocking")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_engines_agree_on_servers_with_a_backend(mechanism: str, data: st.DataObject) -> None:
    scene = data.draw(scenes(mechanism, keeps=True, asks=True))
    reference, world = on_reference(scene)
    check_all(scene, reference, world)
    assert reference.same_as(on_fast(scene))
