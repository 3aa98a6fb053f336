"""Files of each format, with the rows that a reader promises for them.

The rows are made here and not read from anywhere, so a reader that is wrong on all storages fails too. A test that
replaces a file while it is read takes other content of the same length (`other`).
"""

from __future__ import annotations

import csv
import io
import json
import struct
import tarfile
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa
from pyarrow import feather, parquet

from ..support.files import write_records

UNIT_ROWS = 32
"""Rows of a row group and of a record batch."""


Content = tuple[bytes, list[Any]]
"""The bytes of a file, and its rows as the reader promises them: by value and by type."""


def lines_file(numbers: range, other: bool) -> Content:
    rows = [f"{number:04} {'süd' if other else 'nör'}{number % 40 * ' x'}" for number in numbers]
    return "".join(f"{row}\n" for row in rows).encode(), rows


def _record(number: int, other: bool, word: str | None) -> dict[str, Any]:
    return {
        "id": 1000 + number + 1000 * other,
        "x": number % 8 / 8 + other,
        "few": None if number % 5 == 0 else number % 7,
        "word": word,
    }


def csv_file(numbers: range, other: bool, words: tuple[str, ...]) -> Content:
    rows = [_record(number, other, words[number % len(words)]) for number in numbers]
    sink = io.StringIO()
    writer = csv.DictWriter(sink, ["id", "x", "few", "word"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return sink.getvalue().encode(), rows


def _nested(numbers: range, other: bool) -> list[dict[str, Any]]:
    words = ["north", "süd", "", None]
    return [
        {
            **_record(number, other, words[number % 4]),
            "at": {"list": [number % 3] * (number % 3), "ok": number % 2 == 0},
        }
        for number in numbers
    ]


_NESTED = pa.schema({
    "id": pa.int64(), "x": pa.float64(), "few": pa.int64(), "word": pa.string(),
    "at": pa.struct({"list": pa.list_(pa.int64()), "ok": pa.bool_()}),
})  # fmt: skip


def jsonl_file(numbers: range, other: bool) -> Content:
    rows = _nested(numbers, other)
    return "".join(json.dumps(row) + "\n" for row in rows).encode(), rows


def parquet_file(numbers: range, other: bool) -> Content:
    rows, sink = _nested(numbers, other), io.BytesIO()
    table = pa.Table.from_pylist(rows, _NESTED)
    parquet.write_table(table, sink, row_group_size=UNIT_ROWS, compression="none", use_dictionary=False)
    return sink.getvalue(), rows


def delta_log(other: bool) -> Content:
    """The first entry of the log of a table, partitioned by year. Its types have other names than Arrow's."""
    names = {"int64": "long", "double": "double", "string": "string", "bool": "boolean"}

    def declared(kind: Any) -> Any:
        if pa.types.is_struct(kind):
            return {"type": "struct", "fields": [field(inner.name, declared(inner.type)) for inner in kind]}
        if pa.types.is_list(kind):
            return {"type": "array", "elementType": declared(kind.value_type), "containsNull": True}
        return names[str(kind)]

    def field(name: str, kind: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "nullable": True, "metadata": {}}

    fields = [*(field(inner.name, declared(inner.type)) for inner in _NESTED), field("year", "integer")]
    metadata = {
        "id": "0", "format": {"provider": "parquet", "options": {}}, "partitionColumns": ["year"],
        "schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": {}, "createdTime": 0,
    }  # fmt: skip
    actions: list[Any] = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    for path, encode in folders("parquet", parquet_file).items():
        values = {"year": path[5:9]}
        added = {"path": path, "partitionValues": values, "size": len(encode(False)[0]), "modificationTime": 0}
        actions.append({"add": {**added, "dataChange": True}})
    return "\n".join(map(json.dumps, actions)).encode(), []


def arrow_file(numbers: range, other: bool, form: str) -> Content:
    rows, sink = _nested(numbers, other), io.BytesIO()
    table = pa.Table.from_pylist(rows, _NESTED)
    if form == "stream":
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, UNIT_ROWS)
    else:
        feather.write_feather(table, sink, compression=form, chunksize=UNIT_ROWS)
    return sink.getvalue(), rows


def mds(columns: Mapping[str, str], rows: list[list[bytes]]) -> bytes:
    """A shard of MosaicML, with columns of varying size, by their encodings; rows hold encoded values."""
    config = {
        "version": 2,
        "format": "mds",
        "column_names": [*columns],
        "column_encodings": [*columns.values()],
        "column_sizes": [None] * len(columns),
    }
    samples = [struct.pack(f"<{len(row)}I", *map(len, row)) + b"".join(row) for row in rows]
    text = json.dumps(config).encode()
    begin = 4 * (len(rows) + 2) + len(text)
    offsets = [begin + sum(map(len, samples[:count])) for count in range(len(rows) + 1)]
    return struct.pack(f"<{len(rows) + 2}I", len(rows), *offsets) + text + b"".join(samples)


def mds_file(numbers: range, other: bool) -> Content:
    rows = [{**_record(number, other, f"süd {number}"), "x": number / 8 + other} for number in numbers]
    values = [
        [b"%d" % row["id"], repr(row["x"]).encode(), json.dumps(row["few"]).encode(), row["word"].encode()]
        for row in rows
    ]
    return mds({"id": "str_int", "x": "str_float", "few": "json", "word": "str"}, values), rows


def tfrecord_file(numbers: range, other: bool) -> Content:
    rows = [
        dict(
            sorted({**_record(number, other, None), "word": f"süd {number}".encode(), "list": [number % 3] * 2}.items())
        )
        for number in numbers
    ]
    return b"".join(write_records(pa.RecordBatch.from_pylist(rows))) if rows else b"", rows


def tfrecord_index(numbers: range, other: bool) -> Content:
    data, begins = tfrecord_file(numbers, other)[0], [0]
    while begins[-1] < len(data):
        begins.append(begins[-1] + 16 + int.from_bytes(data[begins[-1] : begins[-1] + 8], "little"))
    return "".join(f"{begin} {end - begin}\n" for begin, end in pairwise(begins)).encode(), []


def bytes_file(numbers: range, other: bool) -> Content:
    data = bytes(number % 251 + other for number in numbers)
    return data, [{"path": "", "bytes": data}]


def _array(numbers: range, other: bool, order: str = "C") -> np.ndarray:
    values = np.asarray(numbers, np.float32).reshape(-1, 1) + np.arange(512, dtype=np.float32) + other
    return np.asarray(values, order=order)


def npy_file(numbers: range, other: bool, order: str = "C") -> Content:
    sink = io.BytesIO()
    np.save(sink, _array(numbers, other, order))
    return sink.getvalue(), list(_array(numbers, other))


def column_file(numbers: range, other: bool, order: str = "C") -> Content:
    """A file of the column `x` of a table; the column `y` is the number of the row."""
    data, rows = npy_file(numbers, other, order)
    return data, [{"x": row, "y": number} for number, row in zip(numbers, rows, strict=True)]


def numbers_file(numbers: range, other: bool) -> Content:
    sink = io.BytesIO()
    np.save(sink, np.asarray(numbers, np.int64))
    return sink.getvalue(), []


def windows_file(numbers: range, other: bool) -> Content:
    tokens = np.asarray(numbers, np.int64)
    return numbers_file(numbers, other)[0], [{"tokens": tokens[at : at + 5]} for at in range(0, len(tokens) - 4, 4)]


def npz_file(numbers: range, other: bool, packed: bool = False) -> Content:
    sink = io.BytesIO()
    x = _array(numbers, other)
    (np.savez_compressed if packed else np.savez)(sink, x=x, y=np.asarray(numbers, np.int64))
    return sink.getvalue(), [{"x": row, "y": number} for row, number in zip(x, numbers, strict=True)]


def hdf5_file(numbers: range, other: bool, chunks: tuple[int, ...] | None = None) -> Content:
    import h5py

    sink = io.BytesIO()
    x = _array(numbers, other)
    with h5py.File(sink, "w") as file:
        file.create_dataset("x", data=x, chunks=chunks)
        file["y"] = np.asarray(numbers, np.int64)
    return sink.getvalue(), [{"x": row, "y": number} for row, number in zip(x, numbers, strict=True)]


def _picture(number: int, other: bool, size: int = 120) -> np.ndarray:
    draw = np.random.default_rng([number, other])
    return draw.integers(0, 256, (size, 30, 3), np.uint8)


def _encoded(picture: np.ndarray, form: str) -> bytes:
    sink = io.BytesIO()
    PIL.Image.fromarray(picture).save(sink, form)
    return sink.getvalue()


def image_file(number: int, other: bool, form: str, name: str, label: int) -> Content:
    picture = _picture(number, other)
    return _encoded(picture, form), [{"image": picture, "label": label, "label_name": name, "path": ""}]


def tar_file(numbers: range, other: bool, decoded: bool) -> Content:
    sink, rows = io.BytesIO(), []
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for number in numbers:
            values = {
                "cls": number % 10,
                "txt": f"süd {number:04} {other:d}",
                "json": {"n": [number, None], "other": f"{other:d}"},
                "npy": _array(range(number, number + 1), other),
                "seg.bmp": _picture(number, other, 2),
            }
            members = {
                "cls": b"%d" % values["cls"],
                "txt": values["txt"].encode(),
                "json": json.dumps(values["json"]).encode(),
                "npy": npy_file(range(number, number + 1), other)[0],
                "seg.bmp": _encoded(values["seg.bmp"], "bmp"),
                "bin": bytes(range(number % 7)),
            }
            for extension, data in members.items():
                member = tarfile.TarInfo(f"train/{number}.{extension}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
            rows.append({"__key__": f"train/{number}", **members, **(values if decoded else {})})
    return sink.getvalue(), rows


def folders(
    ending: str, encode: Callable[..., Content], *, packed: str = "", last: Callable[..., Content] | None = None
) -> Any:
    return {
        f"year=2023/a.{ending}": partial(encode, range(70)),
        f"year=2023/b.{ending}{packed}": partial(encode, range(70, 140)),
        f"year=2024/a.{ending}": partial(encode, range(0)),
        f"year=2024/b.{ending}": partial(last or encode, range(200, 500)),
    }
