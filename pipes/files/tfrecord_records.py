"""Records of TFRecord files, with their checksums and the index beside a file.

A record is its length in eight bytes, the checksum of these, its data, and the checksum of the data. Nothing else marks
where a record begins. So a range of a file finds its first record by the checksum of its length, and one file serves
many shards without an index.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.arrow import numpy_array
from ..core.checks import Package
from ..core.lazy import pa
from ..errors import DataError, FeedpipeError
from ..formats.streams import ChunkSize, StreamWindow
from ..formats.text import TO_END
from ..storage.filesystem import split_options

PACKAGE = Package("google_crc32c", "google-crc32c", "tfrecord", "TFRecord files are read and written")

RECORD_HEAD_BYTES, RECORD_TAIL_BYTES = 12, 4
"""The bytes of a record before and after its data."""

Crcs = npt.NDArray[np.uint32]
Offsets = npt.NDArray[np.int64]

_HEAD = struct.Struct("<QI")
_POLYNOMIAL = 0x82F63B78
_SHIFT = 0xA282EAD8
_ALL_BITS = 0xFFFFFFFF


class Records(NamedTuple):
    """Some records that follow each other.

    Attributes:
        data: the bytes that hold them.
        starts, ends: the bounds in `data` of the content of each.
        right: which of them have a right checksum.
        at: the byte of the file at which the first one begins.
        end: the byte after the last one.
        last: whether the range ends there.
        error: why nothing after these records can be read.
    """

    data: bytes
    starts: Offsets
    ends: Offsets
    right: npt.NDArray[np.bool_]
    at: int
    end: int
    last: bool
    error: FeedpipeError | None

    def offsets(self) -> list[int]:
        """The byte of the file at which each record begins."""
        offsets: list[int] = (self.starts + (self.at - RECORD_HEAD_BYTES)).tolist()
        return offsets


class RecordReader:
    """Reads the records of a stream that begin in a range of it. If that is not the whole file, it must seek."""

    def __init__(self, stream: BinaryIO, name: str, start: int = 0, stop: int = TO_END) -> None:
        self._name = name
        self._start = start
        self._stop = stop
        self._window = StreamWindow(stream, name)

    def first_record(self) -> int | None:
        """Find the byte at which the first record of the range begins; None if none does."""
        if not self._start:
            return 0
        for at in self._window.scan(self._start, self._stop, RECORD_HEAD_BYTES - 1):
            data = np.frombuffer(self._window.data.ljust(RECORD_HEAD_BYTES, b"\xff"), np.uint8)
            heads = np.lib.stride_tricks.sliding_window_view(data, RECORD_HEAD_BYTES)
            for place in np.flatnonzero(_have_right_checksum(heads)).tolist():
                if at + place < self._stop and self._wrong_head(place) is None:
                    return at + place
        return None

    def _wrong_head(self, place: int) -> int | None:
        """The byte of a head with a wrong checksum, out of the one at `place` and the one of the record after it.

        A record begins where both are right: a single one may be right by chance. A range that ends looks at the next
        record, too, and the next range begins with it. So no damage hides a record from both.
        """
        for _ in range(2):
            head = self._window.peek(place, RECORD_HEAD_BYTES)
            if len(head) < RECORD_HEAD_BYTES:
                break
            if not _have_right_checksum(np.frombuffer(head, np.uint8)[None])[0]:
                return self._window.offset + place
            place += _record_bytes(head)
        return None

    def first_records(self, size: int) -> Records | None:
        """About `size` bytes of records at the beginning of a file, at least one; None if there is none."""
        return self._next(0, size)

    def records(self, at: int, size: ChunkSize) -> Iterator[Records]:
        """All records from byte `at` on, where one begins. If the stream fails, the records before come first."""
        while (records := self._next(at, size.next())) is not None:
            yield records
            if records.last:
                return
            at = records.end

    def _next(self, at: int, size: int) -> Records | None:
        """About `size` bytes of records, at least one; None at the end."""
        window, room = self._window, self._stop - at
        window.advance(at)
        error: FeedpipeError | None
        while True:
            window.fill(size)
            starts, ends, done, error = self._split(window.data, room)
            if done or room <= 0 or error is not None or window.ended or window.error is not None:
                break
            size = _record_bytes(window.data)
        rest = len(window.data) - done
        if error is None and done >= room:
            wrong = self._wrong_head(done)
            error = None if wrong is None else self._damaged_length(wrong)
        elif error is None and window.error is not None:
            error = window.error
        elif error is None and window.ended and rest:
            error = self._error(at + done, "the file is cut short within the record that begins here")
        if not done and error is None:
            return None
        last = error is None and (done >= room or (window.ended and not rest))
        right = _have_right_data(window.data, starts, ends)
        return Records(window.data, starts, ends, right, at, at + done, last, error)

    def _split(self, data: bytes, room: int) -> tuple[Offsets, Offsets, int, DataError | None]:
        """Find the whole records of some bytes, up to the first with a wrong head, and in this range.

        Returns:
            the bounds of their contents; the bytes up to the end of the last one; what is wrong with the next head.
        """
        size, unpack = len(data), _HEAD.unpack_from
        heads: list[int] = []
        ends: list[int] = []
        at = 0
        while at < room and at + RECORD_HEAD_BYTES <= size:
            heads.append(at)
            end = at + RECORD_HEAD_BYTES + unpack(data, at)[0]
            if end + RECORD_TAIL_BYTES > size:
                break
            ends.append(end)
            at = end + RECORD_TAIL_BYTES
        # The head of a record that is not whole is compared too: it must not claim more bytes than it has.
        view = np.frombuffer(data, np.uint8)
        wrong = np.flatnonzero(~_have_right_checksum(gather(view, np.array(heads, np.int64), RECORD_HEAD_BYTES)))
        error: DataError | None = None
        if len(wrong):
            error = self._damaged_length(self._window.offset + heads[wrong[0]])
            ends = ends[: wrong[0]]
        starts = np.array(heads[: len(ends)], np.int64) + RECORD_HEAD_BYTES
        return starts, np.array(ends, np.int64), ends[-1] + RECORD_TAIL_BYTES if ends else 0, error

    def _damaged_length(self, at: int) -> DataError:
        return self._error(at, "the length of the record that begins here has a wrong checksum")

    def _error(self, at: int, problem: str) -> DataError:
        hint = "" if at else "; is this a TFRecord file, and is it compressed in another way?"
        return DataError(f"{self._name}, byte {at}: {problem}{hint}")


def right_records(data: bytes, begins: Offsets, ends: Offsets) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which records have a head with the length that an index gives, and which data with the right checksum."""
    view = np.frombuffer(data, np.uint8)
    heads = gather(view, begins, RECORD_HEAD_BYTES)
    lengths = np.ascontiguousarray(heads[:, :8]).view("<i8").ravel()
    heads_right = _have_right_checksum(heads) & (lengths == ends - begins - RECORD_HEAD_BYTES - RECORD_TAIL_BYTES)
    return heads_right, _have_right_data(data, begins + RECORD_HEAD_BYTES, ends - RECORD_TAIL_BYTES)


def _have_right_data(data: bytes, starts: Offsets, ends: Offsets) -> npt.NDArray[np.bool_]:
    """Which contents, between these bounds, have the checksum that follows them."""
    crc = crc32c()  # it takes no memoryview
    crcs = [crc(data[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    stored = gather(np.frombuffer(data, np.uint8), ends, RECORD_TAIL_BYTES).view("<u4").ravel()
    right: npt.NDArray[np.bool_] = unmasked(stored) == np.array(crcs, np.uint32)
    return right


def _record_bytes(data: bytes) -> int:
    """The size of the record that begins with `data`; that of a head, if `data` is shorter."""
    return (
        RECORD_HEAD_BYTES
        if len(data) < RECORD_HEAD_BYTES
        else RECORD_HEAD_BYTES + _HEAD.unpack_from(data)[0] + RECORD_TAIL_BYTES
    )


def _have_right_checksum(heads: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Which heads, given as rows, hold a length with its checksum."""
    # No record has 4 GiB, which leaves few heads to compute with.
    right: npt.NDArray[np.bool_] = (heads[:, 4:8] == 0).all(axis=1)
    places = np.flatnonzero(right)
    chosen = np.ascontiguousarray(heads[places])
    stored = np.ascontiguousarray(chosen[:, 8:12]).view("<u4").ravel()
    right[places] = crcs_of_lengths(chosen[:, :8]) == unmasked(stored)
    return right


# Checksums.


def crc32c() -> Callable[[bytes], int]:
    """The function that computes the CRC-32C of bytes."""
    function: Callable[[bytes], int] = PACKAGE.load().value
    return function


def masked(crc: int) -> int:
    """A checksum as files hold it."""
    return ((crc >> 15 | crc << 17) + _SHIFT) & _ALL_BITS


def unmasked(stored: Crcs) -> Crcs:
    """The checksums that files hold as these numbers."""
    rotated = stored - np.uint32(_SHIFT)
    return rotated >> np.uint32(17) | rotated << np.uint32(15)


def crcs_of_lengths(lengths: npt.NDArray[np.uint8]) -> Crcs:
    """The CRC-32C of each row of eight bytes."""
    crcs = np.full(len(lengths), _ALL_BITS, np.uint32)
    for column in lengths.T:
        crcs = _TABLE[(crcs ^ column) & 0xFF] ^ crcs >> np.uint32(8)
    return crcs ^ np.uint32(_ALL_BITS)


def gather(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.uint8]:
    """The `size` bytes at each of some places, as rows."""
    if not len(at):
        return np.zeros((0, size), np.uint8)
    return np.lib.stride_tricks.sliding_window_view(data, size)[at]


def _table() -> Crcs:
    """The CRC of each byte."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> np.uint32(1) ^ np.uint32(_POLYNOMIAL), table >> np.uint32(1))
    return table


_TABLE = _table()


# The index beside a file: a line for each record with its first byte and its size, as DALI's `tfrecord2idx` and the
# package `tfrecord` write it.


_ENDINGS = ".index", ".idx"


def is_index(path: str) -> bool:
    """Whether a file that lies among TFRecord files is an index, by its name."""
    return split_options(path)[0].endswith(_ENDINGS)


def index_paths(path: str) -> tuple[str, str]:
    """The paths that the index of a file may have, as users of the package `tfrecord` and of DALI name it."""
    return f"{path.removesuffix('.tfrecord')}{_ENDINGS[0]}", f"{path}{_ENDINGS[1]}"


def index_line(begin: int, size: int) -> bytes:
    """The line of a record."""
    return b"%d %d\n" % (begin, size)


def read_bounds(data: bytes, name: str, size: int) -> Offsets:
    """The bytes at which records begin, and that after the last one, from the data of the index of a file."""
    from pyarrow import csv

    types: Any = {"begin": pa.int64(), "size": pa.int64()}
    options = csv.ParseOptions(delimiter=" "), csv.ConvertOptions(column_types=types)
    try:
        table = csv.read_csv(io.BytesIO(data or b"\n"), csv.ReadOptions(column_names=[*types]), *options)
    except pa.ArrowInvalid as error:
        raise DataError(f"{name} is no index of TFRecord, which has two numbers in each line: {error}") from error
    begins, sizes = (np.asarray(numpy_array(column), np.int64) for column in table.columns)
    bounds = np.append(begins, size)
    if bounds[0] != 0 or (bounds[1:] - begins != sizes).any():
        raise DataError(
            f"{name} does not list the records of a file of {size} bytes, one after the other; it belongs to another "
            "file, so make it again"
        )
    return bounds
