"""`parse_jsonl`: the options of JSON lines, and how Arrow reads them."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias, Unpack, cast

import numpy as np

from ..core.lazy import pa, pc
from ..core.rows import Row, Rows
from ..core.skips import OnError
from ..errors import ArgumentError, DataError
from ..formats.columns import (
    BLOCK_BYTES,
    HEAD_BYTES,
    arrow_source,
    check_schema,
    suggest_name,
    text_for,
    to_rows,
    with_fields,
)
from ..formats.table_format import FixedSchema, SampledHead, TextTable, TextTableOptions, options_of
from ..formats.text import (
    FEW_RECORDS,
    Chunk,
    ChunkReader,
    ParseChunk,
    ParsedPart,
    TextPlace,
    first_failing,
    line_ends,
    parse_parts,
    shorten,
)
from .ranges import TextFormat
from .units import parse

if TYPE_CHECKING:
    from ..pipe import Pipe
    from ..storage.file import File


MAX_DEPTH = 100
"""The limit of nested objects and lists: Arrow and Python parse them by recursion, which may overflow the stack."""

_UnknownFields: TypeAlias = Literal["ignore", "error", "infer"]

_ROW = re.compile(r" in row (\d+)$")
_MAX_EXACT = 2**53
_TOO_LARGE = "a number is too large for a float"
_ROUNDED = "a float would round it"
_LONG = re.compile(rb"(?<![.\d])\d{16}")  # in an integer that a float may round
_HUGE = re.compile(rb"\d{16}|[eE]\+?\d\d")  # in a number that a float may not hold
_LARGEST = {"halffloat": 65504.0, "float": 3.4028234663852886e38, "double": sys.float_info.max}
_UNSIGNED = re.compile(rb"\d{19}")
_CHANGED = re.compile(r"Column\(/(.+?)\) changed from (\w+) to (\w+)")
_TWICE = re.compile(r"Column\(/(.+?)\) was specified twice")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

# A string up to its closing quote, or to the end of the line.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)


class JsonlOptions(TextTableOptions, total=False):
    """The options of `parse_jsonl`."""


def parse_jsonl(pipe: Pipe[File], /, *, on_error: OnError | None = None, **options: Unpack[JsonlOptions]) -> Pipe[Row]:
    r"""Give the objects of each JSON Lines file, as a table: one object on each line.

    Element: a dict with the same keys in each row, None if a line lacks the field; values may be nested lists and
    dicts; grouped, a `Rows`, which holds columns. Names and types are fixed before the first row and hold for all
    files: from `schema`, and for other fields from the first 1 MiB of the first file that has lines (the first of `for
    x in pipe`, whatever is shuffled later). A field that appears only later is an error, so nothing is left out
    silently. With `unify_schemas=True` the first 1 MiB of every file is read: the fields are those of all files, and
    types are the narrowest for all values. Folders named as in `year=2024` give columns too, int64 if all values are
    such integers, string otherwise, unless the files have a field of that name. Order: that of the files, and within
    each that of its lines. Length: unknown, streamed. State: a place in a file. A resume seeks to it, or reads a
    compressed file up to it, and parses at most 1 MiB again.

    Shards divide ranges of files, so a single file serves many workers: about 1,024 ranges of all files, of 256 KiB to
    32 MiB each. A `shuffle` after this shuffles the order of the ranges as well. A file is not split if it is
    compressed, if `row_column` is given, or if files come in a new order in each epoch, as with
    `list_files(...).shuffle()`. An error in a range counts its line by reading the file up to there; beyond 256 MiB it
    names the byte instead.

    Empty lines are left out. The text is UTF-8. Strings stay strings, even if they look like dates. If the values of a
    field have no common type, `.parse_lines().map(json.loads)` reads the lines as they are.

    Args:
        schema: types by name, as Arrow types or their names, such as {"id": "int32", "tags": pa.list_(pa.string())}, or
            a pyarrow schema; the types of other fields are inferred.
        columns: reads only these fields, in this order; columns of folders may be among them. All others are left out,
            and so are fields of nested objects that are not in their type.
        path_column: the name of an added column with the path of the file, without a password.
        row_column: the name of an added column with the number of the row in its file, from 0.
        unify_schemas: takes the fields of all files and folders together, from the first 1 MiB of each file.
        on_error: what happens to a line that is no such object; see `map`. It keeps its number.

    Raises:
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: names file, line and field of a line that is no JSON object, or is nested more than 100 deep, a value
            that does not fit its type, a number that is too large for a float, an unknown field; a file in other
            folders; damaged compressed bytes. The rows before the error come first.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> _ = pathlib.Path("a.jsonl").write_text('{"id": 1, "tags": ["x"]}\n{"id": 2}\n')
        >>> list(fp.list_files("a.jsonl").open_files().parse_jsonl())
        [{'id': 1, 'tags': ['x']}, {'id': 2, 'tags': None}]
    """
    return parse(pipe, Jsonl(**options), on_error)


@options_of(parse_jsonl, JsonlOptions)
@dataclass(frozen=True, eq=False, kw_only=True)
class Jsonl(TextTable, TextFormat):
    """The arguments of `parse_jsonl`."""

    def head(self, stream: BinaryIO, path: str) -> SampledHead | None:
        reader = ChunkReader(stream, path, self.last_record_end)
        chunk = reader.peek(TextPlace(), HEAD_BYTES)
        if chunk is None or not chunk.data.strip():
            return None
        explicit = check_schema(self.schema)
        types = _infer_types(chunk.data, explicit, self.columns)
        return SampledHead(reader.path, explicit if types is None else types, has_rows=types is not None)

    def missing_name_error(self, source: str, name: str, names: Sequence[str]) -> DataError:
        origin = "all files" if self.unify_schemas else source
        return DataError(
            f"the first lines of {origin} have no field {name!r}, which `columns` names; {suggest_name(name, names)}; "
            "if it comes later, `schema=` gives its type"
        )

    def require_fixed_schema(self, file: str) -> FixedSchema:
        """Names and types to read `file` with: those of `schema` if no file had a line."""
        if self.fixed_schema is not None:
            return self.fixed_schema
        types = check_schema(self.schema)
        return FixedSchema(file_types=types, names=tuple(types), all_columns=tuple(types), source="no file")

    def start_reading(self, reader: ChunkReader) -> tuple[TextPlace, ParseChunk]:
        fixed = self.require_fixed_schema(reader.path)
        parser = _JsonlParser(self, fixed, reader)
        return TextPlace(), self.with_extra_columns(parser.parse, reader.path, fixed.file_types)

    def row_lines(self, chunk: Chunk) -> list[int]:
        return [chunk.at.line + i for i, line in enumerate(chunk.data.split(b"\n")) if line.strip()]


class _JsonlParser:
    """Parses the chunks of one file."""

    def __init__(self, form: Jsonl, fixed: FixedSchema, reader: ChunkReader) -> None:
        self._fixed = fixed
        self._form = form
        self._schema = pa.schema(list(fixed.file_types.items()))
        self._inferred = fixed.file_types.keys() - check_schema(form.schema).keys()
        self._unknown: _UnknownFields = "ignore" if form.columns is not None else "error"
        self._reader = reader

    def parse(self, chunk: Chunk) -> Iterator[ParsedPart]:
        """The parts of a chunk, those after a malformed line too."""
        return parse_parts(chunk, self._read, line_ends, self._explain, _named)

    def _read(self, data: bytes) -> Rows:
        return to_rows(_read_lines(data, self._schema, self._unknown, self._inferred))

    def _explain(self, chunk: Chunk) -> DataError:
        """What is wrong with a line that cannot be read."""
        line, place = chunk.data, self._reader.describe(chunk.at)
        if _is_too_deep(line):
            return DataError(
                f"{place}: objects and lists are nested more than {MAX_DEPTH} deep: {shorten(line)}; `read_lines` "
                "gives such lines as text"
            )
        try:
            value = _load(line)
        except json.JSONDecodeError as error:
            return DataError(f"{place}: this is not JSON: {error.msg} at character {error.pos + 1}: {shorten(line)}")
        except UnicodeDecodeError as error:
            return DataError(f"{place}: byte 0x{line[error.start]:02x} is not UTF-8: {shorten(line)}")
        except ValueError as error:
            return DataError(f"{place}: {error}: {shorten(line)}")
        if not isinstance(value, dict):
            return DataError(f"{place}: each line must hold an object but this one holds: {shorten(line)}")
        if (problem := self._problem(line)) is not None:
            return DataError(f"{place}{problem}: {shorten(line)}")
        if (field := self._misfit(cast("dict[str, Any]", value))) is not None:
            field_error = self._explain_field(*field, place)
            if field_error is not None:
                return field_error
        return DataError(f"{place}: cannot be read: {shorten(line)}")

    def _problem(self, line: bytes) -> str | None:
        """Why a line cannot be read whatever the types of its fields are; None if it can."""
        selected = self._form.columns is not None
        try:
            _read_lines(line, self._schema if selected else pa.schema([]), "ignore" if selected else "infer")
        except ValueError as error:
            text = str(error)
            if (twice := _TWICE.search(text)) is not None:
                return f", field {twice[1]!r}: it comes twice"
            if (changed := _CHANGED.search(text)) is not None and not selected:
                return (
                    f", field {changed[1]!r}: it holds values of two types, {changed[2]} and {changed[3]}, and "
                    "`read_lines(...).map(json.loads)` reads such lines"
                )
            return None if selected else f": {_ROW.sub('', text.removeprefix('JSON parse error: '))}"
        return None

    def _misfit(self, value: dict[str, Any]) -> tuple[str, Any] | None:
        """The first field of an object that cannot be read; None if all can."""
        fields = [*value.items()]

        def read(count: int) -> None:
            self._read_fields(dict(fields[:count]))

        try:
            read(len(fields))
        except ValueError:
            return fields[first_failing(len(fields), read)]
        return None

    def _read_fields(self, value: dict[str, Any]) -> None:
        """Read an object of some of the columns, since a table of many columns takes long, even if it has one row."""
        schema = pa.schema([field for field in self._schema if field.name in value])
        _read_lines(json.dumps(value).encode() + b"\n", schema, self._unknown, self._inferred)

    def _explain_field(self, name: str, value: object, place: str) -> DataError | None:
        """What is wrong with one field of an object, if anything is."""
        if name not in self._fixed.file_types:
            if self._form.columns is not None:
                return None
            repair = "" if self._form.unify_schemas else ", `unify_schemas=True` looks at those of all files"
            return DataError(
                f"{place}: there is a field {name!r}, and the first lines of {self._fixed.origin} have none; "
                f"`schema={{{name!r}: ...}}` gives its type, `columns=` names those to read{repair}"
            )
        try:
            self._read_fields({name: value})
        except ValueError as error:
            kind, text = self._fixed.file_types[name], shorten(json.dumps(value, ensure_ascii=False))
            why = f", {error}" if isinstance(error, _LineError) else ""
            if (changed := _CHANGED.search(str(error))) is not None and changed[1] != name:
                why = f", {changed[1]!r} is {changed[3]} and not {changed[2]}"
            if name in self._inferred:
                why += f"; its type was inferred from the first lines of {self._fixed.origin}"
                why += ", where nulls and empty lists count as text" if "string" in str(kind) else ""
            other = "..."
            if isinstance(value, int) and pa.types.is_primitive(kind) and not -(2**63) <= value < 2**63:
                other = "'uint64'" if 0 <= value < 2**64 else "pyarrow.decimal128(38, 0)"
            return DataError(
                f"{place}, field {name!r}: {text} is not {kind}{why}; `schema={{{name!r}: {other}}}` gives another type"
            )
        return None


def _named(error: ValueError, part: Chunk, ends: list[int]) -> list[int]:
    """The line that an error of Arrow's parser names. It counts those with text."""
    row = _ROW.search(str(error))
    if len(ends) > FEW_RECORDS or not (row or isinstance(error, _LineError)):
        return []
    texts = ((number, part.data[start:end].strip()) for number, (start, end) in enumerate(pairwise([0, *ends])))
    if row is None:
        return [n for n, text in texts if text and not (text[:1] == b"{" and text[-1:] == b"}")][:1]
    return [n for n, text in texts if text][int(row[1]) :][:1]


def _infer_types(
    data: bytes, explicit: dict[str, pa.DataType], columns: Sequence[str] | None
) -> dict[str, pa.DataType] | None:
    """Infer names and types from the first lines of a file; `explicit` types stay. Without a line, return None.

    Lines that cannot be read do not count, whatever happens to them in a run. If the values of a field have no common
    type, those of the type that most lines have count.
    """
    schema = pa.schema(list(explicit.items()))
    unsigned: set[_Path] = set()
    try:
        if _UNSIGNED.search(data):
            raise _LineError
        inferred = _read_lines(data, schema, "infer").schema
    except ArgumentError:
        raise
    except ValueError:  # Arrow's ArrowInvalid is one
        readable = _readable_lines(data, schema, columns)
        agreeing, unsigned = _agreeing_lines(readable, explicit)
        if not agreeing:
            return None
        inferred = _read_lines(b"".join(agreeing), schema, "infer").schema

    def type_of(kind: Any, path: _Path) -> Any:
        if path in unsigned:
            return pa.uint64()
        names = pa.types.is_struct(kind)
        return with_fields(kind, lambda part: part.with_type(type_of(part.type, (*path, part.name if names else ""))))

    # Arrow takes text that looks like a date for one; JSON has no dates.
    return {
        part.name: part.type if part.name in explicit else text_for("timestamp", type_of(part.type, (part.name,)))
        for part in inferred
    }


_Path: TypeAlias = tuple[str, ...]
"""The names of the fields that lead to a value, "" for the items of a list."""


def _readable_lines(data: bytes, schema: pa.Schema, columns: Sequence[str] | None) -> list[bytes]:
    """The lines that Arrow can read by themselves, with these columns only."""
    if columns is not None:
        data = b"".join(_with_fields_of(line, columns) for line in _split(data))
    chunk = Chunk(data, TextPlace(), TextPlace(), last=True)

    def read(data: bytes) -> Rows:
        return to_rows(_read_lines(data, schema, "infer"))

    parts = parse_parts(chunk, read, line_ends, lambda line: DataError(), _named)
    sound = b"".join(part.chunk.data for part in parts if part.error is None)
    return [line for line in _split(sound) if line.strip()]


def _split(data: bytes) -> list[bytes]:
    return [data[start:end] for start, end in pairwise([0, *line_ends(data)])]


def _with_fields_of(line: bytes, columns: Sequence[str]) -> bytes:
    try:
        value: Any = json.loads(line)
        return json.dumps({name: value[name] for name in columns if name in value}).encode() + b"\n"
    except (ValueError, TypeError, RecursionError):
        return line


def _agreeing_lines(lines: list[bytes], explicit: Mapping[str, object]) -> tuple[list[bytes], set[_Path]]:
    """The lines whose values have the types that most lines have, and the integers that need all bits of a uint64."""
    counts: dict[_Path, Counter[str]] = {}
    kinds: list[set[tuple[_Path, str]]] = []
    ranges: dict[_Path, set[str]] = {}
    for line in lines:
        kinds_of_line: set[tuple[_Path, str]] = set()
        for path, kind in _kinds(json.loads(line), ()):
            if path and path[0] not in explicit:
                family = "number" if kind in ("positive", "negative", "unsigned", "float") else kind
                kinds_of_line.add((path, family))
                ranges.setdefault(path, set()).add(kind)
        kinds.append(kinds_of_line)
        for path, family in kinds_of_line:
            counts.setdefault(path, Counter())[family] += 1
    winners = {(path, families.most_common(1)[0][0]) for path, families in counts.items()}
    agreeing = [line for line, of_line in zip(lines, kinds, strict=True) if of_line <= winners]
    signed = {"negative", "float"}
    return agreeing, {path for path, found in ranges.items() if "unsigned" in found and not found & signed}


def _kinds(value: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    """The kind of each value within a value, by its path; nulls have none."""
    if isinstance(value, dict):
        yield path, "object"
        for name, item in cast("dict[str, Any]", value).items():
            yield from _kinds(item, (*path, name))
    elif isinstance(value, list):
        yield path, "list"
        for item in value:
            yield from _kinds(item, (*path, ""))
    elif isinstance(value, int) and not isinstance(value, bool):
        huge = not -(2**63) <= value < 2**64
        yield path, "huge" if huge else "negative" if value < 0 else "positive" if value < 2**63 else "unsigned"
    elif value is not None:
        yield path, type(value).__name__


def _load(line: bytes) -> object:
    """The value of a line; a `ValueError` if it is no JSON, or has a number that to Arrow is infinite."""
    return json.loads(line, parse_int=_parse_int, parse_float=_parse_float)


def _parse_int(digits: str) -> int:
    _parse_float(digits)
    return int(digits)


def _parse_float(digits: str) -> float:
    if math.isinf(value := float(digits)):
        raise ValueError(_TOO_LARGE)
    return value


class _LineError(ValueError):
    """A line is not one object, is nested too deeply for Arrow, or has a number that is too large."""


def _read_lines(data: bytes, schema: pa.Schema, unknown: _UnknownFields, inferred: Collection[str] = ()) -> pa.Table:
    """The table of some lines, each of which must hold one object; floats of the columns `inferred` must be exact."""
    from pyarrow.json import ParseOptions, ReadOptions, read_json

    if not data.isascii():
        data.decode()  # Arrow does not check that names and strings are UTF-8
    count = _count_objects(data)
    if count is None or _any_too_deep(data, count):
        raise _LineError("each line must hold one object")
    try:
        table = read_json(
            arrow_source(data),
            read_options=ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
            parse_options=ParseOptions(explicit_schema=schema, unexpected_field_behavior=unknown),
        )
    except pa.ArrowNotImplementedError as error:
        raise ArgumentError(f"`schema` gives a type that JSON cannot have: {error}") from None
    if table.num_rows != count:
        raise _LineError("each line must hold one object")
    largest = {name: _largest(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    if any(number >= _MAX_EXACT for number in largest.values()):
        _check_numbers(data, table.schema, inferred, _HUGE if math.inf in largest.values() else _LONG)
    return table


def _largest(column: Any) -> float:
    """The largest absolute value of the floats in a column of JSON; 0 if it has none."""
    kind = column.type
    if pa.types.is_floating(kind):
        bounds: Any = pc.min_max(column).as_py()
        return max(-bounds["min"], bounds["max"]) if bounds["max"] is not None else 0.0
    if pa.types.is_struct(kind):
        return max((_largest(pc.struct_field(column, number)) for number in range(kind.num_fields)), default=0.0)
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return _largest(pc.list_flatten(column)) if lists else 0.0


def _check_numbers(data: bytes, schema: pa.Schema, inferred: Collection[str], suspect: re.Pattern[bytes]) -> None:
    """Raise a `_LineError` if a float is not the number that a line has: Arrow rounds, and makes infinity of others."""
    for line in _split(data):
        if suspect.search(line):
            fields = cast("dict[str, object]", _load(line))
            for name in fields.keys() & set(schema.names):
                _check_number(fields[name], schema.field(name).type, exact=name in inferred)


def _check_number(value: Any, kind: Any, *, exact: bool) -> None:
    if isinstance(value, dict):
        for part in kind if pa.types.is_struct(kind) else ():
            _check_number(cast("dict[str, object]", value).get(part.name), part.type, exact=exact)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            _check_number(item, kind.value_type, exact=exact)
    elif pa.types.is_floating(kind) and isinstance(value, int | float) and math.isfinite(value):
        if abs(value) > _LARGEST[str(kind)]:
            raise _LineError(_TOO_LARGE)
        if exact and isinstance(value, int) and int(float(value)) != value:
            raise _LineError(_ROUNDED)


def _count_objects(data: bytes) -> int | None:
    """The number of lines with text; None unless all of them begin with { and end with }.

    If they do, no object reaches from one line to the next, which would take a comma between } and {.
    """
    if data.startswith(b"{") and data.endswith(b"}\n"):
        bytes_ = np.frombuffer(data, np.uint8)
        breaks = np.flatnonzero(bytes_ == ord("\n"))
        if (bytes_[breaks[:-1] + 1] == ord("{")).all() and (bytes_[breaks - 1] == ord("}")).all():
            return len(breaks)
    lines = [line.strip() for line in data.split(b"\n")]
    objects = [line for line in lines if line]
    return len(objects) if all(line[:1] == b"{" and line[-1:] == b"}" for line in objects) else None


def _any_too_deep(data: bytes, count: int) -> bool:
    """Whether a line is nested too deeply, given `count` lines that each begin with { and end with }."""
    bytes_ = np.frombuffer(data, np.uint8)
    opened = np.count_nonzero(bytes_ == ord("{")) + np.count_nonzero(bytes_ == ord("["))
    if opened - (count - 1) <= MAX_DEPTH:  # each other line opens at least one object
        return False
    starts = np.concatenate([[0], np.flatnonzero(bytes_[:-1] == ord("\n")) + 1])
    lengths = np.diff(starts, append=len(data))
    if lengths.max() <= MAX_DEPTH:
        return False
    opening = (bytes_ | 0x20) == ord("{")  # [ and { differ in this bit
    counts = np.add.reduceat(opening.view(np.uint8), starts, dtype=np.int32)
    return any(_is_too_deep(data[starts[k] : starts[k] + lengths[k]]) for k in np.flatnonzero(counts > MAX_DEPTH))


def _is_too_deep(line: bytes) -> bool:
    if line.count(b"{") + line.count(b"[") <= MAX_DEPTH:
        return False
    brackets = np.frombuffer(_STRING.sub(b"", line).translate(None, _NO_BRACKETS), np.uint8)
    steps = (brackets & 2).astype(np.int32) - 1  # 1 for [ and {, which have this bit, and -1 for ] and }
    return bool((np.cumsum(steps) > MAX_DEPTH).any())
