"""The life of one connection on each mechanism, computed by hand, exact to the nanosecond."""

import pytest
from tests.served import on_server
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.scans.poll_pollfd import PollCosts
from dispatchsim.models.scans.select_fdset import SelectCosts
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import flat, per_item
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.settings import RunSettings

# The client's packet comes at 10 us. The CPU leaves idleness in 1000 ns; then entry (100), SYN
# (200), ACK (50) and request (80) are one softirq, over at 11430. Waking takes 500.
ONE = arrivals(10_000)
WHILE = RunSettings(duration_ns=20_000, sample_every_ns=0)


def test_a_connection_on_epoll() -> None:
    steps, outcome = timeline("epoll_level", ONE, WHILE)
    assert steps == [
        (0, 70, "WAIT"),  # nothing listed
        (70, 110, "SLEEP"),
        (11_430, 11_930, "WAKE"),
        (11_930, 11_960, "WAIT"),  # one event: the listener
        (11_960, 12_260, "ACCEPT"),
        (12_260, 12_370, "WATCH"),  # the request is there already: listed at once
        (12_370, 12_470, "ACCEPT"),  # EAGAIN
        (12_470, 12_540, "WAIT"),
        (12_540, 12_590, "WAIT"),  # one event (30), the listener looked at in vain (20)
        (12_590, 12_790, "READ"),
        (12_790, 12_940, "USER"),
        (12_940, 13_340, "WRITE"),  # the reply is with the client, whose reset is on its way
        (13_340, 13_560, "UNWATCH"),  # 60, lengthened by the reset's interrupt of 160
        (13_560, 13_810, "CLOSE"),
        (13_810, 13_880, "WAIT"),
        (13_880, 13_920, "SLEEP"),
    ]
    assert outcome.done_ns.tolist() == [13_340]
    assert outcome.counts[Count.SLEEPS] == 2


def test_a_connection_on_poll_with_two_idle() -> None:
    settings = WHILE._replace(client=ClientSettings(idle=2))
    steps, outcome = timeline("poll", ONE, settings)
    assert steps == [
        (0, 121, "WAIT"),  # call 70, scan 3 x 10, registered on 3 queues x 7
        (121, 161, "SLEEP"),
        (11_430, 11_930, "WAKE"),
        (11_930, 11_960, "WAIT"),  # scanned again, registered no more
        (11_960, 12_260, "ACCEPT"),
        (12_260, 12_360, "ACCEPT"),
        (12_360, 12_491, "WAIT"),  # 70 + 4 x 10 + 3 x 7: the newcomer is last in the array
        (12_491, 12_691, "READ"),
        (12_691, 12_841, "USER"),
        (12_841, 13_241, "WRITE"),
        (13_241, 13_651, "CLOSE"),  # 250 and the reset's 160
        (13_651, 13_772, "WAIT"),
        (13_772, 13_812, "SLEEP"),
    ]
    assert outcome.done_ns.tolist() == [13_241]
    assert outcome.counts[Count.SCANNED] == 3 + 3 + 4 + 3
    assert outcome.counts[Count.REGISTERED] == 3 + 0 + 3 + 3


def test_a_connection_on_select_with_two_idle() -> None:
    settings = WHILE._replace(client=ClientSettings(idle=2))
    steps, outcome = timeline("select", ONE, settings)
    assert steps == [
        (0, 126, "WAIT"),  # as poll, and 5 for the bitmaps
        (126, 166, "SLEEP"),
        (11_430, 11_930, "WAKE"),
        (11_930, 11_960, "WAIT"),
        (11_960, 12_260, "ACCEPT"),
        (12_260, 12_360, "ACCEPT"),
        (12_360, 12_496, "WAIT"),
        (12_496, 12_696, "READ"),
        (12_696, 12_846, "USER"),
        (12_846, 13_246, "WRITE"),
        (13_246, 13_656, "CLOSE"),
        (13_656, 13_782, "WAIT"),
        (13_782, 13_822, "SLEEP"),
    ]
    assert outcome.done_ns.tolist() == [13_246]


def test_m30_an_array_that_is_built_anew_costs_for_each_descriptor_at_each_wait() -> None:
    server = on_server(array_rebuilt=True)
    settings = WHILE._replace(**server, client=ClientSettings(idle=2))
    for mechanism, bitmaps_ns in (("poll", 0), ("select", 5)):
        costs = toy_costs(mechanism)
        costs = costs._replace(mechanism=costs.mechanism._replace(rebuild=per_item(4)))
        steps, outcome = timeline(mechanism, ONE, settings, costs)
        assert steps[:3] == [
            (0, 12, "WAIT"),  # 3 entries
            (12, 133 + bitmaps_ns, "WAIT"),
            (133 + bitmaps_ns, 173 + bitmaps_ns, "SLEEP"),
        ]
        kept, _ = timeline(mechanism, ONE, settings._replace(**on_server()), costs)
        assert len(steps) == len(kept) + outcome.counts[Count.WAITS] == len(kept) + 3
        busy = settings._replace(**server.but(busy=True))
        spent_ns = timeline(mechanism, ONE, busy, costs)[1].counts[Count.WAITS]
        lazy_ns = timeline(mechanism, ONE, busy._replace(**on_server(busy=True)), costs)
        assert spent_ns < lazy_ns[1].counts[Count.WAITS]


def test_a_listener_that_is_ready_behind_the_scan_sends_it_round_again() -> None:
    settings = WHILE._replace(client=ClientSettings(idle=100))
    for mechanism, bitmaps_ns in (("poll", 0), ("select", 5)):
        steps, outcome = timeline(mechanism, arrivals(1_000), settings)
        # 70 + 101 x (10 + 7) = 1787, lengthened by the softirq of 430; the listener, first in the
        # scan, was passed long ago. Its wait-queue entry prevents the sleep: 101 x 10 more.
        first_end = 1_787 + bitmaps_ns + 430
        assert steps[:3] == [
            (0, first_end, "WAIT"),
            (first_end, first_end + 1_010, "WAIT"),
            (first_end + 1_010, first_end + 1_310, "ACCEPT"),
        ]
        assert outcome.counts[Count.SLEEPS] == 1  # only when all is done
        assert outcome.counts[Count.WAITS] == 3


def test_a_descriptor_that_is_ready_ahead_of_the_scan_is_found_by_it() -> None:
    settings = RunSettings(duration_ns=70_000, client=ClientSettings(idle=1000), sample_every_ns=0)
    steps, outcome = timeline("poll", arrivals(1_000, requests=2, think_ns=5_000), settings)
    # The reply to the first request is out at 45774; the next wait scans and registers 1002
    # descriptors in 17104. The second request comes 5000 into it, long before the scan is at its
    # descriptor, the last: found at the end of the scan, which the softirq (180) lengthened.
    assert (45_774, 45_774 + 17_104 + 180, "WAIT") in steps
    assert outcome.reply_ns.tolist() == [45_774, 63_058 + 750]


def test_read_after_accept_spares_a_wait() -> None:
    plain, _ = timeline("epoll_level", ONE, WHILE)
    server = on_server(read_after_accept=True)
    eager, outcome = timeline("epoll_level", ONE, WHILE._replace(**server))
    waits = [step for step in eager if step[2] == "WAIT"]
    assert len(waits) < sum(step[2] == "WAIT" for step in plain)
    assert outcome.done_ns.tolist() == [12_370 + 200 + 150 + 400]


def test_m14_a_server_that_writes_when_told_changes_its_interest_and_waits() -> None:
    server = on_server(writes_when_told=True)
    steps, outcome = timeline("epoll_level", ONE, WHILE._replace(**server))
    assert steps[8:] == [
        (12_540, 12_590, "WAIT"),  # one event (30), the listener looked at in vain (20)
        (12_590, 12_790, "READ"),
        (12_790, 12_940, "USER"),
        (12_940, 12_980, "REWATCH"),  # EPOLL_CTL_MOD, the second of three; listed, as it can write
        (12_980, 13_050, "WAIT"),
        (13_050, 13_080, "WAIT"),
        (13_080, 13_480, "WRITE"),
        (13_480, 13_700, "UNWATCH"),
        (13_700, 13_950, "CLOSE"),
        (13_950, 14_020, "WAIT"),
        (14_020, 14_060, "SLEEP"),
    ]
    changes = (Count.WATCHES, Count.REWATCHES, Count.UNWATCHES, Count.WAITS)
    assert outcome.counts[list(changes)].tolist() == [1, 1, 1, 4]


def test_a_server_that_writes_when_told_reads_the_next_request_afterwards() -> None:
    server = on_server(writes_when_told=True)
    trace = arrivals(10_000, requests=2, think_ns=0)
    for mechanism, n_changes in (("epoll_level", 3), ("poll", 3), ("select", 3)):
        steps, outcome = timeline(mechanism, trace, WHILE._replace(**server))
        names = [name for *_, name in steps if name in ("READ", "WRITE", "CLOSE")]
        assert names == ["READ", "WRITE", "READ", "WRITE", "CLOSE"]
        assert outcome.counts[Count.REWATCHES] == n_changes  # write, read, write
        assert outcome.counts[Count.REPLIES] == 2


def test_a_reply_that_does_not_fit_waits_for_room() -> None:
    server = on_server(send_buffer_bytes=1_000)
    steps, outcome = timeline(
        "epoll_level", arrivals(10_000, reply_bytes=2_500), WHILE._replace(**server)
    )
    names = [name for *_, name in steps]
    # Two short writes, interest moved to writing once; no need to move it back before closing.
    assert names.count("WRITE") == 3
    assert names.count("REWATCH") == 1
    assert outcome.counts[Count.WRITE_SHORT] == 2
    assert outcome.counts[Count.REPLIES] == 1


def test_the_listener_is_served_first_or_last() -> None:
    both = arrivals(10_000, 12_400)  # the second comes when the first is accepted, not yet read
    first, _ = timeline("poll", both, WHILE._replace(duration_ns=60_000))
    last, _ = timeline(
        "poll",
        both,
        WHILE._replace(duration_ns=60_000, **on_server(listener_last=True)),
    )
    names_first = [name for *_, name in first]
    names_last = [name for *_, name in last]
    assert names_first.index("CLOSE") > names_last.index("CLOSE")
    assert names_first.count("CLOSE") == names_last.count("CLOSE") == 2


def test_the_ledger_holds_the_whole_timeline() -> None:
    steps, outcome = timeline("epoll_level", ONE, WHILE)
    spent = sum(end - begin for begin, end, _ in steps)
    ledger = outcome.ledger_ns
    assert ledger[Activity.INTERRUPT] == 160  # the reset, during the step it lengthens
    assert ledger[Activity.INTERRUPT_IDLE] == 430
    assert ledger.sum() == 20_000
    assert ledger[Activity.IDLE] == 20_000 - spent - 430


def test_cm01_42_a_bitmap_costs_by_the_highest_descriptor_and_an_array_by_those_in_it() -> None:
    # Two hundred came at once and went: what stays is a sparse set, of one connection at a time.
    sparse = arrivals(*[10_000] * 200, *range(1_000_000, 2_000_000, 50_000))
    dense = arrivals(*range(1_000_000, 2_000_000, 50_000))
    run = RunSettings(duration_ns=3_000_000, sample_every_ns=0, client=ClientSettings(idle=300))
    few = run._replace(client=ClientSettings(idle=2))
    prices = {
        "select": toy_costs("select")._replace(
            mechanism=SelectCosts(70, bitmap=per_item(2), scan=per_item(10), register=flat(0),
                                  event_ns=0)
        ),  # two bits a descriptor that could be open
        "poll": toy_costs("poll")._replace(
            mechanism=PollCosts(70, scan=per_item(14), register=flat(0), event_ns=0)
        ),  # eight bytes, twice, for each that is watched
    }  # fmt: skip
    spent = {
        (name, case): timeline(name, trace, settings, costs)[1].ledger_ns[Activity.WAIT]
        for name, costs in prices.items()
        for case, trace, settings in (("sparse", sparse, few), ("dense", dense, run))
    }
    assert spent["poll", "sparse"] < spent["select", "sparse"]
    assert spent["poll", "dense"] > spent["select", "dense"]


@pytest.mark.parametrize("name", ["select", "poll"])
def test_a_server_reads_back_all_entries_before_its_last_event(name: str) -> None:
    # The listener is the first of all, and the connection comes behind it and 300 idle ones.
    settings = RunSettings(
        duration_ns=3_000_000, sample_every_ns=0, client=ClientSettings(idle=300)
    )
    costs = toy_costs(name)
    slower = costs._replace(mechanism=costs.mechanism._replace(read_back=per_item(2)))

    def more_ns(trace: Trace) -> int:
        without, more = (
            timeline(name, trace, settings, each)[1].ledger_ns[Activity.WAIT]
            for each in (costs, slower)
        )
        return int(more - without)

    assert more_ns(arrivals(10_000)) == 2 * 301
    # Both are accepted at once, and their requests are events of one wait: it reads to the second.
    assert more_ns(arrivals(10_000, 10_500)) == 2 * 302


def test_only_a_sleep_after_a_call_that_left_work_pays_for_it() -> None:
    # Two requests of one connection, and time to fall asleep in between.
    costs = toy_costs("epoll_level")
    left = costs._replace(interrupt=costs.interrupt._replace(left_ns=25))
    trace = arrivals(10_000, requests=2, think_ns=50_000)
    settings = RunSettings(duration_ns=200_000, sample_every_ns=0)
    steps, _ = timeline("epoll_level", trace, settings, left)
    asleep_ns = [end - begin for begin, end, name in steps if name == "SLEEP"]
    # At the begin nothing is left; accept found nobody, then only a request was served; closed.
    assert asleep_ns == [40, 40 + 25, 40 + 25]
    three = arrivals(10_000, requests=3, think_ns=50_000)
    steps, _ = timeline("epoll_level", three, settings, left)
    assert [end - begin for begin, end, name in steps if name == "SLEEP"] == [40, 65, 40, 65]
