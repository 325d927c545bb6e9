"""What a nice value makes of a thread's share of a CPU that others want, too.

Source: Linux kernel/sched/core.c, sched_prio_to_weight: a step is a factor of about 1.25.
"""

from __future__ import annotations

NICE_MIN, NICE_MAX = -20, 19
_WEIGHTS = (
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
)  # fmt: skip


def weight_of_nice(nice: int) -> int:
    """Return the weight of a thread of that nice value; threads share a CPU by their weights.

    >>> weight_of_nice(0), weight_of_nice(-20), weight_of_nice(19)
    (1024, 88761, 15)
    """
    return _WEIGHTS[nice - NICE_MIN]
