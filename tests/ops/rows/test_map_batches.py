"""`map_batches`: functions of many rows, which give row for row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, RowError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

from ..tables import TABLE, variants


def sources(count: int) -> list[fp.Pipe[int]]:
    numbers = fp.from_sequence(range(count))
    return [numbers, numbers.filter(lambda x: True)]


def tens(rows: Any) -> list[int]:
    return [10 * x for x in rows]


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("count", [0, 1, 20])
def test_law(size: int, count: int) -> None:
    for source in sources(count):
        assert check_operator(source.map_batches(tens, size), samples=6) == [10 * x for x in range(count)]
        check_operator(source.map_batches(tens, size).map_batches(tens, 2).shuffle(window=5), samples=4)


@pytest.mark.parametrize("stored", variants())
@pytest.mark.parametrize("format", ["numpy", "arrow", "torch"])
def test_columns(stored: str, format: Any) -> None:
    def double(columns: Any) -> Any:
        if format == "arrow":
            return pa.record_batch({"x": pc.multiply(columns["id"], 2)})
        return {"x": columns["id"] * 2}

    pipe = variants()[stored].select("id", "half").map_batches(double, 2, format=format)
    rows = check_operator(pipe)
    assert rows == [{"x": 2 * row["id"]} for row in TABLE.to_pylist()]
    assert isinstance(next(iter(pipe.batch(2))), Rows)


def test_a_function_of_rows_gets_a_sequence_of_its_own() -> None:
    seen: list[Any] = []

    def function(rows: Any) -> Any:
        seen.append(rows)
        if isinstance(rows, list):
            rows.reverse()
            return iter(rows[::-1])
        return rows

    source = [1, 2, 3]
    assert list(fp.from_sequence(source).load().map_batches(function, 9)) == source == [1, 2, 3]
    assert list(fp.from_table(TABLE).map_batches(function, 9)) == TABLE.to_pylist()
    assert {type(rows) for rows in seen} == {list, Rows}


def test_it_is_called_with_up_to_size_rows() -> None:
    counts: list[int] = []

    def function(rows: Any) -> Any:
        counts.append(len(rows))
        return rows

    list(fp.from_iterable(range(10)).map_batches(function, 4))
    assert counts == [4, 4, 2]
    counts.clear()
    pipe = fp.from_sequence(range(100)).map_batches(function, 8)
    assert len(pipe.shuffle().batch(20)[1]) == 20 and counts == [8, 8, 4]


@pytest.mark.parametrize("size", [1, 4, 100])
def test_an_error_names_the_row(size: int) -> None:
    for source in sources(20):
        rows: list[Any] = []
        with pytest.raises(RowError, match=r"failed with ZeroDivisionError: .*\n  on from_sequence, row 11\n  at "):
            rows.extend(source.map_batches(lambda rows: [1 / (x - 10) for x in rows], size))
        assert len(rows) == 10


WRONG: dict[str, tuple[Any, Any, str]] = {
    "fewer rows": ("rows", lambda rows: rows[1:], "must return a row for each of the .* rows but returned"),
    "no rows": ("rows", lambda rows: None, "must return a list of rows but returned a value of type NoneType"),
    "a dict": ("rows", lambda rows: {"x": rows}, "must return a list of rows but returned a value of type dict"),
    "fewer values": ("numpy", lambda c: {"x": c["id"][1:]}, "must return a row for each of the .* rows but returned"),
}


@pytest.mark.parametrize(("format", "function", "message"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("stored", ["columns", "streamed columns"])
def test_results_that_are_not_a_row_for_each_row(stored: str, format: Any, function: Any, message: str) -> None:
    pipe = variants()[stored].select("id").map_batches(function, 3, format=format)
    with pytest.raises(DataError, match=f"{message}(.|\n)*\n  in the group that begins at .*, row 1\n  at ") as caught:
        list(pipe)
    assert "`.map_batches(" in str(caught.value) and __file__ in str(caught.value)


def test_arguments() -> None:
    pipe = fp.from_sequence([1])
    with pytest.raises(ArgumentError, match="`size` must be >= 1 but got: 0"):
        pipe.map_batches(tens, 0)
    with pytest.raises(ArgumentTypeError, match="`function` must be callable but got: 3"):
        pipe.map_batches(3, 2)  # type: ignore[call-overload]
    with pytest.raises(
        ArgumentError, match="`format` must be one of 'rows', 'numpy', 'arrow', 'torch' but got: 'pandas'"
    ):
        pipe.map_batches(tens, 2, format="pandas")  # type: ignore[call-overload]
    assert repr(pipe.map_batches(tens, 2)).endswith(".map_batches(tens, size=2)")
