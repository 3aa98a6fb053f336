"""`PackedList`: a long list of plain values in shared memory, which `from_sequence` reads in a worker.

Ten million paths as Python strings take a gigabyte in each process, and seconds to unpickle. Here they are one text
and the position at which each path ends; a row becomes a string when it is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from pickle import PickleBuffer
from struct import Struct, calcsize
from typing import Any, Protocol, TypeAlias, cast, overload

import numpy as np

from ..core.rows import Indices

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
        numbers = indices if isinstance(indices, range) else indices.tolist()
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
        return self._values[index]

    def part(self, start: int, stop: int) -> list[Any]:
        return list(self._values[start:stop])


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
