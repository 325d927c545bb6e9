"""From the section [server] of a scenario to the settings of its program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..sim.state.settings import ServerSettings
from .server_keys import RECOVERIES, SHARING, THREADS

if TYPE_CHECKING:
    from .server import Server


def program_settings(server: Server) -> ServerSettings:
    """Return what the program is told; the machine's CPUs are not in it."""
    return ServerSettings(
        accept_limit=server.accept_limit,
        accept_each_signal=server.accept_each_signal,
        listener_last=server.listener == "last",
        read_after_accept=server.read_after_accept,
        backlog=server.backlog,
        refuse=server.backlog_full == "refuse",
        syn_cookies=server.syn_cookies,
        closes_first=server.closes_first,
        drops_half_closed=server.drops_half_closed,
        writes_when_told=server.writes == "when told",
        busy=server.busy,
        remembers=server.remembers,
        signal_queue=server.signal_queue,
        signals_elsewhere=server.signals_elsewhere,
        signal_numbers=server.signal_numbers,
        recovery=int(RECOVERIES[server.recovery]),
        recovery_array_kept=server.recovery_array == "kept",
        recovery_hands_over=server.recovery_thread == "sibling",
        overflow_told_last=server.overflow_told == "last",
        removes_first=server.removes_first,
        array_rebuilt=server.array == "rebuilt",
        concurrent_threads=server.concurrent_threads,
        sends_block=server.sends == "blocking",
        limiter_gain_permille=round(server.limiter_gain * 1000),
        limiter_threshold=server.limiter_threshold,
        concurrency_tolerance_permille=round(server.concurrency_tolerance * 1000),
        queue_deadline_ns=server.queue_deadline,
        queue_interval_ns=server.queue_interval,
        drop_above=server.drop_above,
        request_timeout_ns=server.request_timeout,
        timeout_check_ns=server.timeout_check,
        poll_above=server.poll_above,
        calm_below=server.calm_below,
        max_events=server.max_events,
        fd_limit=server.descriptors,
        fd_setsize=server.fd_setsize,
        send_buffer_bytes=server.send_buffer,
        workers=server.workers,
        sharing=int(SHARING[server.share]),
        wake_one=server.wakes_one,
        passes_listener=server.pass_listener,
        epoll_watches=server.epoll_watches,
        epoll_instances=server.epoll_instances,
        threads=int(THREADS[server.threads]),
        stack_bytes=server.stack,
        address_space_bytes=server.address_space or 0,
    )
