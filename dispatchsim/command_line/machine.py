"""The commands that measure a machine: its calls and runs, its overload, floods of datagrams."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Required, TypedDict

import typer

from ..scenario.errors import UserError
from .door import keeping, notes
from .working import building, conclude, share_of

if TYPE_CHECKING:
    from ..calibration.measure.machine_campaigns import Kind as CampaignKind
    from ..calibration.measure.target import Target
    from ..calibration.testbed.testbed import Steering


class _Plan(TypedDict, total=False):
    """Parameters of `run_campaign`."""

    kind: Required[CampaignKind]
    repeats: Required[int | None]
    within: float | None
    budget_s: float


class Kind(StrEnum):
    """What is measured."""

    ALL = "all"
    MICRO = "micro"
    FIT = "fit"
    HELDOUT = "heldout"


class TargetChoice(StrEnum):
    """Which machine is measured."""

    HARDWARE = "hardware"
    EMULATED = "emulated"


class SteeringChoice(StrEnum):
    """Where server and clients run."""

    NAMESPACES = "namespaces"
    CLIENT_MACHINE = "client_machine"
    LOOPBACK = "loopback"


class OverloadSteeringChoice(StrEnum):
    """Where server and clients run while a server is overloaded."""

    NAMESPACES = "namespaces"
    CLIENT_MACHINE = "client_machine"


_RECORDED: dict[str, Steering] = {
    "namespaces": "namespaces",
    "client_machine": "far_end",
    "loopback": "loopback",
}
"""What data files call each way to keep server and clients apart."""

WHERE_CLIENTS_RUN = "Where the clients run, and how their packets reach the server."
NAMESPACES = "namespaces: each side in a network namespace (root)."
_CLIENT_MACHINE = (
    "client_machine: a program imitates a separate client machine by sending raw packets (root)."
)
LOOPBACK = (
    "loopback: needs no root, but packets to the server are processed on the client's CPU, so "
    "capacity is unreliable. Default: namespaces if possible, else loopback."
)
RESUMED = "If the folder holds some, the measurement continues from there."

MachineFolder = Annotated[
    Path | None,
    typer.Option(help=f"Folder for the results. {RESUMED} Default: measured/MACHINE."),
]
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway",
        help="Measure in spite of any of these: the host steals more than 5% of a CPU; another "
        "guest shares the core for more than half of the time; the load generator is too slow.",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option("--repeats", min=1, max=1000, help="Maximum runs of each load. Default: 3."),
]
Quick = Annotated[bool, typer.Option("--quick", help="Measure about one case in seven.")]


def measure_machine(
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="micro: costs of single calls. fit: further runs for the fit of a profile. "
            "heldout: runs to validate the profile with. all: these three.",
        ),
    ] = Kind.ALL,
    *,
    output: MachineFolder = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A shorter measurement. On hardware, 'all' measures only 'micro' and 'fit': two "
            "to five minutes, enough for a profile. 'heldout', if asked for by name, measures "
            "every eighth load. On the emulated target, 'all' measures all three kinds, at every "
            "tenth load.",
        ),
    ] = False,
    minutes: Annotated[
        float,
        typer.Option(min=1, help="On hardware, begin no run after this many minutes."),
    ] = 90.0,
    mechanisms: Annotated[
        str | None,
        typer.Option(
            help="Measure only these mechanisms, separated by commas. Default: all that a stock "
            "Linux has."
        ),
    ] = None,
    target: Annotated[
        TargetChoice,
        typer.Option(help="This machine, or an emulated one that counts instructions (QEMU)."),
    ] = TargetChoice.HARDWARE,
    steering: Annotated[
        SteeringChoice | None,
        typer.Option(help=f"{WHERE_CLIENTS_RUN} {NAMESPACES} {_CLIENT_MACHINE} {LOOPBACK}"),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Maximum runs of each load. Default: 10 on hardware, 5 on the emulated target.",
        ),
    ] = None,
    within: Annotated[
        str,
        typer.Option(
            help="Repeat a held-out load, three times or more, until the 95% intervals of request "
            "rate and CPU are this narrow. With 0, always repeat it --repeats times.",
        ),
    ] = "3%",
    anyway: Anyway = False,
) -> None:
    """Measure the costs of system calls and of C servers on a machine.

    dispatchsim measure machine --quick --output my-machine

    The whole takes 90 minutes. Every finished run is on disk, and the same command resumes.
    --target hardware needs gcc, make and two idle CPUs. --target emulated needs QEMU and the
    sources of Linux, but no idle CPUs; it builds a kernel once (minutes).
    """
    from ..calibration.measure.campaign import check_machine
    from ..calibration.measure.campaign_progress import campaign_bar
    from ..calibration.measure.machine_campaigns import run_campaign

    closeness = closeness_of(within)
    names = _stock_mechanisms(mechanisms, target)
    _check_not_file(output)
    if output is not None:
        check_machine(output, _id_of(target))
    with _opened(target, steering, names) as machine:
        folder = output or Path("measured") / str(machine.facts()["id"])
        with keeping(folder), campaign_bar(notes()) as progress:
            summary = run_campaign(
                machine,
                output=folder,
                quick=quick,
                anyway=anyway,
                progress=progress,
                **_plan(kind, target, repeats, quick=quick, minutes=minutes, within=closeness),
            )
    conclude(summary, folder)


def measure_overload(
    *,
    output: MachineFolder = None,
    quick: Quick = False,
    repeats: Rounds = None,
    steering: Annotated[
        OverloadSteeringChoice,
        typer.Option(help=f"{WHERE_CLIENTS_RUN} {NAMESPACES} {_CLIENT_MACHINE}"),
    ] = OverloadSteeringChoice.NAMESPACES,
    anyway: Anyway = False,
) -> None:
    """Measure overload, full queues and retry storms.

    dispatchsim measure overload --quick --output my-machine
    """
    from ..calibration.measure.campaign_progress import campaign_bar
    from ..calibration.measure.machine_campaigns import run_overload_campaign

    folder = _folder_of_hardware(output)
    with keeping(folder), campaign_bar(notes()) as progress:
        summary = run_overload_campaign(
            folder,
            repeats=repeats,
            quick=quick,
            steering="far_end" if steering.value == "client_machine" else "namespaces",
            anyway=anyway,
            progress=progress,
        )
    conclude(summary, folder)


def measure_flood(
    *,
    output: MachineFolder = None,
    quick: Quick = False,
    repeats: Rounds = None,
    anyway: Anyway = False,
) -> None:
    """Measure the CPU time that a busy process loses to datagrams.

    dispatchsim measure flood --quick --output my-machine

    Datagrams arrive at rising rates in a network namespace, which needs root.
    """
    from ..calibration.measure.campaign_progress import campaign_bar
    from ..calibration.measure.machine_campaigns import run_flood_campaign

    folder = _folder_of_hardware(output)
    with keeping(folder), campaign_bar(notes()) as progress:
        summary = run_flood_campaign(
            folder, repeats=repeats, quick=quick, anyway=anyway, progress=progress
        )
    conclude(summary, folder)


def closeness_of(within: str) -> float | None:
    """Return the share that --within gives; None for 0, which is never reached."""
    return None if re.fullmatch(r" *0+(\.0+)? ?%? *", within) else share_of(within)


def _check_not_file(output: Path | None) -> None:
    if output is not None and output.exists() and not output.is_dir():
        raise UserError(f"--output: must be a folder, got the file {output}")


def _folder_of_hardware(output: Path | None) -> Path:
    """Return the folder for runs of this machine; refuse that of another one."""
    from ..calibration.measure.campaign import check_machine

    _check_not_file(output)
    machine = _id_of(TargetChoice.HARDWARE)
    if output is not None:
        check_machine(output, machine)
    return output or Path("measured") / machine


def _plan(
    kind: Kind,
    target: TargetChoice,
    repeats: int | None,
    *,
    quick: bool,
    minutes: float,
    within: float | None,
) -> _Plan:
    """Return what a campaign measures, how often and how long, which depends on the machine."""
    from ..calibration.measure.machine_campaigns import QUICK_ROUNDS

    if target is not TargetChoice.HARDWARE:
        # Guests that count are not noisy: another repeat differs in its arrivals only.
        return {"kind": kind.value, "repeats": repeats}
    for_profile = quick and kind is Kind.ALL
    return {
        "kind": "profile" if for_profile else kind.value,
        "repeats": repeats or (QUICK_ROUNDS if for_profile else None),
        "within": within,
        "budget_s": minutes * 60,
    }


def _id_of(choice: TargetChoice) -> str:
    """Return the id of the machine under test, which is known before anything is built."""
    from ..calibration.emulated.target import ID
    from ..calibration.testbed.machine_facts import machine_id

    return machine_id() if choice is TargetChoice.HARDWARE else ID


def _stock_mechanisms(given: str | None, choice: TargetChoice) -> list[str]:
    """Return the mechanisms to measure; those of an emulated target are its own."""
    from ..calibration.points.points import STOCK_MECHANISMS
    from ..scenario.errors import one_of

    if given is None:
        return list(STOCK_MECHANISMS)
    if choice is not TargetChoice.HARDWARE:
        raise UserError(f"--mechanisms: must be absent for an emulated target, got {given}")
    names = list(dict.fromkeys(name.strip() for name in given.split(",")))
    for name in names:
        if name not in STOCK_MECHANISMS:
            raise UserError(f'--mechanisms: {one_of(name, STOCK_MECHANISMS)}, got "{name}"')
    return names


@contextlib.contextmanager
def _opened(
    choice: TargetChoice, steering: SteeringChoice | None, mechanisms: Sequence[str]
) -> Iterator[Target]:
    """Yield the machine under test; a missing requirement is an error before anything begins."""
    if choice is TargetChoice.HARDWARE:
        from ..calibration.measure.target import hardware_target

        with hardware_target(
            steering=None if steering is None else _RECORDED[steering.value],
            mechanisms=mechanisms,
        ) as hardware:
            yield hardware
        return
    from ..calibration.emulated.target import emulated_target

    if steering is not None:
        raise UserError(f"--steering: must be absent for an emulated target, got {steering}")
    with building() as progress:
        emulated = emulated_target(progress)
    yield emulated
