"""The store of results: one row a replication, addressed by what decides it.

Run ── address_of ──► in the store? ─┬─ yes ─► Record
└─ no ──► simulate_all ─► Record, kept at once
"""

from __future__ import annotations

from .records import Record, Run, address_of
from .store import Quarantined, Store
from .work import Progress, simulate_all

__all__ = [
    "Progress",
    "Quarantined",
    "Record",
    "Run",
    "Store",
    "address_of",
    "simulate_all",
]
