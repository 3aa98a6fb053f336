"""Arrays in `.npy` files, joined along their first axis: mapped where they lie on this machine, else read in ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.gather import gather
from ..core.rows import Array, BlockRows, Indices, Rows, read_only
from ..engine.readahead import Together
from ..errors import FeedpipeError, SourceError
from ..formats.npy import HEADER_BYTES, ArrayHeader, read_header
from ..formats.streams import STREAM_ERRORS, stream_error
from ..ops.parsing._open_files import OpenTask, read_whole
from ..storage.file import File
from ..storage.filesystem import locate
from ..storage.tasks import in_threads
from ._arrays import rows_at


class NpyFile(NamedTuple):
    """A file, and what its header says."""

    file: File
    head: ArrayHeader

    @property
    def rows(self) -> int:
        return self.head.shape[0]

    def range(self, first: int, count: int) -> range:
        """The bytes of some rows, where those stand one after the other."""
        width = np.dtype(self.head.dtype).itemsize * int(np.prod(self.head.shape[1:], dtype=np.int64))
        return range(self.head.begin + first * width, self.head.begin + (first + count) * width)


class Ranges(Together[str, OpenTask]):
    """Files that are opened for a row to come, by column; its bytes are then on their way."""


class Joined:
    """The columns of a table, each of one file or more, in this process: it does not travel to others.

    The table is cut wherever a file of any column ends, so that each part of it lies in one file for each column.
    """

    def __init__(self, columns: Mapping[str, Sequence[NpyFile]]) -> None:
        self._columns = columns
        self._starts = {name: np.cumsum([0, *(file.rows for file in files)]) for name, files in columns.items()}
        self._cuts = np.unique(np.concatenate(list(self._starts.values())))
        self._lock = Lock()
        self._arrays: dict[tuple[str, int], Array | None] = {}
        self._parts: dict[int, dict[str, Array | None]] = {}

    def rows(self, indices: Indices, begun: Mapping[str, OpenTask], *, threads: bool) -> BlockRows:
        """The rows at `indices`, as a `Rows`; columns of an only one may have been begun."""
        return gather(indices, self._cuts, partial(self._rows, begun=begun, threads=threads))

    def begun(self, row: int) -> Ranges | None:
        """What to begin of a row: by column, the range that it is in; None where all is near."""
        found = Ranges()
        for name, view in self._part(int(np.searchsorted(self._cuts, row, "right")) - 1).items():
            number, start = self._at(name, row)
            file = self._columns[name][number]
            if view is None and not file.file.is_local():
                found[name] = OpenTask(file.file, file.range(start, 1), None)
        return found or None

    def place(self, index: int) -> tuple[File, int]:
        """The file of the first column that row `index` is in, and the number of the row there."""
        name = next(iter(self._columns))
        number, start = self._at(name, index)
        return self._columns[name][number].file, start

    def _at(self, name: str, row: int) -> tuple[int, int]:
        """The number of the file of a column that a row is in, and the number of the row there."""
        starts = self._starts[name]
        number = min(int(np.searchsorted(starts, row, "right")), len(starts) - 1) - 1
        return number, row - int(starts[number])

    def _rows(self, part: int, indices: Indices, *, begun: Mapping[str, OpenTask], threads: bool) -> Rows:
        views = self._part(part)
        mapped = {name: view for name, view in views.items() if view is not None}
        if len(mapped) == len(views):
            return rows_at(mapped, self._length(part), indices)
        places = np.asarray(indices, np.int64)
        columns: dict[str, Array] = {}
        for name, view in views.items():
            if view is None:
                number, start = self._at(name, int(self._cuts[part]))
                columns[name] = _fetched(self._columns[name][number], places + start, begun.get(name), threads=threads)
            else:
                columns[name] = view[places]
        return rows_at(columns, len(places), range(len(places)))

    def _part(self, part: int) -> dict[str, Array | None]:
        """The columns of a part; None for one that is read in ranges."""
        with self._lock:
            if part not in self._parts:
                self._parts[part] = {name: self._view(name, part) for name in self._columns}
            return self._parts[part]

    def _view(self, name: str, part: int) -> Array | None:
        number, start = self._at(name, int(self._cuts[part]))
        if (name, number) not in self._arrays:
            self._arrays[name, number] = _array(self._columns[name][number])
        array = self._arrays[name, number]
        return None if array is None else array[start : start + self._length(part)]

    def _length(self, part: int) -> int:
        return int(self._cuts[part + 1] - self._cuts[part]) if len(self._cuts) > 1 else 0


def looked_at(file: File) -> NpyFile:
    """A file, with what its header says.

    Raises:
        SourceError: it cannot be read.
        DataError: it is no array that has rows.
    """
    with file.open(None) as stream:
        try:
            head = stream.read(HEADER_BYTES)
        except FeedpipeError:
            raise
        except STREAM_ERRORS as error:
            raise stream_error(error, file.name, stream, 0) from error
    return NpyFile(file, read_header(head, file.name, file.size() if file.listed is None else file.listed))


def _array(found: NpyFile) -> Array | None:
    """The whole array; None where it does not lie here, but ranges of it can be read."""
    place = locate(found.file.path, found.file.filesystem)
    if place.filesystem.type_name == "local":
        return read_only(found.head.array(_mapped(found, place.path)))
    # Of one in Fortran's order the items of a row lie all over the file.
    return read_only(found.head.array(read_whole(found.file))) if found.head.fortran else None


def _mapped(found: NpyFile, path: str) -> object:
    """The bytes of a file. It must not become shorter as long as they are in use: the system then ends the process."""
    import pyarrow as pa

    # Unlike NumPy's and Python's, Arrow's map holds no open file: there may be thousands.
    with found.file.open(None) as stream, pa.memory_map(path) as file:
        now = read_header(stream.read(HEADER_BYTES), found.file.name, file.size())
        if now != found.head:
            raise _changed(found.file)
        return file.read_buffer()


def _fetched(found: NpyFile, places: npt.NDArray[np.int64], opened: OpenTask | None, *, threads: bool) -> Array:
    """The rows at `places`, each run of neighbours by one request; from `opened`, where the only row has been begun."""
    runs = [run for run in np.split(places, np.flatnonzero(np.diff(places) != 1) + 1) if len(run)]
    read = partial(_run, found, opened=opened)
    parts = list(in_threads(read, runs) if threads and not found.file.is_local() else map(read, runs))
    return np.concatenate([np.zeros((0, *found.head.shape[1:]), found.head.dtype), *parts])


def _run(found: NpyFile, places: npt.NDArray[np.int64], opened: OpenTask | None) -> Array:
    part = found.range(int(places[0]), len(places))
    with found.file.stream(None, part) if opened is None else opened.result() as stream:
        try:
            stream.seek(part.start)
            data = stream.read(len(part))
        except FeedpipeError:
            raise
        except STREAM_ERRORS as error:
            raise stream_error(error, found.file.name, stream, part.start) from error
    if len(data) < len(part):
        raise _changed(found.file)
    return np.frombuffer(data, found.head.dtype).reshape(len(places), *found.head.shape[1:])


def _changed(file: File) -> SourceError:
    return SourceError(f"{file.name} has changed since its header was read; a pipe reads headers once, so make it anew")
