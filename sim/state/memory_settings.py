"""Kernel memory of connections, interests, signals and threads, in bytes each.

The defaults were measured by `dispatchsim lab memory-costs` on Linux 6.18 (x86-64, pages of 4 KiB):
`calibration/memory/linux-6.18.44-fc-v782.json` has them with their scatter, and a test compares
the two. Sources: Linux include/net/request_sock.h, include/net/inet_timewait_sock.h,
fs/eventpoll.c struct epitem and eppoll_entry, fs/fcntl.c struct fasync_struct, fs/select.c struct
poll_table_entry, kernel/signal.c struct sigqueue, arch/x86/include/asm/page_64_types.h THREAD_SIZE.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from .setting import Setting

_MOST = "1 GiB"


class MemorySettings(NamedTuple):
    """Memory of the server's kernel; sim/kernel/memory.py adds it up.

    A connection is half open, then queued (its socket and its request_sock), then a descriptor.
    The server program's own memory is not included.
    """

    half_open_bytes: Annotated[int, Setting(least=0, most=_MOST, key="half_open_memory")] = 339
    """Memory of a half-open connection (struct request_sock)."""
    queued_bytes: Annotated[int, Setting(least=0, most=_MOST, key="queued_memory")] = 2859
    """Memory of a connection in the accept queue (struct tcp_sock and request_sock)."""
    socket_bytes: Annotated[int, Setting(least=0, most=_MOST, key="socket_memory")] = 3805
    """Memory of an accepted connection: socket, inode, file, directory entry."""
    time_wait_bytes: Annotated[int, Setting(least=0, most=_MOST, key="time_wait_memory")] = 254
    """Memory of a connection in TIME_WAIT (struct tcp_timewait_sock)."""
    request_bytes: Annotated[int, Setting(least=0, most=_MOST, key="request_memory")] = 1155
    """Memory of an unread request: a segment of 64 bytes and its struct sk_buff."""
    reply_kib_bytes: Annotated[int, Setting(least=0, most=_MOST, key="reply_memory")] = 1439
    """Memory of one KiB of a reply in the send buffer."""
    epoll_bytes: Annotated[int, Setting(least=0, most=_MOST, key="epoll_memory")] = 207
    """Memory of a descriptor in an epoll set."""
    poll_bytes: Annotated[int, Setting(least=0, most=_MOST, key="poll_memory")] = 81
    """Memory of a descriptor in a poll, including 8 bytes of the caller's array."""
    select_bytes: Annotated[int, Setting(least=0, most=_MOST, key="select_memory")] = 66
    """Memory of a descriptor in a select."""
    armed_bytes: Annotated[int, Setting(least=0, most=_MOST, key="armed_memory")] = 110
    """Memory of a descriptor that sends signals (struct fasync_struct, fown_struct)."""
    signal_bytes: Annotated[int, Setting(least=0, most=_MOST, key="signal_memory")] = 80
    """Memory of a queued signal (struct sigqueue)."""
    thread_bytes: Annotated[int, Setting(least=0, most=_MOST, key="thread_memory")] = 34_719
    """Memory of a thread: kernel stack, touched pages of its own stack, page tables."""
