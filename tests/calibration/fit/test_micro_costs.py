"""The equations find the costs again from measurements made of known costs."""

from collections.abc import Container
from typing import Any

import pytest
from tests.calibration.fit.synthetic_asleep import TRUE_ASLEEP
from tests.calibration.fit.synthetic_micro import (
    ADD_NS,
    CLOSE_NS,
    COOLED,
    COOLS_US,
    DELETE_NS,
    MODIFY_NS,
    SERVED,
    TRUE,
    bits,
    grown,
    micro_rounds,
    refilled,
    register,
    scan,
)
from tests.calibration.fit.synthetic_told import (
    COLD_NOTICE,
    ONCE_NOTICE,
    OWN_NS,
    POLLED,
    TRUE_TOLD,
    listed_cold,
)

from dispatchsim.calibration.fit.medians import FitError, Fitted, MicroTable
from dispatchsim.calibration.fit.micro_costs import micro_costs
from dispatchsim.calibration.measure.microbenchmarks import LONG_REPLIES, bench_commands
from dispatchsim.calibration.points.points import FURTHER_MECHANISMS
from dispatchsim.calibration.profiles.cost import MECHANISM_TABLES, required_costs
from dispatchsim.calibration.profiles.lent_costs import LENDERS
from dispatchsim.calibration.records.measured_runs import MicroResult


def fitted(rows: list[MicroResult]) -> dict[str, dict[int, float]]:
    costs = micro_costs(MicroTable(rows).medians())
    return {key: dict(zip(cost.at, cost.value, strict=True)) for key, cost in costs.items()}


def test_a_bench_that_pauses_pays_for_the_pause_once_a_burst() -> None:
    since = Fitted((0, 100, 500), (0.0, 0.0, 2_000.0), 0.0, "floods")
    rows = [
        row.model_copy(update={"median": row.median + 1_000 / int(row.parameters["burst"])})
        if row.bench.removeprefix("interrupt_") in ("connect", "data", "reset", "later", "dropped")
        else row
        for row in micro_rounds()
    ]
    found = micro_costs(MicroTable(rows).medians(), since)
    for name in ("entry", "data", "reset"):
        known = micro_costs(MicroTable(micro_rounds()).medians())[f"interrupt.{name}_ns"]
        assert found[f"interrupt.{name}_ns"].value == pytest.approx(known.value, rel=1e-3)
    assert "interrupt.entry_since" not in found  # it has been priced elsewhere


def constants(rows: list[MicroResult]) -> dict[str, float]:
    """Return the fitted costs that do not depend on a count."""
    return {key: points[0] for key, points in fitted(rows).items() if list(points) == [0]}


def test_known_costs_are_found_again() -> None:
    watched = TRUE["callback"]
    found = constants(micro_rounds())
    assert found == pytest.approx(
        {
            **TRUE_TOLD,
            **TRUE_ASLEEP,
            "interrupt.entry_ns": TRUE["entry"],
            "interrupt.syn_ns": TRUE["syn"],
            "interrupt.ack_ns": 0,
            "interrupt.acked_ns": TRUE["acked"],
            "interrupt.cold_ns": TRUE["cold"],
            "interrupt.syn_cold_ns": TRUE["syn_cold"],
            "call.accept_cold_ns": TRUE["accept_cold"],
            "interrupt.data_ns": TRUE["data"] + watched,
            "interrupt.data_saved_ns": TRUE["data"] - TRUE["later"],
            "interrupt.syn_saved_ns": TRUE["syn"] - TRUE["dropped"],
            "interrupt.reset_ns": TRUE["reset"] + watched,
            "interrupt.sleep_ns": TRUE["sleep"],
            "interrupt.wake_ns": TRUE["wake"],
            "interrupt.idle_exit_ns": TRUE["idle_exit"],
            "interrupt.idle_saved_ns": 0,
            "client.again_ns": TRUE["client_again"],
            "client.interrupt_ns": TRUE["ipi"],
            "call.delivery_ns": TRUE["delivery"],
            "call.delivery_after_ns": TRUE["after"],
            "call.close_delivery_ns": TRUE["close_delivery"],
            "call.close_delivery_after_ns": TRUE["close_until"],
            "client.connect_after_ns": TRUE["connect_after"],
            "client.close_after_ns": TRUE["close_after"],
            "call.crossing_ns": TRUE["floor"],
            "call.write_kib_ns": TRUE["kib"],
            "client.connect_ns": TRUE["connect"],
            "client.send_ns": TRUE["send"],
            "client.receive_ns": TRUE["receive"],
            "client.close_ns": TRUE["close"],
            "network.delay_ns": TRUE["delay"],
            "epoll_level.call_ns": TRUE["call"],
            "epoll_level.event_ns": TRUE["event"],
            "epoll_level.recheck_ns": TRUE["recheck"],
            "select.call_ns": 90,
            "select.event_ns": 3,
            "poll.call_ns": 90,
            "poll.event_ns": 3,
        },
        rel=1e-4,
        abs=0.5,
    )


def test_known_curves_are_found_again() -> None:
    found = fitted(micro_rounds())
    low, middle, high = (TRUE["way"] + more for more in (-400, 0, 400))
    ways = {0: low, 100: low, 500: middle, 900: high, 1000: high}
    assert found["interrupt.way"] == pytest.approx(ways)
    longer = {0: 0, 20: 0, 50: 9_000, 100: 9_000, 300: 9_000, 1000: 9_000, 5000: 9_000, 5001: 9_000}
    assert found["interrupt.idle_exit_since"] == pytest.approx(longer)
    counts = (0, 100, 500, 1000, 2000, 4000, 6000, 10_000)
    for name in ("select", "poll"):
        assert found[f"{name}.scan"] == pytest.approx({n: scan(n) for n in counts}, rel=1e-4)
        firsts = (0, 100, 500, 999, 3000, 5999)
        assert found[f"{name}.register"] == pytest.approx(
            {n: register(n) for n in firsts}, rel=1e-4
        )
    crowd = {64: 0, 256: 900, 1024: 2_000, 4000: 2_500}  # flat beyond the last batch
    assert found["call.crowding"] == pytest.approx(crowd | {8000: crowd[4000]}, rel=1e-3)
    returning = {64: 0, 256: 500, 1024: 1_500, 1536: 2_500, 3072: 2_500}
    assert found["call.returning"] == pytest.approx(returning, rel=1e-3)
    refill = {us: refilled(us) for us in (0, 50, 200, 1000, 4000)} | {4001: refilled(4000)}
    assert found["sharing.refill"] == pytest.approx(refill, abs=10)
    spans = (0, 1000, 6000, 10_000)
    assert found["select.bitmap"] == pytest.approx({n: bits(n) for n in spans}, rel=1e-3)
    for name, ns in (*SERVED.items(), ("close", CLOSE_NS)):
        wanted = {n: grown(ns, n) for n in (0, 1000, 6000)}
        assert found[f"call.{name}_ns"] == pytest.approx(wanted, rel=1e-4)
    for name, ns in (("add", ADD_NS), ("modify", MODIFY_NS), ("delete", DELETE_NS)):
        wanted = {n: grown(ns, n) for n in (100, 1000, 6000, 10_000)}
        assert found[f"epoll_level.{name}_ns"] == pytest.approx(wanted, rel=1e-4)


def test_known_curves_of_further_mechanisms_are_found_again() -> None:
    found = fitted(micro_rounds())
    for name in ("epoll_edge", "epoll_once"):
        for cost, ns in (("add_ns", ADD_NS), ("delete_ns", DELETE_NS)):
            wanted = {n: grown(ns + OWN_NS, n) for n in (100, 1000, 6000, 10_000)}
            assert found[f"{name}.{cost}"] == pytest.approx(wanted, rel=1e-4)
    listed = (100, 1000, 2000, 6000, 10_000)
    assert found["epoll_once.notice_ns"] == pytest.approx(
        {n: ONCE_NOTICE + (COLD_NOTICE - ONCE_NOTICE) * listed_cold(n) for n in listed}, rel=1e-3
    )
    for name in ("rt_signals", "signalfd"):
        poll = found[f"{name}.poll"]
        assert poll == pytest.approx({n: n * POLLED for n in (0, 100, 1000, 6000)}, rel=0.01)


def test_short_replies_price_a_kib_where_no_long_ones_were_measured() -> None:
    rows = [row for row in micro_rounds() if row.bench != "write_flights"]
    found = constants(rows)
    assert found["call.write_kib_ns"] == pytest.approx(TRUE["kib"], rel=1e-4)
    assert "interrupt.acked_ns" not in found
    on_loopback = micro_costs(MicroTable(micro_rounds(steering="loopback")).medians())
    assert "interrupt.acked_ns" not in on_loopback


def test_an_interrupt_that_every_reply_has_is_no_cost_of_a_long_one() -> None:
    """Clients of the far end acknowledge after the write, by an interrupt of the server."""

    def later(row: MicroResult) -> MicroResult:
        n = float((row.model_extra or {})["interrupts_per_operation"])
        more = {"median": row.median + TRUE["entry"], "interrupts_per_operation": n + 1}
        return MicroResult.model_validate(row.model_dump() | more)

    rows = micro_rounds()
    found = constants([later(row) if row.bench == "write_flights" else row for row in rows])
    assert found["interrupt.acked_ns"] == pytest.approx(TRUE["acked"], rel=1e-4)
    assert found["call.write_kib_ns"] == pytest.approx(TRUE["kib"], rel=1e-4)


def test_packet_clients_have_a_cost_of_acknowledging() -> None:
    def acknowledged(row: MicroResult, *, within: Container[int] = ()) -> MicroResult:
        """Return the row of a reply that is acknowledged after its write, by an interrupt.

        Replies of sizes *within* are acknowledged within their writes.
        """
        more: dict[str, float | str] = {"steering": "far_end"}
        if row.bench == "write_flights" and row.parameters["reply"] in within:
            more |= {"written_ns": row.median + 900, "median": row.median + 900}
        elif row.bench == "write_flights":
            n = float((row.model_extra or {})["interrupts_per_operation"])
            more |= {"written_ns": row.median, "interrupts_per_operation": n + 1}
            more |= {"median": row.median + TRUE["entry"] + 900}
        return MicroResult.model_validate(row.model_dump() | more)

    rows = micro_rounds()
    found, apart, within = (
        constants([acknowledged(row, within=sizes) for row in rows])
        for sizes in ((), LONG_REPLIES[1:2], LONG_REPLIES)
    )
    # In these rows a connection alone has cold caches, which this fit charges to the interrupt.
    left_ns = TRUE["entry"] + 900 - found["interrupt.entry_ns"]
    assert found["interrupt.reply_acked_ns"] == pytest.approx(left_ns, rel=1e-3)
    assert left_ns > 0
    assert found["client.ack_ns"] == pytest.approx(TRUE["send"], rel=1e-4)
    assert found["interrupt.cold_ns"] == 0
    assert apart["interrupt.reply_acked_ns"] == pytest.approx(left_ns, rel=1e-3)
    assert within["interrupt.reply_acked_ns"] == 1.0  # without a cost no acknowledgement would come
    with_sockets = constants(micro_rounds())
    assert not {"interrupt.reply_acked_ns", "client.ack_ns"} & with_sockets.keys()


def test_an_interrupt_of_an_idle_cpu_saves_what_it_takes_less_beside_the_thread() -> None:
    def without(less_ns: float) -> list[MicroResult]:
        """Return rows in which the interrupt of a sleeping server takes *less_ns* less."""
        return [
            MicroResult.model_validate(
                row.model_dump() | {"busy_ns": (row.model_extra or {})["busy_ns"] - less_ns}
            )
            if row.bench == "epoll_block"
            else row
            for row in micro_rounds()
        ]

    # Of the bench's time beside the thread, 1000 ns are sleep.
    for less_ns, saved_ns in ((500, 0), (1_500, 500), (90_000, TRUE["entry"])):
        found = constants(without(less_ns))
        assert found["interrupt.idle_saved_ns"] == pytest.approx(saved_ns, abs=1)
        assert found["interrupt.sleep_ns"] == pytest.approx(
            TRUE["sleep"] - min(less_ns, 1_000), abs=1
        )


def test_without_the_bench_of_a_lone_connection_its_costs_are_unknown() -> None:
    found = constants([row for row in micro_rounds() if not row.bench.startswith("lone_")])
    assert not {"interrupt.syn_cold_ns", "call.accept_cold_ns"} & found.keys()


def test_a_handshake_that_takes_less_between_served_connections_costs_nothing_more() -> None:
    rows = [
        row.model_copy(update={"median": 1.0}) if row.bench in ("lone_open", "lone_calls") else row
        for row in micro_rounds()
    ]
    found = constants(rows)
    assert found["interrupt.syn_cold_ns"] == found["call.accept_cold_ns"] == 0
    on_loopback = micro_costs(MicroTable(micro_rounds(steering="loopback")).medians())
    assert on_loopback["interrupt.syn_cold_ns"].value == (0,)
    assert on_loopback["call.accept_cold_ns"].value == (TRUE["accept_cold"],)


_COLD_BENCHES = ("paced_", "asked_")


def rows_of_packets(*, cools: bool = False) -> list[MicroResult]:
    """Return the rows of packet clients, whose handshakes no interrupt handles alone.

    If caches cool, a bench that sleeps for 200 us takes as much longer, by COOLS_US.
    """
    cooled_ns = {name: ns * 200 * cools for name, ns in COOLS_US.items()}

    def of_packets(row: MicroResult) -> MicroResult:
        more: dict[str, Any] = {"steering": "far_end", "written_ns": row.median}
        extra: dict[str, Any] = row.model_extra or {}
        parameters = row.parameters | {"pause_us": 200}
        if row.bench == "write_flights":
            more |= {"median": row.median + TRUE["entry"] + 900, "interrupts_per_operation": 1.0}
        elif row.bench == "interrupt_connect" and row.parameters["burst"] == 1:
            more["median"] = row.median - TRUE["cold"]
        elif row.bench == "handshake_idle":
            us = int(row.parameters["pause_us"])
            more["median"] = row.median + COOLS_US["syn"] * us * cools
        elif row.bench == "pingpong_block":
            later_ns = sum(cooled_ns[name] for name in ("data", "read", "write"))
            more |= {"median": row.median + later_ns, "parameters": parameters}
        elif row.bench == "epoll_block":
            read_ns, both_ns = cooled_ns["read"], cooled_ns["read"] + cooled_ns["data"]
            more |= {"median": row.median + read_ns, "cpu_ns": extra["cpu_ns"] + read_ns}
            more |= {"busy_ns": extra["busy_ns"] + both_ns, "parameters": parameters}
        return MicroResult.model_validate(row.model_dump() | more)

    return [of_packets(row) for row in micro_rounds()]


def test_connections_one_by_one_show_what_cold_caches_cost_packet_clients() -> None:
    found = fitted(rows_of_packets())
    for name, cools in COOLS_US.items():
        cost = found[f"cold.{name}"]
        at_us = sorted(cost)
        # Beyond the longest pause the cost stays.
        assert (at_us[0], at_us[-2], at_us[-1]) == (0, 5_050, 5_051)
        at_0 = COOLED.get(name, 0)
        expected = [at_0 + cools * us for us in at_us[:-1]]
        assert [cost[us] for us in at_us] == pytest.approx([*expected, expected[-1]], abs=1)
    # They are all of what idleness costs.
    assert found["interrupt.syn_cold_ns"] == found["call.accept_cold_ns"] == {0: 0}
    assert not any(key.startswith("cold.") for key in fitted(micro_rounds()))


def test_sleeping_and_waking_do_not_have_the_time_of_cold_caches() -> None:
    rows = [row for row in rows_of_packets() if not row.bench.startswith(_COLD_BENCHES)]
    warm, cold = fitted(rows), fitted(rows_of_packets(cools=True))
    for name in ("idle_exit_ns", "idle_exit_since", "wake_ns", "sleep_ns", "idle_saved_ns"):
        known = warm[f"interrupt.{name}"]
        assert cold[f"interrupt.{name}"] == pytest.approx(known, abs=2), name
    assert warm["interrupt.wake_ns"][0] > 1_000
    # Without these benches the same rows would have longer sleeps.
    rows = [row for row in rows_of_packets(cools=True) if not row.bench.startswith(_COLD_BENCHES)]
    assert fitted(rows)["interrupt.idle_exit_since"] != warm["interrupt.idle_exit_since"]


def tables(rows: list[MicroResult]) -> set[str]:
    return {key.split(".")[0] for key in fitted(rows)} & MECHANISM_TABLES.keys()


def test_every_table_of_what_was_measured_is_whole() -> None:
    found = fitted(micro_rounds())
    needed = {
        f"{table}.{name}"
        for table in FURTHER_MECHANISMS
        if table not in LENDERS or table in ("blocking", "io_uring")
        for name in required_costs(MECHANISM_TABLES[table])
    }
    assert needed <= set(found)


def test_what_was_not_measured_is_not_priced() -> None:
    first = {"select", "poll", "epoll_level"}
    assert tables(micro_rounds(commands=bench_commands(mechanisms=()))) == first
    for name in ("rt_signals", "epoll_edge", "epoll_once", "io_uring", "blocking"):
        rows = micro_rounds(commands=bench_commands(mechanisms=[name]))
        assert tables(rows) == {*first, name}


@pytest.mark.parametrize(
    ("bench", "message"),
    [
        (
            "interrupt_reset",
            "interrupt_reset mechanism none: must have at least 2 results that differ in burst",
        ),
        ("serve_calls", "serve_accept batch 64 reply 128 mechanism none: must have at least 1"),
        ("poll_first", "poll_first: must have at least 1 result, got 0"),
        ("select_sparse", "select_sparse: must have at least 2 results that differ in span"),
        ("epoll_block", "epoll_block: must have at least 1 result, got 0"),
        ("handshake_spin", "handshake_spin: must have at least 1 result, got 0"),
        ("wait_told", "wait_told mechanism epoll_edge: must have at least 2 results"),
        ("signals_flushed", "signals_flushed: must have at least 2 results that differ in queue"),
        ("wait_vain", "wait_vain mechanism epoll_edge: must have at least 1 result, got 0"),
        (
            "wait_recovers",
            "wait_recovers mechanism rt_signals: must have at least 1 result, got 0",
        ),
        ("spawn_process", "spawn_process: must have at least 1 result, got 0"),
        ("ring_block", "ring_block: must have at least 1 result, got 0"),
        ("interrupt_posted", "interrupt_posted: must have at least 1 result, got 0"),
        (
            "interrupt_signal_lost",
            "interrupt_signal_lost mechanism rt_signals: must have at least 1 result",
        ),
    ],
)
def test_a_missing_bench_is_named(bench: str, message: str) -> None:
    commands = [command for command in bench_commands() if command.split()[0] != bench]
    with pytest.raises(FitError) as caught:
        fitted(micro_rounds(commands=commands))
    assert str(caught.value).startswith(f"micro.jsonl: {message}")


def test_without_watched_sockets_the_plain_benches_do() -> None:
    commands = [c for c in bench_commands() if "mechanism epoll" not in c or "pingpong" in c]
    found = constants(micro_rounds(commands=commands))
    assert found["interrupt.data_ns"] == pytest.approx(TRUE["data"])


def test_on_loopback_nothing_is_stolen_from_the_server() -> None:
    found = constants(micro_rounds(steering="loopback"))
    assert [found[f"interrupt.{name}_ns"] for name in ("entry", "syn", "data")] == [0, 0, 0]
    assert [found[f"rt_signals.{name}_ns"] for name in ("queue", "lost")] == [0, 0]
    assert found["io_uring.post_ns"] == 0


def test_other_tasks_beside_a_wake_up_are_not_billed_to_it() -> None:
    rows = [
        row.model_copy(update={"busy_ns": 400_000.0}) if row.bench == "epoll_block" else row
        for row in micro_rounds()
    ]
    assert constants(rows)["interrupt.sleep_ns"] == pytest.approx(TRUE["sleep"] - 1000)


@pytest.mark.parametrize("bench", ["leaves_opened", "handshake_spin"])
def test_a_client_that_knows_before_the_softirq_is_over_splits_the_handshake(bench: str) -> None:
    early_ns = 2 * TRUE["delay"] + 1700
    rows = [
        row.model_copy(update={"median": row.median - early_ns}) if row.bench == bench else row
        for row in micro_rounds()
        if bench == "leaves_opened" or not row.bench.startswith("leaves_")
    ]
    found = constants(rows)
    assert found["network.delay_ns"] == 0
    assert found["interrupt.ack_ns"] == pytest.approx(1700)
    assert found["interrupt.syn_ns"] == pytest.approx(TRUE["syn"] - 1700)
    # What is dropped costs the same, whatever the ACK's part of a handshake is.
    dropped_ns = found["interrupt.syn_ns"] - found["interrupt.syn_saved_ns"]
    assert dropped_ns == pytest.approx(TRUE["dropped"])


def test_machines_measured_with_one_pause_leave_idleness_alike_after_any() -> None:
    rows = [
        row
        for row in micro_rounds()
        if not row.bench.startswith("handshake_") or row.parameters["pause_us"] == 300
    ]
    found = constants(rows)
    assert "interrupt.idle_exit_since" not in fitted(rows)
    assert found["interrupt.idle_exit_ns"] == pytest.approx(TRUE["idle_exit"] + 9_000)
    assert found["interrupt.wake_ns"] == pytest.approx(TRUE["wake"])


def test_machines_measured_before_this_bench_have_packets_leave_at_the_end_of_calls() -> None:
    found = constants([row for row in micro_rounds() if not row.bench.startswith("leaves_")])
    added = ("client.connect_after_ns", "client.close_after_ns", "call.close_delivery_ns")
    assert not set(added) & set(found)
    assert found["network.delay_ns"] == pytest.approx(TRUE["delay"])


def test_machines_measured_before_these_benches_save_nothing() -> None:
    rows = [r for r in micro_rounds() if r.bench not in ("interrupt_later", "interrupt_dropped")]
    found = constants(rows)
    assert "interrupt.data_saved_ns" not in found
    assert "interrupt.syn_saved_ns" not in found
    assert found["interrupt.data_ns"] == pytest.approx(TRUE["data"] + TRUE["callback"])


def test_a_bad_round_does_not_move_a_median() -> None:
    rows = micro_rounds(5)
    bad = [row.model_copy(update={"median": 3 * row.median}) for row in rows if row.round == 2]
    rest = [row for row in rows if row.round != 2]
    assert fitted([*rest, *bad]) == fitted(micro_rounds())


def test_a_scan_that_registers_nothing_prices_no_registration() -> None:
    rows = [
        row for row in micro_rounds() if row.bench != "poll_first" or row.parameters["first"] == 0
    ]
    with pytest.raises(FitError, match="poll_first: must have at least 1 result with first"):
        fitted(rows)
