"""Tables of measured points and their forecasts: a choice of points and of columns.

Errors carry a sign (+: the forecast is above the measurement). The scatter is half the range of
the repeats; with six or more repeats it is half the 95% interval of their median.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...calibration.points.point import Point
from ...calibration.records.generator_gate import LAG_SHARE_MOST, OFFERED_LEAST
from ...scenario.formats import time_text
from ...sim.files.tables import DASH, Column, Row, Table
from ..points.measured_points import GeneratorFigures, MeasuredPoint
from ..scoring.knee import KneeErrors
from ..scoring.regimes import (
    CAPACITY,
    CLOSED,
    CPU,
    EVENTS,
    INTERRUPTS,
    NEAR,
    PAST,
    QUIET,
    RegimeErrors,
    value_of,
)
from ..scoring.scoring import LOAD_SHARE_MAX, PointScore, verdicts_agree
from ..scoring.targets import ASPECTS, OURS, Capacity, RankedPair, Target, verdict_of
from ..scoring.value_verdicts import ONE_RUN, WITHIN, ErrorSummary, signed, unsigned
from .page import interval, microseconds, number, percent, points, scatter, tenths, yes_no

_SEEN = "* The fit used this point; it is not scored."
_DRIFT = "The interval does not include drift of the machine between fit and run."
_STABLE = "All states are stable, measured and forecast."
_SUMMARY = (
    "Absolute errors of capacity over held-out points. Ranking: pairs of points that differ in one "
    'setting and whose measured intervals do not overlap; "right" if the forecast has their order.'
)


def _state(score: PointScore) -> str:
    """Return the forecast state of the server, and the measured one if they differ."""
    forecast = str(score.forecast.verdict)
    return forecast if verdicts_agree(score) else f"{forecast} / {score.measured.verdict}"


def _p99_with_gaps(score: PointScore) -> float:
    found = score.forecast.with_own_gaps
    return float("nan") if found is None else found.p99_ns


def _seen(score: PointScore) -> str:
    return "*" if score.role == "fit" else ""


def _verdict(score: PointScore, figure: str) -> str:
    """Return the verdict of one metric in a word."""
    found = value_of(score, figure)
    return DASH if found is None else _SHORT[found.verdict]


_SHORT = {"within noise": "noise", "within 15%": f"≤ {WITHIN:.0%}", "missed": "missed"}
_MEANS_VERDICT = "within the noise of the repeats, within 15%, or missed"


def _measured_columns(name: str, figure: str) -> dict[str, Column[PointScore]]:
    """Return the columns of a response time: measured, noise, forecast, error, verdict."""

    def measured(score: PointScore) -> float:
        return float(getattr(score.measured.median, figure))

    def forecast(score: PointScore) -> float:
        return float(getattr(score.forecast.central, figure))

    def error(score: PointScore) -> float | None:
        found = value_of(score, figure)
        return None if found is None else found.error

    return {
        name: Column(f"{name} µs", measured, microseconds),
        f"{name} scatter": Column(
            "±", lambda s: scatter(getattr(s.measured.spread, figure), measured(s))
        ),
        f"{name} forecast": Column("forecast µs", forecast, microseconds),
        f"{name} error": Column("error", error, signed),
        f"{name} verdict": Column("verdict", lambda s: _verdict(s, figure), means=_MEANS_VERDICT),
    }


def _late(generator: GeneratorFigures | None) -> str:
    """Return the lateness of the load generator in µs: p50, p99 and maximum."""
    if generator is None:
        return DASH
    lags_ns = (generator.lag_p50_ns, generator.lag_p99_ns, generator.lag_max_ns)
    return "/".join(map(microseconds, lags_ns))


def _offered(score: PointScore) -> str:
    """Return the share of the load that the generator offered, marked if it was the limit."""
    generator = score.measured.generator
    share = percent(None if generator is None else generator.offered_share)
    return share if score.measured.kept_up else f"{share}!"


_COLUMNS: dict[str, Column[PointScore]] = {
    "idle": Column("idle", lambda s: s.measured.point.idle.connections),
    "users": Column("users", lambda s: s.measured.point.users),
    "limit": Column("limit", lambda s: s.measured.point.server.accept_limit),
    "rate": Column("rate/s", lambda s: number(s.measured.point.rate_per_s) + _seen(s)),
    "runs": Column("runs", lambda s: s.measured.n_accepted),
    "load": Column("load", lambda s: s.load_share, percent),
    "measured": Column(
        "measured (/s)",
        lambda s: s.measured.median.throughput_per_s,
        number,
        means="replies per second",
    ),
    "scatter": Column(
        "±",
        lambda s: scatter(s.measured.spread.throughput_per_s, s.measured.median.throughput_per_s),
        means="scatter of the repeats",
    ),
    "forecast": Column("forecast (/s)", lambda s: s.forecast.central.throughput_per_s, number),
    "interval": Column(
        "95% interval",
        lambda s: (s.forecast.low.throughput_per_s, s.forecast.high.throughput_per_s),
        interval,
        means="of the forecast, over cost samples and arrivals",
    ),
    "error": Column("error", lambda s: s.errors.throughput, signed),
    "in": Column(
        "in interval",
        lambda s: s.inside.throughput,
        yes_no,
        means="whether the measured value is in the forecast interval",
    ),
    "delivered": Column(
        "throughput error",
        lambda s: "offered" if s.role == "offered" else signed(s.errors.throughput),
        means='"offered" if both measurement and forecast delivered the offered load',
    ),
    "cpu": Column(
        "CPU", lambda s: s.measured.median.cpu_busy, percent, means="measured busy share"
    ),
    "cpu error": Column("CPU error, points", lambda s: s.errors.cpu, points),
    "cpu in": Column("CPU in interval", lambda s: s.inside.cpu, yes_no),
    "equal busy": Column(
        "error at equal CPU",
        lambda s: s.throughput_at_equal_cpu,
        signed,
        means="error of replies per second of busy CPU",
    ),
    **_measured_columns("p50", "p50_ns"),
    **_measured_columns("p99", "p99_ns"),
    **_measured_columns("p99.9", "p999_ns"),
    "verdict": Column("verdict", lambda s: _verdict(s, CAPACITY), means=_MEANS_VERDICT),
    "cpu verdict": Column("CPU verdict", lambda s: _verdict(s, CPU), means=_MEANS_VERDICT),
    "late": Column(
        "late µs",
        lambda s: s.measured.generator,
        _late,
        means="lateness of the load generator: p50, p99 and maximum",
    ),
    "offered": Column(
        "offered",
        _offered,
        means=f"lowest share of the requested load in a run; !: the generator was the limit, as it "
        f"offered less than {OFFERED_LEAST:.0%} or was late at p99 by more than "
        f"{LAG_SHARE_MOST:.0%} of the p99",
    ),
    "p50 at equal CPU": Column(
        "p50 error at equal CPU",
        lambda s: s.p50_at_equal_cpu,
        signed,
        means="where the forecast CPU is as busy as measured",
    ),
    "p99 with its own gaps": Column(
        "with its own gaps",
        _p99_with_gaps,
        microseconds,
        means="p99 of the runs simulated with the host's gaps that each run recorded",
    ),
    "shift": Column(
        "load shift",
        lambda s: s.load_shift_p50,
        signed,
        means="change of load at which the forecast p50 equals the measured one",
    ),
    "shift CPU": Column("load shift, CPU", lambda s: s.load_shift_cpu, signed),
    "shift p50": Column(
        "load shift, p50",
        lambda s: s.load_shift_p50,
        signed,
        means="change of load at which the forecast CPU or p50 equals the measured one",
    ),
    "state": Column(
        "state",
        _state,
        words=True,
        means="forecast state of the server / measured state if different",
    ),
}
"""The columns of a point; each table chooses some."""

HARDWARE_CLOSED = (
    "measured", "scatter", "forecast", "interval", "error", "verdict", "cpu", "cpu error", "state",
)  # fmt: skip
HARDWARE_OPEN = (
    "rate", "load", "runs", "offered", "delivered", "cpu", "cpu error", "cpu in", "cpu verdict",
    "p50 at equal CPU", "shift", "state",
)  # fmt: skip
OWN_GAPS = ("rate", "load", "p99", "p99 scatter", "p99 forecast", "p99 with its own gaps")
_TIMES = ("scatter", "forecast", "error", "verdict")
HARDWARE_TIMES = (
    "rate", "p50", *(f"p50 {key}" for key in _TIMES), "p99", *(f"p99 {key}" for key in _TIMES),
    "late",
)  # fmt: skip
HARDWARE_TAIL = ("rate", "p99.9", *(f"p99.9 {key}" for key in _TIMES), "late")
OBSERVED_CLOSED = (
    "runs", "measured", "scatter", "forecast", "interval", "error", "in", "cpu", "cpu error",
    "equal busy",
)  # fmt: skip
OBSERVED_OPEN = (
    "rate", "load", "delivered", "cpu", "cpu error", "p50", "p50 scatter", "p50 forecast",
    "p50 error", "p50 at equal CPU", "shift CPU", "shift p50", "state",
)  # fmt: skip

Name = Callable[[PointScore], str]


def score_tables(scores: Sequence[PointScore]) -> list[Table]:
    """Return the tables of all points of a machine: closed loops, open loops, accept limits."""
    free = [s for s in scores if s.measured.point.server.accept_limit == 0]
    recorded = [s for s in free if s.forecast.with_own_gaps is not None]
    limited = [s for s in scores if s.measured.point.server.accept_limit > 0]
    return [
        *_closed("Closed loop", free, server_text, ("users", *HARDWARE_CLOSED), _DRIFT),
        *_open(free, server_text, HARDWARE_OPEN, HARDWARE_TIMES, HARDWARE_TAIL),
        *_open(recorded, _gaps_name, OWN_GAPS),
        *_closed("Accept limit", limited, server_text, ("limit", *HARDWARE_CLOSED), _DRIFT),
    ]


def observed_tables(
    scores: Sequence[PointScore], capacity: Capacity, pairs: Sequence[RankedPair]
) -> list[Table]:
    """Return the summary of a server's own runs, every point, and wrong ranks."""

    def name(score: PointScore) -> str:
        return _name_among(score, scores)

    wrong = [pair for pair in pairs if not pair.right]
    return [
        _summary(capacity, pairs),
        *_closed("Closed loop", scores, name, ("users", *OBSERVED_CLOSED)),
        *_open(scores, name, OBSERVED_OPEN),
        *([_wrong(wrong)] if wrong else []),
    ]


def _closed(
    title: str, scores: Iterable[PointScore], name: Name, keys: Sequence[str], note: str = ""
) -> list[Table]:
    """Return the table of the closed loops of *scores*, if any, by server and load.

    It has no column of states if all are stable, as is usual in closed loops.
    """

    def place(s: PointScore) -> tuple[object, ...]:
        point = s.measured.point
        return (
            name(s).rstrip("*"),
            point.idle.connections,
            point.users,
            point.server.accept_limit,
        )

    rows = sorted((s for s in scores if s.measured.point.load.loop == "closed"), key=place)
    first = Column[PointScore]("server", lambda s: name(s) + _seen(s), words=True)
    if "state" in keys and all(_state(s) == "stable" for s in rows):
        keys = [key for key in keys if key != "state"]
        note = f"{note} {_STABLE}"
    columns = [first, *(_COLUMNS[key] for key in ("idle", *keys))]
    return [Table.of(title, rows, columns, " ".join(filter(None, (note, _SEEN))))] if rows else []


def _open(scores: Iterable[PointScore], name: Name, *choices: Sequence[str]) -> list[Table]:
    """Return a table for each curve and each of *choices* of the open loops, rates ascending.

    A curve without measured p99.9 has no table of p99.9.
    """
    curves: dict[tuple[int, str], list[PointScore]] = {}
    for s in sorted(scores, key=lambda s: s.measured.point.rate_per_s):
        if s.measured.point.load.loop == "open":
            curves.setdefault((s.measured.point.idle.connections, name(s)), []).append(s)
    return [
        Table.of(
            f"Open loop, {idle} idle: {server}{_TITLES[i]}",
            own,
            [_COLUMNS[key] for key in keys],
            _SEEN if any(map(_seen, own)) else "",
        )
        for (idle, server), own in sorted(curves.items(), key=lambda item: item[0])
        for i, keys in enumerate(choices)
        if keys is not HARDWARE_TAIL or any(value_of(s, "p999_ns") for s in own)
    ]


_TITLES = ("", ", response times", ", p99.9")


def server_text(score: PointScore) -> str:
    """Return the server's mechanism and its further settings."""
    point = score.measured.point
    extra = [] if point.server.listener == "first" else ["last"]
    extra += ["read"] if point.server.read_after_accept else []
    extra += [point.server.threads] if point.blocks else []
    extra += [f"×{point.load.requests}"] if point.load.requests > 1 else []  # noqa: RUF001
    extra += [f"kept {point.load.connections}"] if point.keeps else []
    application_ns = point.server.request_cpu
    extra += [f"work {time_text(application_ns)}"] if application_ns else []
    return " ".join([point.server.mechanism, *extra])


def _gaps_name(score: PointScore) -> str:
    return f"{server_text(score)}, p99 with the host's gaps"


def _name_among(score: PointScore, among: Sequence[PointScore]) -> str:
    """Return the server's mechanism, and its settings that differ *among* the scores."""
    point = score.measured.point
    limits = {s.measured.point.server.accept_limit for s in among}
    reads = {s.measured.point.server.read_after_accept for s in among}
    parts = [point.server.mechanism]
    parts += [f"×{point.load.requests}"] if point.load.requests > 1 else []  # noqa: RUF001
    parts += (
        [f"accept {point.server.accept_limit}"]
        if point.server.accept_limit and len(limits) > 1
        else []
    )
    parts += ["read"] if point.server.read_after_accept and len(reads) > 1 else []
    parts += [f"workers {point.server.workers}"] if point.server.workers > 1 else []
    parts += [f"think {point.load.think_time / 1e6:.3g} ms"] if point.load.think_time else []
    return " ".join(parts)


def target_table(targets: Sequence[Target]) -> Table:
    """Return the table of targets, results and baselines."""
    names = list(dict.fromkeys(name for target in targets for name in target.values))
    columns: list[Column[Target]] = [
        Column("target", lambda t: f"{t.name}, {t.statistic}", words=True),
        Column("limit", lambda t: f"≤ {_size(t.limit, t.unit)}"),
        Column("verdict", lambda t: DASH if t.verdict == "not measured" else t.verdict),
        Column("within", lambda t: f"{t.n_within}/{t.n_points[OURS]}"),
        *(Column(name, functools.partial(_answer, name)) for name in names),
    ]
    note = (
        "Absolute errors over held-out points, a column for each predictor. In brackets: the "
        "number of points, where a predictor covers fewer of them."
    )
    return Table.of("Targets", targets, columns, note)


def in_noise(errors: ErrorSummary) -> str:
    """Return the number of values within the noise of the repeats, of those with known noise."""
    if errors.n_repeated:
        return f"{errors.n_in_noise}/{errors.n_repeated}"
    # The noise of a knee is also unknown where its end is beyond the rates.
    unknown = UNKNOWN if isinstance(errors, KneeErrors) else ONE_RUN
    return unknown if errors.n else DASH


UNKNOWN = "unknown"
"""Text for noise whose end is beyond the measured rates."""
_NOISE = "Noise: the range of the repeats (six or more: 95% interval of their median)."
_ERRORS: tuple[Column[Any], ...] = (
    Column("median error", lambda e: e.median, unsigned),
    Column("median with sign", lambda e: e.signed, signed),
    Column("worst error", lambda e: e.worst, signed),
    Column("within noise", in_noise, means="of the values with repeats"),
    Column(f"within {WITHIN:.0%}", lambda e: f"{e.n_within}/{e.n}"),
    Column(
        "missed",
        lambda e: e.n_missed,
        means="not within noise, as far as it is known, and not within 15%",
    ),
)
"""The columns of `KneeErrors` and of `RegimeErrors`."""
_NO_REPLY: Column[Any] = Column(
    "no reply",
    lambda e: e.n_no_reply,
    means="missed because the forecast has no reply; these errors have no size",
)
KEPT_UP = ", without points whose load generator was the limit"
"""The end of the titles of tables of fewer points."""
BY_SHARE = " (by the offered share; lateness at p99 was not recorded)"
"""The end of these titles if no run recorded the lateness of its load generator."""


def knee_table(errors: Sequence[KneeErrors]) -> Table:
    """Return the errors of the load at which p99 exceeds a bound."""
    columns: list[Column[KneeErrors]] = [
        Column("bound", lambda e: time_text(e.bound_ns, trim=True), words=True),
        Column(
            "servers",
            lambda e: e.n,
            means="servers whose measured or forecast p99 exceeds the bound",
        ),
        *_ERRORS,
        Column(
            "only measured",
            lambda e: e.only_measured,
            means="servers whose measured p99 alone exceeds the bound at the measured rates; "
            'likewise "only forecast"; these errors are the least that the rates allow',
        ),
        Column("only forecast", lambda e: e.only_forecast),
    ]
    note = (
        "In open loops with three or more rates. Error: forecast load over measured load, "
        "minus 1; + promises too much. "
        f"{_NOISE} If the noise ends beyond the measured rates, it is unknown whether a forecast "
        "on that side is within it."
        if errors
        else "No server was measured in open loops at three or more rates, or none reaches a "
        "bound, so no knee is known."
    )
    return Table.of("Load at which p99 exceeds a bound", errors, columns, note)


FIGURE_NAMES = {
    "p50_ns": "median response time (p50), µs",
    "p99_ns": "p99 response time, µs",
    "p999_ns": "p99.9 response time, µs",
    CAPACITY: "capacity, replies/s",
    CPU: "CPU busy, % of time",
    INTERRUPTS: "interrupts per request",
    EVENTS: "events per wait",
}
"""The name of each metric, with its unit: a row of a table."""
FIGURE_MEANINGS = (
    "p99: 99% of replies are faster. Capacity: where the server limits the rate. CPU: that of the "
    "server, with interrupts. Events per wait: ready connections that a call such as epoll_wait "
    "returns."
)
REGIME_NAMES = {
    QUIET: f"up to {LOAD_SHARE_MAX:.0%} of capacity",
    NEAR: f"{LOAD_SHARE_MAX:.0%} to 100% of capacity",
    PAST: "above the capacity",
    CLOSED: "closed loops",
}
"""The name of each regime of load: a row or a column of a table."""
REGIME_MEANINGS = "Shares of the capacity: loads of open loops."


def regime_table(errors: Sequence[RegimeErrors]) -> Table:
    """Return the errors of all metrics before, near and past the knee."""
    columns: list[Column[RegimeErrors]] = [
        Column("error of", lambda e: FIGURE_NAMES[e.figure], words=True),
        Column("load", lambda e: REGIME_NAMES[e.regime], words=True),
        Column("points", lambda e: e.n),
        *_ERRORS,
        *([_NO_REPLY] if any(e.n_no_reply for e in errors) else []),
    ]
    note = (
        "Relative errors at points that no fit has seen; + means that the forecast is too high. "
        f"{REGIME_MEANINGS} {FIGURE_MEANINGS} {_NOISE}"
    )
    return Table.of("Errors by metric and load", errors, columns, note)


Beside = Sequence[tuple[RegimeErrors, RegimeErrors]]


def hour_table(errors: Beside) -> Table:
    """Return the errors at calibration costs and at the costs of the hour of each run."""
    return _beside_table(
        "Errors at calibration costs, and at the costs of the hour",
        errors,
        ("at calibration", "at the hour"),
        "At the hour: costs of calls, scans and interrupts as measured by short benchmarks before "
        "and after each run. The columns differ in these costs only. A smaller error shows that "
        "they explain a part of it, not how much: errors of the model may cancel.",
    )


def own_gaps_table(errors: Beside) -> Table:
    """Return the errors without the host's gaps and with the gaps that each run recorded."""
    return _beside_table(
        "Errors without the host's gaps, and with those that each run recorded",
        errors,
        ("without", "with its gaps"),
        "With its gaps: each run is simulated with the recorded gaps of its client's CPU, and with "
        "a recording of this machine on the server's CPU. The columns differ in the gaps only. A "
        "slow call of the load generator also counts as a gap. A smaller error shows that gaps "
        "explain a part of it, not how much: errors of the model may cancel.",
    )


def other_gaps_table(errors: Beside) -> Table:
    """Return the errors with the gaps of the run itself and with the gaps of other runs."""
    return _beside_table(
        "Errors with the gaps that each run recorded, and with those of another point's runs",
        errors,
        ("its own gaps", "other gaps"),
        "A control. Other gaps: each run is simulated with gaps that a run of another point "
        "recorded. An improvement with its own gaps only comes from that run's record; an "
        "improvement with other gaps too comes from any gaps of this machine.",
    )


def _beside_table(title: str, errors: Beside, names: tuple[str, str], note: str) -> Table:
    def columns_of(index: int, when: str) -> list[Column[tuple[RegimeErrors, RegimeErrors]]]:
        return [
            Column(f"{when}: median error", lambda pair: pair[index].median, unsigned),
            Column("median with sign", lambda pair: pair[index].signed, signed),
        ]

    columns: list[Column[tuple[RegimeErrors, RegimeErrors]]] = [
        Column("error of", lambda pair: FIGURE_NAMES[pair[0].figure], words=True),
        Column("load", lambda pair: REGIME_NAMES[pair[0].regime], words=True),
        Column("points", lambda pair: pair[0].n),
        *columns_of(0, names[0]),
        *columns_of(1, names[1]),
    ]
    return Table.of(title, errors, columns, note)


def missing_tables(missing: Sequence[MeasuredPoint]) -> list[Table]:
    """Return the table of the points without an accepted repeat, if any."""
    columns: list[Column[MeasuredPoint]] = [
        Column("point", lambda m: m.point.label, words=True),
        Column("rejected", lambda m: m.n_rejected),
    ]
    rows = sorted(missing, key=lambda m: _order(m.point))
    return [Table.of("Not measured: every repeat was rejected", rows, columns)] if rows else []


def _order(point: Point) -> tuple[object, ...]:
    return (
        point.server.mechanism,
        point.load.loop,
        point.idle.connections,
        point.users,
        point.rate_per_s,
    )


def _summary(capacity: Capacity, pairs: Sequence[RankedPair]) -> Table:
    rows: list[Row] = [
        (
            f"capacity, {name}",
            str(capacity.n_points),
            tenths(value),
            f"≤ {limit:.0%}",
            verdict_of(value, limit),
        )
        for name, value, limit in capacity.wanted
    ]
    for aspect, aspect_name in ASPECTS.items():
        own = [pair for pair in pairs if pair.aspect == aspect]
        if own:
            n_right = sum(pair.right for pair in own)
            verdict = "reached" if n_right == len(own) else "missed"
            rows.append(
                (f"ranking of {aspect_name}", str(len(own)), f"{n_right} right", "all", verdict)
            )
    return Table.of_cells(
        "Summary", ("result", "points or pairs", "value", "limit", "verdict"), rows, _SUMMARY
    )


def _wrong(pairs: Sequence[RankedPair]) -> Table:
    columns: list[Column[RankedPair]] = [
        Column("rank of", lambda pair: ASPECTS[pair.aspect], words=True),
        Column("faster by measurement", lambda p: p.faster.measured.point.label, words=True),
        Column("faster by forecast", lambda p: p.slower.measured.point.label, words=True),
    ]
    return Table.of("Ranked wrongly", pairs, columns)


def _answer(name: str, target: Target) -> str:
    value = _size(target.values.get(name), target.unit)
    n_points = target.n_points.get(name, 0)
    return value if n_points in (0, target.n_points[OURS]) else f"{value} ({n_points})"


def _size(value: float | None, unit: str) -> str:
    if value is None:
        return DASH
    if unit == "points":
        return f"{100 * value:.1f} points"
    return f"{value:.1%}" if value <= 1 else unsigned(value)
