"""A profile is written, read back the same, refused in one sentence, and resolved for a run."""

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.calibration.emulated.microbenchmarks import MERGED, UNMERGED
from dispatchsim.calibration.points.points import MECHANISMS
from dispatchsim.calibration.profiles.cost import (
    MECHANISM_TABLES,
    TABLES,
    Cost,
    unit_of,
)
from dispatchsim.calibration.profiles.cost_profile import Profile, ProfileError, shipped_profiles
from dispatchsim.sim.state.costs import NO_CLIENT, Costs, curve, curve_ns
from dispatchsim.sim.state.effects import EFFECTS


def constant(ns: float, spread: float = 0.1, unit: str = "ns") -> Cost:
    return Cost(
        unit=unit,
        at=(0,),
        value=(ns,),
        low=(ns / (1 + spread),),
        high=(ns * (1 + spread),),
        residual=0.01,
        source="a bench",
    )


def over(points: dict[int, float]) -> Cost:
    at, value = tuple(points), tuple(points.values())
    return Cost(at=at, value=value, low=value, high=value, residual=0, source="a bench")


def profile(**replaced: Cost) -> Profile:
    """Return a profile of which each cost is its own number, but for those *replaced*."""
    cost: dict[str, dict[str, Cost]] = {}
    for table, kind in TABLES.items():
        for name in kind._fields:
            number = 100.0 + 10 * len(cost) + kind._fields.index(name)
            cost.setdefault(table, {})[name] = constant(number, unit=unit_of(table, name))
    for key, replacement in replaced.items():
        table, name = key.split("__")
        cost[table][name] = replacement
    return Profile(
        name="a-machine",
        machine={"cpu_model": "A CPU", "kernel": "6.18", "date": "2025-11-20", "cpu_count": 2},
        range={"open_connections_max": 6000},  # type: ignore[arg-type]
        cost=cost,
    )


# Writing and reading


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = profile(poll__scan=over({0: 0, 100: 6543.2, 6000: 480_000}))
    written.write(tmp_path / "a.toml")
    assert Profile.read(tmp_path / "a.toml") == written
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]


def test_the_first_lines_say_where_the_costs_come_from(tmp_path: Path) -> None:
    profile().write(tmp_path / "a.toml")
    assert (tmp_path / "a.toml").read_text().splitlines()[:4] == [
        "# What calls, interrupts and scans cost on one machine, in ns of its server's CPU.",
        '# cpu_model: "A CPU"',
        '# kernel: "6.18"',
        '# date: "2025-11-20"',
    ]


@given(
    facts=st.dictionaries(
        st.text(), st.text() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
    ),
    ns=st.floats(0, 1e8),
)
def test_any_fact_and_number_survives_the_file(facts: dict[str, Any], ns: float) -> None:
    changed = profile(call__read_ns=constant(ns)).model_copy(update={"machine": facts})
    with tempfile.TemporaryDirectory() as folder:
        changed.write(Path(folder, "a.toml"))
        assert Profile.read(Path(folder, "a.toml")) == changed


def test_an_interrupted_write_leaves_the_old_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.toml"
    profile().write(path)
    before = path.read_text()

    def fail(_source: Path, _target: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        profile(call__read_ns=constant(1)).write(path)
    assert path.read_text() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.toml"]


# Errors


ABSURD = {
    # what is replaced within [cost.call.read_ns], by what, and the refusal
    "unknown key": (
        "unit = ",
        "units = ",
        'cost.call.read_ns.units: unknown key (did you mean "unit"?)',
    ),
    "wrong unit": (
        '"ns"',
        '"us"',
        'cost.call.read_ns.unit: must be "ns", got "us"',
    ),
    "negative": (
        r"value = \[.*\]",
        "value = [-3]",
        "cost.call.read_ns.value: must be from 0 to 1000000000 (1 s), got -3.0",
    ),
    "absurd": (
        r"value = \[.*\]",
        "value = [2e9]",
        "cost.call.read_ns.value: must be from 0 to 1000000000 (1 s), got 2000000000.0",
    ),
    "not a number": (
        r"value = \[.*\]",
        "value = [nan]",
        "cost.call.read_ns.value: must be from 0 to 1000000000 (1 s), got nan",
    ),
    "text": (
        r"value = \[.*\]",
        'value = ["fast"]',
        'cost.call.read_ns.value.0: must be a valid number, got "fast"',
    ),
    "truth": (
        r"at = \[.*\]",
        "at = [true]",
        "cost.call.read_ns.at.0: must be a valid integer, got true",
    ),
    "interval": (
        r"low = \[.*\]",
        "low = [150]",
        "cost.call.read_ns.value: must lie between low 150.0 and high",
    ),
    "lengths": (
        r"high = \[.*\]",
        "high = [150, 160]",
        "cost.call.read_ns.high: must have 1 entries as `at`, got 2",
    ),
    "no knot": (r"at = \[.*\]", "at = []", "cost.call.read_ns.at: must have 1 to 8 entries, got 0"),
    "order": (
        r"at = \[.*\]",
        "at = [5, 5]",
        "cost.call.read_ns.at: must be at least 0 and ascending, got [5, 5]",
    ),
    "negative count": (
        r"at = \[.*\]",
        "at = [-1]",
        "cost.call.read_ns.at: must be at least 0 and ascending, got [-1]",
    ),
    "residual": (
        "residual = .*",
        "residual = -0.1",
        "cost.call.read_ns.residual: must be a number of at least 0, got -0.1",
    ),
    "missing": ("source = .*", "", "cost.call.read_ns.source: must be given, got none"),
}


def refusal(text: str, folder: Path) -> str:
    """Return what is said of a profile, without the folder."""
    path = folder / "a.toml"
    path.write_text(text)
    with pytest.raises(ProfileError) as caught:
        Profile.read(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{folder}/", "")


def text_of(written: Profile, folder: Path) -> str:
    written.write(folder / "a.toml")
    return (folder / "a.toml").read_text()


@pytest.mark.parametrize(("pattern", "replacement", "message"), ABSURD.values(), ids=ABSURD)
def test_a_broken_cost_is_refused_by_its_key(
    pattern: str, replacement: str, message: str, tmp_path: Path
) -> None:
    head, line, tail = text_of(profile(), tmp_path).partition("[cost.call.read_ns]\n")
    tail, n_replaced = re.subn(pattern, replacement, tail, count=1)
    assert n_replaced == 1
    assert refusal(head + line + tail, tmp_path).startswith(f"a.toml: {message}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "dispatchsim-profile/1",
            "dispatchsim-profile/9",
            'format: must be "dispatchsim-profile/1", got "dispatchsim-profile/9"',
        ),
        ("format = ", "# ", 'format: must be "dispatchsim-profile/1", got none'),
        ("[range]", "[ranges]", 'ranges: unknown key (did you mean "range"?)'),
        ("open_connections_max", "connections_max", "range.connections_max: unknown key (did you"),
        (
            "connections_max = 6000",
            "connections_max = -1",
            "range.open_connections_max: must be at least 0, got -1",
        ),
        (
            "[cost.poll.scan]",
            "[cost.poll.scans]",
            'cost.poll.scans: unknown key (did you mean "scan"?)',
        ),
        (
            "[cost.client.send_ns]",
            "[cost.clients.send_ns]",
            'cost.clients: unknown key (did you mean "client"?)',
        ),
        (
            'unit = "ns/KiB"',
            'unit = "ns"',
            'cost.call.write_kib_ns.unit: must be "ns/KiB", got "ns"',
        ),
        ("[range]", "[range", "the file: must be TOML, got "),
    ],
)
def test_a_broken_profile_is_refused_in_one_sentence(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    text = text_of(profile(), tmp_path)
    assert old in text
    assert refusal(text.replace(old, new, 1), tmp_path).startswith(f"a.toml: {message}")


@pytest.mark.parametrize("key", ["cost.network.delay_ns", "cost.poll.register"])
def test_a_missing_cost_is_named(key: str, tmp_path: Path) -> None:
    text = re.sub(rf"\[{re.escape(key)}\]\n(.+\n)+", "", text_of(profile(), tmp_path))
    assert refusal(text, tmp_path) == f"a.toml: {key}: must be given, got none"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"none\.toml: the file: must be readable, got No such"):
        Profile.read(tmp_path / "none.toml")


# Costs of a run


def test_calls_are_priced_at_the_open_connections_and_scans_stay_curves() -> None:
    costs = profile(
        call__read_ns=over({0: 500, 1000: 700}), poll__scan=over({0: 0, 10: 633.4})
    ).costs("poll", open_connections=500)
    assert costs.call.read_ns == 600
    assert costs.mechanism.scan == curve({0: 0, 10: 633})
    assert costs.interrupt.entry_ns == 100


def test_free_clients_cost_nothing() -> None:
    assert profile().costs("poll", open_connections=0).client != NO_CLIENT
    assert profile().costs("poll", open_connections=0, free_clients=True).client == NO_CLIENT


def test_the_delay_of_the_network_is_apart() -> None:
    assert profile(network__delay_ns=constant(1234)).network_delay_ns == 1234


def test_a_profile_may_lack_a_mechanism() -> None:
    whole = profile()
    part = Profile(
        name="part",
        range=whole.range,
        cost={table: costs for table, costs in whole.cost.items() if table != "select"},
    )
    assert part.missing_for("poll") == ()
    assert part.missing_for("select")[:2] == ("cost.select.call_ns", "cost.select.bitmap")
    with pytest.raises(
        ProfileError, match=r"part: has no costs of select \(cost\.select\.call_ns is missing\)"
    ):
        part.costs("select", open_connections=0)


def test_a_cost_that_a_file_lacks_is_named_with_the_file(tmp_path: Path) -> None:
    text = re.sub(r"\[cost\.select\.\w+\]\n(.+\n)+", "", text_of(profile(), tmp_path))
    path = tmp_path / "poor.toml"
    path.write_text(text)
    with pytest.raises(ProfileError) as caught:
        Profile.read(path).costs("select", open_connections=0)
    rule = f"{path}: has no costs of select (cost.select.call_ns is missing); name a profile with "
    assert str(caught.value).startswith(rule)
    assert all(name in str(caught.value) for name in shipped_profiles())


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r'mechanism must be one of select, poll, .*, got "s'):
        profile().costs("smoke_signals", open_connections=0)
    with pytest.raises(ValueError, match="open_connections must be at least 0, got -1"):
        profile().costs("poll", open_connections=-1)


def test_beyond_what_was_measured_there_is_a_warning() -> None:
    assert profile().outside_range(6000) is None
    assert profile().outside_range(6001) == (
        "costs at 6001 open connections are extrapolated: a-machine was measured up to 6000"
    )


# Uncertainty


def drawn(of: Profile, mechanism: str, n: int) -> list[Costs]:
    return [of.costs(mechanism, open_connections=0, sample=k) for k in range(n)]


def test_drawn_costs_lie_as_the_interval_says() -> None:
    cost = Cost(
        at=(0,), value=(10_000,), low=(9_000,), high=(12_000,), residual=0, source="a bench"
    )
    read_ns = [c.call.read_ns for c in drawn(profile(call__read_ns=cost), "poll", 1_000)]
    low, high = np.quantile(read_ns, [0.025, 0.975])
    # 1,000 draws: the quantiles are good to about two thirds of a per cent.
    assert low == pytest.approx(9_000, rel=0.015)
    assert high == pytest.approx(12_000, rel=0.015)


def test_one_factor_moves_a_whole_curve() -> None:
    scan = Cost(
        at=(0, 1000, 2000),
        value=(0, 100_000, 300_000),
        low=(0, 80_000, 240_000),
        high=(0, 125_000, 375_000),
        residual=0,
        source="a bench",
    )
    for costs in drawn(profile(poll__scan=scan), "poll", 20):
        values = [curve_ns(costs.mechanism.scan, n) for n in (0, 1000, 2000)]
        assert values[0] == 0
        assert values[2] == pytest.approx(3 * values[1], rel=1e-4)
        assert values[1] != 100_000


def test_a_sample_of_a_cost_does_not_depend_on_other_costs() -> None:
    content = profile().model_dump()
    del content["cost"]["call"]["crossing_ns"]
    poorer = Profile.model_validate(content)
    for whole, part in zip(drawn(profile(), "poll", 3), drawn(poorer, "poll", 3), strict=True):
        assert part == whole._replace(call=whole.call._replace(crossing_ns=0))


def test_mechanisms_share_the_draws_of_what_they_share() -> None:
    scanned, listed = (drawn(profile(), name, 3) for name in ("poll", "epoll_level"))
    assert [c[:4] for c in scanned] == [c[:4] for c in listed]
    assert scanned[0].call != scanned[1].call


@pytest.mark.parametrize(
    ("value", "low", "high", "factor"),
    [(0, 0, 50, 1.0), (100, 100, 100, 1.0), (100, 0, 200, 2.0)],
    ids=["of nothing", "certain", "down to nothing"],
)
def test_the_edges_of_an_interval(value: float, low: float, high: float, factor: float) -> None:
    cost = Cost(at=(0,), value=(value,), low=(low,), high=(high,), residual=0, source="a bench")
    assert cost.factor(1.959964) == pytest.approx(factor)


# Shipped profiles


def test_every_shipped_profile_serves_the_mechanisms_of_its_machine() -> None:
    further = {
        "epyc-family25-2cpu-linux-6.18": set(MERGED) - {"aio_poll"},
        "epyc-family25-model1-2cpu-linux-6.18": set(MERGED) - {"aio_poll"},
        "epyc-family25-model17-2cpu-linux-6.18": set(MERGED) - {"aio_poll"},
        "xeon-family6-model207-2cpu-linux-6.18": set(MERGED) - {"aio_poll"},
        "counted-linux-6.1": MERGED,
        "counted-linux-6.1-unmerged": (*MERGED, *UNMERGED),
    }
    for name, path in shipped_profiles().items():
        read = Profile.read(path)
        assert path.stem == name
        served = read.cost.keys() & MECHANISM_TABLES.keys()
        assert not any(map(read.missing_for, served))
        assert served == {*MECHANISMS, *further.get(name, ())}


def without_costs(*names: str) -> Profile:
    """Return a profile that lacks these costs."""
    whole = profile()
    tables = {
        table: {name: cost for name, cost in costs.items() if f"{table}.{name}" not in names}
        for table, costs in whole.cost.items()
    }
    return whole.model_copy(update={"cost": tables})


def test_a_profile_names_the_effects_that_it_is_older_than() -> None:
    assert profile().missing_effects() is None
    older = without_costs(*EFFECTS["own-fins"].costs, *EFFECTS["cold-entries"].costs)
    assert older.older_than == ["own-fins", "cold-entries"]
    assert older.missing_effects() == (
        "a-machine has no costs for own-fins, cold-entries; runs omit these effects. To add the "
        "costs: `dispatchsim measure machine micro` and `dispatchsim measure flood`, then "
        "`dispatchsim calibrate machine`"
    )
    # One of two costs may be nothing on a machine.
    assert without_costs("call.close_delivery_after_ns").missing_effects() is None


def test_a_counted_profile_is_older_than_nothing() -> None:
    counted = Profile.read(shipped_profiles()["counted-linux-6.1"])
    assert counted.missing_effects() is None
