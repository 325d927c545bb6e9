"""The C in the page about the translator is what the translator makes of the Python above it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.sim.engine.c.translated import functions_c

from dispatchsim.sim.engine.c.layout import record_type
from dispatchsim.sim.engine.c.shapes import Records

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "how-a-model-becomes-c.md"


@dataclass
class Worker:
    n_events: int = 0


@dataclass
class World:
    ready: NDArray[np.int64] = field(default_factory=lambda: np.zeros(4, np.int64))
    workers: list[Worker] = field(default_factory=lambda: [Worker()])


def block(language: str) -> str:
    """Return the first block of *language* in the page."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert found is not None
    return found[1]


def test_the_example_is_what_the_translator_makes(tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(block("python"))
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), file, "exec"), names)
    world = record_type(World())
    workers = world.member("workers")
    assert isinstance(workers, Records)
    text, _ = functions_c([(names["take"], [world, workers.record])], world)
    function = text[text.index("static int64_t f_take") :]
    lines = [line for line in function.splitlines() if not line.startswith("#line")]
    assert " ".join(lines).split() == block("c").split()
