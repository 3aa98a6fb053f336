"""Objects that another source takes are refused with the name of that source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import datasets
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError

DATASET = datasets.Dataset.from_dict({"x": [1]})
OBJECTS: dict[str, tuple[Callable[[], object], str]] = {
    "pandas": (lambda: pd.DataFrame({"x": [1]}), r"a `pandas\.DataFrame`"),
    "polars": (lambda: pl.DataFrame({"x": [1]}), r"a `polars\.DataFrame`"),
    "a relation": (lambda: duckdb.connect().sql("SELECT 1 AS x"), "`_?duckdb.DuckDBPyRelation`"),
    "Arrow": (lambda: pa.table({"x": [1]}), r"a `pyarrow\.Table`"),
    "a stream": (lambda: pa.table({"x": [1]}).to_reader(), r"a `pyarrow\.RecordBatchReader`"),
}
SOURCES: list[Any] = [fp.from_sequence, fp.from_iterable, fp.from_dataset, fp.from_arrays]


@pytest.mark.parametrize("name", OBJECTS)
def test_each_source_names_the_right_one(name: str) -> None:
    make, words = OBJECTS[name]
    for source in SOURCES:
        with pytest.raises(ArgumentTypeError, match=rf"(?s)`{source.__name__}` .*{words}; `from_table` takes it.* at "):
            source(make())
    assert len(fp.from_table(make())) == 1


def test_columns_and_datasets_are_sequences_too() -> None:
    for values in (pd.Series([1, 2]), pl.Series([1, 2]), pa.chunked_array([[1, 2]])):
        assert len(fp.from_sequence(values)) == 2
    assert list(fp.from_sequence(DATASET)) == list(fp.from_iterable(DATASET.to_iterable_dataset())) == [{"x": 1}]
