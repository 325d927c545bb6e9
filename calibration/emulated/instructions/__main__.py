"""Profile one operating point on the emulated target: a table for people, or JSON.

As `python -m dispatchsim.calibration.emulated.instructions --mechanism poll --users 64`.
"""

from __future__ import annotations

import argparse
import json
import sys

from ....sim.state.units import SECOND_NS
from ...points.points import MECHANISMS, Point
from ..errors import TargetError
from .instruction_profile import LENGTHS, profile_point
from .table import table_of


def main() -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(prog="instructions", description=__doc__)
    parser.add_argument("--mechanism", choices=MECHANISMS, default="epoll_level")
    parser.add_argument("--idle", type=int, default=0, help="idle connections")
    load = parser.add_mutually_exclusive_group(required=True)
    load.add_argument("--users", type=int, default=0, help="of a closed loop")
    load.add_argument("--rate", type=float, default=0, help="connections a second, open loop")
    parser.add_argument("--think-ns", type=int, default=0, help="of the users, in the mean")
    parser.add_argument("--requests", type=int, default=1, help="of a connection")
    parser.add_argument("--backlog", type=int, default=4096)
    parser.add_argument("--repeat", type=int, default=0)
    parser.add_argument("--window-s", type=float, default=LENGTHS.window_ns / SECOND_NS)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    try:
        point = Point(
            mechanism=options.mechanism,
            idle=options.idle,
            loop="closed" if options.users else "open",
            users=options.users,
            rate_per_s=options.rate,
            think_ns=options.think_ns,
            requests=options.requests,
            backlog=options.backlog,
        )
        lengths = LENGTHS._replace(window_ns=round(options.window_s * SECOND_NS))
        profile = profile_point(point, options.repeat, lengths=lengths)
    except (TargetError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(profile.to_json(), indent=1) if options.json else table_of(profile))
    return 0


if __name__ == "__main__":
    sys.exit(main())
