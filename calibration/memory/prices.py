"""The kernel's memory for each connection, watched descriptor, signal and thread, in bytes.

    calibration/c/memory ──► JSON: median, minimum and maximum of some repetitions
                              │
    linux-<release>.json ◄── keep ──► the defaults of sim/state/memory_settings.py

A question that a kernel forbids (few descriptors, few signals) is no failure: its cost is "not
asked", with the reason.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...sim.files.tables import Column, Table
from ...sim.state.memory_settings import MemorySettings
from ...sim.state.setting import declared
from ..records.kernel_files import read_kept, write_kept
from ..testbed.c_build import build
from ..testbed.machine_facts import machine_facts, now_text

FOLDER = Path(__file__).parent
_FORMAT = "dispatchsim-memory/1"
_SECONDS_MAX = 900
_FACTS = ("kernel", "cpu_model", "cpu_count")
_POLLFD_BYTES = 8
SLABINFO = Path("/proc/slabinfo")
"""Without it, memory that other programs allocate counts, too (calibration/c/memory/memory.h)."""
ITEMS = {
    "half_open": ("half_open_bytes", "a half-open connection"),
    "queued": ("queued_bytes", "a connection that waits to be accepted"),
    "socket": ("socket_bytes", "a socket with its descriptor"),
    "accepted": ("", "of a socket: the part that accept adds"),
    "time_wait": ("time_wait_bytes", "a connection in TIME_WAIT"),
    "request": ("request_bytes", "64 bytes in a receive buffer"),
    "reply_kib": ("reply_kib_bytes", "a KiB in a send buffer"),
    "epoll": ("epoll_bytes", "a descriptor in an epoll set"),
    "poll": ("poll_bytes", "a descriptor in a poll, without the caller's array"),
    "select": ("select_bytes", "a descriptor in a select"),
    "armed": ("armed_bytes", "a descriptor that signals its events"),
    "signal": ("signal_bytes", "a queued signal"),
    "thread": ("thread_bytes", "a thread that sleeps"),
}
"""The items that the bench opens: the setting for the cost of each, and its description."""


class Price(NamedTuple):
    """Bytes of an item: median, minimum and maximum of its repetitions; or why not asked."""

    bytes: float = 0.0
    least: float = 0.0
    most: float = 0.0
    not_asked: str = ""


Prices = Mapping[str, Price]


def ask(items: int, repetitions: int, program: Path | None = None) -> Prices:
    """Return the memory that this machine's kernel uses for each item; *items* are opened.

    Raises
    ------
    ValueError
        If the bench cannot be built, or fails.
    """
    path = program or Path(build().path("memory"))
    command = [str(path), "--items", str(items), "--repetitions", str(repetitions)]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"the bench took longer than {_SECONDS_MAX} s") from None
    errors = ended.stderr.strip().splitlines()
    if ended.returncode != 0:
        raise ValueError(errors[-1] if errors else f"the bench ended with {ended.returncode}")
    return read_prices(json.loads(ended.stdout), errors[-1] if errors else "")


def read_prices(found: Mapping[str, Any], error: str = "") -> Prices:
    """Return the costs of items in the output of the bench or in a kept file.

    *error* is the last error of the bench: the reason of an item that has none of its own.
    """
    prices = {name: Price(**each) for name, each in found.items()}
    if error:
        return {n: p._replace(not_asked=error) if p.not_asked else p for n, p in prices.items()}
    return prices


def settings_of_prices(prices: Prices) -> MemorySettings:
    """Return settings with the costs of *prices*; an item that was not asked has its default."""
    values = {
        field: round(prices[name].bytes + (_POLLFD_BYTES if name == "poll" else 0))
        for name, (field, _) in ITEMS.items()
        if field and name in prices and not prices[name].not_asked
    }
    return MemorySettings(**values)


def keys_of_prices(prices: Prices) -> str:
    """Return lines for the section [machine] of a scenario file."""
    settings = settings_of_prices(prices)
    lines = (
        f'{each.key} = "{getattr(settings, each.name)} B"' for each in declared(MemorySettings)
    )
    return "\n".join(("[machine]", *lines))


def prices_table(prices: Prices) -> Table:
    """Return the table of *prices*."""

    def text(value: float, name: str) -> str:
        return "not asked" if prices[name].not_asked else f"{value:,.1f}"

    columns = [
        Column[str]("", lambda name: ITEMS[name][1], words=True),
        Column[str]("bytes", lambda name: text(prices[name].bytes, name)),
        Column[str]("least", lambda name: text(prices[name].least, name)),
        Column[str]("most", lambda name: text(prices[name].most, name)),
    ]
    return Table.of("kernel memory per item", [n for n in ITEMS if n in prices], columns)


def keep(prices: Prices, items: int, repetitions: int, folder: Path = FOLDER) -> Path:
    """Write *prices* of this machine into *folder*; return the file."""
    facts = machine_facts()
    content = {
        "format": _FORMAT,
        "date": now_text(),
        "command": "dispatchsim lab memory-costs --keep",
        **{name: facts[name] for name in _FACTS},
        "items": items,
        "repetitions": repetitions,
        "bytes_each": {name: _written(prices[name]) for name in ITEMS if name in prices},
    }
    return write_kept(folder, str(facts["kernel"]), content)


def _written(price: Price) -> dict[str, Any]:
    if price.not_asked:
        return {"not_asked": price.not_asked}
    return {"bytes": price.bytes, "least": price.least, "most": price.most}


def kept_prices(path: Path) -> Prices:
    """Return the costs in *path*.

    Raises
    ------
    ValueError
        If it is not such a file.
    """
    return read_prices(read_kept(path, _FORMAT)["bytes_each"])
