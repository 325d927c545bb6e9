"""Settings of the whole suite."""

import os
import signal
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Helpers of tests are imported by their path from the root of the repository. At the end of the
# path: the folder dispatchsim/ there is but a part of the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from tests.allowed_skips import ALLOWED_SKIPS, is_allowed
from tests.run_cache import begin_run, in_turn

from dispatchsim.calibration.measure import campaign
from dispatchsim.calibration.testbed.c_build import Programs, build, missing_tools

# Compilation makes the first example of a test slow, so there is no deadline. On a
# continuous-integration machine the examples are the same in every run.
hypothesis.settings.register_profile(
    "dispatchsim", deadline=None, derandomize="CI" in os.environ, print_blob=True
)
hypothesis.settings.load_profile("dispatchsim")

# Tests interrupt programs, which would inherit that a suite run in the background ignores it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test opens a window.
os.environ.setdefault("MPLBACKEND", "Agg")


# What names no profile takes this one, whatever the CPU: in programs that tests start, too.
os.environ["DISPATCHSIM_PROFILE"] = "epyc-family26-2cpu-linux-6.18"


IN_CI = "CI" in os.environ


ENDS_AT = float(os.environ.get("DISPATCHSIM_TESTS_END", "inf"))
"""Seconds since 1970 from which no further test begins; `.ci/run` sets it, nobody else need."""
_FIRST = ("sim", "models", "scenario", "validation", "dispatchsim")
"""Folders of tests that a slow machine should not leave out: the others talk with processes."""


class Ending:
    """Skips what comes after `ENDS_AT`: the suite takes hours where the host gives it a tenth."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip *item* if it is late."""
        if time.time() > ENDS_AT:
            pytest.skip(f"out of time: `make test` without an end runs {item.path.name}")


def pytest_configure(config: pytest.Config) -> None:
    """Have all processes of this run share one cache folder, and what engines they compile."""
    config.pluginmanager.register(Ending())
    if hasattr(config, "workerinput"):
        return  # a worker inherits the environment of the process that started it
    begin_run(config)
    # Tests start hundreds of programs: each would compile all modules anew, a third of its start.
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        sys.dont_write_bytecode = False
    # Engines stay for the next run: their names hold a hash of their C. `make clean` removes them.
    if config.pluginmanager.hasplugin("cacheprovider"):
        os.environ.setdefault("DISPATCHSIM_CACHE_DIR", str(config.cache.mkdir("compiled")))
        os.environ.setdefault("MPLCONFIGDIR", str(config.cache.mkdir("matplotlib")))
    # Every index and assertion of compiled engines is checked.
    os.environ.setdefault("DISPATCHSIM_CHECKED", "1")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the workers of `-n auto`: many tests wait for servers, so one more than CPUs."""
    del config
    return len(os.sched_getaffinity(0)) + 1


LIVE = {"browser_path", "c_programs", "micro", "programs", "served", "target_kernel"}
"""Fixtures of tests that talk with a process, which the host may stop for a second at any time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have a test with a live process fail only if it fails three times: a host's pause is rare.

    Those of the simulator come first.
    """
    tests = Path(__file__).parent
    parts = [item.path.relative_to(tests.parent).parts for item in items]
    rank: dict[tuple[str, ...], int] = {("tests", name): i for i, name in enumerate(_FIRST)}
    order = sorted(range(len(items)), key=lambda i: rank.get(parts[i][:2], len(rank)))
    items[:] = [items[i] for i in order]
    for item in items:
        if isinstance(item, pytest.Function) and LIVE & set(item.fixturenames):
            item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """On a continuous-integration machine, fail a test that is skipped for an unknown reason."""
    report = yield
    if IN_CI and call.excinfo is not None and call.excinfo.errisinstance(pytest.skip.Exception):
        reason = str(call.excinfo.value)
        if not is_allowed(reason):
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid}: skipped, and its reason is not in {ALLOWED_SKIPS.name}: {reason}"
            )
    return report


@pytest.fixture(scope="session")
def c_programs() -> Programs:
    """Return the C programs, built once by whichever worker of this run needs them first."""
    if missing := missing_tools():
        pytest.skip(f"{', '.join(missing)} is not installed, so the C programs cannot be built")
    with in_turn("c-programs"):
        return build()


@pytest.fixture(scope="session", autouse=True)
def _workers_do_not_wait_for_each_others_campaigns(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Give each worker a lock of its own: campaigns in tests measure nothing that counts."""
    folder = tmp_path_factory.mktemp("lock-of-campaigns")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign, "cache_folder", lambda: folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def _every_run_is_held_to_the_contract() -> Iterator[None]:
    """Check each run in this process where it ends."""
    from tests.contract import check_run, check_stream

    from dispatchsim.models import simulate
    from dispatchsim.sim.assembly.row_window import RowWindow
    from dispatchsim.sim.figures.outcome import outcome_of

    finish = RowWindow.finish

    def checked_outcome(world: Any, *rest: Any) -> Any:
        outcome = outcome_of(world, *rest)
        check_run(outcome, world)
        return outcome

    def checked_finish(window: Any, *rest: Any) -> Any:
        summary = finish(window, *rest)
        check_stream(summary, window.tallies.requests)
        return summary

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulate, "outcome_of", checked_outcome)
        patch.setattr(RowWindow, "finish", checked_finish)
        yield
