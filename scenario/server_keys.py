"""The keys of [server] beside the settings that they set: names and values that differ."""

from __future__ import annotations

import json

from ..sim.state.settings import Recovery, Sharing, Threads

KEYS = {
    "listener_last": "listener",
    "sharing": "share",
    "wake_one": "wake",
    "passes_listener": "pass_listener",
    "recovery_array_kept": "recovery_array",
    "array_rebuilt": "array",
    "writes_when_told": "writes",
    "sends_block": "sends",
    "recovery_hands_over": "recovery_thread",
    "overflow_told_last": "overflow_told",
    "stack_bytes": "stack",
    "request_timeout_ns": "request_timeout",
    "timeout_check_ns": "timeout_check",
    "address_space_bytes": "address_space",
    "limiter_gain_permille": "limiter_gain",
    "concurrency_tolerance_permille": "concurrency_tolerance",
}
"""Keys of settings that have another name here."""
SHARING = {
    "nothing": Sharing.NOTHING,
    "accept queue": Sharing.ACCEPT_QUEUE,
    "ready list": Sharing.READY_LIST,
    "handed over": Sharing.HANDED_OVER,
}
THREADS = {
    "pool": Threads.POOL,
    "on demand": Threads.ON_DEMAND,
    "processes": Threads.PROCESSES,
}
RECOVERIES = {
    "nothing": Recovery.NOTHING,
    "poll": Recovery.POLL,
    "poll until calm": Recovery.POLL_UNTIL_CALM,
    "poll for ever": Recovery.POLL_FOR_EVER,
}


def written(value: object) -> str:
    """Return *value* as a scenario file has it: "first", true, 0."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)
