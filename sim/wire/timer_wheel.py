"""When a kernel's timer goes off: at a tick, and the later it is due the coarser.

    due after    63    504   4,032   32,256 ticks
    level     0     1      2       3         4
    in steps  1     8     64     512     4,096 ticks     always the next step, never before its time

So SYNs that were lost within 8 ticks are repeated in the same instant: 1 s is 250 ticks of a kernel
of 250 Hz, and goes off in steps of 32 ms. A queue that overflowed meets them all at once, and the
timer that was set last goes off first: who has waited for long finds the queue full again. Some
microseconds keep that order, less than the kernel takes to send the packets.

Source: Linux kernel/time/timer.c calc_index(), calc_wheel_index(), "The granularity of the wheel",
enqueue_timer() (a timer goes to the head of its list), expire_timers().
"""

from __future__ import annotations

_LEVEL_BITS = 3
_FIRST_LEVEL_END = 63
_ORDER_BITS = 16  # timers set 66 us apart go off a nanosecond apart


def goes_off_ns(now_ns: int, after_ns: int, tick_ns: int) -> int:
    """Return when a timer goes off that is set at *now_ns* for *after_ns*; without ticks (0) then.

    >>> goes_off_ns(0, 1_000_000_000, 4_000_000)
    1024015625
    >>> goes_off_ns(5_000_000, 8_000_000, 4_000_000)
    16000167
    """
    if tick_ns == 0:
        return now_ns + after_ns
    n_ticks = (after_ns + tick_ns - 1) // tick_ns
    shift = 0
    while n_ticks >= _FIRST_LEVEL_END << shift:
        shift += _LEVEL_BITS
    step = ((now_ns // tick_ns + n_ticks) >> shift) + 1
    at_ns = (step << shift) * tick_ns
    return at_ns + ((at_ns - now_ns) >> _ORDER_BITS)
