"""The steps of each of several workers: what a run did, one by one."""

from __future__ import annotations

import pytest
from tests.toy import toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim import reference, scheduling
from dispatchsim.sim.costs import Costs
from dispatchsim.sim.kinds import Activity
from dispatchsim.sim.outcome import Outcome
from dispatchsim.sim.processor import Cpu, thread_of
from dispatchsim.sim.reference import ReferenceRun
from dispatchsim.sim.settings import ClientSettings, RunSettings, ServerSettings
from dispatchsim.sim.workload import Trace
from dispatchsim.sim.world import World

Step = tuple[int, int, str]
_NOTHING_ELSE = RunSettings()


def timelines(
    monkeypatch: pytest.MonkeyPatch,
    trace: Trace,
    server: ServerSettings,
    duration_ns: int = 20_000,
    mechanism: str = "epoll_level",
    *,
    client: ClientSettings | None = None,
    costs: Costs | None = None,
    run: RunSettings = _NOTHING_ELSE,
) -> tuple[dict[int, list[Step]], Outcome]:
    """Return the steps of each thread, and the outcome, which both engines agree on.

    Threads are numbered: workers, one for packets and one for stalls for each CPU, busy processes.
    *run* has whatever else there is of settings.
    """
    steps: dict[int, list[Step]] = {number: [] for number in range(server.workers)}

    def end_step(world: World, cpu: Cpu) -> None:
        if not cpu.idle and (cpu.running < server.workers or cpu.step_ns > 0):
            activity = Activity(thread_of(world, cpu.running).activity).name
            steps.setdefault(cpu.running, []).append((cpu.step_begin_ns, world.now_ns, activity))
        original(world, cpu)

    original = scheduling.end_step
    monkeypatch.setattr(reference, "end_step", end_step)
    # One worker alone would go through undisturbed steps without ending them one by one.
    monkeypatch.setattr(ReferenceRun, "_resume_alone", ReferenceRun._resume)
    settings = run._replace(server=server, duration_ns=duration_ns, sample_every_ns=0)
    if client is not None:
        settings = settings._replace(client=client)
    costs = costs or toy_costs(mechanism)
    outcome = simulate(mechanism, trace, costs, settings, engine="reference")
    monkeypatch.undo()
    assert simulate(mechanism, trace, costs, settings, engine="fast").same_as(outcome)
    return steps, outcome
