"""A scenario for a server that was calibrated: ready to be run, and asked for its capacity."""

from __future__ import annotations

import json
from pathlib import Path

from ..calibration.observed.application_fit import ApplicationFit
from ..calibration.points.points import Point

_LOAD_SHARE = 0.5
"""Of what the server answered at most: a load that it copes with."""


def scenario_text(fit: ApplicationFit, *, closes_first: bool | None, profile_path: Path) -> str:
    """Return a scenario file of the server that *fit* is of.

    Parameters
    ----------
    closes_first:
        Whether it closes a connection before its client does; None: nobody knows.
    profile_path:
        Of its profile, as seen from the folder of the scenario.
    """
    point = next(iter(fit.points))
    server: dict[str, object] = {"mechanism": point.mechanism}
    server |= {"accept_limit": point.accept_limit} if point.accept_limit else {}
    server |= {"read_after_accept": True} if point.read_after_accept else {}
    server |= {"closes_first": closes_first} if closes_first is not None else {}
    if point.workers > 1:
        server |= {"workers": point.workers, "share": point.share}
        server |= {"wake": "one"} if point.wake == "one" else {}
    sections: dict[str, dict[str, object]] = {
        "server": server,
        "load": _load(point, fit.rates_per_s[point]),
        "idle": {"connections": point.idle},
        "machine": {"profile": str(profile_path)},
        "run": {"duration": "2.5 s", "warm_up": "500 ms", "seed": 1, "replications": 5},
    }
    head = (
        f"# {fit.profile.name}: a server as calibrated from {sum(fit.points.values())} runs.",
        "# Change load.rate and idle.connections and ask again: dispatchsim run, capacity.",
    )
    text = "\n".join(
        [
            *head,
            *(
                line
                for name, keys in sections.items()
                for line in ("", f"[{name}]", *(f"{k} = {_literal(v)}" for k, v in keys.items()))
            ),
        ]
    )
    return text + "\n"


def _load(point: Point, rate_per_s: float) -> dict[str, object]:
    connections_per_s = _LOAD_SHARE * rate_per_s / point.requests
    rate = f"{max(connections_per_s, 1 / 60):.3g}"
    load: dict[str, object] = {"loop": "open", "rate": f"{float(rate):.10g}/s"}
    load |= {"requests": point.requests} if point.requests > 1 else {}
    return load | {"timeout": "4 s"}


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
