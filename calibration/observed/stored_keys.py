"""Servers of keys are given what their clients will ask for, before anybody asks.

Source: preloading.py, which is run on the clients' side.
"""

from __future__ import annotations

import sys

from ..testbed.processes import PRIORITY_HIGHEST, Child, RunError
from ..testbed.testbed import Testbed
from . import preloading
from .observing import Asking

_SECONDS_MAX = 60.0


def store_keys(name: str, port: int, asking: Asking, value_bytes: int, testbed: Testbed) -> None:
    """Store a value of *value_bytes* under each key of *asking* at the server *name*.

    Raises
    ------
    RunError
        If the server does not take it.
    """
    command = testbed.on_client(
        sys.executable, "-I", str(preloading.__file__), asking.protocol, testbed.address,
        str(port), asking.key_prefix, str(asking.keys), str(value_bytes),
    )  # fmt: skip
    with Child("preloading", command, cpu=testbed.client_cpu, priority=PRIORITY_HIGHEST) as child:
        said = child.read_all(timeout_s=_SECONDS_MAX)
    if said != ["done"]:
        why = said[-1] if said else "it does not say why"
        raise RunError(f"{name} does not take the keys that clients will ask for: {why}")
