"""The errors whose message is a sentence for the user, from every part of the library."""

from __future__ import annotations

from ..scenario.errors import UserError


def known_errors() -> tuple[type[Exception], ...]:
    """Return the classes whose message is a sentence for the user.

    They come from every part of the library, which is imported only when something went wrong.
    """
    from ..calibration.emulated.errors import TargetError
    from ..calibration.fit.medians import FitError
    from ..calibration.measure.campaign import CampaignError
    from ..calibration.profiles.cost_profile import ProfileError
    from ..calibration.records.measured_runs import DataError
    from ..calibration.testbed.c_build import BuildError
    from ..calibration.testbed.testbed import TestbedError
    from ..sim.engine.c.run import CannotCompileError
    from ..sim.files.parallel import WorkerDiedError
    from ..sim.load.workload import TraceError
    from ..sim.native.compiler import CompilerFailedError, NoCompilerError
    from ..sim.native.trust import UntrustedError

    return (
        UserError,
        BuildError,
        CampaignError,
        CannotCompileError,
        CompilerFailedError,
        DataError,
        FitError,
        NoCompilerError,
        ProfileError,
        TargetError,
        TestbedError,
        TraceError,
        UntrustedError,
        WorkerDiedError,
    )


def sentence_of(error: Exception) -> str | None:
    """Return what to tell the user of *error*, None if it is a fault of ours.

    >>> sentence_of(UserError("backlog must be at least 1, got 0"))
    'backlog must be at least 1, got 0'
    """
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, known_errors()):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return None
