"""`python -m dispatchsim.calibration.period` writes the profiles of the papers' machines anew."""

from __future__ import annotations

import sys

from ..profiles.cost_profile import period_folder
from .machines import MACHINES


def main() -> int:
    """Write every profile, whole or not at all, and say where."""
    for name, machine in MACHINES.items():
        path = period_folder() / f"{name}.toml"
        path.parent.mkdir(exist_ok=True)
        machine.profile().write(path)
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
