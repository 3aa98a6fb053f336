"""`read_numpy`: the rows of arrays in `.npy` and `.npz` files."""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, TypeAlias, Union, cast, overload

import numpy as np

from ..core.code import value_code
from ..core.operator import Columns
from ..core.rows import Array, Row
from ..errors import ArgumentError, DataError, FeedpipeError, redacted
from ..files.open_files import changed_error, read_whole
from ..formats.npy import HEADER_BYTES, ArrayHeader, read_header
from ..formats.streams import STREAM_ERRORS, stream_error, unpacked_problem
from ..pipe import Pipe
from ..storage.file import File, Stream
from ..storage.file_cache import FileCache
from ..storage.filesystem import split_options
from ..storage.listing import Selection
from ..storage.mapping import local_path, map_file
from ..storage.tasks import in_threads, in_turn
from ._arrays import UNNAMED, ArrayColumn, ArrayPart, FileRows, ReadArrays, check_columns

Paths: TypeAlias = Union["str", "os.PathLike[str]", "Iterable[str | os.PathLike[str]]"]


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
    """Begin a pipe with the rows of arrays in `.npy` and `.npz` files: the items along their first axis.

    Element: for a path or a list of paths, an item: a NumPy array, or a NumPy scalar if the array has one axis. For a
    dict, a table row: a dict with a value for each name, which is an array, or a Python scalar if the column has one
    axis. Order: that of `list_files`; the arrays of several files are joined along the first axis. Length: that of the
    first axis; indexed. State: a position; it is refused if the files have changed.

    Local files are memory-mapped, and travel to other processes as paths. Remote files are read by rows, up to 16
    ranges at a time; but those in Fortran order are read whole, once in each process. Rows are read-only. Do not change
    the files while the pipe is in use: if a mapped file becomes shorter, the system ends a process that reads beyond
    its end.

    An `.npz` file holds several arrays, and a column is the one of its name; `read_numpy({"x": path, "y": path})` reads
    two. Arrays that `savez_compressed` wrote are read whole, once in each process.

    Args:
        paths: a file, a folder, a glob, or a list of those; or a dict of these by the names of columns.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.

    Raises:
        SourceError: a path is missing, matches no file, cannot be read, or has changed since its header was read.
        ArgumentError: an `.npz` file is given without the names of columns.
        DataError: a file is no `.npy` file, lacks the array of a column, is truncated, holds Python objects,
            fields or dates, or has no axis; it differs from the first in dtype or in the shape of rows; or columns
            differ in length.

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
        selections = {UNNAMED: Selection(cast("str", paths), filesystem=filesystem)}
        return cast("Pipe[Array | np.generic]", Pipe.source(ReadNumpy(selections, cache=cache)))
    check_columns("paths", paths)
    named = cast("Mapping[str, str]", paths)
    columns = {name: Selection(some, filesystem=filesystem) for name, some in named.items()}
    return cast("Pipe[Row]", Pipe.source(ReadNumpy(columns, cache=cache)))


@dataclass(frozen=True, eq=False, repr=False)
class ReadNumpy(ReadArrays):
    kind: ClassVar[str] = "read_numpy"

    selections: Mapping[str, Selection] = field(repr=False)

    @property
    def columns(self) -> Columns:  # type: ignore[override]
        return Columns.LOSES if UNNAMED in self.selections else Columns.MAKES

    @property
    def shown(self) -> Sequence[str]:
        paths = {name: selection.paths for name, selection in self.selections.items()}
        return [redacted(value_code(paths.get(UNNAMED, paths)))]

    def find(self) -> Mapping[str, ArrayColumn]:
        columns: dict[str, ArrayColumn] = {}
        for name, selection in self.selections.items():
            files, digest = self.files(selection)
            parts = (in_turn if files[0].is_local() else in_threads)(partial(_find_array, name), files)
            columns[name] = ArrayColumn.of(parts, digest)
        return columns


@dataclass(frozen=True)
class NpyArray(FileRows):
    """An array as `.npy` files hold it, from byte `at` of a file on."""

    head: ArrayHeader
    at: int = 0

    @property
    def first(self) -> int:
        return self.at + self.head.begin

    def view(self) -> Array | None:
        # In Fortran order, the items of a row are all over the file.
        if self.head.fortran and not self.is_mapped:
            return self.head.array(read_whole(self.file)[self.at :])
        return super().view()

    def mapped(self) -> Array:
        buffer = map_file(cast("str", local_path(self.file)), self.file.name)
        data = buffer.slice(self.at, self.head.size) if self.at else buffer
        # It must still have the header that was read.
        if read_header(data[:HEADER_BYTES].to_pybytes(), self.name, data.size) != self.head:
            raise changed_error(self.file.name, "header")
        return self.head.array(data)


@dataclass(frozen=True)
class PackedArray(ArrayPart):
    """A compressed array of an `.npz` file."""

    file: File
    member: str
    head: ArrayHeader

    def view(self) -> Array:
        import zipfile

        with self.file.open(None) as stream, _reading(self.file, stream), zipfile.ZipFile(stream) as packed:
            data = packed.read(self.member)
        if read_header(data[:HEADER_BYTES], self.name, len(data)) != self.head:
            raise changed_error(self.file.name, "header")
        return self.head.array(data)


_SUFFIX = ".npz"
_LOCAL_HEAD_BYTES = 30  # of a member of a zip file, before its name


def _find_array(column: str, file: File) -> ArrayPart:
    """Find the array of a column in a file, and read its header."""
    with file.open(None) as stream, _reading(file, stream):
        if split_options(file.path)[0].endswith(_SUFFIX):
            return _find_member(column, file, stream)
        head = stream.read(HEADER_BYTES)
    header = read_header(head, file.name, file.known_size())
    return NpyArray(file.path, file.name, header.dtype, header.shape, file, header)


def _find_member(column: str, file: File, stream: Stream) -> ArrayPart:
    import zipfile

    with zipfile.ZipFile(stream) as packed:
        members = {info.filename.removesuffix(".npy"): info for info in packed.infolist()}
        if not column:
            call = ", ".join(f"{name!r}: {os.path.basename(file.path)!r}" for name in members)
            raise ArgumentError(
                f"`paths` must be a dict for {file.name}, which holds several arrays, and a column is one of them; "
                f"`read_numpy({{{call}}})` reads all of them"
            )
        if column not in members:
            raise DataError(f"{file.name} has no array {column!r}; it has {', '.join(map(repr, members))}")
        info, name = members[column], f"{file.name}, array {column!r}"
        # It holds all rows, such as masks, which pack well; only zeros do so more than 128 times.
        if info.compress_type != zipfile.ZIP_STORED and (
            problem := unpacked_problem(info.file_size, 4 * info.compress_size)
        ):
            raise DataError(f"{name}: {problem}")
        with packed.open(info) as member:
            head = read_header(member.read(HEADER_BYTES), name, info.file_size)
    if info.compress_type != zipfile.ZIP_STORED:
        return PackedArray(file.path, name, head.dtype, head.shape, file, info.filename, head)
    stream.seek(info.header_offset)
    local = stream.read(_LOCAL_HEAD_BYTES)
    further = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    at = info.header_offset + _LOCAL_HEAD_BYTES + further
    return NpyArray(file.path, name, head.dtype, head.shape, file, head, at)


@contextmanager
def _reading(file: File, stream: Stream) -> Generator[None]:
    """Translate the errors of reading a file."""
    import zipfile

    try:
        yield
    except FeedpipeError:
        raise
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:
        if stream.remote is not None:
            stream.remote.check_unchanged()  # its error tells more
        raise DataError(f"{file.name} is no {_SUFFIX} file that can be read, or is damaged: {error}") from error
    except STREAM_ERRORS as error:
        raise stream_error(error, file.name, stream, 0) from error
