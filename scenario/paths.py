"""The sections [[path]] of a scenario file: what lies between clients and the link."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictStr

from ..sim.state.settings import PathSettings
from ..sim.state.units import MILLIONTHS
from .declared import Section, Thousandths
from .sections import Bandwidth, Delay

_PERMILLE = 1_000


class PathSection(Section):
    """A class of clients by their way to the link: a LAN, a WAN, a modem."""

    name: StrictStr | None = Field(
        default=None,
        min_length=1,
        max_length=40,
        description="What its figures are called; absent: its number.",
    )
    share: Annotated[Thousandths, Field(gt=0, le=1)] = Field(
        description="Of all connections, to a thousandth; those of all paths add up to 1."
    )
    delay: Delay = Field(default=0, description="One way, besides that of the link.")
    up: Bandwidth | None = Field(default=None, description="From the client; absent: no limit.")
    down: Bandwidth | None = Field(default=None, description="To the client; absent: no limit.")
    loss: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="Share of segments that are lost, each way, to a millionth."
    )


def check_paths(sections: tuple[PathSection, ...]) -> None:
    """Check that the paths of a scenario are those of all its clients.

    Raises
    ------
    ValueError
        With key, rule and value.
    """
    names = path_names(sections)
    for number, name in enumerate(names, start=1):
        if name in names[: number - 1]:
            raise ValueError(f'path {number}.name: must be of one path only, got "{name}"')
    shares = sum(round(each.share * _PERMILLE) for each in sections)
    if sections and shares != _PERMILLE:
        raise ValueError(
            f"path.share: must add up to 1 over all [[path]], got {shares / _PERMILLE}"
        )


def path_names(sections: tuple[PathSection, ...]) -> list[str]:
    """Return what the figures of each path are called."""
    return [each.name or str(number) for number, each in enumerate(sections, start=1)]


def paths_of(sections: tuple[PathSection, ...]) -> tuple[PathSettings, ...]:
    """Return the settings of the paths in *sections*."""
    return tuple(
        PathSettings(
            share_permille=round(each.share * _PERMILLE),
            delay_ns=each.delay,
            up_bits_per_s=each.up or 0,
            down_bits_per_s=each.down or 0,
            loss_millionths=round(each.loss * MILLIONTHS),
        )
        for each in sections
    )
