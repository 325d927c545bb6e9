"""The store of results: one row per replication, addressed by its inputs.

Run ── address_of ──► in the store? ─┬─ yes ─► Record
└─ no ──► simulate_all ─► Record, stored at once
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .records import Record, Run, address_of
from .work import Progress, simulate_all

if TYPE_CHECKING:
    from .store import Quarantined, Store

__all__ = [
    "Progress",
    "Quarantined",
    "Record",
    "Run",
    "Store",
    "address_of",
    "simulate_all",
]


def __getattr__(name: str) -> Any:
    # The Parquet library is imported only when a store is opened.
    if name in ("Quarantined", "Store"):
        from . import store

        return getattr(store, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
