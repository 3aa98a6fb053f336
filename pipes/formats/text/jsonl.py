"""JSON lines: an object on each line, read by Arrow a chunk at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

import numpy as np

from ...core.checks import check_choice
from ...core.cursor import Json
from ...core.rows import BlockRows, Rows
from ...errors import ArgumentError, DataError
from ..tables.arrow import HEAD, ONE_BLOCK, as_rows, source
from ..tables.arrow_types import text_for
from ..tables.columns import Schema, check_names, check_schema, nearest
from ..tables.extra_columns import Added, Lineage, added
from ..tables.hive import folder_types
from ..tables.inference import Head, look_at
from .chunks import Chunk, ChunkReader, Parse, Place, brief, first_failing, whole_lines

if TYPE_CHECKING:
    import pyarrow as pa

DEEPEST = 100
"""Objects and lists within each other, at most: Arrow and Python call themselves for each, until a stack is full."""

_Others: TypeAlias = Literal["ignore", "error", "infer"]

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Up to its closing quote, or to the end of the line.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)


@dataclass(frozen=True)
class Types:
    """Names and types, fixed once for all files."""

    types: dict[str, pa.DataType]
    source: str
    """Where they come from."""


@dataclass(frozen=True)
class Jsonl:
    """The arguments of `parse_jsonl`, and how they read a file."""

    kind: ClassVar[str] = "parse_jsonl"

    schema: Schema | None = None
    columns: Sequence[str] | None = None
    path_column: str | None = None
    row_column: str | None = None
    unify_schemas: bool = False
    fixed: Types | None = field(default=None, repr=False)
    added: Added | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_schema(self.schema)
        object.__setattr__(self, "columns", check_names("columns", self.columns))
        check_choice("unify_schemas", self.unify_schemas, (False, True))
        self.lineage.check()

    @property
    def lineage(self) -> Lineage:
        return Lineage(self.path_column, self.row_column)

    def head(self, reader: ChunkReader) -> Head | None:
        chunk = reader.peek(Place(), HEAD)
        if chunk is None or not chunk.data.strip():
            return None
        return Head(reader.name, _inferred(chunk.data, check_schema(self.schema)), rows=True)

    def fix(self, heads: Iterable[Head | None], paths: Iterable[str]) -> Jsonl:
        found = look_at(heads, unify=self.unify_schemas) if self.fixed is None else None
        if found is None:
            return self
        source, schema = found
        names = [*schema]
        given = folder_types(source, chain([source], paths), names, unify=self.unify_schemas)
        seen = "all files" if self.unify_schemas else source
        types: dict[str, pa.DataType] = {}
        for name in names if self.columns is None else self.columns:
            if name in names:
                types[name] = text_for("null", schema.type(name))
            elif name not in given:
                raise DataError(
                    f"the first lines of {seen} have no field {name!r}, which `columns` names; "
                    f"{nearest(name, [*names, *given])}; where it comes later, `schema=` gives its type"
                )
        more = added(names, given, self.columns, self.lineage, source, unified=self.unify_schemas)
        return replace(self, fixed=Types(types, seen), added=more)

    def uncut(self) -> str | None:
        return None if self.row_column is None else "`row_column` counts from the beginning of a file"

    def types(self) -> Json:
        return None if self.fixed is None or self.added is None else self.added.types(self.fixed.types)

    def cut(self, data: bytes) -> int:
        return whole_lines(data)

    def begin(self, reader: ChunkReader) -> tuple[Place, Parse]:
        fixed = self.fixed or Types(check_schema(self.schema), "no file")
        more = self.added or Added(tuple(fixed.types), {}, self.lineage, fixed.source)
        return Place(), more.after(_Objects(self, fixed, reader).parse, reader.name)

    def lines(self, chunk: Chunk) -> list[int]:
        return [chunk.at.line + i for i, line in enumerate(chunk.data.split(b"\n")) if line.strip()]


class _Objects:
    """The objects of one file."""

    def __init__(self, form: Jsonl, fixed: Types, reader: ChunkReader) -> None:
        import pyarrow as pa

        self._types = fixed.types
        self._from = fixed.source
        self._form = form
        self._schema = pa.schema(list(fixed.types.items()))
        self._others: _Others = "ignore" if form.columns is not None else "error"
        self._reader = reader

    def parse(self, chunk: Chunk) -> tuple[BlockRows, DataError | None]:
        """The rows up to the first malformed one, and what is wrong with that."""
        data = chunk.data
        try:
            return self._rows(data), None
        except ValueError:  # Arrow's ArrowInvalid is one
            pass
        ends = _line_ends(data)
        bad = first_failing(ends, lambda end: self._rows(data[:end]))
        start = ends[bad - 1] if bad else 0
        rows: BlockRows = self._rows(data[:start]) if start else []
        return rows, self._explain(data[start : ends[bad]], self._reader.where(chunk.place(start)))

    def _rows(self, data: bytes) -> Rows:
        return as_rows(_read(data, self._schema, self._others))

    def _explain(self, line: bytes, place: str) -> DataError:
        if _is_deep(line):
            return DataError(
                f"{place}: objects and lists are nested more than {DEEPEST} deep: {brief(line)}; `read_lines` gives "
                "such lines as text"
            )
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
        except ValueError as error:
            return DataError(f"{place}: {error}: {brief(line)}")
        if not isinstance(value, dict):
            return DataError(f"{place}: each line must hold an object but this one holds: {brief(line)}")
        for name, item in cast("dict[str, Any]", value).items():
            if name not in self._types:
                if self._form.columns is not None:
                    continue
                repair = "" if self._form.unify_schemas else ", `unify_schemas=True` looks at those of all files"
                return DataError(
                    f"{place}: there is a field {name!r}, and the first lines of {self._from} have none; "
                    f"`schema={{{name!r}: ...}}` gives its type, `columns=` names those to read{repair}"
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
    except (pa.ArrowInvalid, UnicodeDecodeError, _LineError):
        ends = _line_ends(data)
        bad = first_failing(ends, lambda end: _read(data[:end], schema, "infer"))
        if not bad:
            return given
        found = _read(data[: ends[bad - 1]], schema, "infer").schema
    # What looks like a date is text to JSON.
    return {part.name: part.type if part.name in given else text_for("timestamp", part.type) for part in found}


class _LineError(ValueError):
    """Some line is no object that Arrow may be given."""


def _read(data: bytes, schema: pa.Schema, others: _Others) -> pa.Table:
    """The table of some lines, each of which must hold one object."""
    import pyarrow as pa
    from pyarrow.json import ParseOptions, ReadOptions, read_json

    if not data.isascii():
        data.decode()  # Arrow does not look whether names and strings are UTF-8
    count = _objects(data)
    if count is None or _any_deep(data, count):
        raise _LineError("each line must hold one object")
    try:
        table = read_json(
            source(data),
            read_options=ReadOptions(use_threads=False, block_size=ONE_BLOCK),
            parse_options=ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
        )
    except pa.ArrowNotImplementedError as error:
        raise ArgumentError(f"`schema` gives a type that JSON cannot have: {error}") from None
    if table.num_rows != count:
        raise _LineError("each line must hold one object")
    return table


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


def _any_deep(data: bytes, count: int) -> bool:
    """Whether objects and lists are nested too deeply in one of the `count` lines, each of which is from { to }."""
    found = np.frombuffer(data, np.uint8)
    opened = np.count_nonzero(found == ord("{")) + np.count_nonzero(found == ord("["))
    if opened - (count - 1) <= DEEPEST:  # as each other line has one at least
        return False
    starts = np.concatenate([[0], np.flatnonzero(found[:-1] == ord("\n")) + 1])
    lengths = np.diff(starts, append=len(data))
    if lengths.max() <= DEEPEST:
        return False
    opening = (found | 0x20) == ord("{")  # [ and { differ in this bit
    counts = np.add.reduceat(opening.view(np.uint8), starts, dtype=np.int32)
    return any(_is_deep(data[starts[k] : starts[k] + lengths[k]]) for k in np.flatnonzero(counts > DEEPEST))


def _is_deep(line: bytes) -> bool:
    brackets = np.frombuffer(_STRING.sub(b"", line).translate(None, _NO_BRACKETS), np.uint8)
    steps = (brackets & 2).astype(np.int32) - 1  # 1 for [ and {, which have this bit, and -1 for ] and }
    return bool((np.cumsum(steps) > DEEPEST).any())


def _line_ends(data: bytes) -> list[int]:
    ends = (np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1).tolist()
    return ends if data.endswith(b"\n") else [*ends, len(data)]
