"""The shipped records of the counted machines: each is used, and the profiles are made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from dispatchsim.calibration.fit.counted_costs import counted_costs
from dispatchsim.calibration.fit.medians import Medians, MicroTable
from dispatchsim.calibration.profiles.cost_profile import Profile, shipped_profiles
from dispatchsim.calibration.records.measured_runs import MicroResult, RunRecord, read_rows
from dispatchsim.calibration.testbed.c_build import SOURCE_FOLDER

FOLDERS = ("counted-linux-6.1", "counted-linux-6.1-unmerged")


class Spy:
    """Medians that note which lines were asked for."""

    def __init__(self, medians: Medians) -> None:
        self._medians = medians
        self.asked: list[tuple[str, Mapping[str, int | str]]] = []

    def points(
        self, bench: str, over: str, where: Mapping[str, int | str] = {}, **more: object
    ) -> list[tuple[int, float]]:
        self.asked.append((bench, dict(where)))
        return self._medians.points(bench, over, where, **more)  # type: ignore[arg-type]

    def one(self, bench: str, where: Mapping[str, int | str] = {}, **more: object) -> float:
        self.asked.append((bench, dict(where)))
        return self._medians.one(bench, where, **more)  # type: ignore[arg-type]

    def values_of(self, bench: str, parameter: str) -> list[int | float | str]:
        return self._medians.values_of(bench, parameter)


def is_used(row: MicroResult, spy: Spy) -> bool:
    return any(
        row.bench == bench and all(row.parameters.get(key) == given for key, given in where.items())
        for bench, where in spy.asked
    )


@pytest.mark.parametrize("name", FOLDERS)
def test_every_bench_is_asked_for_by_an_equation(name: str) -> None:
    rows = read_rows(SOURCE_FOLDER / "measured" / name / "micro.jsonl", MicroResult).rows
    spy = Spy(MicroTable(rows).medians())
    counted_costs(spy)  # type: ignore[arg-type]
    unused = [
        (row.bench, row.parameters)
        for row in rows
        if not is_used(row, spy) and not row.bench.startswith("serve_")
    ]
    assert unused == []


@pytest.mark.parametrize("name", FOLDERS)
def test_a_profile_is_what_its_records_give(name: str) -> None:
    folder = SOURCE_FOLDER / "measured" / name
    costs = counted_costs(MicroTable(read_rows(folder / "micro.jsonl", MicroResult).rows).medians())
    profile = Profile.read(shipped_profiles()[name])
    for key, cost in costs.items():
        table, field = key.split(".")
        shipped = profile.cost[table][field]
        assert shipped.at == cost.at, key
        assert shipped.value == pytest.approx(cost.value, abs=0.051), key
    priced = {f"{table}.{field}" for table in profile.cost for field in profile.cost[table]}
    assert {key.split(".")[1] for key in priced - set(costs)} == {"request_ns"}


@pytest.mark.parametrize("name", FOLDERS)
def test_the_records_of_a_folder_are_of_states_of_the_sources_that_count_alike(name: str) -> None:
    folder = SOURCE_FOLDER / "measured" / name
    facts = json.loads((folder / "machine.json").read_text())
    rows, runs = (
        read_rows(folder / "micro.jsonl", MicroResult).rows,
        read_rows(folder / "fit.jsonl", RunRecord).rows,
    )
    assert facts["id"] == name
    assert all(run.accepted for run in runs)
    known = {run.code for run in runs}
    of_fit, *later = sorted({row.code for row in rows}, key=lambda code: code not in known)
    counted: dict[tuple[str, str], dict[str, set[float]]] = {}
    for row in rows:
        bench = row.bench, json.dumps(row.parameters, sort_keys=True)
        counted.setdefault(bench, {}).setdefault(row.code, set()).add(row.median)
    assert of_fit in known
    for code in later:
        both = [by_code for by_code in counted.values() if {of_fit, code} <= by_code.keys()]
        assert len(both) >= 10
        assert all(by_code[code] == by_code[of_fit] for by_code in both)
