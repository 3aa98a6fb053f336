"""JSON lines: an object on each line, read by Arrow a chunk at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

import numpy as np

from ..cursor import Json
from ..errors import ArgumentError, DataError
from ..rows import RowList, Rows
from ._arrow import HEAD, ONE_BLOCK, as_rows, source
from .chunks import Chunk, ChunkReader, Parse, Place, brief, first_failing, whole_lines
from .columns import Schema, check_names, check_schema, nearest, plain

if TYPE_CHECKING:
    import pyarrow as pa

_Others: TypeAlias = Literal["ignore", "error", "infer"]


@dataclass(frozen=True)
class Types:
    """Names and types, fixed once for all files."""

    types: dict[str, pa.DataType]
    source: str
    """The file they come from."""


@dataclass(frozen=True)
class Jsonl:
    """The arguments of `parse_jsonl`, and how they read a file."""

    kind: ClassVar[str] = "parse_jsonl"

    schema: Schema | None = None
    columns: Sequence[str] | None = None
    fixed: Types | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_schema(self.schema)
        object.__setattr__(self, "columns", check_names("columns", self.columns))

    def fix(self, readers: Iterator[ChunkReader]) -> Jsonl:
        for reader in readers:
            chunk = reader.peek(Place(), HEAD)
            if chunk is None or not chunk.data.strip():
                continue
            types = _inferred(chunk.data, check_schema(self.schema))
            for name in self.columns or ():
                if name not in types:
                    raise DataError(
                        f"the first lines of {reader.name} have no field {name!r}, which `columns` names; "
                        f"{nearest(name, types)}; where it comes later, `schema=` gives its type"
                    )
            if self.columns is not None:
                types = {name: types[name] for name in self.columns}
            return replace(self, fixed=Types(types, reader.name))
        return self

    def types(self) -> Json:
        return None if self.fixed is None else plain(self.fixed.types)

    def cut(self, data: bytes) -> int:
        return whole_lines(data)

    def begin(self, reader: ChunkReader) -> tuple[Place, Parse]:
        fixed = self.fixed or Types(check_schema(self.schema), "no file")
        return Place(), _Objects(fixed, self.columns is not None, reader.name).parse

    def lines(self, chunk: Chunk) -> list[int]:
        return [chunk.at.line + i for i, line in enumerate(chunk.data.split(b"\n")) if line.strip()]


class _Objects:
    """The objects of one file."""

    def __init__(self, fixed: Types, chosen: bool, source: str) -> None:
        import pyarrow as pa

        self._types = fixed.types
        self._from = fixed.source
        self._chosen = chosen
        self._schema = pa.schema(list(fixed.types.items()))
        self._others: _Others = "ignore" if chosen else "error"
        self._source = source

    def parse(self, chunk: Chunk) -> tuple[RowList, DataError | None]:
        """The rows up to the first malformed one, and what is wrong with that."""
        data = chunk.data
        try:
            return self._rows(data), None
        except ValueError:  # Arrow's ArrowInvalid is one
            pass
        ends = _line_ends(data)
        bad = first_failing(ends, lambda end: self._rows(data[:end]))
        start = ends[bad - 1] if bad else 0
        rows: RowList = self._rows(data[:start]) if start else []
        return rows, self._explain(data[start : ends[bad]], f"{self._source}, line {chunk.place(start).line}")

    def _rows(self, data: bytes) -> Rows:
        table = _read(data, self._schema, self._others)
        if table.num_rows != _objects(data):
            raise ValueError("each line must hold one object")
        return as_rows(table)

    def _explain(self, line: bytes, place: str) -> DataError:
        try:
            self._rows(line)
            reason = "cannot be read"
        except ValueError as error:
            reason = str(error)
        try:
            value: object = json.loads(line)
        except json.JSONDecodeError as error:
            return DataError(f"{place}: this is not JSON: {error.msg} at character {error.pos + 1}: {brief(line)}")
        except UnicodeDecodeError as error:
            return DataError(f"{place}: byte 0x{line[error.start]:02x} is not UTF-8: {brief(line)}")
        except (ValueError, RecursionError) as error:
            return DataError(f"{place}: {error}: {brief(line)}")
        if not isinstance(value, dict):
            return DataError(f"{place}: each line must hold an object but this one holds: {brief(line)}")
        for name, item in cast("dict[str, Any]", value).items():
            if name not in self._types:
                if self._chosen:
                    continue
                return DataError(
                    f"{place}: there is a field {name!r}, and the first lines of {self._from} have none; "
                    f"`schema={{{name!r}: ...}}` gives its type, `columns=` names those to read"
                )
            try:
                self._rows(json.dumps({name: item}).encode() + b"\n")
            except ValueError as error:
                said = brief(json.dumps(item, ensure_ascii=False))
                return DataError(
                    f"{place}, field {name!r}: {said} is not {self._types[name]} ({error}); "
                    f"`schema={{{name!r}: ...}}` gives another type"
                )
        return DataError(f"{place}: {reason}: {brief(line)}")


def _inferred(data: bytes, given: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Names and types in the head of a file.

    Where that is malformed, the lines before count: a run delivers those first, then it tells the error.
    """
    import pyarrow as pa

    schema = pa.schema(list(given.items()))

    try:
        found = _read(data, schema, "infer").schema
    except (pa.ArrowInvalid, UnicodeDecodeError):
        ends = _line_ends(data)
        bad = first_failing(ends, lambda end: _read(data[:end], schema, "infer"))
        if not bad:
            return given
        found = _read(data[: ends[bad - 1]], schema, "infer").schema
    return {
        name: kind if name in given else _plain_type(kind) for name, kind in zip(found.names, found.types, strict=True)
    }


def _read(data: bytes, schema: pa.Schema, others: _Others) -> pa.Table:
    import pyarrow as pa
    from pyarrow.json import ParseOptions, ReadOptions, read_json

    if not data.isascii():
        data.decode()  # Arrow does not look whether names and strings are UTF-8
    try:
        return read_json(
            source(data),
            read_options=ReadOptions(use_threads=False, block_size=ONE_BLOCK),
            parse_options=ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
        )
    except pa.ArrowNotImplementedError as error:
        raise ArgumentError(f"`schema` gives a type that JSON cannot have: {error}") from None


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """What JSON itself says: what looks like a date is a string, and what is null so far may become one."""
    import pyarrow as pa

    if pa.types.is_null(kind) or pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(kind.field(i).name, _plain_type(kind.field(i).type)) for i in range(kind.num_fields)])
    return kind


def _objects(data: bytes) -> int | None:
    """How many lines of JSON text there are; None where a line is neither empty nor from { to }.

    Where all are, no object reaches from one line to the next: between } and { there would have to be a comma.
    """
    if data.startswith(b"{") and data.endswith(b"}\n"):
        breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
        found = np.frombuffer(data, np.uint8)
        if (found[breaks[:-1] + 1] == ord("{")).all() and (found[breaks - 1] == ord("}")).all():
            return len(breaks)
    lines = [line.strip() for line in data.split(b"\n")]
    objects = [line for line in lines if line]
    return len(objects) if all(line[:1] == b"{" and line[-1:] == b"}" for line in objects) else None


def _line_ends(data: bytes) -> list[int]:
    ends = (np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1).tolist()
    return ends if data.endswith(b"\n") else [*ends, len(data)]
