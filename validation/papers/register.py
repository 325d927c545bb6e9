"""The papers, in the order of their age."""

from __future__ import annotations

from . import chandra_mosberger_2001
from .paper import Paper

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (chandra_mosberger_2001.PAPER,)}
"""By name."""
