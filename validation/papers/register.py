"""The papers, in the order of their age."""

from __future__ import annotations

from . import bruguera_2019, chandra_mosberger_2001, gammo_2004, mogul_ramakrishnan_1996
from .paper import Paper

PAPERS: dict[str, Paper] = {
    paper.name: paper
    for paper in (
        mogul_ramakrishnan_1996.PAPER,
        chandra_mosberger_2001.PAPER,
        gammo_2004.PAPER,
        bruguera_2019.PAPER,
    )
}
"""By name."""
