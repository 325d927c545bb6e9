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

from dispatchsim.calibration.emulated.determinism import (
    LENGTHS,
    POINT,
    SEED,
    Experiment,
    Seen,
    seen_of,
)
from dispatchsim.calibration.emulated.guest_frames import macro_frames
from dispatchsim.calibration.emulated.guest_programs import guest_code
from dispatchsim.calibration.emulated.guest_run import image_of, qemu_command
from dispatchsim.calibration.emulated.target import qemu_version
from dispatchsim.calibration.testbed.machine_facts import gcc_version

STORED = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class StoredPoint:
    """What a run came to, what decides that (`made_from`), and names of it for people."""

    seen: Seen
    made_from: dict[str, str]
    made_with: dict[str, str]


def measured_point() -> StoredPoint:
    """Return what the point comes to on this machine."""
    experiment = Experiment()
    output = experiment.run()
    content = macro_frames(output.frames, experiment.counters)
    nowhere = Path("/")  # the only part of the command that is not the same every time
    options = qemu_command(experiment.kernel, nowhere)
    options.remove(str(experiment.kernel.image))
    return StoredPoint(
        seen=seen_of(output.frames, content, output.wall_s),
        made_from={
            "qemu": qemu_version(),
            "qemu_options": _digest(" ".join(options).encode()),
            "kernel": _digest(experiment.kernel.image.read_bytes()),
            "initramfs": _digest(image_of(experiment.job, experiment.init)),
        },
        made_with={
            "kernel_build": experiment.kernel.id,
            "code": guest_code(),
            "gcc": gcc_version(),
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
