"""`from_sequence` and `from_iterable`: anything with a length and an index, or that can be iterated again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, TypeAlias, TypeVar, cast, overload

from ..core.arrow import arrow_array
from ..core.block import Block
from ..core.context import Context
from ..core.cursor import START, Cursor, Json
from ..core.lazy import pa
from ..core.operator import Operator, Source, StageView
from ..core.origins import Origins
from ..core.rows import BlockRows, Indices, index_array, index_list
from ..core.shared_rows import shared
from ..engine.calls import extend_until_error, map_until_error
from ..errors import ArgumentTypeError, Origin
from ..pipe import Pipe

T = TypeVar("T")


def from_sequence(sequence: Sequence[T]) -> Pipe[T]:
    """Begin a pipe with the items of a sequence.

    Element: an item, with dicts and lists of its own; its arrays are read-only, since each epoch reads them. Order: the
    sequence's. Length: the sequence's; indexed. State: a position. The sequence is not copied: do not change it while
    the pipe is in use.

    Args:
        sequence: a list, a tuple, a range, or any object with `__len__` and `__getitem__` by position. A Series of
            pandas gives its values in their order.

    Raises:
        ArgumentTypeError: `sequence` has no length or no index, or is an object for another source, such as a data
            frame.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(["a", "b"]))
        ['a', 'b']
    """
    check_no_table("from_sequence", sequence)
    if isinstance(sequence, Mapping):
        raise ArgumentTypeError(
            "`from_sequence` does not take a dict, because its keys are no positions; give `list(rows.values())`"
        )
    if hasattr(sequence, "iloc"):  # a Series of pandas, whose index is of labels
        sequence = cast("Any", sequence).array
    return cast("Pipe[T]", Pipe.source(FromSequence(sequence)))


@dataclass(frozen=True, eq=False, repr=False)
class FromSequence(Source):
    kind: ClassVar[str] = "from_sequence"

    sequence: Sequence[object]

    def __post_init__(self) -> None:
        if not (hasattr(self.sequence, "__len__") and hasattr(self.sequence, "__getitem__")):
            raise ArgumentTypeError(
                f"`sequence` must have a length and an index but got: {self.sequence!r}; "
                "`from_iterable` takes anything that can only be iterated"
            )

    def length(self, stage: StageView) -> int:
        return len(self.sequence)

    def identity(self) -> Json:
        return {"length": len(self.sequence)}

    def within(self, rows: range) -> Operator | None:
        sequence = self.sequence
        if isinstance(sequence, (list, tuple, range, str, PackedList)):
            return FromSequence(sequence[rows.start : rows.stop])
        return None

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin("from_sequence", index + 1)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        sequence = self.sequence
        if isinstance(sequence, PackedList):
            return sequence.rows(indices)
        if isinstance(indices, range) and isinstance(sequence, (list, tuple, range, str)):
            part = sequence[indices.start : indices.stop : indices.step]
            rows = part if isinstance(part, list) else list(part)
        else:
            numbers = index_list(indices)
            rows, error = map_until_error(sequence.__getitem__, numbers)
            if error is not None:
                number = numbers[len(rows)]
                raise stage.failed_on(error, Origin("from_sequence", number + 1))
        return rows if isinstance(sequence, (range, str)) else shared(rows)

    def reduce_for_worker(self) -> tuple[object, ...]:
        return FromSequence, (pack_list(self.sequence),)


def from_iterable(iterable: Iterable[T] | Callable[[], Iterable[T]]) -> Pipe[T]:
    """Begin a pipe with the items of an iterable.

    Element: an item. Order: the iterable's. Length: `len()` of the iterable if it has one, else unknown; streamed.
    State: a position; a resume iterates from the start and leaves out the items before it. An iterable cannot be cut:
    every process that needs a part of it reads all of it.

    Args:
        iterable: an object that gives the same items each time it is iterated, or a function that returns such an
            iterable, such as a generator function.

    Raises:
        ArgumentTypeError: `iterable` is an iterator, which can be read only once, or an object for another source, such
            as a data frame.

    Example:
        >>> import feedpipe as fp
        >>> def numbers():
        ...     yield 1
        ...     yield 2
        >>> list(fp.from_iterable(numbers))
        [1, 2]
    """
    check_no_table("from_iterable", iterable)
    return cast("Pipe[T]", Pipe.source(FromIterable(iterable)))


@dataclass(frozen=True, eq=False, repr=False)
class FromIterable(Operator):
    kind: ClassVar[str] = "from_iterable"
    seeks: ClassVar[bool] = True

    iterable: Iterable[object] | Callable[[], Iterable[object]]

    def __post_init__(self) -> None:
        if isinstance(self.iterable, Iterator):
            raise ArgumentTypeError(
                f"`iterable` must give its items again in each epoch but got the iterator: {self.iterable!r}, "
                "which can be read only once; give the function that makes it, without calling it"
            )
        if not (callable(self.iterable) or isinstance(self.iterable, Iterable)):
            raise ArgumentTypeError(f"`iterable` must be an iterable or a function but got: {self.iterable!r}")

    def length(self, stage: StageView) -> int | None:
        # A function may give another number of items each time.
        items: object = self.iterable
        return len(items) if isinstance(items, Sized) else None

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        block_size = context.block_size()
        row = at.position
        try:
            iterable = self.iterable() if callable(self.iterable) else self.iterable
            items = islice(context.running.add(iter(iterable)), row, None)
        except Exception as error:
            failed = stage.failed(error, START, context)
            raise failed from failed.__cause__
        while True:
            rows: list[object] = []
            count = block_size.rows()
            failure = extend_until_error(islice(items, count), rows)
            if rows:
                block_size.produced(rows)
                after = row + len(rows)
                if isinstance(iterable, Collection):  # it gives these objects again
                    rows = shared(rows)
                origins = (
                    Origins([Origin("from_iterable", i + 1) for i in range(row, after)])
                    if context.tracing.origins
                    else None
                )
                yield Block(rows, START.advance(row), START.advance(after), origins)
                row = after
            if failure is not None:
                raise stage.failed(failure, START, context)
            if len(rows) < count:
                return


def check_no_table(source: str, value: object) -> None:
    """Refuse a table, whose rows `from_table` gives: the items of a data frame are its columns."""
    is_table = hasattr(value, "columns") or hasattr(value, "schema")  # and no column, which has a stream too
    if is_table and hasattr(value, "__arrow_c_stream__") and not isinstance(value, type):
        kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"
        raise ArgumentTypeError(f"`{source}` does not take a `{kind}`; `from_table` takes it, and keeps its columns")


# Long lists in workers: ten million paths as Python strings take a gigabyte in each process, and seconds to unpickle.
# Arrow columns lie in the graph file once, mapped by all processes. A row becomes a Python object when it is read.


_MIN_ROWS = 1000  # a shorter list is pickled as it is
_TYPES = {str: "large_string", bytes: "large_binary", int: "int64", float: "float64"}
_Columns: TypeAlias = "pa.Array[Any] | tuple[_Columns, ...]"
"""The values of rows, or the columns of rows that are tuples."""


def pack_list(sequence: Sequence[Any]) -> Sequence[Any]:
    """Replaces a long list or tuple of plain values by a `PackedList`, which a worker maps instead of copying."""
    if type(sequence) not in (list, tuple) or len(sequence) < _MIN_ROWS:
        return sequence
    columns = _columns(sequence)
    return sequence if columns is None else PackedList(columns)


def _columns(rows: Sequence[Any]) -> _Columns | None:
    """Values of one type as an Arrow array, and tuples of one length as a tuple of such; None for other values."""
    kind = type(rows[0])
    if any(type(row) is not kind for row in rows):
        return None
    if kind is tuple:
        if not rows[0] or any(len(row) != len(rows[0]) for row in rows):
            return None
        columns = [column for values in zip(*rows, strict=True) if (column := _columns(values)) is not None]
        return tuple(columns) if len(columns) == len(rows[0]) else None
    try:
        return arrow_array(rows, cast("Any", pa).type_for_alias(_TYPES[kind])) if kind in _TYPES else None
    except (UnicodeEncodeError, OverflowError, pa.ArrowException):  # undecodable paths, integers of more than 64 bits
        return None


def _read(columns: _Columns, indices: Indices) -> list[Any]:
    if isinstance(columns, tuple):
        return list(zip(*(_read(column, indices) for column in columns), strict=True))
    if isinstance(indices, range) and indices and indices.step == 1:
        return columns.slice(indices[0], len(indices)).to_pylist()
    return columns.take(arrow_array(index_array(indices))).to_pylist()


class PackedList(Sequence[Any]):
    """The sequence in a worker. Its items have the same values and types, and are made when they are read."""

    def __init__(self, columns: _Columns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        column = self._columns
        while isinstance(column, tuple):
            column = column[0]
        return len(column)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self.rows(range(len(self))[index])
        at = range(len(self))[index]
        return self.rows(range(at, at + 1))[0]

    def rows(self, indices: Indices) -> list[Any]:
        """The items at `indices`."""
        return _read(self._columns, indices)


PackedList.__name__ = "list"  # error messages show the names of the user's types
