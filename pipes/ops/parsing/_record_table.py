"""Where the records of indexed files are, and how those at some positions are read."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...storage.file import File, Stream
from ...storage.remote import RemoteFile
from ...storage.retry import Cancellation
from ...storage.tasks import in_threads, in_turn
from ._open_files import FileVersions

Numbers = npt.NDArray[np.int64]

_MAX_GAP_BYTES = 2**12
"""Two records with a smaller gap between them are read at once."""
_MAX_OPEN_FILES = 64


@dataclass(frozen=True, eq=False)
class RecordTable:
    """Where all records are.

    Attributes:
        firsts: the position of the first record of each file, and the number of all records.
        bounds: of each file, the byte at which each record begins, and that behind the last one.
    """

    firsts: Numbers
    bounds: Numbers

    @staticmethod
    def of(files: Iterable[Numbers]) -> RecordTable:
        bounds = [*files]
        firsts = np.cumsum([0, *(len(some) - 1 for some in bounds)], dtype=np.int64)
        return RecordTable(firsts, np.concatenate([np.zeros(0, np.int64), *bounds]))

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def digest(self) -> str:
        """A digest of all numbers, for states."""
        return hashlib.blake2b(self.firsts.tobytes() + self.bounds.tobytes(), digest_size=16).hexdigest()

    def at(self, positions: Numbers) -> RecordPlaces:
        """Look up records."""
        owners = np.searchsorted(self.firsts, positions, "right") - 1
        places = positions + owners  # each file has one bound more than it has records
        files, numbers = np.unique(owners, return_inverse=True)
        begins, ends = self.bounds[places], self.bounds[places + 1]
        return RecordPlaces(files, numbers, positions - self.firsts[owners], begins, ends)


class RecordPlaces(NamedTuple):
    """Where some records are.

    Attributes:
        files: the positions of their files in the input, each once.
        owners: the place of the file of each record among these.
        numbers: of each record in its file.
        begins, ends: the byte of its file at which each record begins, and that behind it.
    """

    files: Numbers
    owners: npt.NDArray[np.intp]
    numbers: Numbers
    begins: Numbers
    ends: Numbers


class RecordSource:
    """Reads records by their places, and keeps the last few files open.

    Args:
        check: is called with the position of a file in the input, and its stream, when a process first opens it. It
            raises an error if the file has other records by now.
    """

    def __init__(self, check: Callable[[int, File, Stream], None] | None = None) -> None:
        self._check = check
        self._checked: set[tuple[int, str]] = set()
        self._opened: OrderedDict[tuple[int, str], Stream | RemoteFile] = OrderedDict()
        self._versions = FileVersions()
        self._lock = threading.Lock()

    def read(self, files: Sequence[File], places: RecordPlaces) -> tuple[bytes, Numbers]:
        """Read records.

        Args:
            files: those of `places.files`.
            places: of the records; those of a file follow each other, and rise.

        Returns:
            bytes that hold the records, and where in them each one begins.
        """
        _, owners, _, begins, ends = places
        if not len(begins):
            return b"", begins
        cuts = np.flatnonzero((owners[1:] != owners[:-1]) | (begins[1:] - ends[:-1] > _MAX_GAP_BYTES)) + 1
        firsts, lasts = np.append(0, cuts), np.append(cuts, len(begins)) - 1
        sizes = ends[lasts] - begins[firsts]
        parts = zip(owners[firsts].tolist(), begins[firsts].tolist(), sizes.tolist(), strict=True)
        run = in_turn if files[0].is_local() else in_threads
        with self._lock:
            opened = self._open_all(files, places.files.tolist())
        data = b"".join(run(lambda part: _read_part(opened[part[0]], part[1], part[2]), parts))
        # A file that was replaced may have other records at the same places.
        for _ in in_threads(lambda file: file.check_unchanged(Cancellation()), _remote_files(opened)):
            pass
        shifts = np.cumsum(sizes) - sizes - begins[firsts]
        return data, begins + np.repeat(shifts, lasts - firsts + 1)

    def _open_all(self, files: Sequence[File], numbers: Sequence[int]) -> list[Stream | RemoteFile]:
        keys = [_key(file) for file in files]
        items = zip(files, numbers, strict=True)
        closed = {key: item for key, item in zip(keys, items, strict=True) if key not in self._opened}
        for key, opened in zip(closed, in_threads(self._open, closed.values()), strict=True):
            self._opened[key] = opened
            self._checked.add(key)
        for key in keys:
            self._opened.move_to_end(key)
        streams = [self._opened[key] for key in keys]
        while len(self._opened) > _MAX_OPEN_FILES:
            self._opened.popitem(last=False)  # the last holder closes it
        return streams

    def _open(self, item: tuple[File, int]) -> Stream | RemoteFile:
        file, number = item
        stream = file.open()
        self._versions.check(file, stream)
        if self._check is not None and _key(file) not in self._checked:
            self._check(number, file, stream)
        return stream if stream.remote is None else stream.remote.file


def _key(file: File) -> tuple[int, str]:
    return id(file.filesystem), file.path


def _read_part(file: Stream | RemoteFile, begin: int, size: int) -> bytes:
    if isinstance(file, RemoteFile):
        return file.read(begin, size, Cancellation())
    return bytes(cast("Any", file.raw).read_at(size, begin))


def _remote_files(files: Sequence[Stream | RemoteFile]) -> Iterator[RemoteFile]:
    return (file for file in files if isinstance(file, RemoteFile))
