"""`read_numpy`: the rows of arrays in `.npy` files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias, Union, cast, overload

import numpy as np

from ..core.code import value_code
from ..core.column import Array
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Columns, Operator, StageView
from ..core.per_process import PerProcess
from ..core.rows import BlockRows, Indices, Row, Rows
from ..errors import ArgumentError, ArgumentTypeError, DataError, Origin, SourceError, redacted, with_call_site
from ..ops.parsing._open_files import at_call_site, listed_files
from ..pipe import Pipe
from ..storage.file_cache import FileCache, check_file_cache
from ..storage.listing import Selection
from ..storage.tasks import in_threads, in_turn
from ._arrays import arrays_schema
from ._npy_files import NpyColumns, NpyFile, StartedRanges, read_npy_file

if TYPE_CHECKING:
    import pyarrow as pa

Paths: TypeAlias = Union["str", "os.PathLike[str]", "Iterable[str | os.PathLike[str]]"]

_UNNAMED = ""  # the name of the column if the user gave none


@dataclass(frozen=True)
class _ColumnFiles:
    """The files of a column, in order, and the digest of their listing."""

    files: tuple[NpyFile, ...]
    digest: str

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


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
        SourceError: a path is missing, stands for no file, cannot be read, or has changed since its header was read.
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
