"""`read_hdf5`: the rows of datasets in HDF5 files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from traceback import clear_frames
from typing import Any, ClassVar, cast

from ..core.checks import Package
from ..core.code import value_code
from ..core.ending import Ending
from ..core.rows import Row
from ..errors import ArgumentError, ArgumentTypeError, DataError, FeedpipeError, SourceError, redacted
from ..files.open_files import changed_error
from ..formats.columns import suggest_name
from ..pipe import Pipe
from ..storage.file import File
from ..storage.file_cache import FileCache
from ..storage.listing import Selection
from ..storage.mapping import local_path
from ._arrays import ArrayColumn, ChunkedPart, Memory, ReadArrays, check_columns

PACKAGE = Package("h5py", "h5py", "hdf5", "HDF5 files are read")


def read_hdf5(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    datasets: Sequence[str] | Mapping[str, str],
    *,
    filesystem: object = None,
    cache: FileCache | None = None,
) -> Pipe[Row]:
    """Begin a pipe with the rows of datasets in HDF5 files: row i holds item i of each, along the first axis.

    Element: a dict with a value for each dataset: a NumPy array, or a Python scalar if the dataset has one axis; a
    batch of them is `Rows`, which keeps columns. Order: the files as `list_files` sorts them, and the rows of each in
    order. Length: that of all files; indexed. State: a position; it is refused if the files have changed.

    A chunk is read, and decompressed, when one of its rows is asked for. Each process keeps up to 256 MiB of chunks; if
    all take more, `shuffle(window=...)` reads each of them fewer times than `shuffle()`. Of a dataset without chunks,
    64 KiB are read at a time. Each process opens the files itself, a forked one too, so a file that was opened before a
    fork does no harm. `pip install 'feedpipe[hdf5]'` installs h5py. Filters of other packages work once these are
    imported, as by `import hdf5plugin`; a worker needs the import too.

    Args:
        paths: a file, a folder, a glob, or a list of those. Each file has all datasets.
        datasets: their names, such as "train/images"; or a dict of these by the names of columns.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.

    Raises:
        ArgumentError: h5py is not installed.
        SourceError: a path is missing, matches no file, cannot be read, or has changed since it was first opened.
        DataError: a file is no HDF5 file, lacks a dataset, or has one that holds no numbers, bools, or text or bytes of
            fixed width; datasets of one column differ in dtype or in the shape of rows; columns differ in length; a
            chunk is damaged.

    Example:
        >>> import feedpipe as fp, h5py, numpy as np
        >>> with h5py.File("a.h5", "w") as file:
        ...     file["train/x"], file["train/y"] = np.arange(6.0).reshape(3, 2), [1, 0, 1]
        >>> pipe = fp.read_hdf5("a.h5", {"x": "train/x", "y": "train/y"})
        >>> len(pipe), pipe[1]
        (3, {'x': array([2., 3.]), 'y': 0})
    """
    PACKAGE.check()
    named: object = datasets
    if isinstance(datasets, str) or not isinstance(datasets, (Mapping, Sequence)):
        raise ArgumentTypeError(f"`datasets` must be a list of names, or a dict, but got: {datasets!r}")
    if not isinstance(datasets, Mapping):
        if len({*datasets}) < len(datasets):
            raise ArgumentError(f"`datasets` must name each dataset once but got: {datasets!r}")
        named = {name: name for name in datasets}
    check_columns("datasets", named)
    for name in cast("Mapping[str, object]", named).values():
        if not isinstance(name, str):
            raise ArgumentTypeError(f"`datasets` must hold names of datasets but got: {name!r}")
    selection = Selection(cast("str", paths), filesystem=filesystem)
    return cast("Pipe[Row]", Pipe.source(ReadHdf5(selection, cast("Mapping[str, str]", named), cache=cache)))


@dataclass(frozen=True, eq=False, repr=False)
class ReadHdf5(ReadArrays):
    kind: ClassVar[str] = "read_hdf5"

    selection: Selection = field(repr=False)
    datasets: Mapping[str, str]

    @property
    def shown(self) -> Sequence[str]:
        return redacted(value_code(self.selection.paths)), value_code(self.datasets)

    def find(self) -> Mapping[str, ArrayColumn]:
        files, digest = self.files(self.selection)
        parts = [_find_datasets(file, [*self.datasets.values()]) for file in files]
        return {name: ArrayColumn.of((some[k] for some in parts), digest) for k, name in enumerate(self.datasets)}


@dataclass(frozen=True)
class Hdf5Array(ChunkedPart):
    """A dataset."""

    file: File
    dataset: str

    def opened(self, memory: Memory) -> Any:
        key = id(self.file.filesystem), self.file.path
        file = cast("Any", memory.file(key, partial(_open_to_keep, self.file)))
        if self.dataset not in file:
            raise changed_error(self.file.name, "shape")
        return file[self.dataset]

    def stored_bytes(self, opened: Any) -> int:
        return int(opened.id.get_storage_size())


def _find_datasets(file: File, names: Sequence[str]) -> list[Hdf5Array]:
    """Find datasets in a file."""
    with _open(file) as opened:
        try:
            return [_find_dataset(file, opened, name) for name in names]
        except Exception as error:  # h5py raises many kinds for damaged bytes
            raise _read_error(file, error) from error


def _find_dataset(file: File, opened: Any, name: str) -> Hdf5Array:
    h5py = PACKAGE.load()
    dataset = opened.get(name)
    if not isinstance(dataset, h5py.Dataset):
        datasets: list[str] = []
        opened.visititems(lambda path, item: datasets.append(path) if isinstance(item, h5py.Dataset) else None)
        what = "has no dataset" if dataset is None else "has a group, and no dataset,"
        raise DataError(f"{file.name} {what} {name!r}; {suggest_name(name, datasets)}")
    place = f"{file.name}, dataset {name!r}"
    if dataset.shape is None:
        raise DataError(f"{place} is empty, and has no axis for rows")
    if dataset.dtype.hasobject:
        raise DataError(
            f"{place} holds values of varying length; a column holds numbers, bools, or text or bytes of fixed width"
        )
    chunk_rows = dataset.chunks[0] if dataset.chunks else 0
    return Hdf5Array(file.path, place, dataset.dtype.str, dataset.shape, chunk_rows, file, name)


def _open_to_keep(file: File) -> Any:
    """Open a file that may still be there when the process ends.

    HDF5 closes it after Python has ended, and over a stream of Python that ends the process by SIGSEGV.
    """
    opened = _open(file)
    if local_path(file) is None:
        Ending(opened, partial(_close, opened.id))
    return opened


def _close(number: Any) -> None:
    if number.valid:
        PACKAGE.load().File(number).close()  # also the datasets that are open


def _open(file: File) -> Any:
    h5py = PACKAGE.load()
    stream = file.open(None)  # it is there, and has the size that was listed
    path = local_path(file)
    try:
        if path is None:
            return h5py.File(stream, "r")
        stream.close()
        # On some file systems no file can be locked, and readers do not have to.
        return h5py.File(path, "r", locking="best-effort")
    except Exception as error:
        # Its frames hold properties of the stream, which HDF5 would free after Python has ended, too.
        clear_frames(error.__traceback__)
        stream.close()
        raise _read_error(file, error) from error


def _read_error(file: File, error: Exception) -> FeedpipeError:
    if isinstance(error, FeedpipeError):
        return error
    reason = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno:
        return SourceError(f"{file.name} cannot be read: {reason}")
    return DataError(f"{file.name} is no HDF5 file, or is damaged: {reason}")
