"""Rows and runs that need no simulation, or hardly any."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.store import Record, Run
from dispatchsim.store.fragments import export

PROFILE: Profile = example_profile()


def record(number: int, **figures: float) -> Record:
    """Return the row of that *number*: equal numbers, equal rows."""
    return Record(
        address=hashlib.sha256(str(number).encode()).hexdigest(),
        seed=number,
        draw=None if number % 2 else number,
        mechanism=("poll", "epoll_level")[number % 2],
        profile="made-up",
        scenario=f'{{"idle":{{"connections":{number}}}}}',
        verdict="stable",
        figures={"p99_answered_ns": 1000.0 / (number + 3), "p99_ns": math.inf, **figures},
    )


def scenario(rate_per_s: float = 2000, *, duration: str = "40 ms", **server: Any) -> Scenario:
    """Return a small scenario."""
    return Scenario.of(
        server={"mechanism": "epoll_level", **server},
        load={"loop": "open", "rate": f"{rate_per_s}/s"},
        run={"duration": duration, "warm_up": "10 ms"},
    )


def runs(n: int, *, rates_per_s: tuple[float, ...] = (1000, 2000, 4000)) -> list[Run]:
    """Return *n* small runs at each rate."""
    scenarios = [scenario(rate) for rate in rates_per_s]
    return [Run(each, PROFILE, seed) for each in scenarios for seed in range(n)]


def sweep() -> list[Run]:
    """Return runs that take some seconds together: long enough to be killed in their middle."""
    scenarios = [scenario(rate, duration="2 s") for rate in (12_000, 16_000, 20_000)]
    return [Run(each, PROFILE, seed) for each in scenarios for seed in range(24)]


def exported(records: list[Record], folder: Path) -> list[bytes]:
    """Return the bytes that *records* are exported as, in each of the ways."""
    paths = [folder / f"exported{suffix}" for suffix in (".parquet", ".csv", ".json")]
    for path in paths:
        export(records, path)
    return [path.read_bytes() for path in paths]
