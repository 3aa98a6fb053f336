"""A long list of plain values in memory that processes share: what `from_sequence` reads in a worker.

Ten million paths as Python strings take a gigabyte in each process, and seconds to unpickle. Here they are text, one
after another, and where each ends; a row becomes a string when it is read.
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

_LONG = 1000  # a shorter list travels as it is
_ROWS = 2**11  # of a chunk: few enough that memory freed by one is used again for the next
_TWO = Struct("=qq")

Pieces: TypeAlias = list[Any]
"""What a column is made of, on its way: the column's class, and then what that takes."""
Take: TypeAlias = Callable[[], Any]
"""Gives the next piece."""


class Sent:
    """A list or tuple on its way; arrives as `Packed`."""

    def __init__(self, sequence: Sequence[object]) -> None:
        self._sequence = sequence

    def __reduce__(self) -> tuple[object, ...]:
        # Pickle asks for one piece after another, so no second copy of the whole list is ever in memory.
        kind = Packed if isinstance(self._sequence, list) else PackedTuple
        return kind, (), len(self._sequence), self._pieces()

    def _pieces(self) -> Iterator[object]:
        for start in range(0, len(self._sequence), _ROWS):
            yield from _encoded(self._sequence[start : start + _ROWS])


def packed(sequence: Sequence[Any]) -> Sequence[Any] | Sent:
    """`sequence` for a worker: itself, or what arrives as `Packed` where it is long and of plain values."""
    plain = type(sequence) in (list, tuple) and len(sequence) >= _LONG and type(sequence[0]) in _ENCODERS
    return Sent(sequence) if plain else sequence


class Packed(Sequence[Any]):
    """The sequence in a worker: its rows are equal and of the same types, made when they are read."""

    def __init__(self) -> None:
        self._length = 0
        self._pieces: list[object] = []
        self._chunks: list[_Column] = []

    def extend(self, pieces: list[object]) -> None:
        self._pieces.extend(pieces)

    def __setstate__(self, length: int) -> None:
        # Pickle gives the state after the last piece.
        self._length = length
        take = iter(self._pieces).__next__
        self._chunks = [_column(take) for _ in range(0, length, _ROWS)]
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
            for k in range(indices.start // _ROWS, -(-indices.stop // _ROWS)):
                first = k * _ROWS
                rows += chunks[k].part(max(indices.start - first, 0), min(indices.stop - first, _ROWS))
            return rows
        numbers = indices if isinstance(indices, range) else indices.tolist()
        return [chunks[i // _ROWS].at(i % _ROWS) for i in numbers]


class PackedTuple(Packed):
    """The same of a tuple."""


# What messages call them.
Packed.__name__, PackedTuple.__name__ = "list", "tuple"


class _Column(Protocol):
    """Values of one chunk."""

    def part(self, start: int, stop: int) -> list[Any]: ...
    def at(self, index: int) -> Any: ...


def _column(take: Take) -> _Column:
    """The column that comes next: its class, and then what that takes."""
    kind: Callable[[Take], _Column] = take()
    return kind(take)


class _Stored:
    """Bytes in the shared file.

    They are read, not mapped: what a process has mapped and looked at counts as its own, or its share of it does, and
    workers would seem to grow with every row. To unmap the pages again now and then costs more.
    """

    __slots__ = ("_fd", "_file", "_start")

    def __init__(self, view: memoryview) -> None:
        self._file = cast("Any", view.obj)  # which closes its descriptor when nobody holds it
        self._fd: int = self._file.fileno()
        self._start = _address(view) - _address(memoryview(self._file)) if view.nbytes else 0

    def read(self, start: int, stop: int) -> bytes:
        made = os.pread(self._fd, stop - start, self._start + start)
        while len(made) < stop - start:  # one call reads up to 2 GiB
            made += os.pread(self._fd, stop - start - len(made), self._start + start + len(made))
        return made


class _Bytes:
    """Bytes of any length."""

    __slots__ = ("_data", "_ends")

    def __init__(self, take: Take) -> None:
        self._ends, self._data = _Stored(take()), _Stored(take())

    def at(self, index: int) -> Any:
        return self._data.read(*_TWO.unpack(self._ends.read(8 * index, 8 * index + 16)))

    def part(self, start: int, stop: int) -> list[Any]:
        data, ends = self._run(start, stop)
        return [data[a:b] for a, b in pairwise(ends)]

    def _run(self, start: int, stop: int) -> tuple[bytes, list[int]]:
        """Neighbouring items, and where in that each ends."""
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
        if len(text) == len(data):  # a byte for each character
            return [text[a:b] for a, b in pairwise(ends)]
        return [str(data[a:b], "utf-8", "surrogatepass") for a, b in pairwise(ends)]


class _Numbers:
    """Integers or floats of one width."""

    def __init__(self, take: Take) -> None:
        self._values, self._kind = _Stored(take()), take()
        self._width: int = calcsize(self._kind)

    def at(self, index: int) -> Any:
        return self.part(index, index + 1)[0]

    def part(self, start: int, stop: int) -> list[Any]:
        return memoryview(self._values.read(self._width * start, self._width * stop)).cast(self._kind).tolist()


class _Tuples:
    """Tuples of one length: a column for each place."""

    def __init__(self, take: Take) -> None:
        self._columns = [_column(take) for _ in range(take())]

    def at(self, index: int) -> tuple[Any, ...]:
        return tuple([column.at(index) for column in self._columns])

    def part(self, start: int, stop: int) -> list[tuple[Any, ...]]:
        return list(zip(*[column.part(start, stop) for column in self._columns], strict=True))


class _Others:
    """Values of other types, or of several, which travelled as they are."""

    def __init__(self, take: Take) -> None:
        self._values = take()

    def at(self, index: int) -> Any:
        return self._values[index]

    def part(self, start: int, stop: int) -> list[Any]:
        return list(self._values[start:stop])


def _encoded(part: Sequence[Any]) -> Pieces:
    """The values as a column of their type."""
    kind = type(part[0])
    if kind in _ENCODERS and list(map(type, part)).count(kind) == len(part):
        try:
            return _ENCODERS[kind](part)
        except OverflowError:  # an integer of more than 64 bits
            pass
    return [_Others, part]


def _encoded_text(part: Sequence[str]) -> Pieces:
    text = "".join(part)
    if text.isascii():
        return [_Text, _ends(map(len, part), len(part)), PickleBuffer(text.encode())]
    # Not through Arrow: it makes each string keep its UTF-8 as well, and knows no surrogates, as in undecodable paths.
    rows = [row.encode("utf-8", "surrogatepass") for row in part]
    return [_Text, *_encoded_bytes(rows)[1:]]


def _encoded_bytes(part: Sequence[bytes]) -> Pieces:
    return [_Bytes, _ends(map(len, part), len(part)), PickleBuffer(b"".join(part))]


def _encoded_tuples(part: Sequence[tuple[Any, ...]]) -> Pieces:
    width = len(part[0])
    if not width or list(map(len, part)).count(width) != len(part):
        return [_Others, part]
    made: Pieces = [_Tuples, width]
    for place in range(width):
        made += _encoded(list(map(itemgetter(place), part)))
    return made


def _encoded_integers(part: Sequence[int]) -> Pieces:
    values = np.fromiter(part, np.int64, len(part))
    low, high = values.min(), values.max()
    kind = next(kind for kind in map(np.dtype, "bhiq") if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return [_Numbers, PickleBuffer(values.astype(kind).data), kind.char]


def _encoded_floats(part: Sequence[float]) -> Pieces:
    return [_Numbers, PickleBuffer(np.fromiter(part, np.float64, len(part)).data), "d"]


_ENCODERS: dict[type, Callable[[Sequence[Any]], Pieces]] = {
    str: _encoded_text,
    bytes: _encoded_bytes,
    int: _encoded_integers,
    float: _encoded_floats,
    tuple: _encoded_tuples,
}


def _ends(lengths: Iterable[int], count: int) -> PickleBuffer:
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, count), out=ends[1:])
    return PickleBuffer(ends.data)


def _address(view: memoryview) -> int:
    place: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return place
