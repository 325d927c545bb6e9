"""What stands beside a run: costs of before and after it, in calm moments, on a made-up machine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.calibration.records.test_precision import runs
from tests.validation.forecast.test_hour_prices import micro

from dispatchsim.calibration.measure import calm, surroundings
from dispatchsim.calibration.measure.calm import CalmCore
from dispatchsim.calibration.measure.surroundings import FRESH_S, REFERENCE, Surroundings
from dispatchsim.calibration.records.measured_runs import MicroResult, RunRecord
from dispatchsim.calibration.testbed.c_build import Programs
from dispatchsim.calibration.testbed.testbed import Testbed

CALM_NS, BUSY_NS = 200.0, 300.0
TESTBED, PROGRAMS = Testbed("loopback", "127.0.0.1"), Programs(Path(), "")


class Machine:
    """A machine on which the k-th bench of each name takes k ns, and a reply 1000 ns.

    It is calm unless `is_busy`; a run of the reference point counts unless `is_disturbed`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_busy = self.is_disturbed = False
        self.becomes_busy = False
        self.did: list[str] = []
        self.now_s = 100.0
        self.n_measured = 1
        monkeypatch.setattr(calm, "_watch", self._watch)
        monkeypatch.setattr(surroundings, "run_bench", self._run_bench)
        monkeypatch.setattr(surroundings, "run_point", self._run_point)
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        monkeypatch.setattr(surroundings, "time", clock)
        monkeypatch.setattr(calm, "_FIRST_CHECKS", 9)
        self.beside = Surroundings(TESTBED, PROGRAMS, CalmCore(TESTBED, PROGRAMS))

    def around(self) -> dict[str, tuple[float, float]]:
        """Return what stands beside a run."""
        _, found = self.beside.around(lambda: runs(1000)[0])
        return dict(found)

    def calls_around(self) -> tuple[float, float]:
        """Return what calls took before and after a run: which measurement of theirs it was."""
        return self.around()["calls"]

    def _watch(self, *_: object) -> dict[str, float]:
        self.did.append("look")
        return {"last_ns": BUSY_NS if self.is_busy else CALM_NS, "beside_last_ns": 190.0}

    def _run_bench(self, command: str, *_: object, **__: object) -> list[MicroResult]:
        return [micro(command.partition(" ")[0], float(self.n_measured))]

    def _run_point(self, *_: object, **__: object) -> RunRecord:
        self.n_measured += 1
        self.did.append("prices")
        self.is_busy |= self.becomes_busy
        (run,) = runs(1000)
        run = run.model_copy(update={"window_ns": 1_000_000})
        return run.rejected("steal_share") if self.is_disturbed else run


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_costs_after_a_run_are_those_before_the_next(machine: Machine) -> None:
    assert machine.around() == {
        "calls": (1, 2), "scan": (1, 2), "interrupt": (1, 2), "handshake": (1, 2),
        "handshake_idle": (1, 2), REFERENCE: (1000, 1000),
    }  # fmt: skip
    assert machine.calls_around() == (2, 3)


def test_costs_of_long_ago_are_measured_again(machine: Machine) -> None:
    assert machine.calls_around() == (1, 2)
    machine.now_s += FRESH_S
    assert machine.calls_around() == (3, 4)


def test_costs_of_a_busy_core_do_not_stand_before_a_calm_run(machine: Machine) -> None:
    assert machine.calls_around() == (1, 2)
    machine.is_busy = True
    assert machine.beside.after() == {}
    machine.is_busy = False
    assert machine.calls_around() == (3, 4)


def test_costs_during_which_the_core_became_busy_are_none(machine: Machine) -> None:
    machine.around()
    machine.becomes_busy = True
    assert machine.around() == {}


def test_the_look_before_a_run_is_right_before_it(machine: Machine) -> None:
    def run() -> RunRecord:
        machine.did.append("run")
        return runs(1000)[0]

    machine.beside.around(run)
    begin = machine.did.index("run")
    assert machine.did[begin - 3 : begin + 2] == ["prices", "look", "look", "run", "look"]


def test_a_reference_run_that_was_disturbed_is_no_cost(machine: Machine) -> None:
    machine.is_disturbed = True
    benches = {"calls", "scan", "interrupt", "handshake", "handshake_idle"}
    assert set(machine.around()) == benches


def test_a_run_before_or_after_which_the_core_was_busy_does_not_count(machine: Machine) -> None:
    machine.around()

    def run() -> RunRecord:
        machine.is_busy = True
        return runs(1000)[0]

    found, _ = machine.beside.around(run)
    assert (found.accepted, found.noise.floor_ns) == (False, BUSY_NS)
