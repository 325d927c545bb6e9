"""nginx: one event loop a worker process, edge-triggered epoll, several ways to share a listener.

                    accept_mutex off    one queue; EPOLLEXCLUSIVE wakes one worker
    two workers     accept_mutex on     one queue; only who holds the lock watches it
                    reuseport           a queue for each

Sources: nginx documentation, ngx_core_module and ngx_http_core_module (listen, reuseport).
"""

from __future__ import annotations

from dataclasses import replace

from ...calibration.observed.habits import Habits
from ...calibration.observed.observing import Asking
from .description import ADDRESS, FOLDER, RealServer, Variant

_PORT = 18080
_BODY = "dispatchsim " * 10 + "12345678"
_ONE = Habits("epoll_edge", accept_limit=1)


def _variant(
    name: str,
    habits: Habits,
    *,
    multi_accept: bool = False,
    accept_mutex: bool = False,
    reuseport: bool = False,
) -> Variant:
    """Return nginx with these directives; its answer has a body of 128 bytes."""
    # Made by the master, each for the user of the workers; the folder itself stays the master's.
    scratch = "\n".join(
        f"    {kind}_temp_path {FOLDER}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = f"""\
worker_processes {habits.workers};
worker_rlimit_nofile 20000;
daemon off;
pid {FOLDER}/nginx.pid;
error_log stderr;
events {{
    worker_connections 16000;
    multi_accept {"on" if multi_accept else "off"};
    accept_mutex {"on" if accept_mutex else "off"};
}}
http {{
    access_log off;
    keepalive_requests 1000000;
    keepalive_timeout 1h;
    client_header_timeout 1h;
{scratch}
    server {{
        listen {ADDRESS}:{_PORT} backlog=4096{" reuseport" if reuseport else ""};
        location / {{ return 200 "{_BODY}"; }}
    }}
}}
"""
    file = f"{name.replace(' ', '_')}.conf"
    command = ("nginx", "-e", "stderr", "-p", FOLDER, "-c", f"{FOLDER}/{file}")
    return Variant(name, habits, command, files={file: text})


_TWO = replace(_ONE, workers=2)

NGINX = RealServer(
    name="nginx",
    package="nginx-light",
    port=_PORT,
    asking=Asking(protocol="http/1.1"),
    fitted=_variant("one worker", _ONE),
    others=(
        _variant("multi_accept", replace(_ONE, accept_limit=0), multi_accept=True),
        _variant("two workers", replace(_TWO, wake="one")),
        _variant("accept_mutex", replace(_TWO, wake="one"), accept_mutex=True),
        _variant("reuseport", replace(_TWO, share="nothing"), reuseport=True),
    ),
)
