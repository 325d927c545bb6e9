"""Random programs do in C what they do in CPython; `make fuzz-translator N=1000` runs more."""

from __future__ import annotations

import os
import secrets
import shutil

import pytest
from tests.sim.engine.c.differences import UNDEFINED, search

N = int(os.environ.get("FUZZ_PROGRAMS", "60"))
SEED = int(os.environ.get("FUZZ_SEED") or (0 if "CI" in os.environ else secrets.randbits(32)))


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [("gcc", ("-O2",)), ("clang", ("-O2",)), ("gcc", ("-O1", *UNDEFINED))],
    ids=["gcc", "clang", "undefined behaviour ends the process"],
)
def test_random_programs_agree(compiler: str, flags: tuple[str, ...]) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    print(f"\n{compiler} {' '.join(flags)}: {N} programs, seed {SEED}")
    n = search(
        N,
        SEED,
        progress=lambda n: print(f"  {n} of {N}", flush=True),
        compiler=compiler,
        flags=flags,
    )
    assert n > N  # calls whose numbers fit 64 bits
