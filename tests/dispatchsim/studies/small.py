"""A scenario that takes a few milliseconds to simulate."""

from __future__ import annotations

from typing import Any

import dispatchsim as ds

RUN = {"duration": "60 ms", "warm_up": "10 ms", "replications": 3}


def scenario(mechanism: str = "poll", **sections: Any) -> ds.Scenario:
    """Return 5000 connections a second for *mechanism*, unless *sections* say else."""
    load = {"loop": "open", "rate": "5000/s"}
    content = {"server": {"mechanism": mechanism}, "load": load, "run": RUN, **sections}
    return ds.Scenario.of(**content)
