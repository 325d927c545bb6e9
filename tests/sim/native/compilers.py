"""What tests of compiled libraries share: a text, and a compiler that counts."""

from __future__ import annotations

from pathlib import Path

ANSWER = '__attribute__((visibility("default"))) int answer(void) { return 42; }\n'


class Compilations:
    """A compiler that works, and how often it was asked to compile."""

    def __init__(self, log: Path) -> None:
        self.log = log

    @property
    def count(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0
