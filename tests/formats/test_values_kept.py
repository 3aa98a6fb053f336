"""A value comes out as it was written, or there is an error: the values that Arrow, NumPy or torch would change."""

from __future__ import annotations

from datetime import UTC, time
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import FeedpipeError

MASKED = np.ma.array([1, 2], mask=[False, True])
ZONED = time(1, 2, tzinfo=UTC)


def test_the_zone_of_a_time(tmp_path):
    rows = fp.from_sequence([{"x": ZONED}] * 4)
    with pytest.raises(FeedpipeError, match="no column holds the zone of"):
        fp.write_parquet(rows, tmp_path / "a", progress=False)


def test_masks(tmp_path):
    rows = fp.from_sequence([{"x": MASKED}] * 4)
    for end in (lambda: fp.write_parquet(rows, tmp_path / "a", progress=False), lambda: list(rows.batch(2).collate())):
        with pytest.raises(FeedpipeError, match=r"fill it with `\.filled\(\.\.\.\)`"):
            end()


def test_masked_columns_have_nulls():
    rows = fp.from_sequence([{"x": 1}, {"x": 2}]).batch(2).map_columns(lambda columns: {"x": MASKED})
    assert [row["x"] for batch in rows for row in batch] == [1, None]


def test_numbers_of_64_bits_and_complex_ones():
    for values in (np.array([2**63, 2**64 - 1], np.uint64), np.array([1 + 2j, 3])):
        assert fp.from_arrays({"x": values}).batch(2).collate()[0]["x"].tolist() == values.tolist()


def test_what_a_file_cannot_hold_is_named(tmp_path):
    with pytest.raises(FeedpipeError, match="column 'x' has dtype complex128, for which Arrow has no type"):
        fp.write_parquet(fp.from_arrays({"x": np.array([1 + 2j])}), tmp_path / "a", progress=False)
    tens = pa.table({"x": pa.array([Decimal("1.2E+3")], pa.decimal128(10, -2))})
    with pytest.raises(FeedpipeError, match="Parquet cannot store these columns: Scale must be"):
        fp.write_parquet(fp.from_table(tens), tmp_path / "b", progress=False)


def test_a_healthy_file_that_pyarrow_cannot_read_is_not_called_damaged_alone(tmp_path):
    readers = {}
    if hasattr(pl, "Int128"):  # since polars 1.18
        wide = pl.DataFrame({"x": pl.Series([2**100], dtype=pl.Int128)})
        wide.write_parquet(tmp_path / "a.parquet")
        wide.write_ipc(tmp_path / "a.arrow")
        readers |= {"parquet": fp.read_parquet, "arrow": fp.read_arrow}
    for name, read in readers.items():
        with pytest.raises(FeedpipeError, match=f"a.{name}.* holds what pyarrow .* cannot read, or is damaged"):
            list(read(tmp_path / f"a.{name}"))
