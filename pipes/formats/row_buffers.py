"""Rows as JSON and plain memory, for files that a later process reads: nothing in them can run code.

Values of one kind are held together, as in a column: numbers and arrays of one shape as one array, text as characters
and offsets, and the items of lists, tuples and dicts as columns of their own. So some rows are read without the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt

from ..core.lazy import pa
from ..core.rows import Array, ArrowArray, BlockRows, Column, Indices, Rows, concat, index_array, signature, take
from ..errors import UnfitError

Node: TypeAlias = "dict[str, Any]"
"""The meaning of some memory, as JSON: a kind, and the numbers of its parts."""
Memory: TypeAlias = npt.NDArray[np.uint8]
Positions: TypeAlias = npt.NDArray[np.int64]

_ARRAY_KINDS = "biufcSUmM"
_MAX_KINDS = 200  # the number of a kind takes a byte
_MAX_WIDTH = 64
"""A longer tuple, or a dict of more keys, is held as a list of its items."""
_AS_TEXT: dict[type, tuple[Callable[[Any], str], Callable[[str], object]]] = {
    date: (date.isoformat, date.fromisoformat),
    time: (lambda t: f"{t.fold}{t.isoformat()}", lambda text: time.fromisoformat(text[1:]).replace(fold=int(text[0]))),
    datetime: (
        lambda t: f"{t.fold}{t.isoformat()}",
        lambda text: datetime.fromisoformat(text[1:]).replace(fold=int(text[0])),
    ),
    Decimal: (str, Decimal),
    UUID: (str, UUID),
}
_NUMBERS: dict[type, str] = {bool: "|b1", int: "<i8", float: "<f8"}


class Buffers:
    """The memory of rows that are being written, in parts. They must not change before."""

    def __init__(self) -> None:
        self.parts: list[Memory] = []

    def add(self, array: Array) -> int:
        """Add the values of an array, and return the number of the part."""
        flat = np.ascontiguousarray(array).reshape(-1)
        self.parts.append(flat.view(np.uint8) if flat.nbytes else np.zeros(0, np.uint8))
        return len(self.parts) - 1

    def rows(self, rows: BlockRows) -> Node:
        """Add rows.

        Raises:
            UnfitError: a value is of a type that only Python code could make again.
        """
        return self._table(rows) if isinstance(rows, Rows) else self._values(rows, "row")

    def _table(self, rows: Rows) -> Node:
        columns: Node = {}
        arrow: dict[str, ArrowArray] = {}
        for name, column in rows.columns.items():
            if not isinstance(column, np.ndarray):
                arrow[name] = column
            elif column.dtype.kind in _ARRAY_KINDS:
                columns[name] = self._array(column)
            else:
                raise UnfitError(f"`row[{name!r}]` is of dtype {column.dtype}")
        stream: int | None = None
        if arrow:
            batch, sink = pa.RecordBatch.from_arrays(list(arrow.values()), names=list(arrow)), pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            stream = self.add(np.frombuffer(memoryview(sink.getvalue()), np.uint8))
        names = list(rows.columns)
        return {"is": "table", "names": names, "columns": columns, "arrow": stream, "length": len(rows)}

    def _array(self, array: Array) -> Node:
        return {"is": "array", "dtype": array.dtype.str, "shape": array.shape, "part": self.add(array)}

    def _values(self, values: Sequence[Any], path: str) -> Node:
        """Add Python objects; `path` is their place, for errors."""
        kinds: dict[object, list[int]] = {}
        for index, value in enumerate(values):
            kinds.setdefault(_kind(value, path), []).append(index)
        if len(kinds) <= 1:
            return self._alike(values, path)
        if len(kinds) > _MAX_KINDS:
            raise UnfitError(f"`{path}` has values of more than {_MAX_KINDS} types, shapes or sets of keys")
        tags = np.empty(len(values), np.uint8)
        for number, places in enumerate(kinds.values()):
            tags[places] = number
        parts = [self._alike([values[index] for index in places], path) for places in kinds.values()]
        return {"is": "mixed", "tags": self.add(tags), "parts": parts}

    def _alike(self, values: Sequence[Any], path: str) -> Node:
        """Add values of one kind."""
        first = values[0] if values else None
        kind = type(first)
        if first is None:
            return {"is": "none"}
        if kind is int:
            try:
                return {**self._array(np.array(values, np.int64)), "is": "number"}
            except OverflowError:
                return {"is": "text", "as": "int", "of": self._text([str(value).encode() for value in values])}
        if kind in _NUMBERS:
            return {**self._array(np.array(values, _NUMBERS[kind])), "is": "number"}
        if kind is str:
            return {"is": "text", "as": "str", "of": self._text([v.encode("utf-8", "surrogatepass") for v in values])}
        if kind is bytes or kind is bytearray:
            return {"is": "text", "as": kind.__name__, "of": self._text(values)}
        if kind in _AS_TEXT:
            write = _AS_TEXT[kind][0]
            return {"is": "text", "as": kind.__name__, "of": self._text([write(value).encode() for value in values])}
        if kind is np.ndarray:
            return {**self._array(np.stack(values)), "of": "array"}
        if issubclass(kind, np.generic):
            return {**self._array(np.array(values, first.dtype)), "of": "scalar"}
        if _is_tensor(first):
            return {**self._array(np.stack([value.numpy() for value in values])), "of": "tensor"}
        if kind is Rows:
            table = concat(cast("list[BlockRows]", values))
            return {"is": "lists", "as": "Rows", "lengths": self._lengths(values), "of": self.rows(table)}
        if kind is dict and _has_text_keys(first):
            parts = [self._values([value[key] for value in values], f"{path}[{key!r}]") for key in first]
            return {"is": "dict", "keys": list(first), "parts": parts}
        if kind is dict:
            items = [item for value in values for item in value.items()]
            return {"is": "lists", "as": "dict", "lengths": self._lengths(values), "of": self._values(items, path)}
        if kind is tuple and len(first) <= _MAX_WIDTH:
            parts = [self._values([value[i] for value in values], f"{path}[{i}]") for i in range(len(first))]
            return {"is": "tuple", "parts": parts, "count": len(first)}
        items = [item for value in values for item in value]
        of = self._values(items, f"{path}[...]")
        return {"is": "lists", "as": kind.__name__, "lengths": self._lengths(values), "of": of}

    def _text(self, values: Sequence[bytes]) -> Node:
        return {"lengths": self._lengths(values), "part": self.add(np.frombuffer(b"".join(values), np.uint8))}

    def _lengths(self, values: Sequence[Any]) -> int:
        return self.add(np.fromiter(map(len, values), np.int64, len(values)))


def _kind(value: Any, path: str) -> object:
    """The kind of a value. Values of one kind are held together.

    Raises:
        UnfitError: the value is of a type that only Python code could make again.
    """
    kind = type(value)
    if kind is np.ndarray and value.dtype.kind in _ARRAY_KINDS:
        return kind, value.dtype.str, value.shape
    if kind is np.ndarray:
        raise UnfitError(f"`{path}` is an array of dtype {value.dtype}")
    if issubclass(kind, np.generic) and value.dtype.kind in _ARRAY_KINDS:
        return kind, value.dtype.str
    if kind is dict:
        return (kind, *value) if _has_text_keys(value) else kind
    if kind is tuple:
        return (kind, len(value)) if len(value) <= _MAX_WIDTH else kind
    if kind is Rows:
        return kind, str(signature(value))
    if kind in (datetime, time) and value.tzinfo is not None and type(value.tzinfo) is not timezone:
        raise UnfitError(f"`{path}` has the time zone {value.tzinfo}")
    if _is_tensor(value):
        try:
            return kind, str(value.dtype), value.shape, value.numpy().shape
        except (RuntimeError, TypeError) as error:
            raise UnfitError(f"`{path}` is a tensor that is no plain memory: {error}") from None
    if value is None or kind in _NUMBERS or kind in _AS_TEXT or kind in (str, bytes, bytearray, list):
        return kind
    raise UnfitError(f"`{path}` is of type {kind.__module__}.{kind.__qualname__}")


def _has_text_keys(value: Mapping[object, object]) -> bool:
    return len(value) <= _MAX_WIDTH and all(type(key) is str for key in value)


def _is_tensor(value: object) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and type(value) is getattr(torch, "Tensor", None)


def snapshot(rows: BlockRows) -> BlockRows:
    """The rows as they are now, whatever the consumer does to them."""
    return rows if isinstance(rows, Rows) else [_copy(row) for row in rows]


def _copy(value: Any) -> Any:
    kind = type(value)
    if kind is np.ndarray:
        return value.copy()
    if kind is dict:
        return {key: _copy(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return kind(map(_copy, value))
    if kind is bytearray:
        return bytearray(value)
    return value.clone() if _is_tensor(value) else value


class StoredRows:
    """Rows that were written by `Buffers.rows`.

    Args:
        node: what `Buffers.rows` returned.
        parts: the memory of `Buffers.parts`. Columns of tables are views of it; other values are copies.
        make_tensor: makes a tensor of an array.

    Attributes:
        table: all rows, if they are columns.
    """

    def __init__(self, node: Node, parts: Sequence[Memory], make_tensor: Callable[[Array], object]) -> None:
        self._node = node
        self._parts = parts
        self._make_tensor = make_tensor
        self.table = self._open_table(node) if node["is"] == "table" else None
        self._starts: dict[int, Positions] = {}  # of items, by the part that has their lengths

    def rows(self, indices: Indices) -> BlockRows:
        """The rows at `indices`; adjacent rows of a table without a copy."""
        if self.table is not None:
            return take(self.table, indices)
        return self._values(self._node, index_array(indices))

    def _open_table(self, node: Node) -> Rows:
        columns: dict[str, Column] = {}
        if node["arrow"] is not None:
            reader: Any = pa.ipc.open_stream(pa.py_buffer(cast("Any", self._parts[node["arrow"]])))
            batch = reader.read_next_batch()
            batch.validate()
            columns.update(zip(batch.schema.names, batch.columns, strict=True))
        for name, column in node["columns"].items():
            columns[name] = self._open_array(column)
        return Rows({name: columns[name] for name in node["names"]}, node["length"])

    def _open_array(self, node: Node) -> Array:
        dtype = np.dtype(node["dtype"])
        if dtype.kind not in _ARRAY_KINDS:
            raise ValueError(f"an array of rows has no dtype {dtype}")
        return cast("Array", self._parts[node["part"]].view(dtype).reshape(node["shape"]))

    def _values(self, node: Node, indices: Positions) -> list[Any]:
        match node["is"]:
            case "none":
                return [None] * len(indices)
            case "number":
                return cast("list[Any]", self._open_array(node).take(indices).tolist())
            case "array":
                return self._arrays(node, indices)
            case "text":
                return self._texts(node, indices)
            case "dict":
                keys = node["keys"]
                columns = [self._values(part, indices) for part in node["parts"]]
                if not keys:
                    return [{} for _ in indices]
                return [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]
            case "tuple":
                columns = [self._values(part, indices) for part in node["parts"]]
                return list(zip(*columns, strict=True)) if columns else [()] * len(indices)
            case "lists":
                return self._lists(node, indices)
            case _:
                return self._mixed(node, indices)

    def _arrays(self, node: Node, indices: Positions) -> list[Any]:
        values = self._open_array(node)
        if node["of"] == "scalar":
            return list(values.take(indices))
        copies = [values[index, ...].copy() for index in indices.tolist()]
        return copies if node["of"] == "array" else [self._make_tensor(np.asarray(copy)) for copy in copies]

    def _texts(self, node: Node, indices: Positions) -> list[Any]:
        starts, data = self._starts_of(node["of"]["lengths"]), self._parts[node["of"]["part"]]
        memory = memoryview(data)
        pieces = [bytes(memory[starts[i] : starts[i + 1]]) for i in indices.tolist()]
        kind = node["as"]
        if kind == "bytes":
            return pieces
        if kind == "bytearray":
            return [bytearray(piece) for piece in pieces]
        texts = [piece.decode("utf-8", "surrogatepass") for piece in pieces]
        if kind == "str":
            return texts
        read = int if kind == "int" else next(read for cls, (_, read) in _AS_TEXT.items() if cls.__name__ == kind)
        return [read(text) for text in texts]

    def _lists(self, node: Node, indices: Positions) -> list[Any]:
        starts = self._starts_of(node["lengths"])
        ranges = [range(starts[i], starts[i + 1]) for i in indices.tolist()]
        if node["as"] == "Rows":
            table = self._open_table(node["of"])
            return [take(table, places) for places in ranges]
        items = self._values(node["of"], np.concatenate([np.zeros(0, np.int64), *map(index_array, ranges)]))
        make: Any = {"list": list, "tuple": tuple, "dict": dict}[node["as"]]
        bounds = accumulate(map(len, ranges), initial=0)
        return [make(items[start:stop]) for start, stop in pairwise(bounds)]

    def _mixed(self, node: Node, indices: Positions) -> list[Any]:
        tags = self._parts[node["tags"]]
        result: list[Any] = [None] * len(indices)
        tags_here = tags[indices]
        for number, part in enumerate(node["parts"]):
            places = np.flatnonzero(tags_here == number)
            if len(places):
                before = np.cumsum(tags == number) - 1
                for place, value in zip(places.tolist(), self._values(part, before[indices[places]]), strict=True):
                    result[place] = value
        return result

    def _starts_of(self, part: int) -> Positions:
        if part not in self._starts:
            lengths = self._parts[part].view(np.int64)
            self._starts[part] = np.concatenate([[0], np.cumsum(lengths)])
        return self._starts[part]
