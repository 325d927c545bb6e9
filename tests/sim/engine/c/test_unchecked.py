"""Engines as users run them: compiled by -O2, without checks, general and folded."""

from __future__ import annotations

import pytest
from tests.models.corpus import CORPUS
from tests.scenes import Scene, comes_at, on_fast, on_reference

from dispatchsim.sim.engine.c.library import CHECKED_VARIABLE
from dispatchsim.sim.state.settings import RunSettings

OF_EPOLL = [scene for scene, _ in CORPUS.values() if scene.mechanism == "epoll_level"]
PLAIN = Scene(
    "epoll_level", comes_at(*range(1_000, 90_000, 700), requests=3), RunSettings(duration_ns=10**6)
)
"""Of one worker and clients that cost nothing: the folded engine fits."""


@pytest.mark.parametrize("scene", [*OF_EPOLL, PLAIN])
def test_the_unchecked_engine_equals_the_reference(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CHECKED_VARIABLE)
    expected, _ = on_reference(scene)
    assert expected.same_as(on_fast(scene))
