"""Times of packets and calls from a trace of the kernel, and their table."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dispatchsim.calibration.measure.packet_times import (
    StepTimes,
    durations_us,
    mean_us,
    packet_times_table,
)
from dispatchsim.calibration.testbed.kernel_trace import kernel_trace, parsed
from dispatchsim.calibration.testbed.processes import RunError

TRACE = """\
# tracer: nop
          server-6368    [000] ..s1.   773.000000: netif_receive_skb: dev=ds1s skbaddr=00 len=60
          server-6368    [000] ..s1.   773.000004: net_dev_xmit: dev=ds1s skbaddr=00 len=74 rc=0
            load-6370    [001] ..s1.   773.000005: netif_receive_skb: dev=ds1s skbaddr=00 len=52
          server-6368    [000] ..s1.   773.000010: netif_receive_skb: dev=ds1s skbaddr=00 len=52
          server-6368    [000] ..s1.   773.000016: netif_receive_skb: dev=ds1s skbaddr=00 len=116
          server-6368    [000] ..s1.   773.000018: net_dev_xmit: dev=ds1s skbaddr=00 len=66 rc=0
          server-6368    [000] .....   773.000020: sys_accept4(fd: 3, upeer_sockaddr: 0)
          server-6368    [000] .....   773.000023: sys_accept4 -> 0x5
          server-6368    [000] .....   773.000024: sys_accept4(fd: 3, upeer_sockaddr: 0)
          server-6368    [000] .....   773.000025: sys_accept4 -> 0xfffffffffffffff5
          server-6368    [000] .....   773.000030: sys_writev(fd: 5, vec: 7ffc, vlen: 2)
          server-6368    [000] .....   773.000037: sys_writev -> 0x80
          server-6368    [000] .....   773.000040: sys_close(fd: 5)
          server-6368    [000] d.h..   773.000050: call_function_single_entry: vector=251
          server-6368    [000] .....   773.000090: sys_close -> 0x0
"""


def test_steps_are_timed_on_one_cpu_without_failed_and_interrupted_calls() -> None:
    found = durations_us(parsed(TRACE), 0)
    expected = {
        "SYN, until the SYN-ACK leaves": [4],
        "acknowledgement, until the request behind it": [6],
        "request, until its acknowledgement leaves": [2],
        "accept": [3],
        "write": [7],
    }
    assert found.keys() == expected.keys()
    for step, durations in expected.items():
        assert found[step] == pytest.approx(durations, abs=0.01)
    assert durations_us(parsed(TRACE), 1) == {}


def test_the_mean_leaves_out_a_tenth_at_each_end_and_needs_twenty() -> None:
    assert mean_us([1.0] * 18 + [500.0, 0.0]) == 1
    assert math.isnan(mean_us([1.0] * 19))


def test_the_table_has_the_median_of_rounds_and_a_dash_for_none() -> None:
    nan = float("nan")
    times = [
        StepTimes("accept", {"bench": [3.0, 5.0, 4.0], "64 users": [nan, 7.0, nan]}),
        StepTimes("read", {"bench": [nan], "64 users": [1.0]}),
    ]
    table = packet_times_table(times)
    assert table.rows == [
        ("accept", "4.0 (3.0 ... 5.0)", "7.0 (7.0 ... 7.0)"),
        ("read", "–", "1.0 (1.0 ... 1.0)"),  # noqa: RUF001
    ]


def test_a_kernel_that_cannot_be_traced_is_named_with_the_way_on(tmp_path: Path) -> None:
    with (
        pytest.raises(RunError, match=r"the kernel cannot be traced: .*mount -t tracefs"),
        kernel_trace(["irq/softirq_entry"], tracing=tmp_path / "none"),
    ):
        pass
