"""Arrow data and `Rows` arrive as they were, and a slice leaves its parent behind."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pytest

from feedpipe.extensions import Rows

from ...support.services import Packer
from .round_trip import round_trip

NUMBERS = pa.array(range(100_000))
TEXT = pa.array([f"text long enough not to be inlined {i}" for i in range(20_000)])
ARROW = {
    "numbers": NUMBERS,
    "nulls": pa.array([1, None, 3] * 1000),
    "bools": pa.array([True, None, False] * 1000),
    "text": TEXT,
    "large text": TEXT.cast(pa.large_string()),
    "text views": TEXT.cast(pa.string_view()),
    "byte views": TEXT.cast(pa.binary()).cast(pa.binary_view()),
    "decimals": pa.array([decimal.Decimal("1.50"), None] * 500),
    "times": pa.array(range(1000), pa.timestamp("us", "UTC")),
    "lists": pa.array([[i, None] for i in range(1000)]),
    "fixed lists": pa.array([[i, i] for i in range(1000)], pa.list_(pa.int16(), 2)),
    "structs": pa.array([{"a": i, "b": [str(i)]} for i in range(1000)]),
    "maps": pa.array([[("k", i)] for i in range(1000)], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["a", "b", None] * 1000).dictionary_encode(),
    "none": pa.nulls(1000),
    "tensors": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(6000.0).reshape(1000, 2, 3)),
    "views of nothing": pa.array(["long enough for a buffer of its own", None], pa.string_view())[2:],
}


@pytest.mark.parametrize("name", ARROW)
@pytest.mark.parametrize("cut", [slice(None), slice(500, 523), slice(7, 7)], ids=["whole", "slice", "empty"])
def test_arrow_arrays(name: str, cut: slice) -> None:
    array = ARROW[name][cut]
    arrived = round_trip([array, pa.chunked_array([array, array])])
    arrived[0].validate(full=True)
    assert arrived[0].type == array.type and arrived[0].equals(array)
    assert arrived[1].type == array.type and arrived[1].equals(pa.chunked_array([array, array]))
    columns = pa.RecordBatch.from_arrays([array, array], ["a", "b"])
    assert round_trip(columns).equals(columns)
    assert (
        round_trip(pa.Table.from_batches([columns] * 2)).to_batches()
        == pa.Table.from_batches([columns] * 2).to_batches()
    )


def test_schemas_arrive_with_their_metadata() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False, metadata={"k": "v"})], metadata={"m": "n"})
    batch = pa.RecordBatch.from_arrays([NUMBERS], schema=schema)
    table = pa.Table.from_batches([batch, batch[:5]])
    for sent in (batch, table, table[:0], schema.empty_table(), pa.Table.from_batches([], schema)):
        arrived = round_trip(sent)
        assert arrived.schema.equals(schema, check_metadata=True) and arrived.equals(sent)
    assert round_trip(batch.select([])).num_rows == len(NUMBERS)


@pytest.mark.parametrize("name", ["numbers", "text", "text views", "byte views"])
def test_a_slice_travels_without_its_parent(name: str) -> None:
    cut = ARROW[name][10_000:10_010]
    for sent in (cut, pa.chunked_array([cut]), pa.RecordBatch.from_arrays([cut], ["x"]), pa.table({"x": cut})):
        packed = Packer().pack(sent)
        assert sum(packed.sizes) < 2500


@pytest.mark.parametrize("how", ["numpy", "arrow", "both", "sliced", "chosen", "no columns"])
def test_rows(how: str) -> None:
    x, grid = np.arange(6), np.arange(12.0).reshape(6, 2)
    text, number = pa.array(["a", "bc", None, "d", "e", "f"]), pa.array([1, None, 3, 4, 5, 6])
    rows = {
        "numpy": lambda: Rows({"x": x, "grid": grid}),
        "arrow": lambda: Rows({"text": text, "number": number}),
        "both": lambda: Rows({"text": text, "x": x, "number": number, "grid": grid}),
        "sliced": lambda: Rows({"text": text, "x": x, "number": number})[2:5],
        "chosen": lambda: Rows.selected({"text": text, "x": x, "grid": grid.T.copy().T}, np.array([5, 0, 2])),
        "no columns": lambda: Rows({}, 3),
    }[how]()
    arrived = round_trip(rows)
    assert type(arrived) is Rows and len(arrived) == len(rows)
    assert list(arrived.columns) == list(rows.columns)
    for a, b in zip(arrived.columns.values(), rows.columns.values(), strict=True):
        assert isinstance(a, np.ndarray) == isinstance(b, np.ndarray)
        assert a.dtype == b.dtype if isinstance(a, np.ndarray) else a.type == b.type
    assert repr(list(arrived)) == repr(list(rows))
