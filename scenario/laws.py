"""Distributions in a scenario file: a mean and a spread, or a file of samples.

server.request_cpu = "1 ms"              server.request_cpu_spread = "lognormal"
server.request_cpu_p99 = "5 ms"          server.request_cpu_file = "measured.txt"
load.requests = 8                        load.requests_spread = "geometric"
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from ..sim.state.laws import P99_BY_MEAN_MAX, Counts, Law
from .quantities import DURATION, QuantityError, parse_duration_ns, shown

Numbers = Literal["constant", "geometric", "samples"]
NUMBER_MAX = 100_000
"""Largest number of requests on a connection."""
Spread = Literal["constant", "exponential", "lognormal", "samples"]
SAMPLES_MAX = 1_000_000
LONGEST_NS = 3_600 * 10**9


def law_of(
    key: str,
    mean_ns: int,
    spread: Spread,
    p99_ns: int | None,
    file: str | None,
    *,
    mean_key: str = "",
    spread_key: str = "",
) -> Law:
    """Return the law of the keys that begin with *key*.

    The mean is called *key* and the spread *key* with "_spread", unless another name is given.

    Raises
    ------
    ValueError
        With key, rule and value, where they do not go together or the file cannot be read.
    """
    mean_key, spread_key = mean_key or key, spread_key or f"{key}_spread"
    _check_file(f"{key}_file", file, spread_key, spread)
    if (p99_ns is not None) != (spread == "lognormal"):
        rule = "must be given" if p99_ns is None else "must be absent"
        got = "nothing" if p99_ns is None else DURATION.format(p99_ns)
        raise ValueError(f'{key}_p99: {rule} where {spread_key} is "{spread}", got {got}')
    if file is not None:
        if mean_ns:
            raise ValueError(
                f"{mean_key}: must be absent where {key}_file is given, "
                f"got {DURATION.format(mean_ns)}"
            )
        return Law("samples", samples_ns=_read(f"{key}_file", file, _duration_ns, "times"))
    if p99_ns is not None and mean_ns == 0:
        raise ValueError(f'{mean_key}: must be above 0 s where {spread_key} is "{spread}", got 0 s')
    if p99_ns is not None and not mean_ns < p99_ns <= P99_BY_MEAN_MAX * mean_ns:
        raise ValueError(
            f"{key}_p99: must be above the mean ({DURATION.format(mean_ns)}) and at most "
            f"{P99_BY_MEAN_MAX:g} times it, beyond which samples lack the tail, "
            f"got {DURATION.format(p99_ns)}"
        )
    return Law(spread, mean_ns, p99_ns or 0)


def counts_of(key: str, mean: int | None, spread: Numbers, file: str | None) -> Counts:
    """Return the law of whole numbers of the keys that begin with *key*.

    Raises
    ------
    ValueError
        With key, rule and value, where they do not go together or the file cannot be read.
    """
    _check_file(f"{key}_file", file, f"{key}_spread", spread)
    if file is not None:
        if mean is not None:
            raise ValueError(f"{key}: must be absent where {key}_file is given, got {mean}")
        return Counts("samples", samples=_read(f"{key}_file", file, _number, "numbers"))
    if mean is None and spread == "geometric":
        raise ValueError(f'{key}: is missing, and {key}_spread = "geometric" needs it')
    return Counts(spread, 1 if mean is None else mean)


def _check_file(key: str, file: str | None, spread_key: str, spread: str) -> None:
    """Refuse a *file* of samples with another spread, and a spread of samples without a file."""
    if (file is not None) != (spread == "samples"):
        rule, got = ("must be absent", shown(file)) if file else ("must be given", "nothing")
        raise ValueError(f'{key}: {rule} where {spread_key} is "{spread}", got {got}')


def _duration_ns(text: str) -> int:
    value = parse_duration_ns(text)
    if value > LONGEST_NS:
        raise QuantityError(f"must be at most 1 h, got {text}")
    return value


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:20]) <= NUMBER_MAX):
        raise QuantityError(f"must be a whole number from 1 to {NUMBER_MAX}, got {shown(text)}")
    return int(text)


def _read(key: str, path: str, read: Callable[[str], int], what: str) -> tuple[int, ...]:
    """Return the values in a file, one a line; # begins a comment.

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
            found.append(read(text))
        except QuantityError as error:
            raise ValueError(f"{key}: {path} line {number}: {error}") from None
    if not 1 <= len(found) <= SAMPLES_MAX:
        raise ValueError(f"{key}: {path} must have 1 to {SAMPLES_MAX} {what}, got {len(found)}")
    return tuple(found)
