"""Settings of the whole suite."""

import os

import hypothesis

# Compilation makes the first example of a test slow, so there is no deadline. On a
# continuous-integration machine the examples are the same in every run.
hypothesis.settings.register_profile(
    "dispatchsim", deadline=None, derandomize="CI" in os.environ, print_blob=True
)
hypothesis.settings.load_profile("dispatchsim")

# No test opens a window.
os.environ.setdefault("MPLBACKEND", "Agg")
