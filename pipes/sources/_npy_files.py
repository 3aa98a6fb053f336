"""Arrays in `.npy` files, joined along their first axis: local files are mapped, remote ones are read in ranges."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.column import Array, read_only
from ..core.gather import gather
from ..core.rows import BlockRows, Indices, Rows, index_array
from ..engine.readahead import WorkGroup
from ..errors import FeedpipeError, SourceError
from ..formats.npy import HEADER_BYTES, ArrayHeader, read_header
from ..formats.streams import STREAM_ERRORS, stream_error
from ..ops.parsing._open_files import OpenTask, read_whole
from ..storage.file import File
from ..storage.mapping import local_path, map_file, room_for_mappings
from ..storage.tasks import in_threads, in_turn
from ._arrays import rows_at


class NpyFile(NamedTuple):
    """A file and its header."""

    file: File
    head: ArrayHeader

    @property
    def rows(self) -> int:
        return self.head.shape[0]

    def range(self, first: int, count: int) -> range:
        """The range of bytes of `count` rows from `first` on."""
        width = np.dtype(self.head.dtype).itemsize * int(np.prod(self.head.shape[1:], dtype=np.int64))
        return range(self.head.begin + first * width, self.head.begin + (first + count) * width)


class StartedRanges(WorkGroup[str, OpenTask]):
    """Tasks that open the files of a row and start to fetch its bytes, by column."""


class NpyColumns:
    """The columns of a table in this process; each has one or more files.

    The table is cut wherever a file of any column ends. So each part of the table is in one file of each column.
    """

    def __init__(self, columns: Mapping[str, Sequence[NpyFile]]) -> None:
        self._columns = columns
        self._starts = {name: np.cumsum([0, *(file.rows for file in files)]) for name, files in columns.items()}
        self._cuts = np.unique(np.concatenate(list(self._starts.values())))
        self._lock = Lock()
        self._mapped: OrderedDict[tuple[str, int], Array] = OrderedDict()
        self._remote: dict[tuple[str, int], Array | None] = {}
        self._parts: dict[int, dict[str, Array | None]] = {}

    def rows(self, indices: Indices, started: Mapping[str, OpenTask], *, threads: bool) -> BlockRows:
        """The rows at `indices`; if that is a single row, `started` may hold its remote columns."""
        return gather(indices, self._cuts, partial(self._rows, started=started, threads=threads))

    def start_reading(self, row: int) -> StartedRanges | None:
        """Tasks for the remote columns of a row; None if there are none."""
        ranges = StartedRanges()
        for name, view in self._part(int(np.searchsorted(self._cuts, row, "right")) - 1).items():
            number, start = self._file_and_row(name, row)
            npy = self._columns[name][number]
            if view is None and not npy.file.is_local():
                ranges[name] = OpenTask(npy.file, npy.range(start, 1), None)
        return ranges or None

    def place(self, index: int) -> tuple[File, int]:
        """The file of the first column that has row `index`, and the number of the row in it."""
        name = next(iter(self._columns))
        number, start = self._file_and_row(name, index)
        return self._columns[name][number].file, start

    def _file_and_row(self, name: str, row: int) -> tuple[int, int]:
        """The number of the file of a column that has a row, and the number of the row in it."""
        starts = self._starts[name]
        number = min(int(np.searchsorted(starts, row, "right")), len(starts) - 1) - 1
        return number, row - int(starts[number])

    def _rows(self, part: int, indices: Indices, *, started: Mapping[str, OpenTask], threads: bool) -> Rows:
        views = self._part(part)
        mapped = {name: view for name, view in views.items() if view is not None}
        if len(mapped) == len(views):
            return rows_at(mapped, self._length(part), indices)
        positions = index_array(indices)
        columns: dict[str, Array] = {}
        for name, view in views.items():
            if view is None:
                number, start = self._file_and_row(name, int(self._cuts[part]))
                columns[name] = _fetch(
                    self._columns[name][number], positions + start, started.get(name), threads=threads
                )
            else:
                columns[name] = view[positions]
        return rows_at(columns, len(positions), range(len(positions)))

    def _part(self, part: int) -> dict[str, Array | None]:
        """The columns of a part; None for a column that is read in ranges."""
        with self._lock:
            if part not in self._parts:
                self._parts[part] = {name: self._view(name, part) for name in self._columns}
            return self._parts[part]

    def _view(self, name: str, part: int) -> Array | None:
        number, start = self._file_and_row(name, int(self._cuts[part]))
        array = self._array(name, number)
        return None if array is None else array[start : start + self._length(part)]

    def _array(self, name: str, number: int) -> Array | None:
        """The array of a file of a column; None if it is read in ranges."""
        npy, key = self._columns[name][number], (name, number)
        path = local_path(npy.file)
        if path is None:
            if key not in self._remote:
                # In Fortran order, the items of a row are all over the file.
                array = npy.head.array(read_whole(npy.file)) if npy.head.fortran else None
                self._remote[key] = None if array is None else read_only(array)
            return self._remote[key]
        if key not in self._mapped:
            while self._mapped and room_for_mappings() <= 0:
                self._mapped.popitem(last=False)
                self._parts.clear()  # they hold arrays, too
            self._mapped[key] = read_only(npy.head.array(_map(npy, path)))
        self._mapped.move_to_end(key)
        return self._mapped[key]

    def _length(self, part: int) -> int:
        return int(self._cuts[part + 1] - self._cuts[part]) if len(self._cuts) > 1 else 0


def read_npy_file(file: File) -> NpyFile:
    """Reads the header of a file.

    Raises:
        SourceError: the file cannot be read.
        DataError: it is no `.npy` file, or is damaged.
    """
    with file.open(None) as stream:
        try:
            head = stream.read(HEADER_BYTES)
        except FeedpipeError:
            raise
        except STREAM_ERRORS as error:
            raise stream_error(error, file.name, stream, 0) from error
    return NpyFile(file, read_header(head, file.name, file.size() if file.listed is None else file.listed))


def _map(npy: NpyFile, path: str) -> object:
    """Maps a file, if it still has the header that was read."""
    buffer = map_file(path, npy.file.name)
    if read_header(buffer[:HEADER_BYTES].to_pybytes(), npy.file.name, buffer.size) != npy.head:
        raise _changed_error(npy.file)
    return buffer


def _fetch(npy: NpyFile, positions: npt.NDArray[np.int64], opened: OpenTask | None, *, threads: bool) -> Array:
    """Reads the rows at `positions`, each run of neighbours in one request; a single row may be on its way already."""
    runs = [run for run in np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1) if len(run)]
    fetch = partial(_fetch_run, npy, opened=opened)
    parts = list(in_threads(fetch, runs) if threads and not npy.file.is_local() else in_turn(fetch, runs))
    return np.concatenate([np.zeros((0, *npy.head.shape[1:]), npy.head.dtype), *parts])


def _fetch_run(npy: NpyFile, positions: npt.NDArray[np.int64], opened: OpenTask | None) -> Array:
    part = npy.range(int(positions[0]), len(positions))
    with npy.file.stream(None, part) if opened is None else opened.result() as stream:
        try:
            stream.seek(part.start)
            data = stream.read(len(part))
        except FeedpipeError:
            raise
        except STREAM_ERRORS as error:
            raise stream_error(error, npy.file.name, stream, part.start) from error
    if len(data) < len(part):
        raise _changed_error(npy.file)
    return np.frombuffer(data, npy.head.dtype).reshape(len(positions), *npy.head.shape[1:])


def _changed_error(file: File) -> SourceError:
    return SourceError(f"{file.name} has changed since its header was read; a pipe reads headers once, so make it anew")
