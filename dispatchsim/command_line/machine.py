"""Commands for a machine of one's own: measure it, price it (calibrate.py)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Required, TypedDict, cast

import typer

from ..scenario.errors import UserError
from . import measure_server as of_server
from .door import keeping, notes
from .options import grouped
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

    MICRO = "micro"
    FIT = "fit"
    HELDOUT = "heldout"
    ALL = "all"
    OVERLOAD = "overload"
    FLOOD = "flood"


class TargetChoice(StrEnum):
    """What machine is measured."""

    HARDWARE = "hardware"
    EMULATED = "emulated"


class SteeringChoice(StrEnum):
    """Where server and client run."""

    NAMESPACES = "namespaces"
    FAR_END = "far_end"
    LOOPBACK = "loopback"


@grouped
def measure(
    kind: Annotated[
        Kind,
        typer.Argument(
            help="micro: prices of calls; fit, heldout: whole runs; all: these three. "
            "overload: loads beyond the capacity, queues that overflow, retry storms. "
            "flood: datagrams beside a process that computes, from a socket (no far_end)."
        ),
    ] = Kind.ALL,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the runs; measured/MACHINE, or measured/SERVER, if absent. Work is "
            "resumed."
        ),
    ] = None,
    target: Annotated[
        TargetChoice,
        typer.Option(help="This machine, or a counted one: a Linux of our own in QEMU."),
    ] = TargetChoice.HARDWARE,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Rounds over everything, at most; 10 on hardware and of a server, 5 emulated, "
            "3 of overload and flood.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            help="Two minutes on hardware: brief benches and fit runs, enough for a profile; of "
            "held-out points, where these are asked for, one in eight. Elsewhere one in ten."
        ),
    ] = False,
    minutes: Annotated[
        float,
        typer.Option(
            min=1,
            help="No run of hardware, or of a server, begins later; the same command goes on with "
            "the rest.",
        ),
    ] = 90.0,
    within: Annotated[
        str,
        typer.Option(
            help="A held-out point of hardware, or a load of a server, with three accepted runs is "
            "measured no further once the 95% interval of the mean of requests/s, and that of CPU, "
            "is at most this share to either side; 0: all rounds.",
        ),
    ] = "3%",
    steering: Annotated[
        SteeringChoice | None,
        typer.Option(
            help="namespaces and far_end (clients without a TCP stack) need root; without, "
            "loopback, which says less."
        ),
    ] = None,
    mechanisms: Annotated[
        str | None,
        typer.Option(help="Of hardware, separated by commas; all that every Linux runs if absent."),
    ] = None,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Measure a machine too noisy, too: its host keeps over 5% of a CPU, or shares its "
            "core over half of the time. And loads beyond the load generator, whose runs are "
            "rejected.",
        ),
    ] = False,
    black_box: of_server.ServerOptions,
) -> None:
    """Measure a machine with real C servers (90 minutes; every finished run is on disk).

    Hardware needs gcc and make, and 2 CPUs with nothing else to do; as root, server and clients
    are kept apart in network namespaces. The emulated target needs QEMU and the sources of Linux,
    of which it builds a kernel once (minutes); it may share its CPUs with anything.

    With --server or --pid it is somebody's server that is measured, as a black box and in minutes:
    timed runs, and one apart in which its system calls are counted to see what it does.
    """
    from ..calibration.measure.campaign import check_machine
    from ..calibration.measure.campaign_progress import campaign_bar
    from ..calibration.measure.machine_campaigns import (
        run_campaign,
        run_flood_campaign,
        run_overload_campaign,
    )

    closeness = None if re.fullmatch(r" *0+(\.0+)? ?%? *", within) else share_of(within)
    if black_box.is_asked:
        _check_only_server(kind, target, mechanisms, quick=quick)
        if steering is SteeringChoice.FAR_END:
            raise UserError("--steering: a server is measured over sockets, got far_end")
        where = None if steering is None else steering.value
        of_server.measure_black_box(
            black_box,
            output,
            repeats,
            cast("Steering | None", where),
            minutes=minutes,
            within=closeness,
            anyway=anyway,
        )
        return
    names = _stock_mechanisms(mechanisms, target)
    if output is not None and output.exists() and not output.is_dir():
        raise UserError(f"--output: must be a folder, got the file {output}")
    if output is not None:
        check_machine(output, _id_of(target))
    if kind in (Kind.OVERLOAD, Kind.FLOOD):
        _check_namespaces(kind, target, steering, mechanisms)
        folder = output or Path("measured") / _id_of(target)
        with keeping(folder), campaign_bar(notes()) as progress:
            if kind is Kind.FLOOD:
                summary = run_flood_campaign(
                    folder, repeats=repeats, quick=quick, anyway=anyway, progress=progress
                )
            else:
                summary = run_overload_campaign(
                    folder,
                    repeats=repeats,
                    quick=quick,
                    steering="far_end" if steering is SteeringChoice.FAR_END else "namespaces",
                    anyway=anyway,
                    progress=progress,
                )
        conclude(summary, folder)
        return
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
        return {"kind": cast("CampaignKind", kind.value), "repeats": repeats}
    for_profile = quick and kind is Kind.ALL
    return {
        "kind": "profile" if for_profile else cast("CampaignKind", kind.value),
        "repeats": repeats or (QUICK_ROUNDS if for_profile else None),
        "within": within,
        "budget_s": minutes * 60,
    }


def _check_only_server(
    kind: Kind, target: TargetChoice, mechanisms: str | None, *, quick: bool
) -> None:
    """Refuse what is asked of a machine where a server is to be measured."""
    if kind is not Kind.ALL:
        raise UserError(f"KIND: must be absent with --server and --pid, got {kind}")
    if target is not TargetChoice.HARDWARE:
        raise UserError(f"--target: a server is measured on hardware, got {target}")
    if mechanisms is not None or quick:
        option = "--quick" if quick else "--mechanisms"
        raise UserError(f"{option}: must be absent with --server and --pid")


def _check_namespaces(
    kind: Kind, target: TargetChoice, steering: SteeringChoice | None, mechanisms: str | None
) -> None:
    """Refuse all but this machine in its namespaces for what is measured nowhere else."""
    if target is not TargetChoice.HARDWARE:
        raise UserError(f"--target: {kind} is measured on hardware, got {target}")
    if steering is SteeringChoice.FAR_END and kind is Kind.FLOOD:
        raise UserError(
            "--steering: flood needs namespaces, as its datagrams come from a socket, "
            f"got {steering}"
        )
    if steering is SteeringChoice.LOOPBACK:
        raise UserError(f"--steering: {kind} needs namespaces, got {steering}")
    if mechanisms is not None:
        raise UserError(f"--mechanisms: must be absent for {kind}, got {mechanisms}")


def _id_of(choice: TargetChoice) -> str:
    """Return the id of the machine under test, which is known before anything is built."""
    from ..calibration.emulated.target import ID
    from ..calibration.testbed.machine_facts import machine_id

    return machine_id() if choice is TargetChoice.HARDWARE else ID


def _stock_mechanisms(given: str | None, choice: TargetChoice) -> list[str]:
    """Return the mechanisms to measure; those of an emulated target are its own."""
    from ..calibration.points.points import STOCK_MECHANISMS
    from ..scenario.errors import nearest

    if given is None:
        return list(STOCK_MECHANISMS)
    if choice is not TargetChoice.HARDWARE:
        raise UserError(f"--mechanisms: must be absent for an emulated target, got {given}")
    names = list(dict.fromkeys(name.strip() for name in given.split(",")))
    for name in names:
        if name not in STOCK_MECHANISMS:
            raise UserError(
                f"--mechanisms: must be some of {', '.join(STOCK_MECHANISMS)}"
                f'{nearest(name, STOCK_MECHANISMS)}, got "{name}"'
            )
    return names


@contextlib.contextmanager
def _opened(
    choice: TargetChoice, steering: SteeringChoice | None, mechanisms: Sequence[str]
) -> Iterator[Target]:
    """Yield the machine under test; what it lacks is said before anything begins."""
    if choice is TargetChoice.HARDWARE:
        from ..calibration.measure.target import hardware_target

        with hardware_target(
            steering=None if steering is None else steering.value, mechanisms=mechanisms
        ) as hardware:
            yield hardware
        return
    from ..calibration.emulated.target import emulated_target

    if steering is not None:
        raise UserError(f"--steering: must be absent for an emulated target, got {steering}")
    with building() as progress:
        emulated = emulated_target(progress)
    yield emulated
