"""Insertions find their place by text, and what cannot be found stops the build.

The guest's own test runs where its kernel has been built already; building takes minutes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dispatchsim.calibration.emulated.guest_run import QEMU
from dispatchsim.calibration.emulated.kernel_build import built_kernel
from dispatchsim.calibration.emulated.kernel_mechanisms import INSERTIONS
from dispatchsim.calibration.emulated.kernel_mechanisms.unmerged_target import (
    UnmergedTarget,
    unmerged_target,
)
from dispatchsim.calibration.emulated.kernel_source import (
    TargetError,
    TargetMissingError,
    insert,
    read_insertions,
)
from dispatchsim.calibration.emulated.microbenchmarks import UNMERGED
from dispatchsim.calibration.points.point import point_at

SOURCE = """\
static int first(int a);

static int first(int a)
{
	return a;
}

static int second(int a)
{
	return a;
}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree of one file."""
    (tmp_path / "a.c").write_text(SOURCE)
    return tmp_path


def patch(tree: Path, text: str) -> Path:
    """Write a file of insertions."""
    path = tree / "p.insert"
    path.write_text(text)
    return path


def test_lines_go_where_they_are_told(tree: Path) -> None:
    text = (
        '# why\n\n=== a.c\n--- before "return a;" in "static int first("\n\ta++;\n\n'
        '--- after "static int second(int a)"\n/* ours */\n--- end\n\n/* last */\n'
    )
    assert insert(patch(tree, text), tree) == ["a.c"]
    assert (tree / "a.c").read_text() == (
        SOURCE.replace("\treturn a;", "\ta++;\n\treturn a;", 1).replace(
            "second(int a)", "second(int a)\n/* ours */"
        )
        + "\n/* last */\n"
    )


def test_a_tree_of_hard_links_keeps_its_original(tree: Path) -> None:
    (tree / "original.c").hardlink_to(tree / "a.c")
    insert(patch(tree, "=== a.c\n--- end\n/* ours */\n"), tree)
    assert (tree / "original.c").read_text() == SOURCE


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('=== a.c\n--- before "return a;"\nx\n', 'one line with "return a;", got 2'),
        ('=== a.c\n--- after "nothing"\nx\n', 'one line with "nothing", got 0'),
        ('=== a.c\n--- before "return" in "void"\nx\n', 'begins with "void", got 0'),
        ("=== a.c\n--- end\nstatic int second(int a)\n", "already has the lines of p.insert"),
        ("=== a.c\n--- somewhere\nx\n", 'line 2: is not a place: "--- somewhere"'),
        ("--- end\nx\n", "line 1: is not a place"),
        ("=== a.c\nx\n", 'line 2: has no place before it: "x"'),
    ],
)
def test_what_has_no_single_place_is_refused(text: str, error: str, tree: Path) -> None:
    with pytest.raises(TargetError) as raised:
        insert(patch(tree, text), tree)
    assert error in str(raised.value)
    assert (tree / "a.c").read_text() == SOURCE


@pytest.mark.parametrize("path", INSERTIONS, ids=lambda path: path.stem)
def test_the_insertions_are_understood(path: Path) -> None:
    insertions = read_insertions(path)
    assert insertions
    assert all(insertion.lines for insertion in insertions)


@pytest.fixture(scope="module")
def target() -> UnmergedTarget:
    """Return the target with everything, if its kernel was built on this machine."""
    if shutil.which(QEMU) is None:
        pytest.skip(f"{QEMU} is not installed")
    try:
        built = built_kernel(patches=INSERTIONS)
    except TargetMissingError as error:
        pytest.skip(str(error))
    if not built:
        pytest.skip("the kernel with the insertions has not been built")
    return unmerged_target()


@pytest.mark.parametrize("mechanism", UNMERGED)
def test_what_was_never_merged_serves_in_the_guest(mechanism: str, target: UnmergedTarget) -> None:
    point = point_at(mechanism=mechanism, idle=50, loop="open", rate_per_s=8_000, fd_limit=4_096)
    run = target.run_point(point, 0)
    assert run.accepted, run.reason
    assert not any(run.result.errors.model_dump().values())
    assert run.result.calls["replies"] > 3_900
    assert run.result.calls["overflows"] == 0


@pytest.mark.parametrize(
    ("mechanism", "overflows"), [("rt_signals", True), ("signal_per_fd", False)]
)
def test_a_burst_overflows_a_queue_of_events_but_not_of_descriptors(
    mechanism: str, overflows: bool, target: UnmergedTarget
) -> None:
    point = point_at(
        mechanism=mechanism, loop="open", rate_per_s=8_000, burst=500, fd_limit=1_000,
        signal_queue=128,
    )  # fmt: skip
    run = target.run_point(point, 0)
    assert run.accepted, run.reason
    assert (run.result.calls["overflows"] > 0) == overflows
    assert run.result.replied >= 3_500
    assert not any(run.result.errors.model_dump().values())
