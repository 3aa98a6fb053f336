"""Objects that another source takes are refused with the name of that source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import datasets
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError

DATASET = datasets.Dataset.from_dict({"x": [1]})
OBJECTS: dict[str, tuple[Callable[[], object], str]] = {
    "pandas": (lambda: pd.DataFrame({"x": [1]}), r"a `pandas\.DataFrame`; `from_table` takes it"),
    "polars": (lambda: pl.DataFrame({"x": [1]}), r"a `polars\.DataFrame`; `from_table` takes it"),
    "a query": (lambda: pl.LazyFrame({"x": [1]}), r"`from_table` its result, `frame\.collect\(\)`"),
    "a connection": (duckdb.connect, r"`from_table` a relation, such as `connection\.sql"),
    "a relation": (lambda: duckdb.connect().sql("SELECT 1 AS x"), "`from_table` takes it"),
    "Arrow": (lambda: pa.table({"x": [1]}), r"a `pyarrow\.Table`; `from_table` takes it"),
    "an Arrow dataset": (lambda: pa.dataset.dataset(pa.table({"x": [1]})), r"`from_table\(dataset\.to_table\(\)\)`"),
    "splits": (lambda: datasets.DatasetDict(train=DATASET), r'choose a split, such as `dataset\["train"\]`'),
}
SOURCES: list[Any] = [fp.from_sequence, fp.from_iterable, fp.from_dataset, fp.from_arrays, fp.from_table]


@pytest.mark.parametrize("name", OBJECTS)
def test_each_source_names_the_right_one(name: str) -> None:
    make, words = OBJECTS[name]
    for source in SOURCES:
        if source is fp.from_table and "`from_table` takes it" in words:
            assert len(source(make())) == 1
            continue
        with pytest.raises(ArgumentTypeError, match=rf"(?s)`{source.__name__}` .*{words}.*\n  at .*py:"):
            source(make())


def test_columns_and_datasets_are_sequences_too() -> None:
    for values in (pd.Series([1, 2]), pl.Series([1, 2]), pa.chunked_array([[1, 2]])):
        assert len(fp.from_sequence(values)) == 2
    assert list(fp.from_sequence(DATASET)) == list(fp.from_iterable(DATASET.to_iterable_dataset())) == [{"x": 1}]
