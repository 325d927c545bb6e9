"""The store is a set of rows: neither their grouping, their order nor a broken file matters."""

from __future__ import annotations

import errno
import math
import os
import tempfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dispatchsim.store.made_up import exported, record

from dispatchsim.scenario.errors import UserError
from dispatchsim.store import Store
from dispatchsim.store.fragments import export, name_of
from dispatchsim.store.store import QuarantineWarning

NUMBERS = range(12)
ROWS = [record(n, **({"error_reset": float(n)} if n % 3 else {"waits": 0.1})) for n in NUMBERS]


def test_rows_come_back_as_they_were_added(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "folder")
    assert store.get([ROWS[0].address]) == {}
    assert len(store.frame()) == 0
    store.add([])
    assert not store.folder.exists()
    store.add(ROWS[:4])
    store.add(ROWS[4:6])
    expected = {row.address: row for row in ROWS[1:6]}
    for each in (store, Store(store.folder)):
        assert each.get([*expected, "0" * 64]) == expected
    assert len(list(store.folder.iterdir())) == 2


def test_a_figure_that_is_no_number_stays_one_and_one_that_is_not_there_stays_away(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    store.add([record(1, a=math.nan, b=-math.inf), record(2, c=0.1)])
    one, two = (Store(tmp_path).get([record(n).address]).popitem()[1] for n in (1, 2))
    assert math.isnan(one.figures["a"])
    assert one.figures["b"] == -math.inf
    assert "c" not in one.figures
    assert set(two.figures) == {"p99_answered_ns", "p99_ns", "c"}


groupings = st.lists(
    st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=6), min_size=1, max_size=6
)


@given(groupings, st.permutations(NUMBERS))
def test_grouping_and_order_of_what_is_added_do_not_matter(
    groups: list[list[int]], order: list[int]
) -> None:
    numbers = {number for group in groups for number in group}
    with tempfile.TemporaryDirectory() as folder:
        in_groups, one_by_one = Store(Path(folder) / "a"), Store(Path(folder) / "b")
        for group in groups:
            in_groups.add([ROWS[number] for number in group])
        for number in order:
            if number in numbers:
                one_by_one.add([ROWS[number]])
        pd.testing.assert_frame_equal(in_groups.frame(), one_by_one.frame())
        contents = [exported(s.records(), Path(folder)) for s in (in_groups, one_by_one)]
        assert contents[0] == contents[1]
        addresses = in_groups.frame()["address"].tolist()
        assert addresses == sorted(ROWS[number].address for number in numbers)


def test_a_frame_has_figures_as_columns_and_whole_numbers_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(ROWS)
    frame = store.frame()
    assert list(frame.columns)[:9] == [
        "address", "seed", "draw", "mechanism", "profile", "scenario", "verdict", "code",
        "p99_ns",
    ]  # fmt: skip
    row = frame[frame["seed"] == 4].iloc[0]
    assert (row["draw"], row["mechanism"], row["error_reset"]) == (4, "poll", 4.0)
    assert frame["draw"].isna().sum() == 6


def broken(content: bytes, at: float, how: str) -> bytes:
    """Return *content* after something has happened to it."""
    place = int(at * (len(content) - 1))
    if how == "cut":
        return content[:place]
    if how == "flipped":
        return content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]
    return bytes(len(content))


@given(st.floats(0, 1), st.sampled_from(["cut", "flipped", "zeros"]))
def test_a_broken_fragment_is_named_moved_away_and_its_rows_are_missing(
    at: float, how: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.add(ROWS[:3])
        (path,) = store.folder.glob("*.parquet")
        path.write_bytes(broken(path.read_bytes(), at, how))
        store.add(ROWS[3:5])
        again = Store(store.folder)
        with pytest.warns(QuarantineWarning, match=path.name):
            found = again.get([row.address for row in ROWS])
        assert set(found) == {row.address for row in ROWS[3:5]}
        (quarantined,) = again.quarantined
        assert quarantined.path == store.folder / "quarantine" / path.name
        assert quarantined.path.exists()
        assert not path.exists()
        again.add(ROWS[:3])  # simulated again
        assert len(Store(store.folder).frame()) == 5


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"x": [1.0]}),
        pa.table({"address": [1], "seed": [1], "draw": [1], "mechanism": ["poll"]}),
        pa.table({}),
    ],
)
def test_parquet_of_another_schema_is_no_fragment(tmp_path: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    content = sink.getvalue().to_pybytes()
    (tmp_path / name_of(content)).write_bytes(content)
    with pytest.warns(QuarantineWarning, match="columns"):
        assert len(Store(tmp_path).frame()) == 0


def test_a_foreign_file_is_left_alone_and_foreign_parquet_is_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(ROWS[:2])
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "0123.parquet.99.part").write_bytes(b"left by a kill")
    (tmp_path / "mine.parquet").write_text("mine")
    with pytest.warns(QuarantineWarning, match=r"mine\.parquet: is no whole fragment"):
        assert len(Store(tmp_path).frame()) == 2
    assert (tmp_path / "notes.txt").exists()
    assert (tmp_path / "quarantine" / "mine.parquet").read_text() == "mine"


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    store.add(ROWS[:2])

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"cannot be written \(no space left on device\): 3") as e:
        store.add(ROWS[2:5])
    assert str(tmp_path) in str(e.value)
    assert "are kept" not in str(e.value)
    assert len(list(tmp_path.iterdir())) == 1
    assert len(store.frame()) == 2
    with pytest.raises(UserError, match=r"out\.csv: cannot be written"):
        export(ROWS, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_a_store_in_the_place_of_a_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(UserError, match=r"file.*: cannot be written \(file exists\)"):
        Store(path).add(ROWS[:1])


def test_an_export_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"must end in \.parquet, \.csv or \.json, got .*out\.xls"):
        export(ROWS, tmp_path / "out.xls")
