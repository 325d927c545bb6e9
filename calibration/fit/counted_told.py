"""The costs of servers that are told of changes by epoll: edge-triggered, or registered once.

                      median                         is in the model
    serve_watch       a connection                   add_ns
    serve_unwatch     a connection                   delete_ns

Those of their waits are in ../told_costs.py.
Sources: models/epoll/epoll_edge.py, models/epoll/epoll_once.py.
"""

from __future__ import annotations

from .counted_terms import as_in_the_tree, few
from .micro_medians import Medians
from .micro_solution import Known
from .told_costs import once_costs, solve_told, vain_cost


def told_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of those of these mechanisms that were measured."""
    found: Known = {}
    measured = medians.values_of("serve_watch", "mechanism")
    if "epoll_edge" in measured:
        found |= solve_told(medians, "epoll_edge", one_a_call=False).costs(
            "epoll_edge", "notice_ns"
        )
        found |= _watching(medians, costs, "epoll_edge")
    if "epoll_once" in measured:
        found |= once_costs(medians)
        found |= _watching(medians, costs, "epoll_once")
    return found


def _watching(medians: Medians, costs: Known, name: str) -> Known:
    """Price the tree, as the server's own calls change it, and a look in vain."""
    found: Known = {}
    for cost, bench, raw in (("add_ns", "watch", "add"), ("delete_ns", "unwatch", "del")):
        few_ns = few(medians, f"serve_epoll_{raw}", "epoll")
        own_ns = few(medians, f"serve_{bench}", name)
        found[f"{name}.{cost}"] = as_in_the_tree(costs, cost, own_ns, few_ns, f"serve_{bench}")
    return {**found, f"{name}.recheck_ns": vain_cost(medians, name)}
