"""The papers, in the order of their age."""

from __future__ import annotations

from . import (
    bruguera_2019,
    chandra_mosberger_2001,
    gammo_2004,
    mogul_ramakrishnan_1996,
    provos_lever_2000,
    provos_lever_tweedie_2000,
)
from .paper import Paper

PAPERS: dict[str, Paper] = {
    paper.name: paper
    for paper in (
        mogul_ramakrishnan_1996.PAPER,
        provos_lever_2000.PAPER,
        provos_lever_tweedie_2000.PAPER,
        chandra_mosberger_2001.PAPER,
        gammo_2004.PAPER,
        bruguera_2019.PAPER,
    )
}
"""By name."""
