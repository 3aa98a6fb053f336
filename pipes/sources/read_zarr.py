"""`read_zarr`: the rows of Zarr arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from ..core.checks import Package
from ..core.code import value_code
from ..core.rows import Row
from ..errors import ArgumentError, ArgumentTypeError, DataError, SourceError, redacted, shown_path
from ..pipe import Pipe
from ..storage.tasks import in_threads
from ._arrays import ArrayColumn, ChunkedPart, Memory, ReadArrays, check_columns

PACKAGE = Package("zarr", "zarr", "zarr", "Zarr arrays are read")


def read_zarr(paths: Mapping[str, str | os.PathLike[str] | Iterable[str | os.PathLike[str]]]) -> Pipe[Row]:
    """Begin a pipe with the rows of Zarr arrays: row i holds item i of each column, along the first axis.

    Element: a dict with a value for each column: a NumPy array, or a Python scalar if the array has one axis; a batch
    of them is `Rows`, which keeps columns. Order: that of the arrays; several arrays of a column are joined along the
    first axis. Length: that of the columns; indexed. State: a position; it is refused if types or shapes have changed.

    A chunk, or a shard of chunks, is read and decompressed when one of its rows is asked for. Each process keeps up to
    256 MiB of them; if all take more, `shuffle(window=...)` reads each of them fewer times than `shuffle()`. Zarr reads
    its formats 2 and 3 with its own storage, for local paths and the URLs that fsspec knows, so there are no
    `filesystem` and `cache`. Each process opens the arrays itself. `pip install 'feedpipe[zarr]'` installs zarr.

    Args:
        paths: by the names of columns, the path or URL of an array, such as "data.zarr/train/x", or a list of those.

    Raises:
        ArgumentError: zarr is not installed.
        SourceError: an array is missing, cannot be read, or has changed since it was first opened.
        DataError: an array holds no numbers, bools, or text or bytes of fixed width; the arrays of a column differ in
            dtype or in the shape of rows; columns differ in length; a chunk is damaged.

    Example:
        >>> import feedpipe as fp, numpy as np, zarr
        >>> zarr.save_array("x.zarr", np.arange(6.0).reshape(3, 2))
        >>> zarr.save_array("y.zarr", np.array([1, 0, 1]))
        >>> pipe = fp.read_zarr({"x": "x.zarr", "y": "y.zarr"})
        >>> len(pipe), pipe[1]
        (3, {'x': array([2., 3.]), 'y': 0})
    """
    PACKAGE.check()
    check_columns("paths", paths)
    lists: dict[str, tuple[str, ...]] = {}
    for name, value in cast("Mapping[str, object]", paths).items():
        some = [value] if isinstance(value, (str, os.PathLike)) or not isinstance(value, Iterable) else [*value]
        if not some:
            raise ArgumentError(f"`paths` must hold an array for column {name!r} but got: {value!r}")
        if not all(isinstance(path, (str, os.PathLike)) for path in some):
            raise ArgumentTypeError(f"`paths` must hold paths of arrays but got: {value!r}")
        lists[name] = tuple(os.fspath(cast("str", path)) for path in some)
    return cast("Pipe[Row]", Pipe.source(ReadZarr(lists)))


@dataclass(frozen=True, eq=False, repr=False)
class ReadZarr(ReadArrays):
    kind: ClassVar[str] = "read_zarr"

    paths: Mapping[str, tuple[str, ...]] = field(repr=False)

    @property
    def shown(self) -> Sequence[str]:
        return [redacted(value_code({k: some[0] if len(some) == 1 else [*some] for k, some in self.paths.items()}))]

    def find(self) -> Mapping[str, ArrayColumn]:
        return {name: ArrayColumn.of(in_threads(_find_array, some)) for name, some in self.paths.items()}


@dataclass(frozen=True)
class ZarrArray(ChunkedPart):
    """An array, as Zarr opens it."""

    def opened(self, memory: Memory) -> Any:
        return memory.file(self.path, lambda: _open(self.path))

    def stored_bytes(self, opened: Any) -> int:
        stored = opened.nbytes_stored
        return int(cast("int", stored() if callable(stored) else stored))  # a method since version 3


def _find_array(path: str) -> ZarrArray:
    opened, name = _open(path), shown_path(path)
    if opened.dtype.hasobject:
        raise DataError(f"{name} holds objects, such as text of varying length; a column holds numbers")
    # The chunks of a shard lie in one file.
    chunks = getattr(opened, "shards", None) or opened.chunks
    return ZarrArray(path, name, opened.dtype.str, opened.shape, chunks[0] if chunks else 0)


def _open(path: str) -> Any:
    zarr = PACKAGE.load()
    try:
        return zarr.open_array(os.path.expanduser(path), mode="r")
    except Exception as error:  # Zarr and its stores raise errors of many kinds
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SourceError(f"{shown_path(path)} cannot be opened as a Zarr array: {reason}") from error
