"""`from_table`: objects with Arrow's stream protocol, and the Arrow tables of Hugging Face datasets."""

from __future__ import annotations

import datetime
import gc
import pickle
from typing import Any

import cloudpickle
import datasets
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError, DataError
from feedpipe.extensions import Context, Rows
from feedpipe.testing import check_operator

COLUMNS = {
    "number": list(range(40)),
    "hole": [None if i % 7 == 0 else i for i in range(40)],
    "text": [f"row {i}" for i in range(40)],
    "ratio": [i / 4 for i in range(40)],
    "truth": [i % 3 == 0 for i in range(40)],
    "many": [list(range(i % 4)) for i in range(40)],
    "day": [datetime.date(2024, 1, 1) + datetime.timedelta(i) for i in range(40)],
}
TABLE = pa.table(COLUMNS)
ROWS = TABLE.to_pylist()
CHUNKED = pa.concat_tables([TABLE.slice(0, 7), TABLE.slice(7, 1), TABLE.slice(8, 0), TABLE.slice(8)])


class OnlyOnce:
    """A stream that can be read once."""

    def __init__(self) -> None:
        self.read = 0

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        self.read += 1
        assert self.read == 1
        return CHUNKED.__arrow_c_stream__(requested_schema)


MAKERS: dict[str, Any] = {
    "pyarrow": lambda: TABLE,
    "chunks": lambda: CHUNKED,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: CHUNKED.to_reader(),
    "once": OnlyOnce,
    "polars": lambda: pl.from_arrow(TABLE),
    "duckdb": lambda: duckdb.from_arrow(TABLE).filter("number >= 0"),
    "hugging face": lambda: datasets.Dataset(CHUNKED),
}


def again(pipe: Any) -> Any:
    return pickle.loads(cloudpickle.dumps(pipe))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_rows_of(make: Any) -> None:
    pipe = fp.from_table(make())
    assert len(pipe) == 40
    assert check_operator(pipe) == ROWS
    assert pipe[-1] == ROWS[-1]
    assert sorted(check_operator(pipe.shuffle()), key=lambda row: row["number"]) == ROWS
    assert list(again(pipe)) == ROWS


def test_pandas() -> None:
    frame = pd.DataFrame({"a": range(10), "s": [f"{i}" for i in range(10)], "c": pd.Categorical(["u", "v"] * 5)})
    odd = frame[frame.a % 2 == 1]  # its index is not a range
    assert check_operator(fp.from_table(odd)) == [{"a": i, "s": f"{i}", "c": "v"} for i in range(1, 10, 2)]
    named = odd.set_index("s")
    assert fp.from_table(named)[0] == {"a": 1, "c": "v", "s": "1"}


def test_dictionaries_that_differ_from_chunk_to_chunk() -> None:
    parts = [pa.table({"c": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["b", "c"], ["a"])]
    pipe = fp.from_table(pa.concat_tables(parts))
    assert [row["c"] for row in check_operator(pipe)] == ["a", "b", "b", "c", "a"]
    assert [pipe[i]["c"] for i in (4, 0, 3)] == ["a", "a", "c"]
    assert sorted(pipe.shuffle().batch(5).collate()[0]["c"]) == ["a", "a", "b", "b", "c"]


def test_rows_keep_their_memory_alive() -> None:
    table = pa.concat_tables([pa.table({"x": np.arange(i, i + 5000)}) for i in range(0, 50_000, 5000)])
    pipe = fp.from_table(table)
    part = pipe.batch(100)[450]
    del table, pipe
    gc.collect()
    np.ones(10**6)
    assert [row["x"] for row in part] == list(range(45_000, 45_100))


@pytest.mark.parametrize("chunk", [1, 3, 64, 1000])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
def test_any_rows_from_many_chunks(chunk: int, dtype: str) -> None:
    values = (np.arange(1000) % 250).astype(dtype)
    text = pa.array([str(i) for i in range(1000)])
    tables = [pa.table({"v": values[i : i + chunk].copy(), "t": text[i : i + chunk]}) for i in range(0, 1000, chunk)]
    pipe = fp.from_table(pa.concat_tables(tables))
    indices = np.random.default_rng(0).integers(0, 1000, 300)
    for places in (indices, indices[:3], np.arange(400, 800), range(5, 900, 7), range(990, 10, -9), range(60, 70)):
        rows = pipe._stage().rows(places, Context())
        assert isinstance(rows, Rows)
        chosen = np.asarray(places)
        assert [row["v"] for row in rows] == values[chosen].tolist()
        assert [row["t"] for row in rows] == [str(i) for i in chosen]
        assert rows.arrow.num_rows == len(chosen)


def test_empty_tables() -> None:
    for table in (TABLE.slice(0, 0), TABLE.schema.empty_table(), pa.table({})):
        assert check_operator(fp.from_table(table)) == []
    assert check_operator(fp.from_table(TABLE.select([]))) == [{}] * 40


# datasets calls pyarrow in a deprecated way.
@pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning")
@pytest.mark.parametrize("change", ["shuffle", "select", "sort", "filter", "shard"])
def test_hugging_face_indices(change: str) -> None:
    whole = datasets.Dataset(CHUNKED.select(["number", "text"]))
    data = {
        "shuffle": lambda: whole.shuffle(seed=1),
        "select": lambda: whole.select([5, 1, 39]),
        "sort": lambda: whole.sort("number", reverse=True),
        "filter": lambda: whole.filter(lambda row: row["number"] % 2, keep_in_memory=True),
        "shard": lambda: whole.shard(3, 1),
    }[change]()
    assert check_operator(fp.from_table(data)) == list(data)
    assert list(again(fp.from_table(data))) == list(data)


def test_a_table_of_a_file_is_not_read_into_memory(tmp_path: Any) -> None:
    data = datasets.Dataset(TABLE)
    data.save_to_disk(tmp_path / "data")
    mapped = datasets.load_from_disk(tmp_path / "data")
    before = pa.total_allocated_bytes()
    pipe = fp.from_table(mapped)
    assert pipe[3]["number"] == 3
    assert pa.total_allocated_bytes() - before < 4096
    assert len(cloudpickle.dumps(pipe)) < 20_000
    assert list(again(pipe)) == ROWS


@pytest.mark.parametrize("value", [[{"a": 1}], {"a": [1]}, np.zeros(3), None, pl.DataFrame])
def test_values_that_are_no_table(value: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="`table` must be a data frame") as caught:
        fp.from_table(value)
    assert __file__ in str(caught.value)


def test_two_columns_of_one_name() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(DataError, match=r"several of: \['x'\]"):
        list(fp.from_table(table))
