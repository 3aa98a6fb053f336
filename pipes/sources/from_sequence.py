"""`from_sequence` and `from_iterable`: anything with a length and an index, or that can be iterated again."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import itemgetter
from pickle import PickleBuffer
from struct import Struct, calcsize
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import START, Cursor, Json
from ..core.operator import Operator, Source, StageView
from ..core.rows import BlockRows, Indices, index_list
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
    check_right_source("from_sequence", sequence)
    if isinstance(sequence, Mapping):
        raise ArgumentTypeError(
            "`from_sequence` does not take a dict, because its keys are no positions; give `list(rows.values())`"
        )
    if hasattr(sequence, "iloc"):  # a Series of pandas, whose index is of labels
        sequence = cast("Any", sequence).array
    return cast("Pipe[T]", Pipe.source(FromSequence(sequence)))


@dataclass(frozen=True, eq=False)
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
    check_right_source("from_iterable", iterable)
    return cast("Pipe[T]", Pipe.source(FromIterable(iterable)))


@dataclass(frozen=True, eq=False)
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
                    [Origin("from_iterable", i + 1) for i in range(row, after)] if context.tracing.origins else None
                )
                yield Block(rows, START.advance(row), START.advance(after), origins)  # type: ignore[arg-type]
                row = after
            if failure is not None:
                raise stage.failed(failure, START, context)
            if len(rows) < count:
                return


# Objects for other sources


def check_right_source(source: str, value: object) -> None:
    """Raises an `ArgumentTypeError` if `value`, the argument of `source`, is an object for another source."""
    for kind in type(value).__mro__:
        name = f"{kind.__module__.partition('.')[0].lstrip('_')}.{kind.__name__}"
        way = _WAYS.get(name)
        if way is not None and way.source != source:
            raise ArgumentTypeError(f"`{source}` does not take a `{name}`; {way.repair}")


class _Way(NamedTuple):
    """The way from objects of a class to a pipe.

    Attributes:
        source: the function that takes them, if there is one.
        repair: the advice for a user.
    """

    source: str
    repair: str


_TABLE = _Way("from_table", "`from_table` takes it, and keeps its columns")
_SPLITS = _Way("", 'choose a split, such as `dataset["train"]`, and give it to `from_dataset`')
_WAYS = {  # by the name of the package and of the class
    "pandas.DataFrame": _TABLE,
    "polars.DataFrame": _TABLE,
    "pyarrow.Table": _TABLE,
    "pyarrow.RecordBatch": _TABLE,
    "pyarrow.RecordBatchReader": _TABLE,
    "duckdb.DuckDBPyRelation": _TABLE,
    "duckdb.DuckDBPyConnection": _Way("", 'give `from_table` a relation, such as `connection.sql("SELECT ...")`'),
    "polars.LazyFrame": _Way("", "give `from_table` its result, `frame.collect()`"),
    "pyarrow.Dataset": _Way(
        "", "`from_table(dataset.to_table())` reads it at once, and `read_parquet(dataset.files)` part by part"
    ),
    "datasets.DatasetDict": _SPLITS,
    "datasets.IterableDatasetDict": _SPLITS,
}


# Long lists in workers: ten million paths as Python strings take a gigabyte in each process, and seconds to unpickle.
# Packed, they are one text and the position at which each path ends; a row becomes a string when it is read.


_MIN_ROWS = 1000  # a shorter list is pickled as it is
_CHUNK_ROWS = 2**11  # few enough that a chunk can take the memory that the one before has freed
_TWO_INTEGERS = Struct("=qq")

_Pieces: TypeAlias = list[Any]
"""A column in a pickle: its class, then the pieces that the class takes."""
_Take: TypeAlias = Callable[[], Any]
"""Returns the next piece."""


class _PackedOnTheWay:
    """Pickles a list or tuple in such a way that it arrives as a `PackedList`."""

    def __init__(self, sequence: Sequence[object]) -> None:
        self._sequence = sequence

    def __reduce__(self) -> tuple[object, ...]:
        # pickle asks for one piece after another, so there is never a second copy of the whole list in memory.
        kind = PackedList if isinstance(self._sequence, list) else PackedTuple
        return kind, (), len(self._sequence), self._pieces()

    def _pieces(self) -> Iterator[object]:
        for start in range(0, len(self._sequence), _CHUNK_ROWS):
            yield from _encode(self._sequence[start : start + _CHUNK_ROWS])


def pack_list(sequence: Sequence[Any]) -> Sequence[Any] | _PackedOnTheWay:
    """Prepares a sequence for a worker: a long one of plain values arrives there as a `PackedList`."""
    plain = type(sequence) in (list, tuple) and len(sequence) >= _MIN_ROWS and type(sequence[0]) in _ENCODERS
    return _PackedOnTheWay(sequence) if plain else sequence


class PackedList(Sequence[Any]):
    """The sequence in a worker. Its items have the same values and types, and are made when they are read."""

    def __init__(self) -> None:
        self._length = 0
        self._pieces: list[object] = []
        self._chunks: list[_Column] = []

    def extend(self, pieces: list[object]) -> None:
        self._pieces.extend(pieces)

    def __setstate__(self, length: int) -> None:
        # pickle sets the state after the last piece.
        self._length = length
        take = iter(self._pieces).__next__
        self._chunks = [_read_column(take) for _ in range(0, length, _CHUNK_ROWS)]
        del self._pieces

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self.rows(range(self._length)[index])
        at = range(self._length)[index]
        return self.rows(range(at, at + 1))[0]

    def rows(self, indices: Indices) -> list[Any]:
        """The items at `indices`."""
        chunks = self._chunks
        if isinstance(indices, range) and indices.step == 1:
            rows: list[Any] = []
            for number in range(indices.start // _CHUNK_ROWS, -(-indices.stop // _CHUNK_ROWS)):
                first = number * _CHUNK_ROWS
                rows += chunks[number].part(max(indices.start - first, 0), min(indices.stop - first, _CHUNK_ROWS))
            return rows
        numbers = index_list(indices)
        return [chunks[i // _CHUNK_ROWS].at(i % _CHUNK_ROWS) for i in numbers]


class PackedTuple(PackedList):
    """A tuple in a worker."""


# Error messages show the names of the user's types.
PackedList.__name__, PackedTuple.__name__ = "list", "tuple"


class _Column(Protocol):
    """The values of one chunk."""

    def part(self, start: int, stop: int) -> list[Any]: ...
    def at(self, index: int) -> Any: ...


def _read_column(take: _Take) -> _Column:
    """Reads the next column: its class, then the pieces that the class takes."""
    kind: Callable[[_Take], _Column] = take()
    return kind(take)


class _SharedBytes:
    """Bytes in the shared file.

    They are read, not mapped: pages that a process has mapped and touched count as its memory, at least in part, so
    workers would seem to grow with every row. Unmapping the pages from time to time costs more.
    """

    __slots__ = ("_fd", "_file", "_start")

    def __init__(self, view: memoryview) -> None:
        self._file = cast("Any", view.obj)  # its last holder closes the descriptor
        self._fd: int = self._file.fileno()
        self._start = _address(view) - _address(memoryview(self._file)) if view.nbytes else 0

    def read(self, start: int, stop: int) -> bytes:
        data = os.pread(self._fd, stop - start, self._start + start)
        while len(data) < stop - start:  # one call reads up to 2 GiB
            data += os.pread(self._fd, stop - start - len(data), self._start + start + len(data))
        return data


class _Bytes:
    """Bytes of any length."""

    __slots__ = ("_data", "_ends")

    def __init__(self, take: _Take) -> None:
        self._ends, self._data = _SharedBytes(take()), _SharedBytes(take())

    def at(self, index: int) -> Any:
        return self._data.read(*_TWO_INTEGERS.unpack(self._ends.read(8 * index, 8 * index + 16)))

    def part(self, start: int, stop: int) -> list[Any]:
        data, ends = self._run(start, stop)
        return [data[a:b] for a, b in pairwise(ends)]

    def _run(self, start: int, stop: int) -> tuple[bytes, list[int]]:
        """Reads neighbouring items in one piece, and the position at which each ends."""
        ends = memoryview(self._ends.read(8 * start, 8 * stop + 8)).cast("q").tolist()
        first = ends[0]
        return self._data.read(first, ends[-1]), [end - first for end in ends]


class _Text(_Bytes):
    """Strings."""

    __slots__ = ()

    def at(self, index: int) -> str:
        return str(super().at(index), "utf-8", "surrogatepass")

    def part(self, start: int, stop: int) -> list[str]:
        data, ends = self._run(start, stop)
        text = str(data, "utf-8", "surrogatepass")
        if len(text) == len(data):  # one byte per character
            return [text[a:b] for a, b in pairwise(ends)]
        return [str(data[a:b], "utf-8", "surrogatepass") for a, b in pairwise(ends)]


class _Numbers:
    """Integers or floats of one width."""

    def __init__(self, take: _Take) -> None:
        self._values, self._kind = _SharedBytes(take()), take()
        self._width: int = calcsize(self._kind)

    def at(self, index: int) -> Any:
        return self.part(index, index + 1)[0]

    def part(self, start: int, stop: int) -> list[Any]:
        return memoryview(self._values.read(self._width * start, self._width * stop)).cast(self._kind).tolist()


class _Tuples:
    """Tuples of one length: a column for each position."""

    def __init__(self, take: _Take) -> None:
        self._columns = [_read_column(take) for _ in range(take())]

    def at(self, index: int) -> tuple[Any, ...]:
        return tuple([column.at(index) for column in self._columns])

    def part(self, start: int, stop: int) -> list[tuple[Any, ...]]:
        return list(zip(*[column.part(start, stop) for column in self._columns], strict=True))


class _Others:
    """Values of other or mixed types, which are pickled as they are."""

    def __init__(self, take: _Take) -> None:
        self._values = take()

    def at(self, index: int) -> Any:
        return shared([self._values[index]])[0]

    def part(self, start: int, stop: int) -> list[Any]:
        return shared(list(self._values[start:stop]))


def _encode(part: Sequence[Any]) -> _Pieces:
    """Encodes the values as a column of their type."""
    kind = type(part[0])
    if kind in _ENCODERS and list(map(type, part)).count(kind) == len(part):
        try:
            return _ENCODERS[kind](part)
        except OverflowError:  # an integer of more than 64 bits
            pass
    return [_Others, part]


def _encode_text(part: Sequence[str]) -> _Pieces:
    text = "".join(part)
    if text.isascii():
        return [_Text, _ends(map(len, part), len(part)), PickleBuffer(text.encode())]
    # Arrow would make each string keep its UTF-8 too, and it refuses surrogates, which undecodable paths have.
    rows = [row.encode("utf-8", "surrogatepass") for row in part]
    return [_Text, *_encode_bytes(rows)[1:]]


def _encode_bytes(part: Sequence[bytes]) -> _Pieces:
    return [_Bytes, _ends(map(len, part), len(part)), PickleBuffer(b"".join(part))]


def _encode_tuples(part: Sequence[tuple[Any, ...]]) -> _Pieces:
    width = len(part[0])
    if not width or list(map(len, part)).count(width) != len(part):
        return [_Others, part]
    pieces: _Pieces = [_Tuples, width]
    for position in range(width):
        pieces += _encode(list(map(itemgetter(position), part)))
    return pieces


def _encode_integers(part: Sequence[int]) -> _Pieces:
    values = np.fromiter(part, np.int64, len(part))
    low, high = values.min(), values.max()
    kind = next(kind for kind in map(np.dtype, "bhiq") if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return [_Numbers, PickleBuffer(values.astype(kind).data), kind.char]


def _encode_floats(part: Sequence[float]) -> _Pieces:
    return [_Numbers, PickleBuffer(np.fromiter(part, np.float64, len(part)).data), "d"]


_ENCODERS: dict[type, Callable[[Sequence[Any]], _Pieces]] = {
    str: _encode_text,
    bytes: _encode_bytes,
    int: _encode_integers,
    float: _encode_floats,
    tuple: _encode_tuples,
}


def _ends(lengths: Iterable[int], count: int) -> PickleBuffer:
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, count), out=ends[1:])
    return PickleBuffer(ends.data)


def _address(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address
