"""`cast`: types of columns, of tables and of rows that are dicts."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError
from feedpipe.testing import check_operator, same

from ..tables import TABLE, variants


@pytest.mark.parametrize("stored", variants())
def test_law(stored: str) -> None:
    pipe = variants()[stored]
    rows = check_operator(pipe.cast({"half": "float32", "id": pa.string(), "text": "large_string"}), samples=5)
    expected = [{**row, "id": str(row["id"])} for row in TABLE.to_pylist()]
    assert rows == expected
    assert check_operator(pipe.skip(9).cast({"id": "int8"})) == []


def test_types_of_columns() -> None:
    pipe = fp.from_table(TABLE).cast(pa.schema({"half": pa.float32(), "tags": pa.large_list(pa.string())}))
    schema = next(iter(pipe.batch(9))).arrow.schema
    assert pipe.schema == schema
    assert [str(kind) for kind in schema.types] == ["int64", "string", "float", "large_list<item: string>"]
    assert str(pipe.select("half").batch(2).collate()[0]["half"].dtype) == "torch.float32"
    text = fp.from_table(pa.table({"n": ["1", None], "at": ["2024-01-31", None]}))
    assert list(text.cast({"n": "uint8", "at": "date32"})) == [
        {"n": 1, "at": datetime.date(2024, 1, 31)},
        {"n": None, "at": None},
    ]


@pytest.mark.parametrize("stored", ["array", "arrow", "dicts"])
def test_arrays_are_cast_item_by_item(stored: str) -> None:
    images = np.arange(12, dtype="uint8").reshape(3, 2, 2)
    pipe: fp.Pipe[Any] = fp.from_arrays({"image": images})
    if stored == "arrow":
        pipe = fp.from_table(pa.table(next(iter(pipe.batch(3))).arrow.to_pydict() and pipe.batch(3)[0].arrow))
    elif stored == "dicts":
        pipe = pipe.map(lambda row: row)
    rows = check_operator(pipe.cast({"image": "float32"}))
    assert same([row["image"] for row in rows], list(images.astype("float32")))
    with pytest.raises(DataError, match="cannot become int8: Integer value 128 not in range(.|\n)*row 2\n"):
        list(fp.from_arrays({"x": np.array([[1], [128]], "uint8")}).cast({"x": "int8"}))


@pytest.mark.parametrize("stored", ["columns", "streamed columns", "dicts", "streamed dicts"])
def test_a_value_that_cannot_be_converted_names_its_row(stored: str) -> None:
    pipe = variants(pa.table({"n": ["1", "2", "x", "4"]}))[stored].cast({"n": "int64"})
    rows: list[Any] = []
    message = r"`\.cast\({'n': 'int64'}\)`: column 'n' of type string cannot become int64: Failed to parse string: 'x'"
    with pytest.raises(DataError, match=f"{message}(.|\n)*, row 3\n  at ") as caught:
        rows.extend(pipe)
    assert rows == [{"n": 1}, {"n": 2}] and __file__ in str(caught.value)


def test_no_value_changes_without_an_error() -> None:
    for values, kind in (([1.5], "int64"), ([300], "uint8"), ([-1], "uint32"), ([2**60 + 1], "float64")):
        for pipe in variants(pa.table({"n": values})).values():
            with pytest.raises(DataError, match=f"column 'n' of type .* cannot become {pa.type_for_alias(kind)}: "):
                list(pipe.cast({"n": kind}))


def test_errors_before_the_run() -> None:
    pipe = fp.from_table(TABLE)
    with pytest.raises(PlanError, match=r"there is no column 'hlaf'; did you mean 'half'\?\n  at ") as caught:
        pipe.cast({"hlaf": "float32"}).explain()
    assert __file__ in str(caught.value)
    with pytest.raises(PlanError, match=r"column 'tags' of type list<.*> cannot become int64: "):
        pipe.cast({"tags": "int64"}).explain()
    with pytest.raises(ArgumentError, match="a type of Arrow, or its name, but got: 'flaot32'; did you mean 'float32'"):
        pipe.cast({"half": "flaot32"})
    with pytest.raises(ArgumentError, match="`schema` must name at least one column but names none"):
        pipe.cast({})
    with pytest.raises(ArgumentTypeError, match="`schema` must map names to types, or be a pyarrow schema, but got"):
        pipe.cast("float32")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="column 'x': <object .*> cannot be converted"):
        list(fp.from_sequence([{"x": object()}]).cast({"x": "int64"}))
