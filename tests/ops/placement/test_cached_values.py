"""Rows come back from a cache as they were, tables as columns, and copies that the consumer may change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.extensions import Rows

from ...support.formats import StoredRows
from .cached_pipes import same

pytestmark = pytest.mark.usefixtures("small_files")


def test_tables_stay_columns_and_arrays_stay_arrays(folder: Path) -> None:
    columns = {
        "x": np.arange(90),
        "y": np.arange(360.0, dtype="f4").reshape(90, 2, 2),
        "z": np.arange(90) % 2 == 0,
        "u": np.array([f"é{i}" for i in range(90)]),
    }
    pipe = fp.from_arrays(columns).cache(folder)
    for _ in range(2):
        (batch,) = pipe.batch(90)
        assert isinstance(batch, Rows)
        for name, column in columns.items():
            array = batch[name]
            assert isinstance(array, np.ndarray)
            assert array.dtype == column.dtype
            np.testing.assert_array_equal(array, column)
            assert not array.flags.writeable


def test_the_consumer_may_change_rows(folder: Path) -> None:
    pipe = fp.from_sequence(range(20)).map(lambda x: {"a": np.full(2, x), "l": [x]}).cache(folder)
    for _ in range(3):
        for x, row in enumerate(pipe):
            assert row["a"].tolist() == [x, x]
            assert row["l"] == [x]
            row["a"] += 1
            row["l"].append(None)


class Thing:
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Thing(), r"`row` is of type .*\.Thing"),
        ({"a": [1, {2: Thing()}]}, r"`row\['a'\]\[...\]\[1\]` is of type"),
        ((1, np.array([Thing()])), r"`row\[1\]` is an array of dtype object"),
        ([[]], None),
    ],
)
def test_values_that_no_file_holds(folder: Path, value: object, message: str | None) -> None:
    for pipe in (fp.from_sequence([value]), fp.from_iterable([value])):
        if message is None:
            assert list(pipe.cache(folder)) == [value]
            continue
        with pytest.raises(DataError, match=rf"`cache` cannot hold these rows: {message}.*`map` the rows") as error:
            list(pipe.cache(folder))
        assert __file__ in str(error.value)


def test_what_is_read_is_never_code() -> None:
    """A file that asks for Python objects is no file of rows."""
    node = {"is": "array", "dtype": "|O", "shape": [1], "part": 0, "of": "scalar"}
    with pytest.raises(ValueError, match="has no dtype object"):
        StoredRows(node, [np.zeros(8, np.uint8)], same).rows(range(1))
