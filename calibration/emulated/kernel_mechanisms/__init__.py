"""Mechanisms that were never merged into Linux, as insertions into a kernel or as modules.

SIGNAL_PER_FD  EPOLL_CTLV     insertions: kernel(patches=INSERTIONS) builds the kernel of both
SIGTIMEDWAIT4  DEV_POLL       folders of modules: build_module(SIGTIMEDWAIT4, kernel(...))
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent

SIGNAL_PER_FD = _HERE / "signal_per_fd/signal_per_fd.insert"
EPOLL_CTLV = _HERE / "epoll_ctlv/epoll_ctlv.insert"
INSERTIONS = (SIGNAL_PER_FD, EPOLL_CTLV)

SIGTIMEDWAIT4 = _HERE / "sigtimedwait4"
DEV_POLL = _HERE / "dev_poll"
MODULES = (SIGTIMEDWAIT4, DEV_POLL)
