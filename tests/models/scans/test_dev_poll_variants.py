"""/dev/poll as on Solaris, and with a mapped result area: timelines by hand, rows by name."""

from __future__ import annotations

import pytest
from tests.served import on_server
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.calibration.profiles.cost_profile import Profile, shipped_profiles
from dispatchsim.models.simulate import simulate
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.settings import RunSettings, having

# The reply takes two writes; the client thinks, and asks again.
TWICE = arrivals(10_000, requests=2, reply_bytes=1_500, think_ns=5_000)
SMALL_BUFFER = on_server(send_buffer_bytes=1_000)
WHILE = RunSettings(**SMALL_BUFFER, duration_ns=25_000, sample_every_ns=0)
ONLY_ORS = WHILE._replace(**SMALL_BUFFER.but(removes_first=False))
BEGINS = [
    (11_430, 11_930, "WAKE"),
    (11_930, 11_932, "WAIT"),  # scanned again
    (11_932, 11_958, "WAIT"),  # one asked (20), one event (6)
    (11_958, 12_258, "ACCEPT"),
    (12_258, 12_358, "ACCEPT"),
    (12_358, 12_468, "WATCH"),  # a write of 35 with one new item, 75
    (12_468, 12_542, "WAIT"),  # 70, and 2 items
    (12_542, 12_588, "WAIT"),
    (12_588, 12_788, "READ"),
    (12_788, 12_938, "USER"),
    (12_938, 13_338, "WRITE"),  # 1000 of 1500 bytes; the acknowledgement takes 150 at once
]


def after_begin(steps: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return the steps behind those that all kinds of /dev/poll have in common."""
    first = steps.index(BEGINS[0])
    assert steps[first : first + len(BEGINS)] == BEGINS
    return steps[first + len(BEGINS) :]


def test_m22_where_a_write_replaces_it_takes_one_entry_to_want_something_else() -> None:
    steps, outcome = timeline("dev_poll", TWICE, WHILE)
    assert after_begin(steps)[:8] == [
        (13_338, 13_548, "WATCH"),  # 35, 25 for the entry, the acknowledgement's 150
        (13_548, 13_622, "WAIT"),
        (13_622, 13_648, "WAIT"),  # it is writable
        (13_648, 14_048, "WRITE"),
        (14_048, 14_108, "WATCH"),
        (14_108, 14_182, "WAIT"),
        (14_182, 14_202, "WAIT"),  # asked in vain: readable is all that it is asked for
        (14_202, 14_242, "SLEEP"),
    ]
    assert outcome.counts[Count.NOTICES_UNWANTED] == 0


def test_m22_where_a_write_adds_it_takes_two_entries_to_want_less() -> None:
    steps, outcome = timeline("dev_poll_or", TWICE, WHILE)
    assert after_begin(steps)[:10] == [
        (13_338, 13_513, "WATCH"),  # POLLREMOVE: 60 - 35, as the write is one; and 150
        (13_513, 13_623, "WATCH"),  # added anew: 35 + 75
        (13_623, 13_697, "WAIT"),
        (13_697, 13_723, "WAIT"),
        (13_723, 14_123, "WRITE"),
        (14_123, 14_148, "WATCH"),
        (14_148, 14_258, "WATCH"),
        (14_258, 14_332, "WAIT"),
        (14_332, 14_352, "WAIT"),  # asked in vain
        (14_352, 14_392, "SLEEP"),
    ]
    assert outcome.counts[[Count.REPLIES, Count.NOTICES_UNWANTED]].tolist() == [2, 0]


def test_m22_who_only_adds_is_told_again_and_again_that_it_may_write() -> None:
    steps, outcome = timeline("dev_poll_or", TWICE, ONLY_ORS)
    assert after_begin(steps)[:12] == [
        (13_338, 13_548, "WATCH"),  # as where it replaces
        (13_548, 13_622, "WAIT"),
        (13_622, 13_648, "WAIT"),
        (13_648, 14_048, "WRITE"),
        (14_048, 14_108, "WATCH"),  # wants to read only, and says so in vain
        (14_108, 14_182, "WAIT"),
        (14_182, 14_208, "WAIT"),  # one asked, one told of: not wanted
        (14_208, 19_008, "WAIT"),  # 48 waits of 100, while the client thinks: until 19048
        (19_008, 19_262, "WAIT"),  # 74, and the request's 180
        (19_262, 19_288, "WAIT"),
        (19_288, 19_488, "READ"),
        (19_488, 19_638, "USER"),
    ]
    assert outcome.counts[[Count.REPLIES, Count.NOTICES_UNWANTED]].tolist() == [2, 49]
    _, removes = timeline("dev_poll_or", TWICE, WHILE)
    assert outcome.counts[Count.WAITS] - removes.counts[Count.WAITS] == 49


def test_m22_who_only_adds_spins_as_if_every_wait_were_a_step() -> None:
    # Another worker, which has nothing to do, keeps waits from being taken together.
    several = having(ONLY_ORS, workers=2, cpus=2)
    costs = toy_costs("dev_poll_or")
    outcome = simulate("dev_poll_or", TWICE, costs, several, engine="reference")
    _, alone = timeline("dev_poll_or", TWICE, ONLY_ORS)
    assert outcome.counts[Count.NOTICES_UNWANTED] == pytest.approx(
        alone.counts[Count.NOTICES_UNWANTED], abs=15
    )
    assert outcome.same_as(simulate("dev_poll_or", TWICE, costs, several, engine="fast"))


def test_m22_idle_connections_that_were_never_written_to_are_not_told_of() -> None:
    run = ONLY_ORS._replace(client=ClientSettings(idle=30))
    _, outcome = timeline("dev_poll_or", arrivals(10_000), run)
    assert outcome.counts[Count.NOTICES_UNWANTED] == 0


def test_m4_a_mapped_result_area_saves_the_copy_of_each_event_and_nothing_else() -> None:
    many = arrivals(*range(10_000, 30_000, 500), requests=2, think_ns=3_000)
    run = RunSettings(duration_ns=200_000, sample_every_ns=0)
    copied, mapped = (timeline(name, many, run)[1] for name in ("dev_poll", "dev_poll_mmap"))
    assert copied.counts[Count.REPLIES] == mapped.counts[Count.REPLIES] == 80
    steps, one = timeline("dev_poll_mmap", arrivals(10_000), run)
    assert steps[4:7] == [
        (11_430, 11_930, "WAKE"),
        (11_930, 11_932, "WAIT"),
        (11_932, 11_954, "WAIT"),  # one asked (20), one event that is not copied (2)
    ]
    _, same = timeline("dev_poll", arrivals(10_000), run)
    saved_ns = same.ledger_ns[Activity.WAIT] - one.ledger_ns[Activity.WAIT]
    assert saved_ns == 4 * one.counts[Count.EVENTS] == 4 * 2


def test_pl00_21_hints_gain_more_than_a_mapped_result_area() -> None:
    profile = Profile.read(shipped_profiles()["counted-linux-6.1-unmerged"])
    trace = arrivals(*range(1_000_000, 40_000_000, 400_000))
    run = RunSettings(duration_ns=50_000_000, sample_every_ns=0, client=ClientSettings(idle=501))

    def waiting_ns(mechanism: str) -> int:
        costs = profile.costs(mechanism, open_connections=501)
        outcome = simulate(mechanism, trace, costs, run, engine="reference")
        assert outcome.counts[Count.REPLIES] == len(trace)
        return int(outcome.ledger_ns[Activity.WAIT])

    by_hints = waiting_ns("dev_poll_unhinted") - waiting_ns("dev_poll")
    by_mapping = waiting_ns("dev_poll") - waiting_ns("dev_poll_mmap")
    assert 0 < by_mapping < by_hints / 100


def test_a_request_that_comes_while_unwanted_results_are_told_is_heard() -> None:
    run = ONLY_ORS._replace(duration_ns=100_000)
    for think_ns in range(0, 3_000, 7):
        trace = arrivals(10_000, requests=2, reply_bytes=1_500, think_ns=think_ns)
        outcome = simulate("dev_poll_or", trace, toy_costs("dev_poll_or"), run, engine="reference")
        assert outcome.counts[Count.REPLIES] == 2, think_ns
        assert (outcome.reply_ns - outcome.due_ns).max() < 10_000, think_ns
