"""A view: the choices on the page, from and to its address, and the scenario that they give.

?rate=16000&idle=1000 ─► View ─► one Scenario per mechanism and load
                          │
                          └────► ?rate=16000&idle=1000   the link to the same view

A view holds only numbers in bounds and known names; none of it is opened, run or sent back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

from ..calibration.running.preparation import rule_of
from ..scenario.errors import ScenarioError, UserError
from ..scenario.quantities import SIZE, shown
from ..scenario.scenario import Scenario
from . import choices

NOTICES_MAX = 6
"""Most errors of one address that are shown: it may have a thousand."""


class RunLength(NamedTuple):
    """The length of runs, and the number of seeds.

    Attributes
    ----------
    duration_ms:
        The whole run; a fifth of it is not measured.
    replications:
        Seeds 1, 2, ...
    """

    duration_ms: int
    replications: int


@dataclass(frozen=True)
class View:
    """The choices; `View.read` keeps every value in its bounds.

    `reply` is in bytes, `rate` in connections per second.
    """

    profile: str
    mechanisms: tuple[str, ...] = choices.DEFAULT_MECHANISMS
    rate: int = choices.RATE.default
    idle: int = choices.IDLE.default
    style: str = choices.STYLE.default
    reply: int = choices.REPLY.default
    accept: int = choices.ACCEPT.default
    backlog: int = choices.BACKLOG.default
    patience: str = choices.PATIENCE.default
    overload: str = choices.OVERLOAD.default

    @classmethod
    def read(cls, said: Mapping[str, Sequence[str]]) -> tuple[Self, list[str]]:
        """Return the view of *said*, and a sentence for each error in it.

        A setting that is unknown or out of bounds keeps its default.

        Parameters
        ----------
        said:
            Texts by key, as `urllib.parse.parse_qs` returns them; the last of several counts.
        """
        view, notices = cls(profile=choices.machines().default), []
        for key, texts in said.items():
            reader = _READERS.get(key)
            if reader is None:
                notices.append(f"{shown(key)}: must be one of {', '.join(_READERS)}; it is ignored")
                continue
            try:
                view = dataclasses.replace(view, **{key: reader(texts[-1] if texts else "")})
            except UserError as error:
                default = view.texts()[key]
                notices.append(f"{error}; {default} is used instead")
        if len(notices) > NOTICES_MAX:
            more = len(notices) - NOTICES_MAX
            notices = [*notices[:NOTICES_MAX], f"{more} more settings could not be read"]
        return view, notices

    def texts(self) -> dict[str, str]:
        """Return all settings as in the address."""
        values = {key: getattr(self, key) for key in _READERS}
        values["mechanisms"] = ",".join(self.mechanisms)
        return {key: str(value) for key, value in values.items()}

    @property
    def query(self) -> str:
        """The part of the address behind the question mark."""
        return urlencode(self.texts(), safe=",")

    def alone(self, mechanism: str, rate: int) -> Self:
        """Return the view of one mechanism at one load."""
        return dataclasses.replace(self, mechanisms=(mechanism,), rate=rate)

    def scenario(self, run: RunLength, engine: str = "auto") -> Scenario:
        """Return the scenario of the first mechanism at the chosen load.

        Raises
        ------
        ScenarioError
            If the mechanism cannot serve it.
        """
        content: dict[str, dict[str, Any]] = {
            "server": {
                "mechanism": self.mechanisms[0],
                "accept_limit": self.accept,
                "backlog": self.backlog,
            },
            "load": {
                "loop": "open",
                "rate": f"{self.rate}/s",
                "reply_size": SIZE.format(self.reply),
            },
            "idle": {"connections": self.idle},
            "run": {
                "duration": f"{run.duration_ms} ms",
                "warm_up": f"{run.duration_ms // 5} ms",
                "seed": 1,
                "replications": run.replications,
            },
            "machine": {"profile": self.profile},
        }
        if engine != "auto":
            content["run"]["engine"] = engine
        for chosen in choices.SELECTS:
            for section, keys in chosen.options[getattr(self, chosen.key)].sets.items():
                content[section].update(keys)
        return Scenario.check(content, "view")

    @property
    def requests_per_s(self) -> float:
        """Requests offered per second."""
        requests = choices.STYLE.options[self.style].sets["load"]["requests"]
        return float(self.rate * requests)


_SHORTEST = RunLength(100, 1)


def hindrances(view: View) -> dict[str, str]:
    """Return the mechanisms of *view* that cannot be simulated, each with the reason."""
    found = {}
    for name in view.mechanisms:
        if choices.prices_in(view.profile)[name] == "none":
            found[name] = f"profile {view.profile} has no costs for it"
            continue
        try:
            view.alone(name, choices.RATE.values[-1]).scenario(_SHORTEST)
        except ScenarioError as error:
            found[name] = f"it cannot serve this load: {rule_of(error)}"
    return found


def cautions(view: View) -> list[str]:
    """Return warnings where the view is outside the measured range."""
    profile = choices.profiles()[view.profile]
    said = [profile.outside_range(view.idle)]
    if profile.machine.get("reconstructed"):
        said.append(profile.not_measured(view.mechanisms[0]))
    else:
        said += [profile.not_measured(name) for name in view.mechanisms]
    return [f"{sentence}." for sentence in said if sentence]


_READERS: dict[str, Any] = {
    "profile": lambda text: choices.machines().read(text),
    "mechanisms": choices.read_mechanisms,
    **{each.key: each.read for each in choices.SLIDERS},
    **{each.key: each.read for each in choices.SELECTS},
}
