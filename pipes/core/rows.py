"""`Rows`: rows held as columns; gathering and joining of rows, and of columns."""

# pyright: reportPrivateUsage=false
# The functions of this module use the tables that `Rows` keeps to itself.

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, SupportsIndex, TypeAlias, TypeGuard, Union, cast, overload

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentTypeError, DataError
from .arrow import arrow_array, number_dtype, numpy_array
from .lazy import pa
from .skips import Skipped

Array: TypeAlias = npt.NDArray[np.generic]
ArrowArray: TypeAlias = "pa.Array[Any]"
Column: TypeAlias = Union["Array", "ArrowArray"]
"""One column: a NumPy array whose first axis counts rows, or a contiguous Arrow array."""
Indices: TypeAlias = range | npt.NDArray[np.int64]
"""Positions of rows; a `range` if they are evenly spaced, so that storage can slice."""
Row: TypeAlias = dict[str, object]
"""A row of a table: Python scalars, and NumPy arrays for columns of more than one dimension."""
SKIPPED = "\0skipped"
"""The column of a `Rows` that has a `Skipped` for each row that was skipped, and None for all others."""


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

    # Tables whose rows follow each other, mostly one, and a selection of their rows; None for all of them. Only one
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
        """`rows`, whose columns have the names and types of these."""
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
        """The columns, which are joined now, and the selection of their rows."""
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

    def __eq__(self, other: object) -> bool:
        """Whether both have equal columns, by name and in any order; types and the way they are held do not count."""
        if not isinstance(other, Rows) or len(self) != len(other):
            return NotImplemented if not isinstance(other, Rows) else False
        columns, others = self.columns, other.columns
        return columns.keys() == others.keys() and all(_equal(column, others[name]) for name, column in columns.items())

    __hash__ = None  # type: ignore[assignment]

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
            start, stop, step = index.indices(self._length)
            if step == 1 and start < stop:
                return self if stop - start == self._length else self._part(start, stop)
            return cast("Rows", take(self, range(start, stop, step)))
        if isinstance(index, str):
            return self._column(index)
        try:
            at = range(self._length)[index]
        except TypeError:
            raise ArgumentTypeError(
                f"`rows[...]` takes an int, a slice or the name of a column but got: {index!r:.80}"
            ) from None
        return cast("Row", next(iter(take(self, range(at, at + 1)))))

    def _part(self, start: int, stop: int) -> Rows:
        """Rows `start` to `stop` (exclusive). Batches are cut by it, so it calls as little as it can."""
        columns, selection = self._columns_and_selection
        part = Rows.__new__(Rows)
        if selection is None:
            columns = {name: column[start:stop] for name, column in columns.items()}
        else:
            selection = selection[start:stop]
        part._tables_and_selection = (columns,), selection
        part._length = stop - start
        part._signature = self._signature
        return part

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
        arrays: list[ArrowArray] = []
        for name, column in self.columns.items():
            try:
                arrays.append(to_arrow(column))
            except pa.ArrowNotImplementedError as error:
                kind = getattr(column, "dtype", "")
                message = f"column {name!r} has dtype {kind}, for which Arrow has no type; make columns of floats of it"
                raise DataError(message) from error
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    @staticmethod
    def from_arrow(batch: pa.RecordBatch) -> Rows:
        return Rows(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows)


class RowSignature:
    """Names and types of columns, which are computed when they are first compared; all parts of a table share one."""

    __slots__ = ("types",)

    def __init__(self) -> None:
        self.types: tuple[tuple[str, object], ...] | None = None


def _in_place(row: Row) -> Any:
    """A row of a table with marks: the row itself, or its `Skipped`."""
    skipped = cast("Skipped | None", row.pop(SKIPPED))
    return row if skipped is None else skipped if skipped.is_row else skipped.before(row)


BlockRows: TypeAlias = list[object] | Rows
"""The rows of a block: Python objects, or columns."""


# Some of the rows


MIN_ARRAY_ROWS = 512
"""From this number on, Python objects are gathered faster through an array, if they are half of the list."""


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
    if indices.step == 1:
        return rows._part(indices.start, indices.stop)
    columns, selection = rows._columns_and_selection
    if selection is not None:
        return rows._alike(Rows.selected(columns, selection[cut]))
    return rows._alike(Rows({name: column[cut] for name, column in columns.items()}, len(indices)))


def pick(rows: Sequence[object], indices: list[int]) -> list[object]:
    """`[rows[i] for i in indices]`, in C if there are enough of them."""
    if len(indices) < 2:
        return [rows[i] for i in indices]
    return list(itemgetter(*indices)(rows))


def index_array(indices: Indices) -> npt.NDArray[np.int64]:
    """`indices` as an array of int64, even if there are none: NumPy makes a float array of an empty range."""
    if isinstance(indices, range):
        return np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    return np.asarray(indices, np.int64)


def index_list(indices: Indices) -> Sequence[int]:
    """`indices` as Python's ints."""
    return indices if isinstance(indices, range) else indices.tolist()


def part_of(rows: BlockRows, span: range) -> BlockRows:
    """Adjacent rows; those of a table are gathered when they are needed, so short parts of it are cheap."""
    if isinstance(rows, list):
        return rows[span.start : span.stop]
    columns, selection = rows._columns_and_selection
    indices = index_array(span) if selection is None else selection[span.start : span.stop]
    return rows._alike(Rows.selected(columns, indices))


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


# Rows of several parts


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
    """The parts; if some are tables, all get a column of the skipped rows, so that they join to one table."""
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


def have_one_signature(parts: Sequence[BlockRows]) -> bool:
    """Whether `concat` keeps the parts as they are held: all as Python objects, or all as columns of one signature."""
    first = parts[0]
    if isinstance(first, list):
        return all(isinstance(part, list) for part in parts)
    return all(
        isinstance(part, Rows) and (part._signature is first._signature or signature(part) == signature(first))
        for part in parts
    )


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
    """`rows`, whose columns have the names and types of all others with this `signature`."""
    rows._signature = signature
    return rows


def gather(indices: Indices, bounds: npt.NDArray[np.int64], part: Callable[[int, Indices], BlockRows]) -> BlockRows:
    """The rows at `indices`, gathered from several parts.

    Part k holds positions `bounds[k]` to `bounds[k + 1]`; `part` gives its rows at places of its own.
    """
    if not len(indices):
        return part(0, range(0))
    if isinstance(indices, range) and indices.step == 1:
        first, last = np.searchsorted(bounds, [indices.start, max(indices.start, indices.stop - 1)], "right") - 1
        pieces: list[BlockRows] = []
        for k in range(int(first), int(last) + 1):
            low, high = max(indices.start, int(bounds[k])), min(indices.stop, int(bounds[k + 1]))
            if low < high:
                pieces.append(part(k, range(low - int(bounds[k]), high - int(bounds[k]))))
        return concat(pieces) if pieces else []
    places = index_array(indices)
    owners = np.searchsorted(bounds, places, "right") - 1
    order = stable_order(owners, len(bounds))
    owners, places = owners[order], places[order]
    edges = [0, *(np.flatnonzero(owners[1:] != owners[:-1]) + 1).tolist(), len(order)]
    parts = [(int(owners[start]), places[start:stop]) for start, stop in pairwise(edges)]
    pieces = [part(k, own - bounds[k]) for k, own in parts]
    return pieces[0] if len(pieces) == 1 else take(concat(pieces), inverse(order))


def stable_order(numbers: npt.NDArray[np.int64], end: int) -> npt.NDArray[np.int64]:
    """The order that sorts numbers from 0 to `end`, and keeps that of equal ones."""
    short = numbers.astype(np.uint16) if end <= 2**16 else numbers  # 16 bits sort in one pass
    return np.argsort(short, kind="stable")


def inverse(order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The permutation that undoes `order`."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


GROUP_BYTES = 2**16
"""The memory in which small columns of one type are joined, to be gathered by one call; it stays in the cache."""


def take_joined(parts: Sequence[BlockRows], *selections: npt.NDArray[np.int64]) -> list[BlockRows]:
    """`take(concat(parts), indices)` for the indices in each of `selections`.

    Joins a few columns at a time.
    """
    all_rows = [part for part in parts if isinstance(part, Rows)]
    if not all_rows:
        return _take_objects(cast("Sequence[list[object]]", parts), selections)
    states = [rows._columns_and_selection for rows in all_rows]
    tables = [columns for columns, selection in states if selection is None]
    if len(parts) < 2 or len(tables) < len(parts) or Skipped.exist or not have_one_signature(parts):
        joined_rows = concat(parts)
        return [take(joined_rows, indices) for indices in selections]
    joined = _JoinedColumns(tables[0], sum(map(len, all_rows)), selections)
    for name in tables[0]:
        joined.add(name, [table[name] for table in tables])
    return [all_rows[0]._alike(Rows(columns, rows)) for columns, rows in joined.finish()]


def _take_objects(parts: Sequence[list[object]], selections: Sequence[npt.NDArray[np.int64]]) -> list[BlockRows]:
    """As `take_joined`, for Python objects: one array of all serves all selections."""
    rows = sum(map(len, parts))
    if max(map(len, selections)) < max(rows / 2, MIN_ARRAY_ROWS):
        joined = concat(parts)
        return [take(joined, indices) for indices in selections]
    objects = np.fromiter(chain.from_iterable(parts), object, rows)
    return [cast("list[object]", objects[indices].tolist()) for indices in selections]


class _JoinedColumns:
    """Joins columns, and gathers rows of them; small columns of one type wait until there are enough for one call."""

    def __init__(self, table: Mapping[str, Column], length: int, selections: Sequence[npt.NDArray[np.int64]]) -> None:
        self._length = length
        # All columns are replaced, in any order; the tables keep that of `table`.
        self._taken = [(dict(table), indices) for indices in selections]
        self._scratch = np.empty(0, np.uint8)
        self._groups: defaultdict[object, list[tuple[str, Sequence[Array]]]] = defaultdict(list)

    def add(self, name: str, pieces: Sequence[Column]) -> None:
        """Adds the pieces of a column."""
        if not are_arrays(pieces) or pieces[0].dtype.hasobject:
            self._take(name, join_columns(pieces))
            if not isinstance(first := pieces[0], np.ndarray):
                for columns, _ in self._taken:  # a part is below 2 GiB again
                    columns[name] = _narrow(columns[name], first.type)
            return
        shape = self._length, *pieces[0].shape[1:]
        size = math.prod(shape) * pieces[0].itemsize
        if 2 * size > GROUP_BYTES:
            self._take(name, np.concatenate(pieces, out=self._memory(shape, pieces[0].dtype, size)))
            return
        group = self._groups[pieces[0].dtype, shape]
        group.append((name, pieces))
        if (len(group) + 1) * size > GROUP_BYTES:
            self._take_group(group)
            group.clear()

    def finish(self) -> list[tuple[dict[str, Column], int]]:
        """The columns and the length of each selection."""
        for group in filter(None, self._groups.values()):
            self._take_group(group)
        return [(columns, len(indices)) for columns, indices in self._taken]

    def _take(self, name: str, joined: Column) -> None:
        for columns, indices in self._taken:
            columns[name] = take_column(joined, indices)

    def _take_group(self, group: Sequence[tuple[str, Sequence[Array]]]) -> None:
        first = group[0][1][0]
        shape = len(group), self._length, *first.shape[1:]
        joined = self._memory(shape, first.dtype, max(GROUP_BYTES, math.prod(shape) * first.itemsize))
        for (_, pieces), target in zip(group, joined, strict=True):
            np.concatenate(pieces, out=target)
        names = [name for name, _ in group]
        for columns, indices in self._taken:
            gathered = joined.take(indices, axis=1)
            gathered.flags.writeable = False
            columns.update(zip(names, gathered, strict=True))

    def _memory(self, shape: tuple[int, ...], dtype: np.dtype[np.generic], size: int) -> Array:
        """An array in memory that the next one uses again."""
        if size > len(self._scratch):
            self._scratch = np.empty(size, np.uint8)
        return np.ndarray(shape, dtype, self._scratch)


# Columns


def scalars(column: Column) -> list[object]:
    """The values of a column as Python objects."""
    if isinstance(column, np.ndarray):
        return cast("list[object]", column.tolist() if column.ndim == 1 else list(column))
    if column.null_count == 0:
        if is_plain_number(column):
            return cast("list[object]", numpy_array(column).tolist())
        if is_grid(column):
            return list(grid(column))
    if hasattr(column, "dictionary_decode"):  # `to_pylist` looks each value up by itself: 40 times as long
        column = cast("ArrowArray", cast("Any", column).dictionary_decode())
    return cast("list[object]", column.to_pylist())


def is_grid(column: ArrowArray) -> bool:
    """Whether the column holds tensors of one shape, as `Rows.arrow` makes them of arrays."""
    return hasattr(column, "to_numpy_ndarray")


def grid(column: Any) -> Array:
    """A column of tensors of one shape, without nulls, as one array."""
    kind = column.type
    dtype = number_dtype(kind.value_type)
    axes = kind.permutation or range(len(kind.shape))
    if dtype is not None and dtype.kind != "b" and list(axes) == sorted(axes):
        return cast("Array", column.to_numpy_ndarray())
    # Arrow makes no tensors of bools and times, and wrong ones of three axes in some other order.
    flat = numpy_array(column.storage.flatten())
    return cast("Array", flat.reshape(len(column), *kind.shape).transpose(0, *(axis + 1 for axis in axes)))


def read_only(array: Array) -> Array:
    """A read-only view of the same memory."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def take_column(column: Column, indices: npt.NDArray[np.int64]) -> Column:
    taken = gather_column(column, indices)
    if isinstance(taken, np.ndarray):
        taken.flags.writeable = False
    return taken


def gather_column(column: Column, indices: npt.NDArray[np.int64]) -> Column:
    if not isinstance(column, np.ndarray):
        places = arrow_array(indices)
        if isinstance(column, pa.ListArray) and _overflows(column, indices):
            return cast("Column", _wide(column).take(places))
        try:
            return cast("Column", column.take(places))
        except pa.ArrowInvalid:  # of more than 2 GiB
            return cast("Column", _wide(column).take(places))
    # `take` is faster, but copies all of an array that is not contiguous.
    return column.take(indices, axis=0) if column.flags.c_contiguous else column[indices]


def concat_columns(columns: Sequence[Column]) -> Column:
    joined = join_columns(columns)
    if isinstance(joined, np.ndarray):
        joined.flags.writeable = False
    return joined


def join_columns(columns: Sequence[Column]) -> Column:
    if are_arrays(columns):
        return np.concatenate(columns)
    arrays = [to_arrow(column) for column in columns]
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowInvalid:  # of more than 2 GiB
        return pa.concat_arrays(list(map(_wide, arrays)))


def _overflows(lists: Any, indices: npt.NDArray[np.int64]) -> bool:
    """Whether the lists at `indices`, some of them repeatedly, have too many items. Arrow's `take` does not see it."""
    items = lists.offsets[len(lists)].as_py() - lists.offsets[0].as_py()
    if items * len(indices) < 2**31:
        return False
    lengths = numpy_array(lists.value_lengths().fill_null(0))
    return int(lengths[indices].sum(dtype=np.int64)) >= 2**31


def _wide(column: ArrowArray) -> ArrowArray:
    """The column with offsets of 64 bits, for more than 2 GiB of text or bytes, or 2**31 items."""
    return cast("ArrowArray", column.cast(_wide_type(column.type)))


def _wide_type(kind: Any) -> Any:
    types = pa.types
    if types.is_string(kind) or types.is_binary(kind):
        return pa.large_string() if types.is_string(kind) else pa.large_binary()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.large_list(_wide_field(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_wide_field(kind.value_field), kind.list_size)
    if types.is_map(kind):  # there is none with offsets of 64 bits, but its keys and items have their own
        return pa.map_(_wide_field(kind.key_field), _wide_field(kind.item_field), kind.keys_sorted)
    return pa.struct(list(map(_wide_field, kind))) if types.is_struct(kind) else kind


def _wide_field(field: Any) -> Any:
    return field.with_type(_wide_type(field.type))


def _narrow(column: Column, kind: object) -> Column:
    """The column in the type that it had before it was joined with others, if it fits."""
    if isinstance(column, np.ndarray) or column.type == kind:
        return column
    try:
        return cast("Column", column.cast(cast("Any", kind)))
    except pa.ArrowInvalid:
        return column


def are_arrays(columns: Sequence[Column]) -> TypeGuard[Sequence[Array]]:
    for column in columns:  # noqa: SIM110 - `all` takes three times as long, and there may be thousands of columns
        if not isinstance(column, np.ndarray):
            return False
    return True


def type_of(column: Column) -> object:
    # Numbers in NumPy and in Arrow are one type: results never show which of them holds a column.
    if isinstance(column, np.ndarray):
        return column.dtype.str, column.shape[1:]
    dtype = number_dtype(column.type)
    return column.type if dtype is None else (dtype.str, ())


def _equal(column: Column, other: Column) -> bool:
    if isinstance(column, np.ndarray) and isinstance(other, np.ndarray):
        return column.shape == other.shape and bool((column == other).all())
    return bool(to_arrow(column).equals(to_arrow(other))) or scalars(column) == scalars(other)


def is_plain_number(column: ArrowArray) -> bool:
    return number_dtype(column.type) is not None


def to_arrow(column: Column) -> ArrowArray:
    if not isinstance(column, np.ndarray):
        return column
    if column.ndim == 1:
        return cast("ArrowArray", arrow_array(column))
    # As `FixedShapeTensorArray.from_numpy_ndarray` makes it, which refuses bools and an array without rows.
    values = arrow_array(np.ascontiguousarray(column).reshape(-1))
    shape = column.shape[1:]
    kind: Any = pa.fixed_shape_tensor(values.type, shape)
    return pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(values, math.prod(shape)))


def infer_array(values: Any) -> ArrowArray:
    """`pa.array(values)`, but the times of pandas keep their nanoseconds, and ints of 2**63 and more are unsigned.

    Raises:
        Exception: as `pa.array` does.
    """
    check_zones(values)
    try:
        array = pa.array(values)
    except OverflowError:  # Arrow infers no unsigned type
        array = pa.array(values, cast("Any", pa.uint64()))
    kind = array.type
    is_time = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    if isinstance(values, list) and is_time and kind.unit == "us" and any(map(_has_nanoseconds, values)):
        array = pa.array(values, pa.duration("ns") if pa.types.is_duration(kind) else pa.timestamp("ns", kind.tz))
    return cast("ArrowArray", array)


def check_zones(values: Any) -> None:
    """Raise a `ValueError` if one of some Python values is a time of day with a zone, which Arrow would drop."""
    if isinstance(values, list) and time in set(map(type, values)):
        zoned = next((value for value in values if type(value) is time and value.tzinfo is not None), None)
        if zoned is not None:
            raise ValueError(f"no column holds the zone of {zoned!r}; make it text, or a datetime")


def _has_nanoseconds(value: object) -> bool:
    """Whether this is a `Timestamp` or a `Timedelta` of pandas in nanoseconds, which Arrow takes for one of Python."""
    return getattr(value, "unit", None) == "ns"


# Tensors of a worker


class Stack:
    """Arrays of one shape and dtype, to be stacked along a new first axis directly in their target memory.

    Its `shape` and `dtype` are those of the stacked array, in the byte order of this machine.
    """

    __slots__ = ("_arrays", "dtype", "shape")

    def __init__(self, arrays: Sequence[npt.NDArray[np.generic]]) -> None:
        self._arrays = arrays
        self.dtype = arrays[0].dtype.newbyteorder("=")
        self.shape = len(arrays), *arrays[0].shape

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays)

    def write(self, target: memoryview) -> None:
        """Stacks the arrays in `target`."""
        self._fill(np.ndarray(self.shape, self.dtype, target))

    def __array__(self, dtype: None = None, copy: None = None) -> npt.NDArray[np.generic]:
        """NumPy calls this; stacks the arrays in new memory."""
        stacked = np.empty(self.shape, self.dtype)
        self._fill(stacked)
        return stacked

    def _fill(self, target: npt.NDArray[np.generic]) -> None:
        if target.ndim == 1:
            target[...] = self._arrays
        else:
            # Concatenates along the existing axis: one copy of each, in C. `np.stack` would make a view of each first.
            np.concatenate(self._arrays, out=target.reshape(-1, *self.shape[2:]))


@dataclass(frozen=True, slots=True)
class TensorData:
    """The values of a tensor, sent by a worker. Sending copies them, so they must not change before."""

    array: npt.NDArray[np.generic] | Stack


@dataclass(frozen=True, slots=True)
class JaggedData:
    """The values of a nested tensor, whose rows differ in their first dimension. A worker sends it as it is."""

    values: npt.NDArray[np.generic]  # of all rows, one after the other
    offsets: npt.NDArray[np.int64]  # the first value of each row, and the end of the last
