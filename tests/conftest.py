"""Settings of the whole suite."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Helpers of tests are imported by their path from the root of the repository. At the end of the
# path: the folder dispatchsim/ there is but a part of the installed package.
sys.path.append(str(Path(__file__).parents[1]))

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


def pytest_configure(config: pytest.Config) -> None:
    """Have all processes of a session, and the next one, share what they compile."""
    # The folder is named by the sources (sim/compiled/code_cache.py); `make clean` removes it.
    if config.pluginmanager.hasplugin("cacheprovider") and not hasattr(config, "workerinput"):
        os.environ.setdefault("DISPATCHSIM_CACHE_DIR", str(config.cache.mkdir("compiled")))
    # Every index and assertion of compiled engines is checked.
    os.environ.setdefault("DISPATCHSIM_CHECKED", "1")


@pytest.fixture(scope="session", autouse=True)
def _every_run_is_held_to_the_contract() -> Iterator[None]:
    """Check each run in this process where it ends."""
    from tests.contract import check_run, check_stream

    from dispatchsim.models import simulate
    from dispatchsim.sim.outcome import outcome_of
    from dispatchsim.sim.row_window import RowWindow

    finish = RowWindow.finish

    def checked_outcome(world: Any, *rest: Any) -> Any:
        outcome = outcome_of(world, *rest)
        check_run(outcome, world)
        return outcome

    def checked_finish(window: Any, *rest: Any) -> Any:
        summary = finish(window, *rest)
        check_stream(summary, window.tally)
        return summary

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulate, "outcome_of", checked_outcome)
        patch.setattr(RowWindow, "finish", checked_finish)
        yield
