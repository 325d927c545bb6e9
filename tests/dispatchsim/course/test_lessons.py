"""The claims of the lessons, asked of the functions that their notebooks call.

None of them is coded: each is an outcome of the mechanisms, and would fail if they did.
"""

import math
from statistics import mean

import numpy as np
import pytest
import simpy

import dispatchsim as ds
from dispatchsim import course
from dispatchsim.course.experiments import Experiment
from dispatchsim.sim.figures.summary import Verdict

# 1. The event loop


def own_server(at_ns: list[int], service_ns: int) -> list[int]:
    """Return the latencies of the server that the student writes."""
    latencies_ns = []

    def clients(env: simpy.Environment, queue: simpy.Store) -> simpy.events.ProcessGenerator:
        for came_ns in at_ns:
            yield env.timeout(came_ns - env.now)
            queue.put(came_ns)

    def server(env: simpy.Environment, queue: simpy.Store) -> simpy.events.ProcessGenerator:
        while True:
            came_ns = yield queue.get()
            yield env.timeout(service_ns)
            latencies_ns.append(int(env.now) - came_ns)

    env = simpy.Environment()
    queue = simpy.Store(env)
    env.process(clients(env, queue))
    env.process(server(env, queue))
    env.run()
    return latencies_ns


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_an_event_loop_without_costs_is_a_queue_with_one_server(load: float) -> None:
    at_ns = course.single_queue.arrivals_ns(load)
    by_hand_us = mean(own_server(at_ns.tolist(), course.single_queue.SERVICE_NS)) / 1e3
    assert course.single_queue.event_loop_us(at_ns) == pytest.approx(by_hand_us, rel=1e-12)
    # Of 4,000 customers, neighbours alike: theory is met within some percent.
    assert by_hand_us == pytest.approx(course.single_queue.theory_us(load), rel=0.06)


def test_a_real_loop_takes_more_than_its_own_code_and_bends_earlier() -> None:
    by = course.single_queue.mean_by_load([0.1, 0.5])
    theory, real = by["theory, M/D/1"], by["event loop, real costs"]
    assert real[0] > 1.5 * theory[0]
    assert real[1] / real[0] > 2 * theory[1] / theory[0]
    parts = course.single_queue.cpu_us_per_request(0.3)
    added = {name: us for name, us in parts.items() if name != "own code"}
    assert parts["own code"] == pytest.approx(50)
    assert max(added, key=lambda name: added[name]) == "packets"


def test_with_few_connections_mechanisms_hardly_differ() -> None:
    epoll, poll = (
        sum(course.single_queue.cpu_us_per_request(0.3, name).values())
        for name in ("epoll_level", "poll")
    )
    assert poll == pytest.approx(epoll, rel=0.05)


def test_theory_knows_how_much_of_the_server_a_longer_service_fills() -> None:
    # As exercise 2 says: 95.4 µs for each of those who come at a load of 0.3 of 50 µs.
    whole_ns = 95_400
    busy = 0.3 * whole_ns / course.single_queue.SERVICE_NS
    by_hand_us = whole_ns / 1e3 * (1 + busy / (1 - busy) / 2)
    assert course.single_queue.theory_us(0.3, whole_ns) == pytest.approx(by_hand_us)
    with pytest.raises(ds.UserError, match="less than the whole of the server"):
        course.single_queue.theory_us(0.6, whole_ns)


# 2. Scans and ready lists


@pytest.fixture(scope="module")
def crowd() -> Experiment:
    return course.idle_crowd.idle_connections(idle=[0, 1_000, 6_000])


def test_polls_latency_grows_by_more_than_ten_times_and_epolls_by_less_than_a_tenth(
    crowd: Experiment,
) -> None:
    assert course.idle_crowd.growth(crowd, "poll") > 10
    assert course.idle_crowd.growth(crowd, "epoll_level") < 1.1


def test_polls_cpu_is_soon_never_idle_and_it_still_answers_everybody(crowd: Experiment) -> None:
    assert crowd.value("cpu_busy_percent", "poll", 6_000) > 99
    assert crowd.value("answered_per_s", "poll", 6_000) == pytest.approx(
        crowd.value("answered_per_s", "epoll_level", 6_000), rel=0.03
    )


def test_the_longer_a_scan_takes_the_more_it_finds(crowd: Experiment) -> None:
    found = crowd.values("events_per_wait", "poll")
    assert found == sorted(found)
    assert found[-1] > 3 * found[0]


def test_at_three_times_the_rate_both_wait_twice_as_long(crowd: Experiment) -> None:
    fast = course.idle_crowd.idle_connections(15_000, idle=[1_000])
    grown = [
        fast.value("latency_p50_us", name, 1_000) / crowd.value("latency_p50_us", name, 1_000)
        for name in ("poll", "epoll_level")
    ]
    assert all(1.7 < each < 2.3 for each in grown)  # so their difference doubles, too


# 3. Who is ready first


@pytest.fixture(scope="module")
def kept() -> Experiment:
    return course.registration.kept_connections()


def test_kept_connections_join_more_wait_queues(kept: Experiment) -> None:
    shares = [course.registration.joined_percent(kept, n) for n in course.registration.REQUESTS]
    assert shares == sorted(shares)
    assert shares[0] < 60
    assert shares[-1] > 70


def test_joining_takes_much_of_the_latency_of_new_connections(kept: Experiment) -> None:
    assert course.registration.share_of_latency_percent(kept, 1) > 30


def test_a_kept_connection_is_answered_sooner_for_all_that(kept: Experiment) -> None:
    latency = kept.values("request_p50_us", course.registration.BLOCKING)
    assert latency[-1] < latency[0] / 2


def test_who_never_blocks_joins_nothing_and_is_never_idle(kept: Experiment) -> None:
    assert set(kept.values("registered_per_wait", course.registration.BUSY)) == {0}
    assert min(kept.values("cpu_busy_percent", course.registration.BUSY)) == 100


def test_a_few_scans_can_be_watched() -> None:
    recording = ds.record(course.registration.to_watch(), length="250 us")
    assert "WAIT" in set(recording.frame["what"])


# 4. Batching


@pytest.fixture(scope="module")
def load() -> Experiment:
    return course.batching.rising_load([1_000, 2_000, 5_000, 20_000])


def test_a_server_whose_cpu_is_full_keeps_up_with_several_times_the_load(load: Experiment) -> None:
    full_at = course.batching.full_at_per_s(load)
    assert course.batching.keeps_up_to_per_s(load) >= 3 * full_at
    assert course.batching.cheaper(load) > 5


def test_one_that_accepts_one_a_call_does_not(load: Experiment) -> None:
    one = course.batching.ONE
    assert course.batching.keeps_up_to_per_s(load, one) == course.batching.full_at_per_s(load, one)
    answered = load.values("answered_per_s", one)
    assert answered[-1] < answered[-2]  # more load, fewer answers
    assert max(load.values("events_per_wait", one)) < 2.1


# 5. Signals


def test_only_a_server_that_does_nothing_about_lost_signals_strands_its_users() -> None:
    of = course.signal_loss.stalled([0, 40])
    lost, polled, per_fd = of.names
    assert of.value("stranded", lost, 0) == 0
    assert of.value("stranded", lost, 40) > 20
    assert of.value("stranded", polled, 40) == 0
    assert of.value("stranded", per_fd, 40) == 0
    assert of.value("recoveries", polled, 40) >= 1
    assert of.value("answered_per_s", lost, 40) < 0.95 * of.value("answered_per_s", polled, 40)


def test_one_signal_a_descriptor_is_safe_only_if_all_fit_the_queue() -> None:
    per_fd = course.signal_loss.PER_FD
    of = course.signal_loss.stalled([40], queue=64, servers=[per_fd])
    assert of.value("stranded", per_fd, 40) > 0


def test_whole_requests_fit_a_queue_longer_than_there_are_users() -> None:
    lost = course.signal_loss.LOST
    of = course.signal_loss.stalled([40], pieces=1, servers=[lost])
    assert of.value("stranded", lost, 40) == 0


# 6. Level and edge


def test_only_the_forgetful_server_leaves_clients_behind() -> None:
    of = course.edges.loads([1_000, 3_000])
    for name in (course.edges.LEVEL, course.edges.EDGE):
        assert of.values("stranded", name) == [0, 0]
    assert of.value("stranded", course.edges.FORGETFUL, 3_000) > 0
    assert of.point(course.edges.FORGETFUL, 3_000).verdict is Verdict.STRANDED
    level, forgetful = (
        of.value("latency_p50_us", name, 1_000)
        for name in (course.edges.LEVEL, course.edges.FORGETFUL)
    )
    assert forgetful > 50 * level


def test_a_short_test_at_a_low_load_seldom_finds_it() -> None:
    found = [course.edges.found_percent(rate) for rate in (50, 200, 1_000)]
    assert found[0] < 15 < found[1] < 85 < found[2]


def test_only_its_latency_grows_with_the_length_of_the_run() -> None:
    of = course.edges.lengths([0.25, 2])
    for name in (course.edges.LEVEL, course.edges.EDGE):
        short, long = of.values("latency_p50_us", name)
        assert long == pytest.approx(short, rel=0.05)
    short, long = of.values("latency_p50_us", course.edges.FORGETFUL)
    assert long > 2 * short


def test_its_accept_queue_is_never_empty_while_its_cpu_is_mostly_idle() -> None:
    recording = ds.record(course.edges.to_watch(), begin="490 ms", length="4 ms")
    assert recording.queues["accept_queue"].min() > 0
    spans = recording.frame
    lasted_ns = spans["end_ns"] - spans["begin_ns"]
    assert lasted_ns[spans["what"] == "IDLE"].sum() > 0.5 * lasted_ns.sum()


# 7. Accepting


def test_one_accept_a_notification_is_too_few_for_poll_and_enough_for_epoll() -> None:
    of = course.accepting.limits([1, 4])
    one, some = of.values("answered_per_s", "poll")
    assert one < 0.85 * some
    assert of.values("syn_drops", "poll")[1] == 0
    one, some = of.values("answered_per_s", "epoll_level")
    assert one == pytest.approx(some, rel=0.02)


def test_a_second_client_for_each_scan_halves_its_price() -> None:
    of = course.accepting.limits([1, 2])
    scans_a_client = of.values("waits_per_request", "poll")
    assert scans_a_client[1] == pytest.approx(scans_a_client[0] / 2, rel=0.15)


def test_in_a_crowd_more_accepts_drop_fewer_and_lengthen_the_tail() -> None:
    of = course.accepting.crowd([1, 256])
    few, many = of.values("syn_drops", "epoll_level")
    assert few > 1.15 * many
    few, many = of.values("latency_p99_ms", "epoll_level")
    assert many > 1.15 * few


# 8. Receive livelock


def test_interrupts_livelock_and_both_cures_keep_the_server_alive() -> None:
    of = course.livelock.floods([0, 800_000])
    calm = of.value("answered_per_s", course.livelock.INTERRUPTS, 0)
    answered = {name: of.value("answered_per_s", name, 800_000) for name in of.names}
    assert answered[course.livelock.INTERRUPTS] == 0
    assert answered[course.livelock.SOFTIRQ] < 0.75 * calm
    assert answered[course.livelock.THREAD] > 0.9 * calm
    assert answered[course.livelock.POLLING] > 0.75 * calm
    shares = course.livelock.cpu_shares(of, 800_000)
    assert shares[course.livelock.INTERRUPTS]["packets, at interrupts"] > 99
    for parts in shares.values():
        assert sum(parts.values()) == pytest.approx(100)


def test_at_200_000_datagrams_only_the_kernel_that_interrupts_for_each_is_dead() -> None:
    of = course.livelock.floods([0, 200_000])
    for name in of.names:
        calm, flooded = of.values("answered_per_s", name)
        assert flooded == (
            0 if name == course.livelock.INTERRUPTS else pytest.approx(calm, rel=0.1)
        )


def test_who_drops_after_interrupts_has_paid_and_who_polls_drops_with_time_left() -> None:
    kernels = {
        name: course.livelock.KERNELS[name]
        for name in (course.livelock.INTERRUPTS, course.livelock.SOFTIRQ, course.livelock.POLLING)
    }
    of = course.livelock.floods([800_000], kernels)
    found = course.livelock.drops(of, 800_000)
    paid, polled = found.loc[course.livelock.INTERRUPTS], found.loc[course.livelock.POLLING]
    assert 1_000 < paid["interrupts"] < 0.5 * paid["packets dropped"]
    assert polled["interrupts"] < 0.2 * paid["interrupts"]
    assert course.livelock.cpu_shares(of, 800_000)[course.livelock.POLLING]["idle"] > 3
    # What the softirq leaves answers some, who have waited for a fifth of the run.
    assert of.value("answered_per_s", course.livelock.SOFTIRQ, 800_000) > 0
    assert of.value("latency_p50_ms", course.livelock.SOFTIRQ, 800_000) > 10


# 9. Measuring


def test_a_closed_loop_does_not_see_that_the_server_stood_still() -> None:
    closed, opened = (
        course.measuring.quantiles_ms(loop)
        for loop in (course.measuring.CLOSED, course.measuring.OPEN)
    )
    assert opened[2] > 100 * closed[2]
    assert closed[3] > 50  # it is there, a thirtieth of a percent further up


def test_without_a_stall_both_agree() -> None:
    closed, opened = (
        course.measuring.quantiles_ms(loop, stall_ms=0)
        for loop in (course.measuring.CLOSED, course.measuring.OPEN)
    )
    assert opened[2] == pytest.approx(closed[2], rel=0.25)


def test_a_run_that_begins_in_a_crowd_has_a_warm_up_longer_than_the_crowd() -> None:
    steady = course.measuring.begun_in_a_crowd(runs=3)
    assert steady.warm_up_ns is not None
    assert 30e6 < steady.warm_up_ns < 150e6


def test_naive_intervals_miss_the_truth_and_the_others_hold_it() -> None:
    percent = course.measuring.coverage(200).percent
    assert percent[course.measuring.NAIVE] < 50
    assert percent[course.measuring.BATCHES] > 88
    assert percent[course.measuring.REPLICATIONS] > 88


def test_tools_print_what_they_would() -> None:
    texts = course.measuring.reports().texts
    assert "Requests/sec" in texts["wrk"]
    assert "Recorded Latency" in texts["wrk2"]


# 10. Calibrating


def test_forecasts_of_held_out_runs_are_nearer_than_a_formula() -> None:
    judged = course.calibrating.judged(course.calibrating.fitted())
    assert judged.worst_percent < 12
    assert judged.formula_worst_percent > 80
    assert (judged.frame["error_percent"] < 0).all()  # something shared is too dear
    assert set(judged.frame["idle"]) == {0, 250, 1_000, 6_000}


def test_a_wrong_price_shows_where_it_is_paid() -> None:
    profile = course.calibrating.fitted()
    wrong = course.calibrating.with_changed_cost(profile, "poll.scan", 0.5)
    right_of, wrong_of = (
        course.calibrating.judged(known, ["poll"]).frame.set_index("idle")["forecast_per_s"]
        for known in (profile, wrong)
    )
    assert wrong_of[0] == pytest.approx(right_of[0], rel=0.01)
    assert wrong_of[6_000] > 1.1 * right_of[6_000]


def test_prices_have_intervals_and_a_source() -> None:
    prices = course.calibrating.prices(course.calibrating.fitted())
    assert (prices["low"] <= prices["ns"]).all()
    assert (prices["ns"] <= prices["high"]).all()
    assert prices["source"].str.len().min() > 0


def test_times_of_nothing_are_nothing() -> None:
    assert math.isnan(course.times(1, 0))
    assert math.isnan(course.times(1, float(np.nan)))
