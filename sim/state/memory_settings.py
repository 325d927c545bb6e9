"""What the server's kernel keeps of connections, interests, signals and threads, in bytes each.

The defaults are what `dispatchsim lab memory-prices` found on Linux 6.18 (x86-64, pages of 4 KiB):
`calibration/memory/linux-6.18.44-fc-v782.json` has them with their scatter, and a test holds the
two together. Sources: Linux include/net/request_sock.h, include/net/inet_timewait_sock.h,
fs/eventpoll.c struct epitem and eppoll_entry, fs/fcntl.c struct fasync_struct, fs/select.c struct
poll_table_entry, kernel/signal.c struct sigqueue, arch/x86/include/asm/page_64_types.h THREAD_SIZE.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from .setting import Setting

_MOST = "1 GiB"


class MemorySettings(NamedTuple):
    """Memory of the server's kernel; sim/kernel/memory.py adds it up.

    A connection is half open, then queued (its socket, and the request that made it), then a
    descriptor. What the server program keeps of its own is no part of it.
    """

    half_open_bytes: Annotated[int, Setting(least=0, most=_MOST, key="half_open_memory")] = 339
    """What a half-open connection takes (struct request_sock)."""
    queued_bytes: Annotated[int, Setting(least=0, most=_MOST, key="queued_memory")] = 2859
    """What a connection takes that waits to be accepted (struct tcp_sock, and the former)."""
    socket_bytes: Annotated[int, Setting(least=0, most=_MOST, key="socket_memory")] = 3805
    """What an accepted connection takes: socket, inode, file, directory entry."""
    time_wait_bytes: Annotated[int, Setting(least=0, most=_MOST, key="time_wait_memory")] = 254
    """What a connection in TIME_WAIT takes (struct tcp_timewait_sock)."""
    request_bytes: Annotated[int, Setting(least=0, most=_MOST, key="request_memory")] = 1155
    """What a request takes that waits to be read: a segment of 64 bytes and its struct sk_buff."""
    reply_kib_bytes: Annotated[int, Setting(least=0, most=_MOST, key="reply_memory")] = 1439
    """What a KiB of a reply takes in the send buffer."""
    epoll_bytes: Annotated[int, Setting(least=0, most=_MOST, key="epoll_memory")] = 207
    """What a descriptor takes in an epoll set."""
    poll_bytes: Annotated[int, Setting(least=0, most=_MOST, key="poll_memory")] = 81
    """What a descriptor takes in a poll: the caller's array of 8 bytes is in it."""
    select_bytes: Annotated[int, Setting(least=0, most=_MOST, key="select_memory")] = 66
    """What a descriptor takes in a select."""
    armed_bytes: Annotated[int, Setting(least=0, most=_MOST, key="armed_memory")] = 110
    """What a descriptor takes whose events are signalled (struct fasync_struct, fown_struct)."""
    signal_bytes: Annotated[int, Setting(least=0, most=_MOST, key="signal_memory")] = 80
    """What a queued signal takes (struct sigqueue)."""
    thread_bytes: Annotated[int, Setting(least=0, most=_MOST, key="thread_memory")] = 34_719
    """What a thread takes: its stack in the kernel, what its own stack has touched, page tables."""
