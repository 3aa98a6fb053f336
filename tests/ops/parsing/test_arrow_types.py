"""`parse_arrow` of every type, and of files whose types differ."""

from __future__ import annotations

import datetime
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.testing import check_operator, same

from .arrow_files import FILE, STREAM, WAYS, parsed, write

DAY = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
TYPES: dict[str, pa.Array] = {
    "int8": pa.array(range(12), pa.int8()),
    "float16": pa.array(np.arange(12, dtype="float16")),
    "nulls": pa.array([None if i % 5 == 0 else i for i in range(12)]),
    "null": pa.nulls(12),
    "bool": pa.array([i % 2 == 0 for i in range(12)]),
    "string": pa.array(["é" * i for i in range(12)]),
    "large_binary": pa.array([b"x" * i for i in range(12)], pa.large_binary()),
    "string_view": pa.array(["a string of more than twelve bytes " * i for i in range(12)], pa.string_view()),
    "binary_view": pa.array([None, *[b"v" * i for i in range(11)]], pa.binary_view()),
    "timestamp": pa.array([DAY + datetime.timedelta(i) for i in range(12)], pa.timestamp("us", "UTC")),
    "decimal": pa.array([Decimal(i) / 4 for i in range(12)], pa.decimal128(9, 2)),
    "dictionary": pa.array(list("abcabcabcabc")).dictionary_encode(),
    "dictionary of ints": pa.array([5, None, 7] * 4).dictionary_encode(),
    "run ends": pa.RunEndEncodedArray.from_arrays([3, 7, 12], ["a", None, "c"]),
    "list": pa.array([list(range(i % 4)) for i in range(12)]),
    "fixed list": pa.array([[i, i + 1] for i in range(12)], pa.list_(pa.float32(), 2)),
    "large list": pa.array([[str(i)] * (i % 3) for i in range(12)], pa.large_list(pa.string())),
    "struct": pa.array([{"a": i, "b": {"c": str(i)}} if i % 4 else None for i in range(12)]),
    "views in a struct": pa.array(
        [{"v": ["view " * i]} for i in range(12)], pa.struct([("v", pa.list_(pa.string_view()))])
    ),
    "map": pa.array([[(str(i), i)] for i in range(12)], pa.map_(pa.string(), pa.int64())),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(48.0).reshape(12, 2, 2)),
}


@pytest.mark.parametrize("form", [FILE, STREAM])
@pytest.mark.parametrize("column", TYPES.values(), ids=TYPES.keys())
@WAYS
def test_types(tmp_path: Path, column: pa.Array, form: Any, indexed: bool) -> None:
    if form is STREAM and indexed:
        return
    table = pa.table({"x": column, "i": range(12)})
    path = write(tmp_path / "a.arrow", table, 5, form=form)
    expected = list(fp.from_table(table))
    pipe = parsed([path], indexed=indexed)
    assert all(map(same, check_operator(pipe), expected))
    shuffled = pipe.shuffle() if indexed else pipe.shuffle(window=12)
    (batch,) = shuffled.batch(12)
    assert same(list(batch), [expected[row["i"]] for row in shuffled])


def test_dictionaries_that_grow_and_change_in_a_stream(tmp_path: Path) -> None:
    sink = io.BytesIO()
    parts = [pa.table({"c": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["a", "b", "c"], ["z"])]
    with STREAM(sink, parts[0].schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
        for part in parts:
            writer.write_table(part)
    (tmp_path / "a.arrows").write_bytes(sink.getvalue())
    assert [row["c"] for row in check_operator(parsed([tmp_path / "a.arrows"]))] == ["a", "b", "a", "b", "c", "z"]


@WAYS
def test_types_that_become_those_of_the_first_file(tmp_path: Path, indexed: bool) -> None:
    files = [
        write(tmp_path / "a.arrow", {"n": pa.array([1, 2]), "f": pa.array([0.5, None]), "t": ["a", "b"]}),
        write(
            tmp_path / "b.arrow", {"t": pa.array(["c"], pa.string_view()), "n": pa.array([3], pa.int16()), "f": [2.5]}
        ),
        write(
            tmp_path / "c.arrow", {"t": pa.nulls(1), "f": pa.array([1], pa.float32()), "n": pa.array([4], pa.uint32())}
        ),
    ]
    pipe = parsed(files, indexed=indexed)
    rows = check_operator(pipe)
    assert [row["n"] for row in rows] == [1, 2, 3, 4]
    assert [row["f"] for row in rows] == [0.5, None, 2.5, 1.0]
    assert [row["t"] for row in rows] == ["a", "b", "c", None]
    (batch,) = pipe.batch(4).to_arrow()
    assert batch.schema.types == [pa.int64(), pa.float64(), pa.string()]


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "a column less": ({"n": [1]}, r"b.arrow has no column 't', and .*a.arrow has one; it has 'n'"),
    "a column more": ({"n": [1], "t": ["x"], "u": [1]}, r"b.arrow has a column 'u', and .*a.arrow has none"),
    "a wider type": ({"n": [1.5], "t": ["x"]}, r"b.arrow, column 'n': its type is double, and int64 in .*a.arrow"),
}


@pytest.mark.parametrize("form", [FILE, STREAM])
@pytest.mark.parametrize(("second", "message"), MISFITS.values(), ids=MISFITS.keys())
def test_files_that_do_not_fit_are_named(tmp_path: Path, second: dict[str, Any], message: str, form: Any) -> None:
    files = [
        write(tmp_path / "a.arrow", {"n": [1], "t": ["x"]}, form=form),
        write(tmp_path / "b.arrow", second, form=form),
    ]
    with pytest.raises(DataError, match=message) as caught:
        list(parsed(files))
    assert "arrow_files.py" in str(caught.value)  # where the chain is written
