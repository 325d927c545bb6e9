"""The papers, in the order of their age."""

from __future__ import annotations

from . import chandra_mosberger_2001, mogul_ramakrishnan_1996
from .paper import Paper

PAPERS: dict[str, Paper] = {
    paper.name: paper for paper in (mogul_ramakrishnan_1996.PAPER, chandra_mosberger_2001.PAPER)
}
"""By name."""
