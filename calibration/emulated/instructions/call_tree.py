"""The call tree that the plugin writes, with names: instructions by path through the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import TargetError

ROOTS = (
    "boot", "user", "call", "unnamed call", "interrupt", "interrupt idle", "idle down", "idle up",
    "idle again", "unnamed idle", "thread", "observer",
)  # fmt: skip
"""What a path begins with: enum root of plugin/call_tree.h."""
RESUMED = "(resumed)"
_DISCOVERED, _RESUMED, _NONE = 0x40000000, 0x7FFFFFFE, 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Node:
    """A function on one path: what it executed itself, and how often it was entered.

    `parent` is a place in the tree, always above; a root is its own.
    """

    parent: int
    name: str
    n_instructions: int
    n_entries: int


CallTree = tuple[Node, ...]
"""All nodes, parents before their children; the first ones are the ROOTS."""


def discovered_addresses(text: str) -> list[int]:
    """Return the addresses of the functions that are in no table, in the plugin's order."""
    return [int(line.split()[2], 16) for line in text.splitlines() if line.startswith("function ")]


def parse_call_tree(text: str, names: Sequence[str], discovered: Sequence[str]) -> CallTree:
    """Return the tree in the plugin's output.

    Parameters
    ----------
    names
        Of the functions in the table that the plugin was given.
    discovered
        Of the functions at `discovered_addresses`.

    Raises
    ------
    TargetError
        If the output is not complete.
    """
    lines = text.splitlines()
    if not lines or lines[-1] != "done":
        raise TargetError("the profiler did not finish: was the guest ended early?")
    rows = [[int(word) for word in line.split()[1:]] for line in lines if line.startswith("node ")]
    special = {_RESUMED: RESUMED, _NONE: "(unknown)"}
    special |= {_DISCOVERED + index: name for index, name in enumerate(discovered)}
    nodes = [
        Node(
            parent,
            ROOTS[index] if index < len(ROOTS) else _name(function, names, special),
            n_instructions,
            n_entries,
        )
        for index, (parent, function, n_instructions, n_entries) in enumerate(rows)
    ]
    return tuple(nodes)


def _name(function: int, names: Sequence[str], special: Mapping[int, str]) -> str:
    return names[function] if function < len(names) else special[function]


def path_of(tree: CallTree, index: int) -> tuple[str, ...]:
    """Return the path of a node, from its root."""
    path = [tree[index].name]
    while tree[index].parent != index:
        index = tree[index].parent
        path.append(tree[index].name)
    return tuple(reversed(path))
