"""A real boot: what the guest prints, and that it prints the same twice."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from dispatchsim.calibration.emulated.guest_image import init_program, server_program
from dispatchsim.calibration.emulated.guest_run import (
    COUNTERS_PATH,
    SERVER_ADDRESS,
    GuestOutput,
    Job,
    MacroLoad,
    macro_job,
    run_guest,
)
from dispatchsim.calibration.emulated.kernel_build import WIRE_FOLDER, Kernel, build_module
from dispatchsim.calibration.emulated.kernel_source import GuestError, TargetMissingError

N_CONNECTIONS = 20
GAP_NS = 200_000
SERVER_OPTIONS = (
    "--mechanism", "epoll_level", "--address", SERVER_ADDRESS, "--port", "8080",
    "--counters", COUNTERS_PATH,
)  # fmt: skip


def boot(job: Job, target_kernel: Kernel) -> GuestOutput:
    return run_guest(job, kernel=target_kernel, init=init_program())


def test_a_program_runs_in_a_guest(target_kernel: Kernel) -> None:
    output = boot(Job("exec", server_program(), ("--list",)), target_kernel)
    assert {"select", "poll", "epoll_level"} <= set(output.text("stdout").split())
    begin_ns, end_ns = struct.unpack("<2q", output.frames["clock"])
    assert 0 < begin_ns < end_ns < 1_000_000_000


def test_a_job_that_fails_says_why(target_kernel: Kernel) -> None:
    with pytest.raises(GuestError, match=r"the job failed: .*unknown option"):
        boot(Job("exec", server_program(), ("--nonsense",)), target_kernel)


def test_a_small_load_is_served_and_repeats_exactly(target_kernel: Kernel) -> None:
    rows = "".join(f"{GAP_NS * i} 1 64 128 0\n" for i in range(N_CONNECTIONS))
    header = f"# dispatchsim trace 1\nloop open\nusers 0\nconnections {N_CONNECTIONS}\n"
    load = MacroLoad(
        trace=(header + rows).encode(),
        records_max=N_CONNECTIONS,
        warm_up_ns=GAP_NS * N_CONNECTIONS // 2,
        window_ns=GAP_NS * N_CONNECTIONS // 2,
        after_ns=GAP_NS,
        idle=10,
    )
    job = macro_job(
        server_program(), SERVER_OPTIONS, load, (build_module(WIRE_FOLDER, target_kernel),)
    )
    first, second = boot(job, target_kernel), boot(job, target_kernel)
    records = list(struct.iter_unpack("<5q", first.frames["records"]))
    assert [record[0] for record in records] == [GAP_NS * i for i in range(N_CONNECTIONS)]
    assert {record[4] for record in records} == {0}
    # The clock of the times is the guest's own: it, too, repeats.
    assert first.frames == second.frames


def test_programs_for_guests_hold_no_path() -> None:
    try:
        content = server_program().read_bytes()
    except TargetMissingError as missing:
        pytest.skip(str(missing))
    assert str(Path(__file__).parents[3]).encode() not in content
