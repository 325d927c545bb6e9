"""The stacks of workers: the C library's own contexts do the same, and no stack can run over."""

from __future__ import annotations

import re

import pytest
from tests.models.corpus import CORPUS
from tests.scenes import Scene, comes_at, on_fast, on_reference

from dispatchsim.models.catalogue import MECHANISMS
from dispatchsim.sim.c_engine import library
from dispatchsim.sim.settings import RunSettings

SEVERAL = [name for name, (scene, _) in CORPUS.items() if scene.run.server.workers > 1]


def test_where_there_is_no_switch_for_the_processor_contexts_do_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = (*library._CHECKED_FLAGS, "-DPORTABLE_STACKS")
    monkeypatch.setattr(library, "_CHECKED_FLAGS", flags)
    scenes = [CORPUS[name][0] for name in SEVERAL]
    of_epoll = [scene for scene in scenes if scene.mechanism == "epoll_level"]
    assert len(of_epoll) >= 3
    for scene in of_epoll:
        expected, _ = on_reference(scene)
        assert expected.same_as(on_fast(scene))


@pytest.mark.parametrize("mechanism", ["epoll_level", "blocking", "rt_signals"])
def test_a_stack_holds_the_deepest_call_and_a_signal(mechanism: str) -> None:
    """Every frame is at most 2 KiB, or the compiler refuses: `-Werror=frame-larger-than`."""
    assert mechanism in MECHANISMS
    assert "-Werror=frame-larger-than=2048" in library.ENGINE_FLAGS
    assert "-Werror=frame-larger-than=2048" in library._CHECKED_FLAGS
    on_fast(Scene(mechanism, comes_at(1_000), RunSettings(duration_ns=100_000)))
    texts = [
        text
        for (program, _, _), (text, _) in library._texts.items()
        if program.mechanism.name == mechanism
    ]
    found = [int(re.findall(r"enum \{ STACK_BYTES = (\d+) \};", text)[0]) for text in texts]
    # The deepest chain of calls in these models has more than ten frames, twice over.
    assert all(64 * 1024 + 2 * 10 * 2048 < stack < 512 * 1024 for stack in found)
    assert found
