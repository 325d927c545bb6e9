"""Follow one connection through the files: `python -P tests/walk.py`.

One client connects to a server with epoll_level on the reference engine, has one reply and leaves:
once with clients that cost nothing and leave by a reset, once with clients that have a CPU, a link
with a delay, and FINs. Prints the functions of `sim/` and `models/` in the order of their first
call, by folder, and how often each folder is entered. A folder that is entered for two trades
should be two.
"""

from __future__ import annotations

import itertools
import sys
import types
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

# Some installed packages bring a package of this name: this folder is meant, as under pytest.
sys.modules["tests"] = types.ModuleType("tests")
sys.modules["tests"].__path__ = [str(Path(__file__).parent)]

from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import prepare_world, program_of
from dispatchsim.sim.engine.reference import ReferenceRun
from dispatchsim.sim.state.client_settings import ClientSettings, Closing, NetworkSettings
from dispatchsim.sim.state.costs import NO_CLIENT
from dispatchsim.sim.state.settings import RunSettings

ROOT = Path(__file__).parents[1]
MECHANISM = "epoll_level"
DUE_NS, DURATION_NS = 10_000, 2_000_000


class Call(NamedTuple):
    """A function that was entered: its folder and file below the root, and its name."""

    folder: str
    file: str
    function: str


def walk(costs: Any, run: RunSettings) -> list[Call]:
    """Return the calls of functions in `sim/` and `models/` while one connection is served."""
    program = program_of(MECHANISM)
    trace = arrivals(DUE_NS)
    world = prepare_world(program, trace, costs, run)
    reference = ReferenceRun(program, world, duration_ns=run.duration_ns)
    calls: list[Call] = []
    begun: set[FrameType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        """Note a function that is entered."""
        del argument
        code = frame.f_code
        path = Path(code.co_filename)
        if event != "call" or frame in begun or not path.is_relative_to(ROOT):
            return
        begun.add(frame)  # a generator is entered once, and goes on many times
        parts = path.relative_to(ROOT).parts
        if parts[0] in ("sim", "models"):
            calls.append(Call("/".join(parts[:-1]), parts[-1], code.co_name))

    sys.setprofile(note)
    try:
        reference.run()
    finally:
        sys.setprofile(None)
    return calls


def report(title: str, calls: list[Call]) -> None:
    """Print the functions by folder, in the order of their first calls."""
    files = {(call.folder, call.file) for call in calls}
    functions = set(calls)
    print(f"{title}: {len(calls)} calls of {len(functions)} functions in {len(files)} files")
    seen: set[Call] = set()
    names: dict[str, list[str]] = {}
    for folder, together in itertools.groupby(calls, key=lambda call: call.folder):
        new = [call for call in dict.fromkeys(together) if call not in seen]
        seen.update(new)
        if new and folder not in names:
            _print(names)
            names.clear()
        names.setdefault(folder, []).extend(f"{c.file[:-3]}.{c.function}" for c in new)
    _print(names)
    entered = Counter(folder for folder, _ in itertools.groupby(call.folder for call in calls))
    print("  folders entered:", ", ".join(f"{name} {n}" for name, n in entered.most_common()))


def _print(names: dict[str, list[str]]) -> None:
    for folder, functions in names.items():
        if functions:
            print(f"    {folder}: {', '.join(functions)}")


def main() -> None:
    """Print both walks."""
    free = RunSettings(duration_ns=DURATION_NS, sample_every_ns=0)
    report("clients that cost nothing, a reset", walk(toy_costs(MECHANISM), free))
    client = NO_CLIENT._replace(connect_ns=50, send_ns=40, receive_ns=30, close_ns=20)
    busy = free._replace(
        client=ClientSettings(closing=Closing.FIN), network=NetworkSettings(delay_ns=5_000)
    )
    report("clients with a CPU, a delay, FINs", walk(toy_costs(MECHANISM, client), busy))


if __name__ == "__main__":
    main()
