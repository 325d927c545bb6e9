"""Settings of the whole suite."""

import os
import sys
from pathlib import Path

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

# No test opens a window.
os.environ.setdefault("MPLBACKEND", "Agg")


def pytest_configure(config: pytest.Config) -> None:
    """Have all processes of a session, and the next one, share what they compile."""
    # The folder is named by the sources (sim/compiled/code_cache.py); `make clean` removes it.
    if config.pluginmanager.hasplugin("cacheprovider") and not hasattr(config, "workerinput"):
        os.environ.setdefault("DISPATCHSIM_CACHE_DIR", str(config.cache.mkdir("compiled")))
