"""Runs of a validation on disk: each simulated once, whatever interrupts it."""

import functools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import dispatchsim
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.running.preparation import Job, job_of
from dispatchsim.validation.forecast.forecast import Lengths, Request, forecasts, jobs_of
from dispatchsim.validation.forecast.kept_runs import KeptRuns
from dispatchsim.validation.forecast.provenance import simulating_files
from dispatchsim.validation.points import figures
from dispatchsim.validation.points.figures import Result, result_of

SHORT = Lengths(20_000_000, 50_000_000)
CLOSED = point_at(mechanism="poll", users=4, idle=20)
OPEN = point_at(mechanism="epoll_level", loop="open", rate_per_s=2_000)
REQUESTS = [Request(CLOSED, (1,), 2, SHORT), Request(OPEN, (1, 2), 1, SHORT)]


@pytest.fixture(scope="module")
def profile() -> Profile:
    return example_profile()


def jobs(profile: Profile) -> list[Job]:
    return [job for request in REQUESTS for job in jobs_of(request, profile)]


def simulated(kept: KeptRuns, asked: Sequence[Job]) -> tuple[dict[int, Result], list[Job]]:
    """Return the results, and which jobs had to be simulated for them."""
    made: list[Job] = []

    @functools.wraps(result_of)  # the name of the work is part of the key
    def work(job: Job) -> Result:
        made.append(job)
        return result_of(job)

    return dict(kept(work, asked, None)), made


def test_a_second_validation_simulates_nothing(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "simulated.jsonl"
    first = list(forecasts(REQUESTS, profile, kept=KeptRuns(path)))
    again, made = simulated(KeptRuns(path), jobs(profile))
    assert (len(again), made) == (6, [])
    second = list(forecasts(REQUESTS, profile, kept=KeptRuns(path)))
    assert repr(second) == repr(first) == repr(list(forecasts(REQUESTS, profile)))


def test_what_was_interrupted_goes_on(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "simulated.jsonl"
    begun = KeptRuns(path)(result_of, jobs(profile), None)
    done = [next(begun)[0] for _ in range(3)]
    begun.close()  # type: ignore[attr-defined]
    with path.open("a") as file:
        file.write('{"key": "to')
    results, made = simulated(KeptRuns(path), jobs(profile))
    assert sorted(results) == list(range(6))
    assert made == [job for index, job in enumerate(jobs(profile)) if index not in done]


def test_other_code_and_other_jobs_are_simulated_anew(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "simulated.jsonl"
    (job, *_) = jobs(profile)
    simulated(KeptRuns(path, "one"), [job])
    other = [
        job._replace(scenario=job.scenario.with_values(idle={"connections": 21})),
        job._replace(seed=2),
        job._replace(scenario=CLOSED.lasting(20_000_000, 50_000_001)),
        job._replace(costs=job.costs._replace(call=job.costs.call._replace(read_ns=1))),
    ]
    assert simulated(KeptRuns(path, "one"), [job, *other])[1] == other
    assert simulated(KeptRuns(path, "two"), [job])[1] == [job]


def test_lines_of_something_else_are_passed_over(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "simulated.jsonl"
    path.write_text('{"key": "k", "forecast": {}}\nnonsense\n[1]\n')
    (job, *_) = jobs(profile)
    assert simulated(KeptRuns(path), [job])[1] == [job]
    assert simulated(KeptRuns(path), [job])[1] == []


def test_the_hash_covers_every_module_that_a_simulated_run_loads() -> None:
    simulating = "figures.result_of(job_of(point_at(mechanism='poll', idle=20, users=4)"
    code = f"""
import sys
from {point_at.__module__} import point_at
from {job_of.__module__} import job_of
from {Profile.__module__} import Profile, shipped_profiles
profile = Profile.read(next(iter(shipped_profiles().values())))
from {figures.__name__.removesuffix(".figures")} import figures
{simulating}.lasting(20_000_000, 50_000_000), profile, 1))
print(*sys.modules)
"""
    loaded = subprocess.run(
        [sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    package = dispatchsim.__name__
    ours = {name for name in loaded if name.startswith(f"{package}.")}
    library = Path(figures.__file__).parents[2]
    hashed = {
        ".".join((package, *path.relative_to(library).with_suffix("").parts))
        for path in simulating_files()
    }
    packages = {name for name in ours if f"{name}.__init__" in hashed}
    assert figures.__name__ in ours
    assert ours - hashed - packages == {
        f"{package}.calibration",
        f"{package}.validation",
        f"{package}.validation.points",
    }


def test_two_kinds_of_work_on_one_job_are_two_runs(profile: Profile, tmp_path: Path) -> None:
    kept = KeptRuns(tmp_path / "simulated.jsonl", "one")
    job = jobs(profile)[0]
    (figures, verdict) = result_of(job)

    def other(_: Job) -> Result:
        return figures._replace(throughput_per_s=1.0), verdict

    assert dict(kept(result_of, [job], None)) == {0: (figures, verdict)}
    assert dict(kept(other, [job], None))[0][0].throughput_per_s == 1.0
    assert dict(kept(result_of, [job], None)) == {0: (figures, verdict)}
