"""The course: ten lessons, each with a question, a prediction, an experiment and its explanation.

    notebooks/NN_*.ipynb ──► a lesson's module ──► experiment ──► picture and table
    predict(...) before, .beside(...) after          own_mechanism(...) ──► race(...)

>>> from dispatchsim import course
>>> course.predict("how many times longer?", 2.0, unit="times").value
2.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (
        accepting,
        batching,
        calibrating,
        edges,
        idle_crowd,
        livelock,
        measuring,
        registration,
        signal_loss,
        single_queue,
    )
    from .drawing import Picture
    from .exercises import Beside, HiddenAnswer, Prediction, answer, predict
    from .experiments import Case, Experiment, experiment, scenario, times
    from .own_mechanisms import hand_over, own_mechanism, race, ready, sleep

LESSONS = (
    "single_queue",
    "idle_crowd",
    "registration",
    "batching",
    "signal_loss",
    "edges",
    "accepting",
    "livelock",
    "measuring",
    "calibrating",
)
"""The modules of the lessons, in their order."""

_HOMES = {
    "drawing": "Picture",
    "exercises": "Beside HiddenAnswer Prediction answer predict",
    "experiments": "Case Experiment experiment scenario times",
    "own_mechanisms": "hand_over own_mechanism race ready sleep",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "LESSONS",
    "Beside",
    "Case",
    "Experiment",
    "HiddenAnswer",
    "Picture",
    "Prediction",
    "accepting",
    "answer",
    "batching",
    "calibrating",
    "edges",
    "experiment",
    "hand_over",
    "idle_crowd",
    "livelock",
    "measuring",
    "own_mechanism",
    "predict",
    "race",
    "ready",
    "registration",
    "scenario",
    "signal_loss",
    "single_queue",
    "sleep",
    "times",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        globals()[name] = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
        return globals()[name]
    if name in LESSONS:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
