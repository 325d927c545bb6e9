"""A retry storm that outlives what set it off: the same server, the same crowd, other clients.

The server is at 72 % of what it can do. A crowd brings a quarter of a second of work within fifty
milliseconds, and clients give up after five. Where they try again at once, more come
than can be served, each of them is gone when it is its turn, and so all try again: the load that
the server was stable under before is a multiple of itself now, for ever.

Source: Bronson, Aghayev, Charapko and Zhu 2021, "Metastable failures in distributed systems",
HotOS XVIII, §2 (a trigger that is over, a sustaining effect that is not); Huang et al. 2022,
"Metastable failures in the wild", OSDI, §2.
"""

from __future__ import annotations

import pytest
from tests.served import on_server
from tests.toy import toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.arrivals import Crowd
from dispatchsim.sim.load.workload import open_loop
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS

SECONDS = 5
SEEDS = range(1, 13)
CROWD = Crowd(at_s=0.5, length_s=0.05, factor=8.0)
PATIENCE = ClientSettings(timeout_ns=5 * MILLISECOND_NS)
AT_ONCE = PATIENCE._replace(retries=6)
BACKING_OFF = AT_ONCE._replace(
    retry_pause_ns=2 * SECOND_NS, retry_pause_max_ns=16 * SECOND_NS, retry_jitter_permille=1_000
)
WITHIN_A_BUDGET = AT_ONCE._replace(retry_budget_permille=100)


def storm(client: ClientSettings, seed: int, crowd: Crowd = CROWD, **server: int) -> Outcome:
    return simulate(
        "epoll_level",
        open_loop(rate_per_s=14_000, seconds=SECONDS, seed=seed, pattern=crowd),
        toy_costs("epoll_level", application=ApplicationCosts(50_000)),
        RunSettings(
            **on_server(**server),
            client=client,
            duration_ns=SECONDS * SECOND_NS,
            sample_every_ns=0,
            seed=seed,
        ),
        engine="fast",
    )


def goodput(outcome: Outcome, from_s: float, until_s: float) -> float:
    """Return the share of those who came then that had their reply, whichever attempt brought it.

    Of the last second some would be under way still, so nobody asks for it.
    """
    came = (outcome.intended_ns >= from_s * SECOND_NS) & (outcome.intended_ns < until_s * SECOND_NS)
    return float((outcome.status[came] == Status.REPLIED).mean())


@pytest.mark.parametrize("seed", SEEDS)
def test_who_tries_again_at_once_keeps_the_storm_up(seed: int) -> None:
    outcome = storm(AT_ONCE, seed)
    assert goodput(outcome, 0.0, 0.45) > 0.99
    for second in (1, 2, 3):
        assert goodput(outcome, second, second + 1) < 0.1
    # The server works for as many as ever, and cannot write to any: they are gone.
    assert outcome.counts[Count.WRITE_FAILED] > 0.9 * outcome.intended_ns.size
    assert outcome.counts[Count.RETRIES] > 4 * outcome.intended_ns.size


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("client", [PATIENCE, WITHIN_A_BUDGET], ids=["no retries", "budget"])
def test_the_same_crowd_is_forgotten_where_clients_hold_back(
    client: ClientSettings, seed: int
) -> None:
    # The crowd leaves a quarter of a second of work, and 28% of the time is spare: nobody is served
    # for 0.9 s, as the server works for those who have left; for more where a tenth tries again.
    outcome = storm(client, seed)
    assert goodput(outcome, 0.0, 0.45) > 0.99
    assert goodput(outcome, 0.75, 1.25) < 0.1
    assert goodput(outcome, 2.1, SECONDS - 1) > 0.99


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_crowd_the_same_clients_never_storm(seed: int) -> None:
    outcome = storm(AT_ONCE, seed, Crowd(at_s=0.5, length_s=0.05, factor=1.0))
    assert goodput(outcome, 0.0, SECONDS - 1) > 0.999
    assert outcome.counts[Count.RETRIES] < 0.01 * outcome.intended_ns.size


def test_pauses_of_two_seconds_are_too_short_for_all_who_failed_meanwhile() -> None:
    # All who come while the queue of the crowd lasts fail, and come again on top of the others:
    # twice 72% is more than the server can do, and the queue goes on.
    outcome = storm(BACKING_OFF, 1)
    assert goodput(outcome, 1.0, SECONDS - 1) < 0.1
    assert outcome.counts[Count.RETRIES] < 1.5 * outcome.intended_ns.size


def test_a_deadline_in_the_accept_queue_ends_the_storm() -> None:
    # Who has waited for 4 ms of its 5 is reset, for a few microseconds instead of fifty.
    deadline = {"queue_deadline_ns": 4 * MILLISECOND_NS, "queue_interval_ns": 4 * MILLISECOND_NS}
    outcome = storm(BACKING_OFF, 1, CROWD, **deadline)
    assert goodput(outcome, 1.0, SECONDS - 1) > 0.99
