"""`Rows` behaves as the list of its rows does, however its columns are held."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError
from feedpipe.extensions import Rows
from feedpipe.testing import same

from ..support.core import concat, nbytes, pick, signature, take, take_joined


def as_list(rows: Any) -> list[Any]:
    return list(rows)


def held(count: int, how: str) -> Rows:
    """Rows with numbers, text, arrays and nulls; `how` says in what memory."""
    numbers, grid = np.arange(count), np.arange(2 * count).reshape(count, 2) % 3 == 0
    if how == "arrow":
        holes = pa.array([None if i % 3 == 0 else i for i in range(count)], pa.int32())
        text = pa.array([f"t{i}" for i in range(count)], pa.string())
        return Rows.from_arrow(pa.RecordBatch.from_arrays([pa.array(numbers), holes, text], names=["n", "h", "t"]))
    if how == "chosen":
        source = {"n": np.arange(2 * count), "g": np.arange(4.0 * count).reshape(2 * count, 2)}
        return Rows.selected(source, np.arange(2 * count - 1, count - 1, -1))
    rows = Rows({"n": numbers, "g": grid, "t": numbers.astype("U3")}, count)
    return Rows.joined([rows[: count // 3], rows[count // 3 :]]) if how == "joined" else rows


HOW = ["numpy", "arrow", "chosen", "joined"]
tables = st.builds(held, st.integers(0, 12), st.sampled_from(HOW))


@given(tables, st.data())
def test_take_by_indices(rows: Rows, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=20) if len(rows) else st.just([]))
    expected = as_list(rows)
    taken = take(rows, np.array(places, np.int64))
    assert isinstance(taken, Rows)
    assert same(as_list(taken), [expected[i] for i in places])
    assert take(expected, np.array(places, np.int64)) == pick(expected, places)


@given(tables, st.data())
def test_slices(rows: Rows, data: st.DataObject) -> None:
    expected = as_list(rows)
    cut = data.draw(st.slices(len(rows)))
    assert same(as_list(rows[cut]), expected[cut])
    assert same(as_list(take(rows, range(len(rows))[cut])), take(expected, range(len(rows))[cut]))


@given(st.lists(tables, min_size=1, max_size=4))
def test_concat(parts: list[Rows]) -> None:
    joined = concat(list(parts))
    assert same(as_list(joined), [row for part in parts for row in part])
    assert isinstance(joined, Rows) is (len({signature(part) for part in parts}) == 1)
    assert concat([as_list(part) for part in parts]) == [] or len(joined) == sum(map(len, parts))


@given(tables, st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=3))
def test_cuts_of_cuts_joined_again(rows: Rows, cuts: list[tuple[int, int]]) -> None:
    pieces, expected = [rows], [as_list(rows)]
    for start, stop in cuts:
        pieces.append(pieces[-1][start:stop])
        expected.append(expected[-1][start:stop])
    assert same(as_list(concat(list(pieces))), sum(expected, []))


@given(tables)
def test_is_a_sequence_of_dicts(rows: Rows) -> None:
    expected = as_list(rows)
    assert len(rows) == len(expected)
    assert same([rows[i] for i in range(len(rows))], expected)
    assert same([rows[i - len(rows)] for i in range(len(rows))], expected)
    with pytest.raises(IndexError):
        rows[len(rows)]
    assert same(as_list(pickle.loads(pickle.dumps(rows))), expected)
    assert rows.arrow.num_rows == len(rows)
    assert same(as_list(Rows.from_arrow(rows.arrow)), expected)
    assert nbytes(rows) >= 0


@pytest.mark.parametrize("how", ["numpy", "chosen", "joined"])
def test_columns_cannot_be_written_to_and_copies_can(how: str) -> None:
    rows = take(held(4, how), np.array([3, 1], np.int64))
    assert isinstance(rows, Rows)
    copies = rows.copies()
    before = rows[0]["n"]
    copies["n"][:] = -1  # type: ignore[index]
    assert rows[0]["n"] == before
    with pytest.raises(ValueError, match="read-only"):
        rows.columns["n"][0] = 1  # type: ignore[index]
    again = rows.copies()
    again["n"][:] = -1  # type: ignore[index]
    assert rows[0]["n"] == before


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=4),
    st.lists(st.sampled_from(["f4", ">f4", "i8", "U3", "O", "grid", "arrow", "long"]), min_size=1, max_size=30),
    st.data(),
)
def test_rows_of_several_parts_are_those_of_all_joined(
    lengths: list[int], kinds: list[str], data: st.DataObject
) -> None:
    def column(kind: str, start: int, rows: int) -> Any:
        numbers = np.arange(start, start + rows)
        if kind == "arrow":
            return pa.array([None if n % 3 == 0 else f"t{n}" for n in numbers.tolist()], pa.string())
        if kind in ("grid", "long"):  # rows of 8 and of 4096 bytes: the latter are too large for a group of columns
            return np.repeat(numbers, 1 if kind == "grid" else 512).reshape(rows, -1)
        return numbers.astype(kind)

    starts = np.cumsum([0, *lengths]).tolist()
    parts = [
        Rows({f"{kind}{k}": column(kind, start + 7 * k, rows) for k, kind in enumerate(kinds)})
        for start, rows in zip(starts, lengths, strict=False)
    ]
    places = st.lists(st.integers(0, sum(lengths) - 1), max_size=50)
    selections = [np.array(data.draw(places), np.int64) for _ in range(2)]
    taken = take_joined(parts, *selections)
    for rows, indices in zip(taken, selections, strict=True):
        expected = take(concat(parts), indices)
        assert isinstance(rows, Rows) and isinstance(expected, Rows)
        assert [*rows.columns] == [*expected.columns] and signature(rows) == signature(expected)
        assert same(as_list(rows), as_list(expected))
        arrays = [c for c in rows.columns.values() if isinstance(c, np.ndarray)]
        assert not any(c.flags.writeable for c in arrays) and all(c.flags.c_contiguous for c in arrays)


def test_a_column_by_name() -> None:
    table = pa.table({"x": [1, 2, 3], "s": ["a", "b", "c"]})
    for pipe, order in ((fp.from_table(table), [0, 1]), (fp.from_table(table).slice(0, None, 2), [0, 2])):
        batch = pipe.batch(2)[0]
        assert isinstance(batch["x"], np.ndarray) and batch["x"].tolist() == [1 + i for i in order]
        assert not batch["x"].flags.writeable
        assert batch["s"].to_pylist() == ["abc"[i] for i in order]
        assert batch[np.int64(1)] == {"x": 1 + order[1], "s": "abc"[order[1]]}
        with pytest.raises(KeyError, match="'z' is none of the columns: 'x', 's'"):
            batch["z"]
        for index in ([0, 1], 1.0, None):
            with pytest.raises(ArgumentTypeError, match=r"`rows\[...\]` takes an int, a slice or the name of a column"):
                batch[index]
    selected = Rows.selected({"x": np.arange(5)}, np.array([4, 0]))
    assert selected["x"].tolist() == [4, 0] and list(selected) == [{"x": 4}, {"x": 0}]


def test_equality_is_that_of_the_rows() -> None:
    rows = [held(6, how) for how in HOW]
    for one in rows:
        for other in rows:
            names = set(one.columns) == set(other.columns)
            assert (one == other) is (names and all(same(a, b) for a, b in zip(one, other, strict=True)))
    assert held(6, "numpy") == held(6, "joined") != held(5, "numpy")
    assert Rows({"x": np.arange(3)}) == Rows({"x": pa.array([0, 1, 2])}) and rows[0] != list(rows[0])
    assert fp.from_arrays({"x": np.arange(4)}).batch(2)[0] == Rows({"x": np.arange(2)})


def test_columns_of_more_than_two_gigabytes() -> None:
    """Offsets have 32 bits in most tables: a column whose items they cannot count gets those of 64 bits."""
    most = 2**31 - 2  # nulls take no memory
    lists = pa.ListArray.from_arrays(pa.array([0, most - 1, most], pa.int32()), pa.nulls(most))
    table = fp.from_table(pa.table({"x": pa.chunked_array([lists] * 3), "n": range(6)}))
    for pipe in (table.batch(6), table.filter(pa.compute.field("n") >= 0).batch(6)):
        (batch,) = pipe
        assert batch["x"].type == pa.large_list(pa.null())
        assert batch.arrow["x"].value_lengths().to_pylist() == [most - 1, 1] * 3
