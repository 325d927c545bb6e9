"""What a scenario file says of kernels, floods and faults, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dispatchsim.calibration.profiles.choosing import find_profile
from dispatchsim.calibration.running.preparation import job_of, profile_of, run_job, warnings_of
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.kernel_settings import Packets
from dispatchsim.sim.state.settings import Fault, FaultKind, FloodSettings


def scenario(**sections: Any) -> Scenario:
    given = {
        "server": {"mechanism": "epoll_level"},
        "load": {"loop": "open", "rate": "1000/s"},
        "run": {"duration": "100 ms", "warm_up": "10 ms"},
    }
    return Scenario.of(**given | sections)


def test_floods_and_faults_become_settings() -> None:
    run = settings_of(
        scenario(
            server={"mechanism": "rt_signals"},
            flood={"rate": "20000/s", "burst": 4, "at": "1 ms", "length": "2 ms"},
            fault=[
                {"kind": "stall", "at": "5 ms", "length": "1 ms"},
                {"kind": "link", "at": "6 ms", "length": "2 ms", "bandwidth": "1 Mbit/s"},
                {"kind": "signals", "at": "7 ms", "length": "3 ms", "signals": 12},
                {"kind": "stops reading", "at": "8 ms", "length": "4 ms", "share": 0.3},
            ],
            machine={
                "packets": "polling",
                "polling_share": 0.3,
                "receive_queue": 7,
                "busy_processes": 2,
                "wake_preemption": True,
            },
        ),
        0,
        1,
    )
    assert run.flood == FloodSettings(200_000, 4, True, 1_000_000, 3_000_000)
    assert run.faults == (
        Fault(int(FaultKind.STALL), 5_000_000, 1_000_000, 0),
        Fault(int(FaultKind.LINK), 6_000_000, 2_000_000, 1_000_000),
        Fault(int(FaultKind.SIGNALS), 7_000_000, 3_000_000, 12),
        Fault(int(FaultKind.READING), 8_000_000, 4_000_000, 300),
    )
    kernel, machine = run.kernel, run.machine
    assert (kernel.packets, kernel.polling_share_permille) == (Packets.POLLING, 300)
    assert (kernel.receive_queue, machine.busy_processes, kernel.wake_preemption) == (7, 2, True)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"fault": [{"kind": "stall", "at": "100 ms", "length": "1 s"}]},
            "fault 1.at: must be before the end of the run (run.duration, 100 ms), got 100 ms",
        ),
        (
            {"flood": {"rate": "1/s", "at": "1 s"}},
            "flood.at: must be before the end of the run (run.duration, 100 ms), got 1 s",
        ),
        (
            {"fault": {"kind": "stall"}},
            "fault: must be sections [[fault]], got one section",
        ),
        ({"machine": {"busy_nice": 3}}, "machine.busy_nice: must be absent unless"),
        (
            {"machine": {"files": 20, "files_elsewhere": 15}},
            "machine.files: must be at least 23 (0 open connections, the server's own, "
            "machine.files_elsewhere), got 20",
        ),
        (
            {"machine": {"memory": "1 KiB"}},
            "machine.memory: must hold a connection of machine.connection_memory (16 KiB), "
            "got 1 KiB",
        ),
        ({"flood": {"burst": 2}}, "flood.rate: is missing, and flood.burst needs it"),
        (
            {"flood": {"rate": "10000000/s"}, "run": {"duration": "10 s"}},
            "flood.rate: must give at most 20000000 bursts in a run of 10 s, got 100000000",
        ),
        (
            {"fault": [{"kind": "link", "at": "1 ms", "length": "1 s"}]},
            'fault 1.bandwidth: is missing, and fault 1.kind = "link" needs it',
        ),
        (
            {"fault": [{"kind": "stall", "at": "1 ms", "length": "1 s", "signals": 3}]},
            'fault 1.signals: must be absent where fault 1.kind is "stall", got 3',
        ),
        (
            {"fault": [{"kind": "stall", "at": "1 ms", "length": "1 s", "cpu": 1}]},
            "fault 1.cpu: must be one of the 1 of machine.cpus (from 0), got 1",
        ),
        (
            {
                "fault": [
                    {"kind": "stall", "at": "1 ms", "length": "1 s"},
                    {"kind": "link", "at": "1 ms", "length": "1 s"},
                ]
            },
            'fault 2.bandwidth: is missing, and fault 2.kind = "link" needs it',
        ),
        (
            {
                "fault": [
                    {"kind": "stall", "at": "1 ms", "length": "1 s"},
                    {"kind": "stall", "at": "1 ms", "length": "1 s", "cpu": 1},
                ]
            },
            "fault 2.cpu: must be one of the 1 of machine.cpus (from 0), got 1",
        ),
        ({"fault": [{"kind": "stall", "length": "1 s"}]}, "fault 1.at: is missing"),
        (
            {"fault": [{"kind": "signals", "at": "1 ms", "length": "1 s", "signals": 3}]},
            'fault.kind: must not be "signals" with a mechanism that queues no signals, '
            'got server.mechanism = "epoll_level"',
        ),
        (
            {"fault": [{"kind": "stall", "at": "1 s", "lenght": "1 s"}]},
            'fault 1.lenght: unknown key (did you mean "length"?)',
        ),
        (
            {"fault": [{"kind": "fire", "at": "1 ms", "length": "1 s"}]},
            'fault 1.kind: must be "stall", "link", "signals" or "stops reading", got "fire"',
        ),
        (
            {"fault": [{"kind": "stops reading", "at": "1 ms", "length": "1 s"}]},
            'fault 1.share: is missing, and fault 1.kind = "stops reading" needs it',
        ),
        (
            {"fault": [{"kind": "stops reading", "at": "1 ms", "length": "1 s", "share": 0}]},
            "fault 1.share: must be above 0, got 0",
        ),
        (
            {"fault": [{"kind": "stops reading", "at": "1 ms", "length": "1 s", "share": 1.5}]},
            "fault 1.share: must be at most 1, got 1.5",
        ),
        (
            {"fault": [{"kind": "stall", "at": "1 ms", "length": "1 s", "share": 0.5}]},
            'fault 1.share: must be absent where fault 1.kind is "stall", got 0.5',
        ),
        (
            {
                "machine": {"role": "client"},
                "fault": [{"kind": "stops reading", "at": "1 ms", "length": "1 s", "share": 0.5}],
            },
            'fault 1.kind: must not be "stops reading" where machine.role is "client"',
        ),
        (
            {"machine": {"softirq_budget": 3, "packets": "polling"}},
            'machine.softirq_budget: must be absent where machine.packets is "polling", got 3',
        ),
        (
            {"machine": {"coalesce": "20 us", "packets": "interrupts"}},
            'machine.coalesce: must be absent where machine.packets is "interrupts", got 20 us',
        ),
        (
            {"machine": {"receive_queue": 3, "softirq_budget": 0}},
            'machine.receive_queue: must be absent where machine.packets is "softirq", '
            "machine.softirq_budget is 0 and machine.coalesce is 0 s, got 3",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(
    sections: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        scenario(**sections)
    assert message in str(error.value)


def test_a_device_may_wait_for_packets_that_come_together() -> None:
    flood = {"rate": "50000/s"}
    plain, waits = (
        scenario(flood=flood, machine=machine) for machine in ({}, {"coalesce": "200 us"})
    )
    assert settings_of(waits, 0, 1).kernel.coalesce_ns == 200_000
    interrupts = [
        run_job(job_of(each, profile_of(each), 1)).summary.calls["interrupts"]
        for each in (plain, waits)
    ]
    assert 0 < 5 * interrupts[1] < interrupts[0]


def test_a_flood_is_priced_and_its_stand_in_is_said() -> None:
    flooded = scenario(flood={"rate": "20000/s"})
    profile = profile_of(flooded)
    job = job_of(flooded, profile, 1)
    assert job.costs.interrupt.datagram_ns == job.costs.interrupt.ack_ns > 0
    assert any("datagram" in warning for warning in warnings_of(flooded, profile))
    assert run_job(job).summary.calls["datagrams"] > 1_000
    assert not any("datagram" in warning for warning in warnings_of(scenario(), profile))
    measured = find_profile("epyc-family25-2cpu-linux-6.18")
    assert not any("datagram" in warning for warning in warnings_of(flooded, measured))
    prices = job_of(flooded, measured, 1).costs.interrupt
    assert 0 < prices.datagram_ns < prices.datagram_entry_ns
