"""One operating point of the emulated target, with what it came to when it was stored.

    python -P tests/calibration/emulated/stored_point.py      measure it and store it again

Stored beside the value is what it was made from, to the byte: the same emulator with the same
kernel and the same initial files must give the same to the bit. Other compilers or packages make
other bytes, whose cost is only about the same.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatchsim.calibration.emulated.guest_image import (
    counter_names,
    guest_code,
    init_program,
    server_program,
)
from dispatchsim.calibration.emulated.guest_run import (
    QEMU,
    Frames,
    MacroFrames,
    image_of,
    macro_frames,
    qemu_command,
    run_guest,
)
from dispatchsim.calibration.emulated.kernel_build import WIRE_FOLDER, build_module, kernel
from dispatchsim.calibration.emulated.macro_run import job_of
from dispatchsim.calibration.emulated.run_lengths import RunLengths
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.records.run_result import difference
from dispatchsim.calibration.testbed.machine_facts import version_of

POINT = point_at(mechanism="epoll_level", loop="open", rate_per_s=5_000)
"""Half idle: the guest falls asleep some 3,000 times a second, which is when things go wrong."""

LENGTHS = RunLengths(warm_up_ns=100_000_000, window_ns=200_000_000)
SEED = 1
STORED = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Seen:
    """What one run came to; `cpu_ns` is the CPU's busy time in the window."""

    digest: str
    cpu_ns: int
    counts: dict[str, int]
    wall_s: float

    @property
    def cpu_ns_per_request(self) -> float:
        """The server's CPU time a reply; its error is that of `cpu_ns`, 1 us in the window."""
        return self.cpu_ns / self.counts["replies"]


@dataclass(frozen=True)
class StoredPoint:
    """What a run came to, what decides that (`made_from`), and names of it for people."""

    seen: Seen
    made_from: dict[str, str]
    made_with: dict[str, str]


def digest_of(frames: Frames) -> str:
    """Return twelve hexadecimal digits that change with any bit of any frame."""
    digest = hashlib.sha256()
    for name, content in sorted(frames.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def seen_of(frames: Frames, content: MacroFrames, wall_s: float) -> Seen:
    """Return what a run came to."""
    on_wire = difference(content.wire_before, content.wire_after)
    wire = {name: on_wire[name] for name in _WIRE_COUNTS}
    calls = difference(content.counters_before, content.counters_after)
    busy_ns = wire.pop("now_ns") - wire.pop("idle_ns")
    return Seen(digest_of(frames), busy_ns, {**calls, **wire}, wall_s)


_WIRE_COUNTS = (
    "now_ns", "idle_ns", "n_interrupts", "n_polls", "n_packets_to_server", "n_packets_from_server",
    "n_started", "n_finished",
)  # fmt: skip


def measured_point() -> StoredPoint:
    """Return what the point comes to on this machine."""
    built, init, server = kernel(), init_program(), server_program()
    modules = (build_module(WIRE_FOLDER, built),)
    job = job_of(POINT, SEED, LENGTHS, server=server, modules=modules)
    output = run_guest(job, kernel=built, init=init)
    content = macro_frames(output.frames, counter_names(server))
    nowhere = Path("/")  # the only part of the command that is not the same every time
    options = qemu_command(built, nowhere)
    options.remove(str(built.image))
    return StoredPoint(
        seen=seen_of(output.frames, content, output.wall_s),
        made_from={
            "qemu": version_of(QEMU),
            "qemu_options": _digest(" ".join(options).encode()),
            "kernel": _digest(built.image.read_bytes()),
            "initramfs": _digest(image_of(job, init)),
        },
        made_with={
            "kernel_build": built.id,
            "code": guest_code(),
            "gcc": version_of("gcc"),
        },
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def read_stored_point(path: Path = STORED) -> StoredPoint:
    """Return the point as it was stored."""
    data = json.loads(path.read_text())
    seen = Seen(data["output"], data["cpu_ns"], data["counts"], wall_s=0.0)
    return StoredPoint(seen, data["made_from"], data["made_with"])


def as_json(point: StoredPoint) -> str:
    """Return the text to store."""
    data: dict[str, Any] = {
        "what": f"{POINT.label}, arrivals of seed {SEED}, {LENGTHS}",
        "made_with": point.made_with,
        "made_from": point.made_from,
        "cpu_ns_per_request": round(point.seen.cpu_ns_per_request, 3),
        "cpu_ns": point.seen.cpu_ns,
        "output": point.seen.digest,
        "counts": point.seen.counts,
    }
    return json.dumps(data, indent=2) + "\n"


if __name__ == "__main__":
    STORED.write_text(as_json(measured_point()))
    print(f"stored in {STORED.name}: {STORED.read_text()}", end="")
