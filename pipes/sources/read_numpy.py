"""`read_numpy`: the rows of arrays in `.npy` files."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias, Union, cast, overload

import numpy as np
import numpy.typing as npt

from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Columns, Operator, StageView
from ..core.process import PerProcess
from ..core.rows import Array, BlockRows, Indices, Row, Rows, gather, index_array, read_only
from ..engine.ahead import WorkGroup
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    FeedpipeError,
    Origin,
    SourceError,
    redacted,
    with_call_site,
)
from ..files.open_files import OpenTask, at_call_site, changed_error, listed_files, read_whole
from ..formats.npy import HEADER_BYTES, ArrayHeader, read_header
from ..formats.streams import STREAM_ERRORS, stream_error
from ..pipe import Pipe
from ..storage.file import File
from ..storage.file_cache import FileCache, check_file_cache
from ..storage.listing import Selection
from ..storage.mapping import local_path, map_file, room_for_mappings
from ..storage.tasks import in_threads, in_turn
from .from_arrays import arrays_schema, rows_at

if TYPE_CHECKING:
    import pyarrow as pa


Paths: TypeAlias = Union["str", "os.PathLike[str]", "Iterable[str | os.PathLike[str]]"]

_UNNAMED = ""  # the name of the column if the user gave none


@overload  # a Mapping is an Iterable, too
def read_numpy(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    paths: Mapping[str, Paths], *, filesystem: object = None, cache: FileCache | None = None
) -> Pipe[Row]: ...
@overload
def read_numpy(
    paths: Paths, *, filesystem: object = None, cache: FileCache | None = None
) -> Pipe[Array | np.generic]: ...
def read_numpy(
    paths: Mapping[str, Paths] | Paths, *, filesystem: object = None, cache: FileCache | None = None
) -> Pipe[Row] | Pipe[Array | np.generic]:
    """Begin a pipe with the rows of arrays in `.npy` files: the items along their first axis.

    Element: for a path or a list of paths, an item: a NumPy array, or a NumPy scalar if the array has one axis. For a
    dict, a table row: a dict with a value for each name, which is an array, or a Python scalar if the column has one
    axis. Order: that of `list_files`; the arrays of several files are joined along the first axis. Length: that of the
    first axis; indexed. State: a position; it is refused if the files have changed.

    Local files are memory-mapped, and travel to other processes as paths. Remote files are read by rows, up to 16
    ranges at a time; but those in Fortran order are read whole, once in each process. Rows are read-only. Do not change
    the files while the pipe is in use: if a mapped file becomes shorter, the system ends a process that reads behind
    its end.

    Args:
        paths: a file, a folder, a glob, or a list of those; or a dict of these by the names of columns.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.

    Raises:
        SourceError: a path is missing, matches no file, cannot be read, or has changed since its header was read.
        DataError: a file is no `.npy` file, is truncated, holds Python objects, fields or dates, or has no axis; it
            differs from the first in dtype or in the shape of rows; or columns differ in length.

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> np.save("x.npy", np.arange(6.0).reshape(3, 2))
        >>> np.save("y.npy", np.array([1, 0, 1]))
        >>> fp.read_numpy({"x": "x.npy", "y": "y.npy"})[1]
        {'x': array([2., 3.]), 'y': 0}
        >>> list(fp.read_numpy("x.npy"))
        [array([0., 1.]), array([2., 3.]), array([4., 5.])]
    """
    if not isinstance(paths, Mapping):
        selections = {_UNNAMED: Selection(cast("str", paths), filesystem=filesystem)}
        return cast("Pipe[Array | np.generic]", Pipe.source(ReadNumpy(selections, cache=cache)))
    if not paths:
        raise ArgumentError(with_call_site("`paths` must hold at least one column but got: {}"))
    columns: dict[str, Selection] = {}
    for name, column_paths in cast("Mapping[object, str]", paths).items():
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(with_call_site(f"`paths` must have names of columns but got: {name!r}"))
        columns[name] = Selection(column_paths, filesystem=filesystem)
    return cast("Pipe[Row]", Pipe.source(ReadNumpy(columns, cache=cache)))


@dataclass(frozen=True, eq=False)
class ReadNumpy(Operator):
    kind: ClassVar[str] = "read_numpy"

    # The paths are not part of a state; `identity` has what must stay the same.
    selections: Mapping[str, Selection] = field(repr=False)
    files: Mapping[str, _ColumnFiles] = field(default_factory=dict, repr=False)
    cache: FileCache | None = field(default=None, repr=False)
    memory: PerProcess[NpyColumns] = field(default_factory=PerProcess, repr=False)

    def __post_init__(self) -> None:
        check_file_cache(self.cache)

    @property
    def columns(self) -> Columns:  # type: ignore[override]
        return Columns.LOSES if _UNNAMED in self.selections else Columns.MAKES

    def call(self) -> str:
        paths = {name: selection.paths for name, selection in self.selections.items()}
        cache = "" if self.cache is None else f", cache={self.cache!r}"
        return f"{self.kind}({redacted(value_code(paths.get(_UNNAMED, paths)))}{cache})"

    def resolve(self, stage: StageView) -> Operator:
        if self.files:
            return self
        cache = self.cache and self.cache.renewed()
        try:
            files = {name: _resolve_column(selection, cache) for name, selection in self.selections.items()}
            _check_lengths(files)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__
        return replace(self, files=files)

    def length(self, stage: StageView) -> int:
        return next(iter(self.files.values())).rows

    def schema(self, stage: StageView) -> pa.Schema | None:
        if _UNNAMED in self.files:
            return None
        heads = {name: column.files[0].head for name, column in self.files.items()}
        return arrays_schema({name: (np.dtype(head.dtype), head.shape) for name, head in heads.items()})

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        file, number = self._columns().place(index)
        return Origin(file.path, number + 1)

    def identity(self) -> Json:
        return {
            name: [column.files[0].head.dtype, [column.rows, *column.files[0].head.shape[1:]], column.digest]
            for name, column in self.files.items()
        }

    def start_reading(self, stage: StageView, index: int, context: Context) -> StartedRanges | None:
        return self._columns().start_reading(index)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        started = cast(
            "StartedRanges | None", context.take_started(stage, int(indices[0])) if len(indices) == 1 else None
        )
        try:
            rows = self._columns().rows(indices, started or {}, threads=context.process.threads)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__
        return list[object](cast("Rows", rows).columns[_UNNAMED]) if _UNNAMED in self.selections else rows

    def _columns(self) -> NpyColumns:
        return self.memory.get(lambda: NpyColumns({name: column.files for name, column in self.files.items()}))


@dataclass(frozen=True)
class _ColumnFiles:
    """The files of a column, in order, and the digest of their listing."""

    files: tuple[NpyFile, ...]
    digest: str

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def _resolve_column(selection: Selection, cache: FileCache | None) -> _ColumnFiles:
    """Lists the files of a column, and reads their headers.

    Raises:
        SourceError: there is no file, or one cannot be read.
        DataError: a file is no array of rows, or its rows are not like those of the first.
    """
    listing = selection.listing()
    files = listed_files(listing, selection.filesystem, cache)
    npy_files: list[NpyFile] = []
    for npy in (in_turn if files[0].is_local() else in_threads)(read_npy_file, files):
        npy_files.append(npy)
        _check_rows(npy, npy_files[0])
    return _ColumnFiles(tuple(npy_files), listing.digest)


def _check_rows(npy: NpyFile, first: NpyFile) -> None:
    head = npy.head
    dtype = np.dtype(head.dtype)
    if not head.shape:
        raise DataError(f"{npy.file.name} must have an axis, for the rows, but holds a single item")
    if dtype.kind not in "biufcSU":
        raise DataError(
            f"{npy.file.name} has dtype {dtype}, and a column holds numbers, bools, text or bytes of fixed width; "
            "save dates as numbers"
        )
    if (head.dtype, head.shape[1:]) != (first.head.dtype, first.head.shape[1:]):
        raise DataError(
            f"files of one column must be alike but {first.file.name} has rows of shape {first.head.shape[1:]} and "
            f"{np.dtype(first.head.dtype)}, and {npy.file.name} of {head.shape[1:]} and {dtype}"
        )


def _check_lengths(columns: Mapping[str, _ColumnFiles]) -> None:
    (first, column), *others = columns.items()
    for name, other in others:
        if other.rows != column.rows:
            raise DataError(
                f"columns must be of one length but {first!r} has {column.rows} rows ({column.files[0].file.name}) and "
                f"{name!r} {other.rows} ({other.files[0].file.name})"
            )


# Files as columns: local ones are mapped, remote ones are read in ranges


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

    The table is cut at the end of each file of any column, so each part is in one file of each column.
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
        raise changed_error(npy.file.name, "header")
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
        raise changed_error(npy.file.name, "header")
    return np.frombuffer(data, npy.head.dtype).reshape(len(positions), *npy.head.shape[1:])
