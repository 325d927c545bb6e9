"""The steps of each of several workers: what a run did, one by one."""

from __future__ import annotations

from tests.served import Served
from tests.toy import Steps, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.cpu.processor import thread_of
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import Costs
from dispatchsim.sim.state.kinds import Activity
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import Cpu, World

Step = tuple[int, int, str]
_NOTHING_ELSE = RunSettings()


class ThreadSteps(Steps):
    """An observer that keeps the steps of each thread, those of 0 ns of workers among them."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = workers
        self.of_thread: dict[int, list[Step]] = {number: [] for number in range(workers)}

    def step_ends(self, world: World, cpu: Cpu) -> None:
        """Keep the step that *cpu* has ended."""
        if not cpu.idle and (cpu.running < self.workers or cpu.step_ns > 0):
            activity = Activity(thread_of(world, cpu.running).activity).name
            steps = self.of_thread.setdefault(cpu.running, [])
            steps.append((cpu.step_begin_ns, world.now_ns, activity))


def timelines(
    trace: Trace,
    server: Served,
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
    settings = run._replace(**server, duration_ns=duration_ns, sample_every_ns=0)
    if client is not None:
        settings = settings._replace(client=client)
    costs = costs or toy_costs(mechanism)
    seen = ThreadSteps(server.workers)
    outcome = simulate(mechanism, trace, costs, settings, observe=seen)
    assert simulate(mechanism, trace, costs, settings, engine="fast").same_as(outcome)
    return seen.of_thread, outcome
