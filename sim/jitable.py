"""How a function is written once for both clocks: plain Python, which compiled code may call.

`jitable` leaves it to the compiler whether a call stays a call. `inlined` has the body put in
place of each call: for what is small, and for what is called from one place, as a call costs as
much as many of these bodies. (What is long and called from many places must not be: the compiler
would take minutes.) Numba passes that on to whatever such a body calls, unless it is told not to:
hence `jitable` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba.extending import register_jitable

from .compiled.parts import AS_PART

P = ParamSpec("P")
R = TypeVar("R")


def jitable(function: Callable[P, R]) -> Callable[P, R]:
    """Return *function*, which compiled code may call from now on."""
    return register_jitable(forceinline=False, **AS_PART)(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Return *function*, whose body compiled code has in place of a call from now on."""
    return register_jitable(forceinline=True, **AS_PART)(function)
