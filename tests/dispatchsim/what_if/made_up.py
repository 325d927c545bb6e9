"""Replies that are made up: a mechanism keeps up to a load, and its latency is known."""

from __future__ import annotations

from dispatchsim.scenario.metrics import METRICS
from dispatchsim.sim.figures.summary import Verdict
from dispatchsim.what_if.answers import Answer, Question, Reply
from dispatchsim.what_if.view import View

CAPACITY = {"epoll_level": 25_000, "poll": 12_500, "select": 12_500}
P99_NS = {"epoll_level": 400_000.0, "poll": 4_000_000.0, "select": 4_200_000.0}


def reply(question: Question) -> Reply:
    """Return what a server would say that keeps up to its capacity and no further."""
    name, rate = question.mechanism, question.view.rate
    keeps_up = rate <= CAPACITY[name]
    figures = dict.fromkeys(METRICS, 0.0)
    figures["throughput_per_s"] = float(min(rate, CAPACITY[name])) + question.seed
    figures["p99_answered_ns"] = P99_NS[name] if keeps_up else 1e9
    figures["p99_ns"] = figures["p99_answered_ns"]
    figures["p50_answered_ns"] = P99_NS[name] / 4
    figures["events_per_wait"] = 2.0
    figures["cpu_wait"], figures["cpu_user"] = 0.25, 0.5
    return Reply(
        figures,
        {"replied": 90, "open": 10},
        Verdict.STABLE if keeps_up else Verdict.OVERLOADED,
        ((0.0, 0, 0, 0), (10.0, 4, 2, 6)),
    )


def known(view: View, levels: int = 4) -> Answer:
    """Return an answer to *view* of which that many levels are known."""
    answer = Answer(view, view.mechanisms)
    for level, question in answer.asked:
        if level < levels:
            answer.add(question, reply(question))
    return answer
