"""The machine under test: two network namespaces, so that the server's CPU is the bottleneck.

         dispatchsim-PID-server                     dispatchsim-PID-client
         server, CPU 0   10.213.0.1 ◄──── veth ────► 10.213.0.2   load, idle, CPU 1
         rps_cpus 1: received on CPU 0              rps_cpus 0: received on the sending CPU

With the steering `far_end` the clients are packets of a program at the client's end of the link,
from addresses that no kernel owns; everything else is as with namespaces.

On plain loopback the sender's CPU receives, so the client saturates before the server. If
namespaces cannot be created, the testbed uses loopback, and its runs have the steering `loopback`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Steering = Literal["namespaces", "far_end", "loopback"]

SERVER_CPU = 0
CLIENT_CPU = 1
_PREFIX = "dispatchsim-"
_SERVER_ADDRESS = "10.213.0.1"
_CLIENT_ADDRESS = "10.213.0.2"
_SERVER_MAC = "02:d5:00:00:00:01"
_CLIENT_MAC = "02:d5:00:00:00:02"
_FAR_MAC = "02:d5:00:00:00:03"
"""Of no interface: the client's kernel drops packets to it at once (ip_rcv, PACKET_OTHERHOST)."""
_FAR_ADDRESSES = [f"10.213.0.{last}" for last in range(16, 32)]
"""Addresses of packet clients: no kernel owns them, so none resets their connections."""
_SYSCTLS = {
    "net/ipv4/tcp_syncookies": "0",
    "net/core/somaxconn": "65535",
    "net/ipv4/tcp_max_syn_backlog": "65535",
    "net/ipv4/ip_local_port_range": "28232 65535",
    "net/ipv6/conf/all/disable_ipv6": "1",
}


class TestbedError(RuntimeError):
    """The namespaces could not be created. The message names the failed command."""

    __test__ = False  # otherwise pytest collects a class of this name


@dataclass(frozen=True)
class Testbed:
    """The places of server and client, and how to start a program there."""

    __test__ = False

    steering: Steering
    address: str
    server_prefix: tuple[str, ...] = ()
    client_prefix: tuple[str, ...] = ()
    notice: str = ""
    server_cpu: int = SERVER_CPU
    client_cpu: int = field(default=CLIENT_CPU)
    far_end: tuple[str, ...] = ()
    """The options of `far_end` to reach the server; empty: clients have sockets."""

    def on_server(self, *command: str) -> list[str]:
        """Return the command line that runs *command* on the server's side."""
        return [*self.server_prefix, *command]

    def on_client(self, *command: str) -> list[str]:
        """Return the command line that runs *command* on the client's side."""
        return [*self.client_prefix, *command]

    def micro_options(self) -> list[str]:
        """Return the options of `micro` for the places of its two threads."""
        options = ["--server-cpu", str(self.server_cpu), "--peer-cpu", str(self.client_cpu)]
        if self.steering == "loopback":
            return options
        return [
            *options,
            "--server-netns", f"/run/netns/{self.server_prefix[-1]}",
            "--peer-netns", f"/run/netns/{self.client_prefix[-1]}",
            "--server-address", self.address,
            *self.far_end,
        ]  # fmt: skip


def why_no_namespaces() -> str:
    """Return why namespaces cannot be created here, or an empty string."""
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("ip") is None:
        return "no program `ip` (apt-get install iproute2)"
    return ""


@contextlib.contextmanager
def open_testbed(steering: Steering | None = None) -> Iterator[Testbed]:
    """Yield a testbed, and remove all of it afterwards, even after errors.

    Parameters
    ----------
    steering
        `namespaces` and `far_end` fail if namespaces cannot be created; `loopback` needs none. None
        tries `namespaces`, then loopback with a notice.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise TestbedError(
            f"a testbed needs 2 CPUs, one for the server and one for the client, got {len(cpus)}"
        )
    reason = "requested" if steering == "loopback" else why_no_namespaces()
    if reason and steering is not None and steering != "loopback":
        raise TestbedError(f"network namespaces cannot be created: {reason}")
    if not reason:
        sweep_stale_namespaces()
        try:
            yield from _namespaces(cpus[0], cpus[1], has_far_end=steering == "far_end")
            return
        except _SetupError as error:
            if steering is not None:
                raise TestbedError(str(error)) from error
            reason = str(error)
    yield Testbed(
        steering="loopback",
        address="127.0.0.1",
        notice=f"plain loopback ({reason}): the client's CPU receives for the server, "
        "so these runs do not show the server's capacity",
        server_cpu=cpus[0],
        client_cpu=cpus[1],
    )


class _SetupError(RuntimeError):
    """A command to create the namespaces failed."""


def _namespaces(server_cpu: int, client_cpu: int, *, has_far_end: bool) -> Iterator[Testbed]:
    """Create the two namespaces and the link between them, yield, remove them."""
    server, client = (f"{_PREFIX}{os.getpid()}-{side}" for side in ("server", "client"))
    server_link, client_link = (f"ds{os.getpid()}{side}" for side in "sc")
    try:
        for name in (server, client):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
            _set_sysctls(name)
        _ip("link", "add", server_link, "netns", server, "address", _SERVER_MAC, "type", "veth",
            "peer", "name", client_link, "netns", client, "address", _CLIENT_MAC)  # fmt: skip
        for name, link, address in (
            (server, server_link, _SERVER_ADDRESS),
            (client, client_link, _CLIENT_ADDRESS),
        ):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", link)
            _ip("-n", name, "link", "set", link, "up")
        _steer(server, server_link, 1 << server_cpu)
        _steer(client, client_link, 0)
        for address in _FAR_ADDRESSES if has_far_end else ():
            _ip("-n", server, "neigh", "add", address, "lladdr", _FAR_MAC, "dev", server_link)
        far_end = (
            "--interface", client_link, "--mac", _FAR_MAC, "--server-mac", _SERVER_MAC,
            "--source", _FAR_ADDRESSES[0], "--sources", str(len(_FAR_ADDRESSES)),
        )  # fmt: skip
        yield Testbed(
            steering="far_end" if has_far_end else "namespaces",
            address=_SERVER_ADDRESS,
            server_prefix=("ip", "netns", "exec", server),
            client_prefix=("ip", "netns", "exec", client),
            far_end=far_end if has_far_end else (),
            server_cpu=server_cpu,
            client_cpu=client_cpu,
        )
    finally:
        for name in (server, client):
            _remove(name)


def _set_sysctls(namespace: str) -> None:
    """Set the network limits of *namespace*, so that only the point's options limit."""
    script = "\n".join(
        f"[ ! -e /proc/sys/{name} ] || echo '{value}' > /proc/sys/{name}"
        for name, value in _SYSCTLS.items()
    )
    _ip("netns", "exec", namespace, "sh", "-ec", script)


def _steer(namespace: str, link: str, mask: int) -> None:
    """Set the CPUs that process packets received on *link*; 0: the sending CPU."""
    # `ip netns exec` mounts the namespace's own sysfs; without it the link is not visible.
    files = f"/sys/class/net/{link}/queues/rx-*/rps_cpus"
    script = f"for file in {files}; do echo {mask:x} > $file; done"
    _ip("netns", "exec", namespace, "sh", "-ec", script)


def _ip(*arguments: str) -> None:
    """Run `ip`; raise an error with its message if it fails."""
    finished = subprocess.run(
        ["ip", *arguments], capture_output=True, text=True, timeout=20, check=False
    )
    if finished.returncode != 0:
        said = finished.stderr.strip().splitlines() or ["no message"]
        raise _SetupError(f"`ip {' '.join(arguments[:4])}` failed: {said[-1]}")


def _remove(namespace: str) -> None:
    """Remove one of our namespaces with its end of the link, which also removes the other end."""
    if Path("/run/netns", namespace).exists():
        subprocess.run(
            ["ip", "netns", "del", namespace], capture_output=True, timeout=20, check=False
        )


def sweep_stale_namespaces(folder: Path = Path("/run/netns")) -> list[str]:
    """Remove namespaces of killed campaigns, named by processes that no longer exist."""
    swept = []
    for path in sorted(folder.glob(f"{_PREFIX}*-*")):
        pid_text = path.name.removeprefix(_PREFIX).partition("-")[0]
        if pid_text.isdigit() and not Path("/proc", pid_text).exists():
            _remove(path.name)
            swept.append(path.name)
    return swept
