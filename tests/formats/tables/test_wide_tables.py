"""Tables of many columns: what they cost grows with their columns, not with the square."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feedpipe as fp


def comparisons(columns: int, folder: Path) -> int:
    """How often names are compared while a pass names all columns of two files."""
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = [Name(f"c{k}") for k in range(columns)]
    for k in range(2):
        pq.write_table(pa.table({str(name): [k] for name in names}), folder / f"{columns}-{k}.parquet")
    pipe = fp.read_parquet(folder / f"{columns}-*.parquet", columns=names)
    assert len(list(pipe)) == 2
    return compared


def test_names_are_looked_up_and_not_searched(tmp_path: Path) -> None:
    few, many = comparisons(20, tmp_path), comparisons(200, tmp_path)
    assert many <= 10 * few + 100


@pytest.mark.parametrize("columns", [1, 300])
def test_a_wide_table_shuffled_and_batched(columns: int, tmp_path: Path) -> None:
    values = {f"c{k}": np.arange(500) * (k + 1) for k in range(columns)}
    pq.write_table(pa.table(values), tmp_path / "a.parquet", row_group_size=200)
    loader = fp.Loader(fp.read_parquet(tmp_path).shuffle(window=100).batch(64).collate())
    batches = list(loader)
    first = np.concatenate([batch["c0"].numpy() for batch in batches])
    last = np.concatenate([batch[f"c{columns - 1}"].numpy() for batch in batches])
    assert sorted(first.tolist()) == list(range(500)) and (last == first * columns).all()
