"""Build the sdist and a wheel for each machine, with compiled engines.

    python -m shipping [FOLDER] [--program NAME]... [--machine NAME]...

FOLDER is `dist` in the repository by default. Without options, the wheels hold the engines of all
built-in programs for all machines.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from .engines import MACHINES, PLATFORM, compile_all, sources, target
from .wheel_file import build, with_engines

_REPOSITORY = Path(__file__).parents[1]


def main() -> None:
    """Build the sdist and the wheels, and print their names and sizes."""
    parser = argparse.ArgumentParser(prog="shipping", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, default=_REPOSITORY / "dist")
    parser.add_argument("--program", action="append", default=[], help="e.g. epoll_level")
    parser.add_argument("--machine", action="append", choices=MACHINES)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    machines = asked.machine or MACHINES
    with tempfile.TemporaryDirectory(prefix="dispatchsim-wheels-") as name:
        work = Path(name)
        print("translating the models to C", flush=True)
        made = list(sources(asked.program))
        print(f"compiling {len(made)} engines for {', '.join(machines)}", flush=True)
        targets = [target(machine) for machine in machines]
        compiled = compile_all(made, targets, work / "engines", _print_progress)
        print("building the wheels", flush=True)
        sdist, pure = build(_REPOSITORY, work)
        built = [sdist]
        for machine in machines:
            engines = [path for path in compiled if path.parent.name == machine]
            built.append(with_engines(pure, engines, machine, PLATFORM, work))
        for path in built:
            shutil.copyfile(path, asked.folder / path.name)
            print(f"{path.stat().st_size / 1e6:6.1f} MB  {asked.folder / path.name}")


def _print_progress(n_done: int, n_all: int, library: Path) -> None:
    print(f"{n_done} of {n_all}: {library.parent.name}/{library.name}", flush=True)


if __name__ == "__main__":
    main()
