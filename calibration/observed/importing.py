"""Whatever file a tool has left, as observed runs: which tool it was is seen from its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...sim.state.units import SECOND_NS
from ..records.measured_runs import DataError
from .hdr import Recorded, is_log, is_spectrum, read_log, read_spectrum
from .httperf import is_httperf, read_httperf
from .observed_run import ObservedRun, observed_run
from .table import UNITS_NS, Column, read_table
from .wrk import is_wrk, read_wrk

_BYTES_MAX = 64 << 20


@dataclass(frozen=True)
class Told:
    """What a file cannot tell, and its owner can.

    Attributes
    ----------
    rate_per_s:
        The rate of wrk2, or of the clients whose histogram it is.
    users:
        Clients of a closed loop whose histogram it is.
    unit:
        Of the values of a histogram: one of UNITS_NS.
    window_ns:
        How long the values of a spectrum were recorded.
    columns:
        Of a table.
    """

    rate_per_s: float | None = None
    users: int | None = None
    unit: str | None = None
    window_ns: int | None = None
    columns: Sequence[Column] = field(default_factory=tuple)


def read_any(path: Path, told: Told = Told()) -> list[ObservedRun]:
    """Return the runs that the file at *path* tells of.

    Raises
    ------
    DataError
        If it is of no known tool, was cut, or lacks what has to be told besides.
    OSError
        If it cannot be read.
    """
    if path.stat().st_size > _BYTES_MAX:
        raise DataError(f"{path.name}: must be at most {_BYTES_MAX >> 20} MiB")
    text = path.read_text(errors="replace")
    if is_httperf(text):
        if told.rate_per_s is not None:
            raise DataError(f"{path.name}: --rate was given, and httperf tells it itself")
        return [read_httperf(text, path.name)]
    if is_wrk(text):
        return [read_wrk(text, path.name, rate_per_s=told.rate_per_s)]
    if is_log(text):
        return [_of_histogram(path, told, read_log(text, path.name, _unit_ns(path, told)))]
    if is_spectrum(text):
        return [_of_histogram(path, told, read_spectrum(text, path.name, _unit_ns(path, told)))]
    if told.columns:
        return read_table(text, path.name, told.columns)
    raise DataError(
        f"{path.name}: neither the output of httperf, wrk or wrk2, nor an HdrHistogram log or "
        "spectrum; of a CSV table its columns have to be told (--column FIELD=COLUMN[:UNIT])"
    )


def _unit_ns(path: Path, told: Told) -> float:
    if told.unit is None:
        raise DataError(
            f"{path.name}: values of a histogram have no unit, so it has to be told: --unit, one "
            f"of {', '.join(UNITS_NS)}"
        )
    if told.unit not in UNITS_NS:
        raise DataError(f'--unit: must be one of {", ".join(UNITS_NS)}, got "{told.unit}"')
    return UNITS_NS[told.unit]


def _of_histogram(path: Path, told: Told, recorded: Recorded) -> ObservedRun:
    """Return the run whose latencies were recorded."""
    window_ns = recorded.window_ns or told.window_ns
    if not window_ns:
        raise DataError(f"{path.name}: does not say how long it recorded: --window")
    if (told.rate_per_s is None) == (told.users is None):
        raise DataError(
            f"{path.name}: a histogram does not say who its clients were: give either --rate (they "
            "came at a rate) or --users (they waited for their replies)"
        )
    is_closed = told.rate_per_s is None
    due = 0 if told.rate_per_s is None else round(told.rate_per_s * window_ns / SECOND_NS)
    doubts = ["what failed is not in a histogram: errors are unknown"]
    if is_closed:
        doubts.append(
            "a closed loop: whoever would have come while the server stood still is in no latency"
        )
    else:
        doubts.append("latencies are taken to begin when a request was due: no histogram tells")
    content = {
        "source": {"tool": "HdrHistogram", "file": path.name},
        "load": {
            "loop": "closed" if is_closed else "open",
            "rate_per_s": told.rate_per_s,
            "users": told.users,
            "requests": 0,
        },
        "window_ns": window_ns,
        "offered": max(due, recorded.n_values),
        "replied": recorded.n_values,
        "latency_ns": {"since": "sent" if is_closed else "intended", **recorded.latency_ns},
        "doubts": tuple(doubts),
    }
    return observed_run(path.name, content)
