"""A generator turned into calls does the same, or is left alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dispatchsim.sim.compiled.direct_style import NotDirectError, direct_style

Generator = Callable[..., Iterator[int]]
WORLD, WORKER = object(), object()


def part(world: Any, worker: Any, n: int) -> Iterator[int]:
    for i in range(n):
        if i == 3:
            return
        yield 10 + i
    yield 99


def whole(world: Any, worker: Any) -> Iterator[int]:
    for n in (2, 5):
        yield n
        for cost_ns in part(world, worker, n):
            yield cost_ns
    yield 7


def in_turn(world: Any, worker: Any) -> Iterator[int]:
    while True:
        for other in part(world, worker, 1):
            yield other
        break


def calls(generator: Generator, stop_at: int = 0) -> tuple[list[int], bool]:
    """Return what the direct form spends until the run ends at a step, and whether it did."""
    spent: list[int] = []

    def spend(world: Any, worker: Any, step_ns: int) -> bool:
        assert (world, worker) == (WORLD, WORKER)
        spent.append(step_ns)
        return step_ns == stop_at

    over = direct_style(generator, spend)(WORLD, WORKER)
    return spent, over


@pytest.mark.parametrize("generator", [whole, in_turn])
def test_the_same_steps_in_the_same_order(generator: Generator) -> None:
    assert calls(generator) == (list(generator(WORLD, WORKER)), False)


def test_the_run_ends_inside_a_part() -> None:
    assert calls(whole, stop_at=11) == ([2, 10, 11], True)


def inner_function(world: Any, worker: Any) -> Iterator[int]:
    def cost(n: int) -> int:
        return 7 * n

    yield cost(3)


def doubled(generator: Generator) -> Generator:
    @functools.wraps(generator)
    def wrapper(world: Any, worker: Any) -> Iterator[int]:
        for cost_ns in generator(world, worker):
            yield 2 * cost_ns

    return wrapper


@doubled
def decorated(world: Any, worker: Any) -> Iterator[int]:
    yield 5


def recursive(world: Any, worker: Any) -> Iterator[int]:
    yield 1
    for cost_ns in recursive(world, worker):
        yield cost_ns


def swapped(world: Any, worker: Any) -> Iterator[int]:
    for cost_ns in part(worker, world, 1):
        yield cost_ns


def local(world: Any, worker: Any) -> Iterator[int]:
    part = _other
    for cost_ns in part(world, worker, 1):
        yield cost_ns


def _other(world: Any, worker: Any, n: int) -> Iterator[int]:
    yield n


def delegating(world: Any, worker: Any) -> Iterator[int]:
    yield from part(world, worker, 1)


def listening(world: Any, worker: Any) -> Iterator[int]:
    told = yield 1
    assert told is None


@pytest.mark.parametrize(
    "generator",
    [inner_function, decorated, recursive, swapped, local, delegating, listening],
)
def test_what_would_not_mean_the_same_is_left_alone(generator: Generator) -> None:
    with pytest.raises(NotDirectError):
        calls(generator)
