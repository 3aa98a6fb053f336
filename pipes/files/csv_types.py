"""The types of CSV columns: inferred from the first records, and only where each value comes out as it was written."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

from ..core.arrow import arrow_array
from ..core.lazy import pa, pc
from ..errors import ArgumentError, DataError
from ..formats.table_format import SampledHead
from ..formats.text import Chunk, shorten
from .csv_parser import Dialect, is_number, lost_values, parse_records, table_reader, text_reader

log = logging.getLogger("feedpipe")


def infer_types(
    dialect: Dialect,
    names: list[str],
    selected: Sequence[str],
    schema: Mapping[str, pa.DataType],
    chunk: Chunk | None,
    file: str,
) -> SampledHead:
    """Infer the types of the columns `selected` from the first chunk of a file; `schema` gives types of some.

    Malformed records do not count, whatever happens to them in a run.
    """
    types = {name: schema.get(name, pa.null()) for name in names}
    explicit = {name: kind for name, kind in schema.items() if name in selected}
    table, parts = (
        (None, list[Chunk]())
        if chunk is None
        else _read_well_formed(dialect, names, selected, explicit, chunk._replace(last=False))
    )
    if table is not None and any(pa.types.is_binary(f.type) and f.name not in schema for f in table.schema):
        # Arrow infers binary for text that is not UTF-8, and such a record is malformed.
        records = [record for part in parts for record in part.cut(dialect.record_ends(part.data)[:-1])]
        parts = [record for record in records if _is_text(record.data)]
        table = table_reader(dialect, names, selected, explicit)(_joined(parts)) if parts else None
    if table is None or not table.num_rows:
        return SampledHead(file, types, has_rows=False)
    types |= {field.name: field.type for field in table.schema}

    def place(row: int) -> str:
        return f"{file}, line {next(islice(chain.from_iterable(map(dialect.records, parts)), row, None))[0]}"

    numbers = [name for name in types if name not in schema and is_number(types[name])]
    if numbers and _may_be_inexact(written := text_reader(dialect, names, numbers)(_joined(parts))):
        for name in numbers:
            types[name] = _exact_type(written.column(name), name, types[name], dialect.nulls, place)
    return SampledHead(file, types, has_rows=True)


def _joined(parts: Sequence[Chunk]) -> bytes:
    return b"".join(part.data for part in parts)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read_well_formed(
    dialect: Dialect, names: list[str], selected: Sequence[str], types: Mapping[str, pa.DataType], chunk: Chunk
) -> tuple[pa.Table | None, list[Chunk]]:
    """The table of the well-formed records, and these records; the columns in `types` have these types."""
    read = table_reader(dialect, names, selected, types)
    try:
        if not dialect.unclosed_quotes(chunk.data, last=False):
            return read(chunk.data), [chunk]
    except pa.ArrowInvalid:
        pass
    except pa.ArrowNotImplementedError as error:
        raise ArgumentError(f"`schema` gives a type that text cannot have: {error}") from None
    as_bytes = {**dict.fromkeys(selected, pa.binary()), **types}  # of any bytes
    read_bytes = table_reader(dialect, names, selected, as_bytes)
    parsed = parse_records(dialect, chunk, read_bytes, lambda chunk, problem: DataError())
    parts: list[Chunk] = []
    with suppress(DataError):  # a quote that swallows lines ends the well-formed records; a run says so in its turn
        parts.extend(part.chunk for part in parsed if part.error is None)
    return (read(_joined(parts)) if parts else None), parts


# Columns of text that looks like numbers.

_INTEGER = r"^-?\d+$"
_SUSPECT = r"^\s*[-+]?0[0-9xX]|^\s*\+\d+\s*$|\d{16}|^\s*\d+[eE]\d+|[eE]\+?\d{3}|^[^0-9]+$"


def _may_be_inexact(table: pa.Table) -> bool:
    """Whether a text in some columns of numbers is one that needs a closer look."""
    texts: Any = pa.concat_arrays([chunk for column in table.columns for chunk in column.chunks])
    return bool(pc.any(pc.match_substring_regex(texts, _SUSPECT)).as_py())


def _exact_type(
    column: Any, name: str, kind: pa.DataType, nulls: Sequence[str], place: Callable[[int], str]
) -> pa.DataType:
    """The type of a column of numbers: text, with a line in the log, if some value would not come out as it is written.

    `kind` is the type that Arrow infers; `place` gives the file and the line of a row.
    """
    values: Any = pc.unique(column)
    values = pc.utf8_trim_whitespace(values.filter(pc.invert(pc.is_in(values, arrow_array(nulls, values.type)))))
    if pa.types.is_floating(kind) and pc.all(pc.match_substring_regex(values, _INTEGER)).as_py():
        kind = pa.uint64()  # no int64 holds all of them
        if any(not 0 <= int(value) < 2**64 for value in values.to_pylist()):
            kind = pa.string()
    lost = values if pa.types.is_string(kind) else lost_values(values, kind)
    if pa.types.is_floating(kind) and not len(lost):
        # Numbers have a point or the sign of an exponent somewhere, if programs wrote them; 12e5 may be a name.
        bare: Any = pc.match_substring_regex(values, r"^\d+[eE]\d+$")
        if pc.any(bare).as_py() and not pc.any(pc.match_substring_regex(values, r"\.|[eE][-+]")).as_py():
            lost = values.filter(bare)
        elif not pc.any(pc.match_substring_regex(values, r"\d")).as_py():
            lost = values  # words such as nan alone are no numbers
    if not len(lost):
        return kind
    row = pc.index(pc.utf8_trim_whitespace(column), lost[0]).as_py()
    _log_once(
        f"{place(row)}, column {name!r}: {shorten(lost[0].as_py())} would not come out of a number as it is written, "
        f"so the column is text; `schema={{{name!r}: 'float64'}}` makes it numbers"
    )
    return pa.string()


@functools.lru_cache(maxsize=1024)
def _log_once(message: str) -> None:
    log.warning(message)
