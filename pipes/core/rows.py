"""`Rows`: rows held as columns, and the four helpers that serve lists and `Rows` alike."""

# pyright: reportPrivateUsage=false
# The functions of this module use the columns that `Rows` keeps to itself.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, cast, overload

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentTypeError, with_call_site
from .column import (
    Column,
    concat_columns,
    gather_column,
    join_columns,
    scalars,
    take_column,
    to_arrow,
    type_of,
)
from .skipped import Skipped

if TYPE_CHECKING:
    import pyarrow as pa

Indices: TypeAlias = range | npt.NDArray[np.int64]
"""Positions of rows; a `range` if they are evenly spaced, so that storage can slice."""
Row: TypeAlias = dict[str, object]
"""A row of a table: Python scalars, and NumPy arrays for columns of more than one dimension."""
SKIPPED = "\0skipped"
"""The column of a `Rows` that has a `Skipped` for each row that was skipped; see `skipped_rows`."""


MIN_ARRAY_ROWS = 512
"""So many Python objects are gathered faster through an array of all of them, if they are half of the list."""


class RowSignature:
    """Names and types of columns, which are computed when they are first compared; all parts of a table share one."""

    __slots__ = ("types",)

    def __init__(self) -> None:
        self.types: tuple[tuple[str, object], ...] | None = None


class Rows(Sequence[Row]):
    """A batch of table rows: a read-only sequence of dicts, stored as columns.

    `.batch(n)` on rows of a table gives a `Rows`. `rows[i]` and iteration make a dict for each row: its values are
    Python scalars, or NumPy arrays if the column has more than one dimension. `rows[a:b]` is a `Rows` again and copies
    nothing. `rows["x"]` is a column as it is held: a read-only NumPy array, or an Arrow array. `rows.columns` is a dict
    of all columns; `rows.arrow` is the batch as a `pyarrow.RecordBatch`.

    Example:
        >>> import numpy as np
        >>> import feedpipe as fp
        >>> rows = fp.from_arrays({"x": np.arange(4), "y": np.zeros((4, 2))}).batch(3)[0]
        >>> rows
        Rows(3 x ['x', 'y'])
        >>> rows[1]
        {'x': 1, 'y': array([0., 0.])}
        >>> rows["x"]
        array([0, 1, 2])
        >>> len(rows[1:]), rows.columns["y"].shape
        (2, (3, 2))
        >>> rows.arrow["x"].to_pylist()
        [0, 1, 2]
    """

    __slots__ = ("_length", "_signature", "_tables_and_selection")

    # Tables whose rows follow each other, mostly one, and which of their rows these are; None for all of them. Only one
    # table has a selection. It is one attribute, so that no thread sees the tables before a change and the selection
    # after it.
    _tables_and_selection: tuple[tuple[Mapping[str, Column], ...], npt.NDArray[np.int64] | None]

    def __init__(self, columns: Mapping[str, Column], length: int | None = None) -> None:
        self._tables_and_selection = (dict(columns),), None
        self._length = len(next(iter(columns.values()))) if length is None else length
        self._signature = RowSignature()

    @staticmethod
    def selected(columns: Mapping[str, Column], indices: npt.NDArray[np.int64]) -> Rows:
        """The rows at `indices` of `columns`, gathered when they are needed.

        So a shuffled batch is copied once, from the source into the tensor.
        """
        rows = Rows({}, len(indices))
        rows._tables_and_selection = (columns,), indices
        return rows

    @staticmethod
    def joined(tables: Sequence[Rows]) -> Rows:
        """All rows of tables of one signature, joined when they are needed.

        So a batch that lies in two blocks is copied once, from these into the tensor.
        """
        rows = Rows({}, sum(map(len, tables)))
        rows._tables_and_selection = tuple(table.columns for table in tables), None
        return tables[0]._alike(rows)

    def _alike(self, rows: Rows) -> Rows:
        """`rows`, which have the names and types of these."""
        rows._signature = self._signature
        return rows

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns by name. They are read-only: the source, or another batch, may share their memory."""
        columns, selection = self._columns_and_selection
        if selection is not None:
            columns = {name: take_column(column, selection) for name, column in columns.items()}
            self._tables_and_selection = (columns,), None
        return columns

    @property
    def _columns_and_selection(self) -> tuple[Mapping[str, Column], npt.NDArray[np.int64] | None]:
        """The columns, which are joined now, and which of their rows these are."""
        tables, selection = self._tables_and_selection
        columns, *others = tables
        if others:
            columns = {name: concat_columns([table[name] for table in tables]) for name in columns}
            self._tables_and_selection = (columns,), selection
        return columns, selection

    def copies(self) -> dict[str, Column]:
        """The columns, to be written to: arrays in memory of their own; Arrow arrays as they are."""
        tables, selection = self._tables_and_selection
        columns, *others = tables
        if others:
            new = {name: join_columns([table[name] for table in tables]) for name in columns}
        elif selection is not None:
            new = {name: gather_column(column, selection) for name, column in columns.items()}
        else:
            return {n: c.copy() if isinstance(c, np.ndarray) else c for n, c in columns.items()}
        return {n: np.ascontiguousarray(c) if isinstance(c, np.ndarray) else c for n, c in new.items()}

    def __reduce__(self) -> tuple[object, ...]:
        return Rows, (self.columns, self._length)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: SupportsIndex) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    @overload
    def __getitem__(self, index: str) -> Column: ...
    def __getitem__(self, index: SupportsIndex | slice | str) -> Row | Rows | Column:
        if isinstance(index, slice):
            return cast("Rows", take(self, range(*index.indices(self._length))))
        if isinstance(index, str):
            return self._column(index)
        try:
            at = range(self._length)[index]
        except TypeError:
            raise ArgumentTypeError(
                with_call_site(f"`rows[...]` takes an int, a slice or the name of a column but got: {index!r:.80}")
            ) from None
        return cast("Row", next(iter(take(self, range(at, at + 1)))))

    def _column(self, name: str) -> Column:
        columns, selection = self._columns_and_selection
        if name not in columns:
            raise KeyError(f"{name!r} is none of the columns: {', '.join(map(repr, columns))}")
        return columns[name] if selection is None else take_column(columns[name], selection)

    def __iter__(self) -> Iterator[Row]:
        columns = self.columns
        names = tuple(columns)
        if not names:
            return iter([{} for _ in range(self._length)])
        values = zip(*(scalars(column) for column in columns.values()), strict=True)
        rows = (dict(zip(names, row, strict=True)) for row in values)
        return map(_in_place, rows) if SKIPPED in columns else rows

    def __repr__(self) -> str:
        return f"Rows({self._length} x {column_names(self)})"

    @property
    def arrow(self) -> pa.RecordBatch:
        """The columns as an Arrow record batch; arrays of more than one dimension become fixed-shape tensors."""
        import pyarrow as pa

        arrays = [to_arrow(column) for column in self.columns.values()]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    @staticmethod
    def from_arrow(batch: pa.RecordBatch) -> Rows:
        return Rows(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows)


BlockRows: TypeAlias = list[object] | Rows
"""What a block holds: Python objects, or columns."""


def index_array(indices: Indices) -> npt.NDArray[np.int64]:
    """`indices` as an array of int64, even if there are none: NumPy makes a float array of an empty range."""
    if isinstance(indices, range):
        return np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    return np.asarray(indices, np.int64)


def take(rows: BlockRows, indices: Indices) -> BlockRows:
    """The rows at `indices`, in that order; a slice without a copy if these are evenly spaced."""
    if isinstance(indices, range):
        if len(indices) == len(rows) and indices.step == 1:
            return rows
        return _slice(rows, indices)
    if isinstance(rows, Rows):
        columns, selection = rows._columns_and_selection
        if selection is not None:
            return rows._alike(Rows.selected(columns, selection[indices]))
        return rows._alike(Rows({name: take_column(column, indices) for name, column in columns.items()}, len(indices)))
    if MIN_ARRAY_ROWS <= len(indices) >= len(rows) / 2:
        return cast("list[object]", np.fromiter(rows, object, len(rows))[indices].tolist())
    return pick(rows, indices.tolist())


def part_of(rows: BlockRows, span: range) -> BlockRows:
    """Adjacent rows; those of a table are gathered when they are needed, so many short parts of it cost little."""
    if isinstance(rows, list):
        return rows[span.start : span.stop]
    columns, selection = rows._columns_and_selection
    indices = index_array(span) if selection is None else selection[span.start : span.stop]
    return rows._alike(Rows.selected(columns, indices))


def pick(rows: Sequence[object], indices: list[int]) -> list[object]:
    """`[rows[i] for i in indices]`, in C if there are enough of them."""
    if len(indices) < 2:
        return [rows[i] for i in indices]
    return list(itemgetter(*indices)(rows))


def _in_place(row: Row) -> Any:
    """A row, or the `Skipped` that stands in its place."""
    skipped = cast("Skipped | None", row.pop(SKIPPED))
    return row if skipped is None else skipped if skipped.is_row else skipped.before(row)


def concat(parts: Sequence[BlockRows]) -> BlockRows:
    """All rows of all parts; they stay columns if names and types agree."""
    if len(parts) == 1:
        return parts[0]
    if Skipped.exist:
        parts = _marked_alike(parts)
    if parts and isinstance(parts[0], Rows) and have_one_signature(parts):
        return _concat_tables(cast("Sequence[Rows]", parts))
    joined: list[object] = []
    for part in parts:
        joined.extend(part)
    return joined


def _marked_alike(parts: Sequence[BlockRows]) -> Sequence[BlockRows]:
    """The parts; if some are tables, rows that were skipped stand in a column of all, so that they are one table."""
    like = next((part for part in parts if isinstance(part, Rows) and len(part)), None)
    if like is None or all(isinstance(part, Rows) and SKIPPED not in column_names(part) for part in parts):
        return parts
    alike: list[BlockRows] = []
    for part in parts:
        if isinstance(part, Rows):
            marks = part.columns.get(SKIPPED, np.full(len(part), None))
        elif all(isinstance(row, Skipped) and row.is_row for row in part):
            marks = np.array([*part, None], object)[:-1]
            any_rows = range(len(part)) if len(part) <= len(like) else np.zeros(len(part), np.int64)
            part = cast("Rows", take(like, any_rows))  # any values of these types
        else:
            return parts
        alike.append(part._alike(Rows({**part.columns, SKIPPED: marks}, len(part))))
    return alike


def _concat_tables(tables: Sequence[Rows]) -> Rows:
    tables = [table for table in tables if len(table)] or tables[:1]
    groups: list[list[Rows]] = []
    source: Mapping[str, Column] | None = None  # of the selections in the last group
    for table in tables:
        (columns, *_), selection = table._tables_and_selection
        if selection is not None and columns is source:
            groups[-1].append(table)
        else:
            groups.append([table])
        source = None if selection is None else columns
    joined = [_concat_selections(group) for group in groups]
    return joined[0] if len(joined) == 1 else Rows.joined(joined)


def _concat_selections(tables: list[Rows]) -> Rows:
    """One table; if there are several, all are selections from the same columns."""
    first = tables[0]
    if len(tables) == 1:
        return first
    selections = [cast("npt.NDArray[np.int64]", table._tables_and_selection[1]) for table in tables]
    return first._alike(Rows.selected(first._tables_and_selection[0][0], np.concatenate(selections)))


def column_names(rows: Rows) -> list[str]:
    """The names of the columns; gathers nothing."""
    return list(rows._tables_and_selection[0][0])


def select_columns(rows: Rows, sources: Mapping[str, str]) -> Rows:
    """The columns of `rows` that `sources` maps the new names to; gathers and joins nothing."""
    tables, selection = rows._tables_and_selection
    selected = Rows({}, len(rows))
    selected._tables_and_selection = (
        tuple({name: columns[source] for name, source in sources.items()} for columns in tables),
        selection,
    )
    return selected


def _slice(rows: BlockRows, indices: range) -> BlockRows:
    if not indices:
        if isinstance(rows, list):
            return []
        columns = rows._tables_and_selection[0][0]
        return Rows({name: column[:0] for name, column in columns.items()}, 0)
    stop: int | None = indices.stop if indices.step > 0 or indices.stop >= 0 else None
    cut = slice(indices.start, stop, indices.step)
    if isinstance(rows, list):
        return rows[cut]
    columns, selection = rows._columns_and_selection
    if selection is not None:
        return rows._alike(Rows.selected(columns, selection[cut]))
    return rows._alike(Rows({name: column[cut] for name, column in columns.items()}, len(indices)))


def signature(rows: BlockRows) -> tuple[object, ...] | None:
    """Names and types of the columns; None for Python objects."""
    if isinstance(rows, list):
        return None
    schema = rows._signature
    if schema.types is None:
        columns = rows._tables_and_selection[0][0]
        schema.types = tuple((name, type_of(column)) for name, column in columns.items() if name != SKIPPED)
    return schema.types


def sharing(signature: RowSignature, rows: Rows) -> Rows:
    """`rows`, which have the names and types of all others with this `signature`."""
    rows._signature = signature
    return rows


def have_one_signature(parts: Sequence[BlockRows]) -> bool:
    """Whether `concat` keeps the parts as they are held: all as Python objects, or all as columns of one signature."""
    first = parts[0]
    if isinstance(first, list):
        return all(isinstance(part, list) for part in parts)
    return all(
        isinstance(part, Rows) and (part._signature is first._signature or signature(part) == signature(first))
        for part in parts
    )
