"""The made-up profile, a scenario and the command line, for tests that need no measurement."""

from tests.made_up_profile import call, profile, profile_path, scenario_path

__all__ = ["call", "profile", "profile_path", "scenario_path"]
