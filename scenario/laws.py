"""Laws as a scenario file has them: a mean and how it spreads, or a file of samples.

server.request_cpu = "1 ms"              server.request_cpu_spread = "lognormal"
server.request_cpu_p99 = "5 ms"          server.request_cpu_file = "measured.txt"
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..sim.state.laws import P99_BY_MEAN_MAX, Law
from .quantities import DURATION, QuantityError, parse_duration_ns, shown

Spread = Literal["constant", "exponential", "lognormal", "samples"]
SAMPLES_MAX = 1_000_000
LONGEST_NS = 3_600 * 10**9


def law_of(key: str, mean_ns: int, spread: Spread, p99_ns: int | None, file: str | None) -> Law:
    """Return the law that the keys of a file make, whose names begin with *key*.

    Raises
    ------
    ValueError
        With key, rule and value, where they do not go together or the file cannot be read.
    """
    if (file is not None) != (spread == "samples"):
        rule = "must be given" if file is None else "must be absent"
        raise ValueError(f'{key}_file: {rule} where the spread is "{spread}", got {shown(file)}')
    if (p99_ns is not None) != (spread == "lognormal"):
        rule = "must be given" if p99_ns is None else "must be absent"
        got = "nothing" if p99_ns is None else DURATION.format(p99_ns)
        raise ValueError(f'{key}_p99: {rule} where the spread is "{spread}", got {got}')
    if file is not None:
        if mean_ns:
            raise ValueError(
                f"{key}: must be absent where {key}_file is given, got {DURATION.format(mean_ns)}"
            )
        return Law("samples", samples_ns=read_samples(f"{key}_file", file))
    if p99_ns is not None and not mean_ns < p99_ns <= P99_BY_MEAN_MAX * mean_ns:
        raise ValueError(
            f"{key}_p99: must be above the mean ({DURATION.format(mean_ns)}) and at most "
            f"{P99_BY_MEAN_MAX:g} times it, beyond which draws lack the tail, "
            f"got {DURATION.format(p99_ns)}"
        )
    return Law(spread, mean_ns, p99_ns or 0)


def read_samples(key: str, path: str) -> tuple[int, ...]:
    """Return the times in a file, one a line with its unit; # begins a comment.

    Raises
    ------
    ValueError
        With key, file, line, rule and value.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"{key}: {path} cannot be read ({reason})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{key}: {path} must be a text file in UTF-8") from None
    found = []
    for number, line in enumerate(lines, start=1):
        text = line.split("#", 1)[0].strip()
        if not text:
            continue
        try:
            value = parse_duration_ns(text)
        except QuantityError as error:
            raise ValueError(f"{key}: {path} line {number}: {error}") from None
        if value > LONGEST_NS:
            raise ValueError(f"{key}: {path} line {number}: must be at most 1 h, got {text}")
        found.append(value)
    if not 1 <= len(found) <= SAMPLES_MAX:
        raise ValueError(f"{key}: {path} must have 1 to {SAMPLES_MAX} times, got {len(found)}")
    return tuple(found)
