"""A guest under the profiler: the sum is the clock's, and the guest does not notice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dispatchsim.calibration.emulated.guest_image import build_program, init_program
from dispatchsim.calibration.emulated.guest_run import Job, run_guest
from dispatchsim.calibration.emulated.instructions.call_tree import ACTIVITIES, path_of
from dispatchsim.calibration.emulated.instructions.instruction_profile import (
    FORMAT,
    InstructionProfile,
    profile_point,
    run_profiled,
    table_of,
)
from dispatchsim.calibration.emulated.kernel_build import Kernel
from dispatchsim.calibration.emulated.run_lengths import RunLengths
from dispatchsim.calibration.points.point import point_at

_N_CALLS = 1000  # profiled.c
_CLOCKS_NS = 1_000  # what lies between a clock reading and the marker beside it


@pytest.fixture(scope="module")
def profile(target_kernel: Kernel) -> InstructionProfile:
    point = point_at(mechanism="epoll_level", loop="open", rate_per_s=5_000)
    lengths = RunLengths(warm_up_ns=50_000_000, window_ns=100_000_000)
    return profile_point(point, lengths=lengths, target_kernel=target_kernel)


def test_every_instruction_of_a_window_is_counted_once(target_kernel: Kernel) -> None:
    program = build_program("profiled", [Path(__file__).parent / "profiled.c"])
    job = Job("exec", program)
    output, tree = run_profiled(job, target_kernel)
    plain = run_guest(job, kernel=target_kernel, init=init_program())
    assert output.frames == plain.frames, "the profiler must not be noticed"
    window_ns = int(output.text("stdout"))
    n_instructions = sum(node.n_instructions for node in tree)
    assert window_ns - _CLOCKS_NS < n_instructions < window_ns  # nothing slept in it
    calls = {path_of(tree, index): node for index, node in enumerate(tree)}
    getppid = calls["call", "__x64_sys_getppid", "entry_SYSCALL_64"]
    assert getppid.n_entries == _N_CALLS
    assert getppid.n_instructions % _N_CALLS == 0, "each call is the same"


def test_the_parts_of_a_request_are_where_they_belong(profile: InstructionProfile) -> None:
    ledger, n = profile.ledger, profile.replies
    assert 300 < n < 700
    # Each request is accepted, read, answered, closed; a wait finds one or a few.
    for activity in ("user", "wait", "accept", "read", "write", "close", "watch", "interrupt_idle"):
        assert ledger.activities[activity] > 100 * n, activity
    assert ledger.inclusive["write"]["tcp_sendmsg"] > 1_000 * n
    assert ledger.entries["read"]["tcp_recvmsg"] >= n
    assert ledger.inclusive["interrupt_idle"]["tcp_v4_rcv"] > 3_000 * n
    assert any(name.endswith("[wire]") for name in ledger.functions)
    for none in ("rewatch", "other"):
        assert ledger.activities[none] < 10 * n, none


def test_what_is_counted_beyond_the_busy_time_is_the_way_to_idleness(
    profile: InstructionProfile,
) -> None:
    """The kernel's idle clock runs a little before the halt and after it."""
    n_sleeps = profile.ledger.entries["sleep"]["do_idle"]
    assert 0 < profile.excess < 1_000 * max(n_sleeps, profile.replies)


def test_a_profile_becomes_json_and_a_table(profile: InstructionProfile) -> None:
    data = json.loads(json.dumps(profile.to_json()))
    assert data["format"] == FORMAT
    assert data["point"]["mechanism"] == "epoll_level"
    assert set(data["activities"]) == set(ACTIVITIES)
    per_reply = profile.ledger.n_instructions / profile.replies
    assert sum(data["activities"].values()) == pytest.approx(per_reply)
    assert len(data["functions"]) == 60
    assert f"{profile.replies} replies" in table_of(profile)
