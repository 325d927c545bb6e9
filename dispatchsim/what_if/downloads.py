"""The downloads: the scenario, the data, the picture.

`dispatchsim run FILE` gives the metrics shown for its mechanism at the chosen load, and
`dispatchsim compare` those of the other mechanisms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..scenario.formats import rate_text
from ..scenario.metrics import METRICS
from . import series
from .answers import Answer, loads_of
from .charts import PANELS, TICK_EVERY, OverLoad

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def scenario_toml(answer: Answer) -> str:
    """Return the scenario file of the first mechanism at the chosen load; see `Answer`."""
    view, names = answer.view, answer.mechanisms or answer.view.mechanisms
    content = answer.scenario().to_dict()
    lines = [
        f"# {names[0]} at {rate_text(view.rate)}, as on the page ?{view.query}",
        "# Run it: dispatchsim run FILE --cost-samples 0",
    ]
    if len(names) > 1:
        lines.append(f"# Compare: dispatchsim compare FILE --mechanisms {','.join(names)}")
    for section, values in content.items():
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {_value(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """Return *value* as TOML: views hold names, quantities and numbers only."""
    assert isinstance(value, str | int | float)
    return f'"{value}"' if isinstance(value, str) else str(value)


def frame_of(answer: Answer) -> pd.DataFrame:
    """Return all results: a row per mechanism and load, mean and 95% half-width per metric."""
    import pandas as pd

    rows = []
    for name in answer.mechanisms:
        for row in answer.rows(name):
            cells: dict[str, Any] = {
                "mechanism": name,
                "rate_per_s": row.rate,
                "duration_ms": row.run.duration_ms,
                "replications": len(row.replies),
                "verdict": str(row.verdict),
            }
            for metric in METRICS:
                known = row.estimate(metric)
                cells[metric], cells[f"{metric}_half_width"] = known.mean, known.half_width
            rows.append(cells)
    return pd.DataFrame(rows)


def data_csv(answer: Answer) -> str:
    """Return `frame_of` as text."""
    return frame_of(answer).to_csv(index=False, na_rep="nan")


def figure_png(answer: Answer) -> bytes:
    """Return the curves as one picture."""
    from ..validation.drawing.figures import to_png

    return to_png(curves_figure(answer))


def curves_figure(answer: Answer) -> Figure:
    """Return the curves in the style of all reports."""
    from matplotlib.figure import Figure

    from ..validation.drawing.figures import legend, style
    from ..validation.drawing.looks import look_of

    with style():
        drawing = Figure(figsize=(9.0, 6.6), layout="constrained")
        shown = [panel for panel in PANELS if isinstance(panel, OverLoad)]
        for axes, panel in zip(drawing.subplots(2, 2).flat, shown, strict=True):
            for name in answer.mechanisms:
                known = series.curve(answer, name, panel.metric, panel.scale)
                _draw(axes, known, look_of(name))
            words = f"{panel.title} ({panel.unit})"
            axes.set(xlabel="connections offered per second", ylabel=words, xscale="log")
            axes.axvline(answer.view.rate, color="0.6", linewidth=0.8)
            if panel.log:
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.xaxis.set_minor_formatter(lambda value, _: "")
            axes.set_xticks(loads_of(answer.view)[::TICK_EVERY])
            if panel.log:
                # Texts are drawn literally (no mathematics), so ticks cannot be powers of ten.
                axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
                axes.yaxis.set_minor_formatter(lambda value, _: "")
        view = answer.view
        drawing.suptitle(
            f"{view.idle:,} idle connections, replies of {view.reply:,} B, {view.profile}",
            fontsize=10,
        )
        legend(drawing, {name: look_of(name) for name in answer.mechanisms})
    return drawing


def _draw(axes: Any, known: series.Curve, look: Any) -> None:
    """Draw one curve; at hollow markers the server does not keep up."""
    below = [y - low for y, low in zip(known.y, known.low, strict=True)]
    above = [high - y for y, high in zip(known.y, known.high, strict=True)]
    axes.errorbar(
        known.x, known.y, yerr=[below, above], color=look.colour, linestyle=look.dashes,
        linewidth=1.5, elinewidth=1, capsize=2,
    )  # fmt: skip
    for x, y, behind in zip(known.x, known.y, known.falls_behind, strict=True):
        axes.plot(
            [x], [y], marker=look.marker, markersize=5, markeredgecolor=look.colour,
            markerfacecolor="white" if behind else look.colour, linestyle="none",
        )  # fmt: skip
