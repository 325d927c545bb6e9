"""Mechanisms that never end: for Ctrl-C. Their first step takes 60 ns."""

from __future__ import annotations

from collections.abc import Iterator

from dispatchsim.sim.state.world import Worker, World


def never_yields(world: World, worker: Worker) -> Iterator[int]:
    yield 60
    while True:
        pass


def yields_nothing(world: World, worker: Worker) -> Iterator[int]:
    yield 60
    while True:
        yield 0


def long_range(world: World, worker: Worker) -> Iterator[int]:
    yield 60
    for _ in range(10**15):
        pass
