"""Runs that the simulator made and that look as if the emulated target had."""

from __future__ import annotations

from tests.validation.synthetic_runs import SHORT, record_of

from dispatchsim.calibration.points.point import Point
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import RunRecord
from dispatchsim.calibration.running.preparation import run_job
from dispatchsim.sim.state.kinds import Count
from dispatchsim.validation.forecast.forecast import Lengths
from dispatchsim.validation.noise_free.run_forecast import noise_free_job

_SERVER_COUNTERS = [count.name.lower() for count in Count if count <= Count.CONNECTIONS_OPEN]


def emulated_run(
    point: Point, profile: Profile, *, repeat: int = 0, lengths: Lengths = SHORT, reason: str = ""
) -> RunRecord:
    """Return the record of a run without noise; with *reason* it was rejected for it."""
    run = noise_free_job(point, point.seed(repeat), lengths, profile)
    summary = run_job(run.job).summary
    record = record_of(summary, point, repeat=repeat, lengths=lengths, reason=reason)
    result = record.result.model_copy(
        update={
            # A server counts its calls and no more.
            "calls": {name: summary.calls[name] for name in _SERVER_COUNTERS},
            "interrupts": summary.calls["interrupts"],
            "polls": summary.calls["interrupts"],
            "packets_in": summary.calls["packets"],
            "packets_out": summary.calls["packets"],
            "switches": summary.calls["sleeps"],
        }
    )
    return record.model_copy(
        update={"steering": "emulated", "warm_up_ns": lengths.warm_up_ns, "result": result}
    )
