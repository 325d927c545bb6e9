"""Whether a campaign went through a whole round of microbenchmarks, which a fit is made of."""

from __future__ import annotations

from collections.abc import Sequence

from . import microbenchmarks
from .emulated import microbenchmarks as emulated
from .measured_runs import MicroResult


def missing_commands(micro: Sequence[MicroResult]) -> list[str]:
    """Return the command lines of a whole round of which there is no result.

    >>> len(missing_commands([])) == len(microbenchmarks.bench_commands())
    True
    """
    counted = any((row.model_extra or {}).get("steering") == "emulated" for row in micro)
    commands = emulated.bench_commands() if counted else microbenchmarks.bench_commands()
    found = {row.command for row in micro}
    return [command for command in commands if command not in found]
