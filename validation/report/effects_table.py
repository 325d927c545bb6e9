"""The list of effects as a table of a report."""

from __future__ import annotations

from collections.abc import Sequence

from .effects import Change, Effect
from .tables import DASH, TextTable


def effects_table(effects: Sequence[Effect]) -> TextTable:
    """Return the effects, where each is in the model, and what it was worth on both targets."""
    rows = [
        (
            e.id,
            e.what,
            e.where,
            e.found_by,
            _change(e.noise_free),
            e.noise_free.verdict,
            _change(e.hardware) if e.hardware else e.untried or DASH,
            e.hardware.verdict if e.hardware else DASH,
        )
        for e in effects
    ]
    note = (
        "Absolute errors of the forecasts without and with the effect in the model, nothing else "
        "changed."
    )
    columns = ("effect", "what the kernel does", "in the model", "found by", "without noise", "",
               "on hardware", "")  # fmt: skip
    return TextTable("Effects found on the shipped targets", note, columns, rows, n_text=8)


def short_effects_table(effects: Sequence[Effect]) -> TextTable:
    """Return what each effect was worth, without the sentences that a terminal has no room for."""
    rows = [
        (
            e.id,
            _short(e.noise_free),
            e.noise_free.verdict,
            _short(e.hardware),
            e.hardware.verdict if e.hardware else DASH,
        )
        for e in effects
    ]
    note = "Absolute errors without and with the effect in the model; the page says which."
    columns = ("effect", "without noise", "", "on hardware", "")
    return TextTable("Effects found on the shipped targets", note, columns, rows, n_text=5)


def _short(change: Change | None) -> str:
    return DASH if change is None else f"{change.before:.1%} → {change.after:.1%}"


def _change(change: Change) -> str:
    return f"{change.statistic} {change.figure} {change.before:.1%} → {change.after:.1%}"
