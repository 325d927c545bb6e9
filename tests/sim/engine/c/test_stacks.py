"""The stacks of workers: the C library's own contexts do the same, and no stack can run over."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.models.corpus import CORPUS
from tests.scenes import on_fast, on_reference

from dispatchsim.sim.engine.c import library, run
from dispatchsim.sim.engine.c.translate import stack_bytes

SIGNAL_BYTES = 64 * 1024

SEVERAL = [name for name, (scene, _) in CORPUS.items() if scene.run.program.workers > 1]


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


class _State(ctypes.Structure):
    """The beginning of struct engine, in engine/stacks.h."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("world", "python_stack", "stacks")),
        *((name, ctypes.c_int64) for name in ("n_workers", "current", "warm_up_ns")),
        ("memory", ctypes.c_void_p),
        *((name, ctypes.c_size_t) for name in ("page_bytes", "bytes_each")),
    ]

    def stacks_used(self) -> Iterator[tuple[int, int]]:
        """Yield how many bytes of each stack were written, and how many it has."""
        for i in range(self.n_workers + 1):
            # A page that faults lies below, and one is to spare.
            at = self.memory + i * self.bytes_each + self.page_bytes
            n_bytes = self.bytes_each - self.page_bytes
            # The kernel gives pages of zeros: the lowest other byte is as deep as any call went.
            written = np.frombuffer((ctypes.c_uint8 * n_bytes).from_address(at), np.uint8)
            yield n_bytes - int((written != 0).argmax()), n_bytes - self.page_bytes


@pytest.mark.parametrize("name", CORPUS)
def test_a_stack_has_room_for_a_signal_below_the_deepest_call(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[int, int]] = []

    def measured(*given: Any, **named: Any) -> Any:
        engine = library.engine_of(*given, **named)
        end = engine.run_end

        def run_end(state: int) -> None:
            found.extend(_State.from_address(state).stacks_used())
            end(state)

        engine.run_end = run_end  # type: ignore[assignment]
        return engine

    monkeypatch.setattr(run, "engine_of", measured)
    on_fast(CORPUS[name][0])
    assert found
    assert all(0 < used <= n_bytes - SIGNAL_BYTES for used, n_bytes in found)


def test_the_compiler_refuses_a_frame_beyond_what_the_translator_counts_with() -> None:
    assert "-Werror=frame-larger-than=2048" in library.ENGINE_FLAGS
    assert "-Werror=frame-larger-than=2048" in library._CHECKED_FLAGS
    # Two frames for each call within a call, eight of the engine's own, and room for a signal.
    assert stack_bytes(10) == 28 * 2048 + SIGNAL_BYTES
