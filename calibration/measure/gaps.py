"""Measure the gaps of both CPUs of a testbed: each alone, both at once, and beside packets."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..records.gap_records import Beside, GapsRecord, Side
from ..records.measured_runs import Gaps
from ..testbed.c_build import Programs
from ..testbed.machine_facts import machine_id, now_text
from ..testbed.processes import PRIORITY_HIGHEST, Child, RunError
from ..testbed.testbed import Testbed

SECONDS = 10.0
"""The default length of a recording."""
_SPARE_S = 20.0
_PACKETS_EVERY_US = 100


class _Case(NamedTuple):
    """CPUs that spin at the same time, and the work beside each of them."""

    sides: tuple[Side, ...]
    beside: Beside


_CASES = (
    _Case(("server",), "nothing"),
    _Case(("client",), "nothing"),
    _Case(("server", "client"), "spinning"),
    _Case(("client",), "packets"),
)


def measure_gaps(
    testbed: Testbed,
    programs: Programs,
    *,
    seconds: float = SECONDS,
    telling: Callable[[str], None] = lambda text: None,
) -> list[GapsRecord]:
    """Return the recordings of both CPUs, *seconds* each; all cases take four times *seconds*.

    The spinning programs have the nice value of a load generator. They have no real-time priority,
    because Linux takes 50 ms of every second from real-time programs.

    Calls `telling` with each case before it begins.

    Raises
    ------
    RunError
        If the bench fails, takes too long or prints something else.
    """
    found: list[GapsRecord] = []
    for case in _CASES:
        telling(f"{' and '.join(case.sides)} beside {case.beside}")
        found += _measure(case, testbed, programs, seconds)
    return found


def _measure(
    case: _Case, testbed: Testbed, programs: Programs, seconds: float
) -> Iterator[GapsRecord]:
    cpus = {"server": testbed.server_cpu, "client": testbed.client_cpu}
    packets = ["--pause-us", str(_PACKETS_EVERY_US)] if case.beside == "packets" else []
    length = ["--milliseconds", str(round(seconds * 1000)), *packets, *testbed.micro_options()]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        files = [Path(folder) / side for side in case.sides]
        children = [
            stack.enter_context(
                Child(
                    f"micro gaps on the {side}'s CPU",
                    [
                        programs.path("micro"),
                        "gaps",
                        "--cpu",
                        str(cpus[side]),
                        "--recording",
                        str(file),
                        *length,
                    ],
                    # The packet sender runs on the server's CPU, so it must be allowed there.
                    cpu=tuple(cpus.values()),
                    priority=PRIORITY_HIGHEST,
                )
            )
            for side, file in zip(case.sides, files, strict=True)
        ]
        for side, file, child in zip(case.sides, files, children, strict=True):
            lines = child.read_all(timeout_s=seconds + _SPARE_S)
            yield _record(case, side, file, lines, programs)


def _record(
    case: _Case, side: Side, file: Path, lines: list[str], programs: Programs
) -> GapsRecord:
    try:
        printed = json.loads(lines[0])
        rows = np.fromfile(file, "<i8").reshape(-1, 2)
        return GapsRecord(
            date=now_text(),
            code=programs.code,
            machine=machine_id(),
            cpu=side,
            beside=case.beside,
            elapsed_ns=printed["elapsed_ns"],
            median_ns=printed["median"],
            p90_ns=printed["p90"],
            worst_ns=printed["worst_ns"],
            gaps=Gaps(
                above_ns=printed["above_ns"],
                n=printed["operations"],
                lost_ns=printed["lost_ns"],
                at_ns=rows[:, 0].tolist(),
                length_ns=rows[:, 1].tolist(),
            ),
        )
    except (IndexError, KeyError, ValueError, OSError) as error:
        raise RunError(f"micro gaps printed no valid result: {lines[:1]}") from error
