"""Columns of arrays in files: the operator of `read_numpy`, `read_tokens`, `read_hdf5` and `read_zarr`."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ..core.context import Context
from ..core.cursor import Json
from ..core.lazy import pa
from ..core.operator import Ahead, Columns, Operator, Source, StageView
from ..core.process import PerProcess
from ..core.rows import Array, BlockRows, Indices, Rows, concat, gather, index_array, index_list, read_only
from ..engine.ahead import REQUESTS
from ..errors import ArgumentError, ArgumentTypeError, DataError, FeedpipeError, Origin, SourceError
from ..files.open_files import OpenTask, at_call_site, changed_error, listed_files
from ..formats.streams import STREAM_ERRORS, stream_error, unpacked_limit, unpacked_problem
from ..storage.file import File
from ..storage.file_cache import FileCache, check_file_cache
from ..storage.listing import Selection
from ..storage.mapping import local_path, room_for_mappings
from ..storage.tasks import in_threads, in_turn
from .from_arrays import arrays_schema, rows_at

UNNAMED = ""
"""The name of the column if the user gave none."""
MAX_KEPT_BYTES = 2**28
"""The memory of the chunks that a process keeps for a pipe."""
_MAX_OPEN_FILES = 64
_PLAIN_CHUNK_BYTES = 2**16  # read at a time of an array that is not stored in chunks

Positions: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True)
class ArrayPart(ABC):
    """An array in a file, which is a column or a part of one. It travels to other processes without its values.

    Attributes:
        path: that of the file.
        name: the file, and the place in it, for errors.
        dtype: as a string.
        shape: the lengths of all axes; the first one is that of the rows.
    """

    path: str
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def is_mapped(self) -> bool:
        """Whether `view` maps a file, of which a process may have so many."""
        return False

    @abstractmethod
    def view(self) -> Array | None:
        """The whole array, in this process; None if `read` reads its rows when they are asked for."""

    def read(self, positions: Positions, memory: Memory, opened: OpenTask | None, *, threads: bool) -> Array:
        """Read rows, with the task of `begin` if there is one; `memory` keeps what is read more than once."""
        raise AssertionError("this array is read whole")

    def begin(self, row: int) -> OpenTask | None:
        """The work of reading a row, to begin before its turn; None if it does not wait."""
        return None

    @property
    def rows(self) -> int:
        return self.shape[0]

    def check_rows(self, first: ArrayPart) -> None:
        """Raise a `DataError` unless this is an array of rows, like those of the first part of the column."""
        dtype = np.dtype(self.dtype)
        if not self.shape:
            raise DataError(f"{self.name} must have an axis, for the rows, but holds a single item")
        if dtype.kind not in "biufcSU":
            raise DataError(
                f"{self.name} has dtype {dtype}, and a column holds numbers, bools, text or bytes of fixed width; "
                "save dates as numbers"
            )
        if (self.dtype, self.shape[1:]) != (first.dtype, first.shape[1:]):
            raise DataError(
                f"files of one column must be alike but {first.name} has rows of shape {first.shape[1:]} and "
                f"{np.dtype(first.dtype)}, and {self.name} of {self.shape[1:]} and {dtype}"
            )


@dataclass(frozen=True)
class ArrayColumn:
    """The parts of a column, in order, and a digest of their files for states, if there is one."""

    parts: Sequence[ArrayPart]
    digest: str | None = None

    @staticmethod
    def of(parts: Iterable[ArrayPart], digest: str | None = None) -> ArrayColumn:
        checked: list[ArrayPart] = []
        for part in parts:
            checked.append(part)
            part.check_rows(checked[0])
        return ArrayColumn(tuple(checked), digest)

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def identity(self) -> Json:
        """What must stay the same."""
        dtype, shape = self.parts[0].dtype, [self.rows, *self.parts[0].shape[1:]]
        return [dtype, shape] if self.digest is None else [dtype, shape, self.digest]


@dataclass(frozen=True, eq=False, repr=False)
class ReadArrays(Source):
    """The rows of arrays: row i holds item i of each column. A subclass finds the arrays.

    Paths are not part of a state: `identity` has what must stay the same.
    """

    columns: ClassVar[Columns] = Columns.MAKES

    cache: FileCache | None = field(default=None, repr=False, kw_only=True)

    resolved: Mapping[str, ArrayColumn] = field(default_factory=dict, repr=False, kw_only=True)
    memory: PerProcess[_OpenColumns] = field(default_factory=PerProcess, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_file_cache(self.cache)

    @property
    @abstractmethod
    def shown(self) -> Sequence[str]:
        """The arguments as code, but `cache`."""

    def call(self) -> str:
        cache = [] if self.cache is None else [f"cache={self.cache!r}"]
        return f"{self.kind}({', '.join([*self.shown, *cache])})"

    @abstractmethod
    def find(self) -> Mapping[str, ArrayColumn]:
        """The columns, by their names; a single one may be `UNNAMED`."""

    def files(self, selection: Selection) -> tuple[list[File], str]:
        """The files of a selection, and the digest of their listing."""
        listing = selection.listing()
        return listed_files(listing, selection.filesystem, self.cache and self.cache.renewed()), listing.digest

    def resolve(self, stage: StageView) -> Operator:
        if self.resolved:
            return self
        try:
            columns = self.find()
            _check_lengths(columns)
        except (SourceError, DataError, ArgumentError) as error:
            raise at_call_site(error, stage) from error.__cause__
        return replace(self, resolved=columns, memory=PerProcess())

    def length(self, stage: StageView) -> int:
        return next(iter(self.resolved.values())).rows

    def schema(self, stage: StageView) -> pa.Schema | None:
        if UNNAMED in self.resolved:
            return None
        firsts = {name: column.parts[0] for name, column in self.resolved.items()}
        return arrays_schema({name: (np.dtype(part.dtype), part.shape) for name, part in firsts.items()})

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        part, number = self._columns().place(index)
        return Origin(part.path, number + 1)

    def identity(self) -> Json:
        return {name: column.identity() for name, column in self.resolved.items()}

    def ahead(self) -> Ahead:
        return REQUESTS

    def begin(self, stage: StageView, indices: Indices, context: Context) -> Iterable[_RowTasks | None]:
        return map(self._columns().begin, index_list(indices))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        columns, threads = self._columns(), context.process.threads
        tasks = cast("list[_RowTasks | None]", context.take_started(stage.name, indices))
        try:
            if any(tasks):
                each = zip(index_list(indices), tasks, strict=True)
                rows = concat([columns.rows(range(i, i + 1), task or {}, threads=threads) for i, task in each])
            else:
                rows = columns.rows(indices, {}, threads=threads)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__
        return list[object](cast("Rows", rows).columns[UNNAMED]) if UNNAMED in self.resolved else rows

    def _columns(self) -> _OpenColumns:
        return self.memory.get(lambda: _OpenColumns({name: column.parts for name, column in self.resolved.items()}))


def check_columns(argument: str, paths: object) -> None:
    """Check an argument that gives something for each column, by names."""
    if not isinstance(paths, Mapping):
        raise ArgumentTypeError(
            f"`{argument}` must be a dict by names of columns, such as {{'x': ...}}, but got: {paths!r}"
        )
    if not paths:
        raise ArgumentError(f"`{argument}` must hold at least one column but got: {{}}")
    for name in cast("Mapping[object, object]", paths):
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(f"`{argument}` must have names of columns but got: {name!r}")


def _check_lengths(columns: Mapping[str, ArrayColumn]) -> None:
    (first, column), *others = columns.items()
    for name, other in others:
        if other.rows != column.rows:
            raise DataError(
                f"columns must be of one length but {first!r} has {column.rows} rows ({column.parts[0].name}) and "
                f"{name!r} {other.rows} ({other.parts[0].name})"
            )


class _RowTasks(dict[str, OpenTask]):
    """The work of a row: tasks that open files and start to fetch its bytes, by column."""

    def start(self) -> bool:
        return sum(task.start() for task in self.values()) == len(self)  # all, whatever one says

    def is_done(self) -> bool:
        return all(task.is_done() for task in self.values())

    def cancel(self) -> None:
        for task in self.values():
            task.cancel()


class _OpenColumns:
    """The columns in this process.

    The table is cut at the end of each part of any column, so each of its parts is in one part of each column.
    """

    def __init__(self, columns: Mapping[str, Sequence[ArrayPart]]) -> None:
        self._columns = columns
        self._starts = {name: np.cumsum([0, *(part.rows for part in parts)]) for name, parts in columns.items()}
        self._cuts = np.unique(np.concatenate(list(self._starts.values())))
        self._lock = Lock()
        self._arrays: OrderedDict[tuple[str, int], Array | None] = OrderedDict()
        self._memory = Memory()
        self._views: dict[int, dict[str, Array | None]] = {}

    def rows(self, indices: Indices, started: Mapping[str, OpenTask], *, threads: bool) -> BlockRows:
        """The rows at `indices`; if that is a single row, `started` may hold tasks for its columns."""
        return gather(indices, self._cuts, partial(self._rows, started=started, threads=threads))

    def begin(self, row: int) -> _RowTasks | None:
        """Tasks for the columns of a row that it waits for; None if there are none."""
        tasks = _RowTasks()
        for name, view in self._part(int(np.searchsorted(self._cuts, row, "right")) - 1).items():
            number, start = self._place(name, row)
            task = self._columns[name][number].begin(start) if view is None else None
            if task is not None:
                tasks[name] = task
        return tasks or None

    def place(self, index: int) -> tuple[ArrayPart, int]:
        """The part of the first column that has row `index`, and the number of the row in it."""
        name = next(iter(self._columns))
        number, start = self._place(name, index)
        return self._columns[name][number], start

    def _place(self, name: str, row: int) -> tuple[int, int]:
        """The number of the part of a column that has a row, and the number of the row in it."""
        starts = self._starts[name]
        number = min(int(np.searchsorted(starts, row, "right")), len(starts) - 1) - 1
        return number, row - int(starts[number])

    def _rows(self, part: int, indices: Indices, *, started: Mapping[str, OpenTask], threads: bool) -> Rows:
        views = self._part(part)
        whole = {name: view for name, view in views.items() if view is not None and view.flags.aligned}
        if len(whole) == len(views):
            return rows_at(whole, self._length(part), indices)
        positions = index_array(indices)
        columns: dict[str, Array] = {}
        for name, view in views.items():
            if view is not None:
                columns[name] = read_only(view[positions])  # Arrow and torch read numbers at multiples of their size
                continue
            number, start = self._place(name, int(self._cuts[part]))
            read = self._columns[name][number].read
            columns[name] = read_only(read(positions + start, self._memory, started.get(name), threads=threads))
        return rows_at(columns, len(positions), range(len(positions)))

    def _part(self, part: int) -> dict[str, Array | None]:
        """The columns of a part of the table; None for a column whose rows are read when they are asked for."""
        with self._lock:
            if part not in self._views:
                self._views[part] = {name: self._view(name, part) for name in self._columns}
            return self._views[part]

    def _view(self, name: str, part: int) -> Array | None:
        number, start = self._place(name, int(self._cuts[part]))
        array = self._array(name, number)
        return None if array is None else array[start : start + self._length(part)]

    def _array(self, name: str, number: int) -> Array | None:
        part, key = self._columns[name][number], (name, number)
        if key not in self._arrays:
            while part.is_mapped and self._arrays and room_for_mappings() <= 0:
                self._arrays.popitem(last=False)
                self._views.clear()  # they hold arrays, too
            array = part.view()
            self._arrays[key] = None if array is None else read_only(array)
        self._arrays.move_to_end(key)
        return self._arrays[key]

    def _length(self, part: int) -> int:
        return int(self._cuts[part + 1] - self._cuts[part]) if len(self._cuts) > 1 else 0


# Arrays whose rows lie in a file as they are.


@dataclass(frozen=True)
class FileRows(ArrayPart):
    """An array whose rows lie in a file at even distances: mapped if the file is local, else read in ranges of rows."""

    file: File

    @property
    @abstractmethod
    def first(self) -> int:
        """The byte of the file where the first row begins."""

    @property
    def distance(self) -> int:
        """Bytes from the begin of a row to that of the next."""
        return self._width

    @abstractmethod
    def mapped(self) -> Array:
        """The whole array, in memory that maps the file."""

    @property
    def is_mapped(self) -> bool:
        return local_path(self.file) is not None

    def view(self) -> Array | None:
        return self.mapped() if self.is_mapped else None

    def begin(self, row: int) -> OpenTask | None:
        return None if self.file.is_local() else OpenTask(self.file, self._range(row, 1), None)

    @property
    def _width(self) -> int:
        return np.dtype(self.dtype).itemsize * math.prod(self.shape[1:])

    def _range(self, row: int, count: int) -> range:
        """The bytes of `count` rows from `row` on."""
        begin = self.first + row * self.distance
        return range(begin, begin + (count - 1) * self.distance + self._width)

    def read(self, positions: Positions, memory: Memory, opened: OpenTask | None, *, threads: bool) -> Array:
        """Read rows, each run of neighbours in one request; a single row may be on its way already."""
        cuts = np.diff(positions) != 1 if self.distance <= self._width else np.ones(max(0, len(positions) - 1), bool)
        runs = [run for run in np.split(positions, np.flatnonzero(cuts) + 1) if len(run)]
        fetch = partial(self._fetch_run, opened=opened)
        parts = list(in_threads(fetch, runs) if threads and not self.file.is_local() else in_turn(fetch, runs))
        return np.concatenate([np.zeros((0, *self.shape[1:]), self.dtype), *parts])

    def _fetch_run(self, positions: Positions, opened: OpenTask | None) -> Array:
        part = self._range(int(positions[0]), len(positions))
        stream = self.file.stream(None, part) if opened is None else opened.result()
        with stream:
            try:
                stream.seek(part.start)
                data = stream.read(len(part))
            except FeedpipeError:
                raise
            except STREAM_ERRORS as error:
                raise stream_error(error, self.file.name, stream, part.start) from error
        if len(data) < len(part):
            raise changed_error(self.file.name, "header")
        return self.spread(data, 0, len(positions))

    def spread(self, data: bytes | memoryview | pa.Buffer, begin: int, rows: int) -> Array:
        """Rows, the first of which begins at byte `begin` of `data`, as a view."""
        inner = np.empty(0, self.dtype).reshape(0, *self.shape[1:]).strides[1:]
        return np.ndarray((rows, *self.shape[1:]), self.dtype, cast("bytes", data), begin, (self.distance, *inner))


# Arrays in chunks, which another library reads.


class Memory:
    """What a process keeps for a pipe: the files, and the chunks, that were used last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._chunks: OrderedDict[object, Array] = OrderedDict()
        self._bytes = 0
        self._files: OrderedDict[object, object] = OrderedDict()
        self._process = os.getpid()

    def chunk(self, key: object, read: Callable[[], Array]) -> Array:
        """The chunk with this key: the one that is kept, else what `read()` returns."""
        with self._lock:
            if key in self._chunks:
                self._chunks.move_to_end(key)
                return self._chunks[key]
        chunk = read()
        with self._lock:
            if key not in self._chunks:
                self._chunks[key] = chunk
                self._bytes += chunk.nbytes
            while self._bytes > MAX_KEPT_BYTES and len(self._chunks) > 1:
                self._bytes -= self._chunks.popitem(last=False)[1].nbytes
        return chunk

    def file(self, key: object, open_file: Callable[[], object]) -> object:
        """The open file with this key. A forked process opens its own, and leaves that of its parent as it is."""
        with self._lock:
            if self._process != os.getpid():
                self._inherited, self._files = self._files, OrderedDict()
                self._process = os.getpid()
            if key not in self._files:
                self._files[key] = open_file()
            self._files.move_to_end(key)
            opened = self._files[key]
            while len(self._files) > _MAX_OPEN_FILES:
                self._files.popitem(last=False)  # the last holder closes it
        return opened


@dataclass(frozen=True)
class ChunkedPart(ArrayPart):
    """An array that a library reads, a slice of rows at a time.

    Attributes:
        chunk_rows: the rows that are stored, and often compressed, together; 0 if rows are not stored in chunks.
    """

    chunk_rows: int

    @abstractmethod
    def opened(self, memory: Memory) -> Any:
        """The array in this process, as the library has it."""

    @abstractmethod
    def stored_bytes(self, opened: Any) -> int:
        """The bytes that the array takes in its file or files."""

    def view(self) -> None:
        return None

    def read(self, positions: Positions, memory: Memory, opened: OpenTask | None, *, threads: bool) -> Array:
        dtype, row = np.dtype(self.dtype), self.shape[1:]
        size = self.chunk_rows or max(1, _PLAIN_CHUNK_BYTES // max(1, dtype.itemsize * math.prod(row)))
        numbers = positions // size
        taken = np.empty((0, *row), dtype)
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            chunk = memory.chunk(
                (self.path, self.name, number), partial(self._chunk, memory, number * size, number * size + size)
            )
            if not len(taken):  # a file may claim rows of any size, and the first chunk tells
                taken = np.empty((len(positions), *row), dtype)
            taken[places] = chunk[positions[places] - number * size]
        return taken

    def _chunk(self, memory: Memory, start: int, stop: int) -> Array:
        stop, opened = min(stop, self.rows), self.opened(memory)
        if opened.shape != self.shape:
            raise changed_error(self.name, "shape")
        size = (stop - start) * math.prod(self.shape[1:]) * np.dtype(self.dtype).itemsize
        try:
            if size > unpacked_limit(0) and (problem := unpacked_problem(size, self.stored_bytes(opened))):
                raise ValueError(problem)
            values = np.asarray(opened[start:stop])
        except FeedpipeError:
            raise
        except Exception as error:  # each library, and each of its codecs, has errors of its own
            reason = " ".join(str(error).split()) or type(error).__name__
            raise DataError(f"{self.name}: rows {start + 1} to {stop} cannot be read: {reason}") from error
        if values.dtype != np.dtype(self.dtype):
            raise changed_error(self.name, "type")
        return values
