"""The costs of servers that batch changes until the wait: a vectored epoll_ctl, and /dev/poll.

                      median                           is in the model
    change_watch      a connection, in the server      } add_ns
    wait_adds         B added and ready, less          entry_ns + B x add_ns
                      wait_stays, the same again
    change_rewatch    a connection, in the server      } modify_ns
    wait_modifies     B modified, less wait_idle       entry_ns + B x modify_ns, and of
                                                       /dev/poll B x ask_ns
    change_unwatch    a connection                     delete_ns
    wait_rechecks     B found not ready, less          B x recheck_ns; of /dev/poll B x ask_ns
                      wait_idle
    wait_ready        R of n ready                     call_ns + R x event_ns; of /dev/poll
                                                       call_ns + scan(n) + R x (ask_ns + event_ns)
    wait_looks        n descriptors                    look(n), of call_ns and scan(n)

A modified item is a hint to /dev/poll: the next scan asks its driver.
Sources: models/remembering/changes.py, models/epoll/epoll_ctlv.py, models/scans/dev_poll.py,
micro/changed.c, ../servers/changes.c.
"""

from __future__ import annotations

import numpy as np

from .curve_fit import fit_curve, fit_intercept_curve, fit_line, fit_nonnegative
from .medians import (
    FEW,
    MANY,
    Fitted,
    Known,
    Medians,
    as_in_the_tree,
    columns,
    constant,
    curve,
    first,
    served,
    slope,
)

_RAW = {"add_ns": "add", "modify_ns": "mod", "delete_ns": "del"}


def change_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of the measured mechanisms of this file."""
    measured = medians.values_of("wait_adds", "mechanism")
    found: Known = {}
    if "epoll_ctlv" in measured:
        found |= _epoll_ctlv(medians, costs)
    if "dev_poll" in measured:
        found |= _dev_poll(medians)
    return found


def _epoll_ctlv(medians: Medians, costs: Known) -> Known:
    name = "epoll_ctlv"
    ready: dict[str, int | str] = {"mechanism": name, "n": MANY}
    wait = fit_line(*columns(medians.points("wait_ready", "ready", ready, least=2)))
    found = _telling(medians, name, 0.0)
    for cost, raw in _RAW.items():
        key = f"{name}.{cost}"
        few_ns = served(medians, f"epoll_{raw}", "epoll", FEW)
        found[key] = as_in_the_tree(costs, cost, first(found, key), few_ns, found[key].source)
    return {
        **found,
        f"{name}.call_ns": constant(wait.unknowns[0], wait.residual, "wait_ready"),
        f"{name}.event_ns": constant(wait.unknowns[1], wait.residual, "wait_ready over ready"),
        f"{name}.recheck_ns": _in_vain(medians, name),
    }


def _dev_poll(medians: Medians) -> Known:
    name = "dev_poll"
    ask = _in_vain(medians, name)
    ready: dict[str, int | str] = {"mechanism": name, "n": MANY}
    told = slope(medians, "wait_ready", "ready", ready)
    event_ns = told.value[0] - ask.value[0]
    one: dict[str, int | str] = {"mechanism": name, "ready": 1}
    base_ns, scan = fit_intercept_curve(*columns(medians.points("wait_ready", "n", one, least=2)))
    look = fit_curve(*columns(medians.points("wait_looks", "n", {"mechanism": name}, least=2)))
    return {
        **_telling(medians, name, ask.value[0]),
        f"{name}.call_ns": constant(base_ns - told.value[0], scan.residual, "wait_ready"),
        f"{name}.scan": curve(scan, "wait_ready over n"),
        f"{name}.ask_ns": ask,
        f"{name}.event_ns": constant(event_ns, told.residual, f"{told.source}, less ask_ns"),
        f"{name}.look": curve(look, "wait_looks"),
    }


def _in_vain(medians: Medians, name: str) -> Fitted:
    """Return the cost of checking a descriptor that is no longer ready."""
    counts, totals = _less(medians, name, "wait_rechecks", "wait_idle")
    return constant(float(np.mean(np.divide(totals, counts))), 0.0, "wait_rechecks, less wait_idle")


def _telling(medians: Medians, name: str, hinted_ns: float) -> Known:
    """Return the costs of a call with changes and of each change; *hinted_ns* follows a change."""
    own = {"mechanism": name}
    added_ns, changed_ns, deleted_ns = (
        medians.points(f"change_{which}", "batch", own)[-1][1]
        for which in ("watch", "rewatch", "unwatch")
    )
    rows, totals = [], []
    for column, (wait, without, more_ns) in enumerate(
        (
            ("wait_adds", "wait_stays", added_ns),
            ("wait_modifies", "wait_idle", changed_ns - hinted_ns),
        )
    ):
        for n, ns in zip(*_less(medians, name, wait, without), strict=True):
            rows.append([1, *(n if column == k else 0 for k in range(2))])
            totals.append(ns + n * more_ns)
    solution = fit_nonnegative(rows, totals)
    sources = (
        "wait_adds, wait_modifies",
        "change_watch, wait_adds",
        "change_rewatch, wait_modifies",
    )
    costs = {
        f"{name}.{cost}_ns": constant(ns, solution.residual, source)
        for cost, ns, source in zip(
            ("entry", "add", "modify"), solution.unknowns, sources, strict=True
        )
    }
    return {**costs, f"{name}.delete_ns": constant(deleted_ns, 0.0, "change_unwatch")}


def _less(medians: Medians, name: str, wait: str, without: str) -> tuple[list[int], list[float]]:
    """Return the numbers of changes, and how much longer they made *wait*."""
    own = {"mechanism": name}
    counts, longer = columns(medians.points(wait, "batch", own, least=2))
    shorter = columns(medians.points(without, "batch", own, least=2))[1]
    return counts, np.subtract(longer, shorter).tolist()
