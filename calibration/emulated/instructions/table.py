"""A profile as a table for people: the call tree of each activity, what is small left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .instruction_profile import InstructionProfile

_FUNCTIONS_SHOWN = 40
_SHOWN_LEAST = 60  # instructions per reply, callees included, of a line that is shown
_SHARE_LEAST = 0.03  # of its activity, likewise
_CHAIN_SHARE = 0.985  # a function that passes so much on to one other is left out
_DEPTH_MAX = 14


@dataclass
class _Path:
    """A path in one activity, and what all its instances executed."""

    n_inclusive: int = 0
    n_entries: int = 0
    below: dict[str, _Path] = field(default_factory=dict)


def table_of(profile: InstructionProfile) -> str:
    """Return a profile as lines of text, all figures per reply."""
    ledger, n = profile.ledger, max(profile.replies, 1)
    lines = [
        f"{profile.point.label}, repeat {profile.repeat}",
        f"{profile.replies} replies in {profile.window_ns / 1e6:.3f} ms, "
        f"{profile.replies / profile.window_ns * 1e9:.0f}/s, "
        f"idle {profile.idle_ns / profile.window_ns:.2%}",
        f"{ledger.n_instructions} instructions, {ledger.n_instructions / n:.1f} a reply; "
        f"busy time {profile.busy_ns / n:.1f}; counted beyond it {profile.excess} in all "
        f"({profile.excess / profile.busy_ns:.4%})",
        "",
        f"{'activity, and the functions it called':<64} instructions   entries",
    ]
    trees = _trees(profile)
    for activity, count in sorted(ledger.activities.items(), key=lambda item: -item[1]):
        if count == 0:
            continue
        lines.append(f"{activity:<64} {count / n:12.1f}")
        least = max(_SHOWN_LEAST * n, _SHARE_LEAST * count) if count > n else count + 1
        lines += [
            f"{'  ' * depth + name:<64} {path.n_inclusive / n:12.1f} {path.n_entries / n:9.4f}"
            for depth, name, path in _shown(trees[activity], least, 1)
        ]
    lines += ["", f"{'function itself':<64} instructions"]
    functions = sorted(ledger.functions.items(), key=lambda item: (-item[1], item[0]))
    lines += [f"{name:<64} {count / n:12.1f}" for name, count in functions[:_FUNCTIONS_SHOWN]]
    return "\n".join(lines)


def _trees(profile: InstructionProfile) -> dict[str, _Path]:
    trees = {activity: _Path() for activity in profile.ledger.activities}
    for (activity, *names), (n_instructions, n_entries) in profile.ledger.paths.items():
        path = trees[activity]
        path.n_inclusive += n_instructions
        for name in names:
            path = path.below.setdefault(name, _Path())
            path.n_inclusive += n_instructions
        path.n_entries += n_entries
    return trees


def _shown(path: _Path, least: float, depth: int) -> Iterator[tuple[int, str, _Path]]:
    """Yield the lines below *path*, the large ones first, without what only passes on."""
    for name, child in sorted(path.below.items(), key=lambda item: -item[1].n_inclusive):
        if child.n_inclusive < least or depth > _DEPTH_MAX:
            continue
        largest = max((below.n_inclusive for below in child.below.values()), default=0)
        if largest >= _CHAIN_SHARE * child.n_inclusive:
            yield from _shown(child, least, depth)
        else:
            yield depth, name, child
            yield from _shown(child, least, depth + 1)
