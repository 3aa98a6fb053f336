"""Finds the malformed records of CSV, all at once and column by column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..text.records import all_failing
from .dialect import Dialect, read_records

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc

_PIECE_VALUES = 2**12
"""So many values are converted together: one that does not fit is looked for among them."""
_NO_ASCII = bytes([*range(128), *[ord("x")] * 128])
_SURE = {  # how values look that surely fit: Arrow need not convert them to know
    "int8": r"^-?\d{1,2}$",
    "int16": r"^-?\d{1,4}$",
    "int32": r"^-?\d{1,9}$",
    "int64": r"^-?\d{1,18}$",
    "float": r"^-?\d{1,15}(\.\d{1,15})?$",
    "double": r"^-?\d{1,15}(\.\d{1,15})?$",
}
_ROW = re.compile(r"Row #(\d+): ")


class Fault(NamedTuple):
    """What is wrong with a record.

    Attributes:
        width: how many values it has, if there are not as many columns.
        column: the first column whose value is not of its type.
        value: that value.
    """

    width: int | None
    column: str = ""
    value: bytes = b""


class Faults(NamedTuple):
    """The malformed ones of some records.

    Attributes:
        rows: the numbers of all records that are not empty lines.
        faults: what is wrong, by the number of the record.
    """

    rows: list[int]
    faults: dict[int, Fault]


def find_faults(
    dialect: Dialect, names: list[str], types: Mapping[str, pa.DataType], data: bytes, ends: Sequence[int]
) -> Faults | None:
    """Find the records with another number of values than columns, or with a value that is not of its type.

    Args:
        types: of the columns that are read.
        data: records whose quotes are closed.
        ends: where each record ends.

    Returns:
        None if Arrow does not see the same records.
    """
    bounds = [0, *ends]
    rows = [k for k, (start, stop) in enumerate(pairwise(bounds)) if data[start:stop].strip(b"\r\n")]
    widths = _uneven_records(dialect, names, data)
    if widths is None or any(row > len(rows) for row in widths):
        return None
    faults = {rows[row - 1]: Fault(width) for row, width in widths.items()}
    even = [record for record in rows if record not in faults]
    columns = _text_columns(dialect, names, list(types), b"".join(data[bounds[k] : bounds[k + 1]] for k in even))
    if columns is None or any(len(column) != len(even) for column in columns.values()):
        return None
    unfit: dict[str, list[int]] = {}
    for kind in dict.fromkeys(types.values()):
        alike = [name for name in types if types[name] == kind]
        for number in _unfit_values([columns[name] for name in alike], kind, dialect.nulls):
            unfit.setdefault(alike[number // len(even)], []).append(number % len(even))
    for name in types:
        for row in unfit.get(name, ()):
            faults.setdefault(even[row], Fault(None, name, columns[name][row].as_py()))
    return Faults(rows, faults)


def _uneven_records(dialect: Dialect, names: list[str], data: bytes) -> dict[int, int] | None:
    """The number of values of each record that has more or fewer than there are columns; records count from 1."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions

    widths: dict[int, int] = {}

    def leave_out(row: pc.InvalidRow) -> Literal["skip", "error"]:
        widths[row.number or 0] = row.actual_columns
        return "skip"

    parse_options = dialect.parse_options()
    parse_options.invalid_row_handler = leave_out
    convert_options = ConvertOptions(column_types={names[0]: pa.binary()}, include_columns=names[:1])
    if not data.isascii():
        data = data.translate(_NO_ASCII)  # `InvalidRow` must be UTF-8
    try:
        read_records(names, parse_options, convert_options, data)
    except pa.ArrowInvalid:
        return None
    return widths


def _text_columns(dialect: Dialect, names: list[str], columns: list[str], data: bytes) -> dict[str, Any] | None:
    """The values of some columns, as bytes."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions

    if not columns:
        return {}
    options = ConvertOptions(column_types=dict.fromkeys(columns, pa.binary()), include_columns=columns)
    try:
        table = read_records(names, dialect.parse_options(), options, data)
    except pa.ArrowInvalid:
        return None
    return {name: table.column(name).combine_chunks() for name in columns}


def _unfit_values(columns: list[Any], kind: pa.DataType, nulls: Sequence[str]) -> list[int]:
    """The numbers of the values that Arrow cannot convert to a type, as it does in CSV.

    Args:
        columns: of bytes; the values of the later ones count on from those of the first.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.csv import ConvertOptions, ParseOptions

    if pa.types.is_binary(kind):
        return []
    values: Any = pa.concat_arrays(columns)
    if (pattern := _SURE.get(str(kind))) is not None:
        doubtful = np.flatnonzero(pc.invert(pc.match_substring_regex(values, pattern)))
        values = values.take(doubtful)
    elif kind == pa.string() and _is_utf8(values):
        return []
    else:
        doubtful = np.arange(len(values))
    quote, end, nothing = (pa.scalar(text, pa.binary()) for text in (b'"', b'"\n', b""))
    quoted: Any = pc.binary_join_element_wise(quote, pc.replace_substring(values, '"', '""'), end, nothing)
    _, offsets, data = quoted.buffers()
    starts = np.frombuffer(offsets, np.int32).tolist()
    parse_options = ParseOptions(newlines_in_values=True)
    options = ConvertOptions(column_types={"value": kind}, null_values=list(nulls))

    def read(start: int, stop: int) -> None:
        read_records(["value"], parse_options, options, data[starts[start] : starts[stop]])

    def named(error: ValueError, start: int) -> int | None:
        row = _ROW.search(str(error))
        number = start + int(row.group(1)) - 1 if row else len(values)
        is_it = number < len(values) and f"'{values[number].as_py().decode(errors='replace')}'" in str(error)
        return number if is_it else None

    pieces = pairwise([*range(0, len(values), _PIECE_VALUES), len(values)])
    failing = [number for start, stop in pieces for number in all_failing(start, stop, read, named)]
    return doubtful[failing].tolist() if failing else []


def _is_utf8(values: Any) -> bool:
    try:
        values.cast("string")
    except ValueError:
        return False
    return True
