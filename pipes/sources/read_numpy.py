"""`read_numpy`: the rows of arrays in `.npy` files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias, Union, cast, overload

import numpy as np

from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Columns, Operator
from ..core.per_process import PerProcess
from ..core.rows import Array, BlockRows, Indices, Row, Rows
from ..engine.stage import Stage
from ..errors import ArgumentError, ArgumentTypeError, DataError, Origin, SourceError, redacted, with_call_site
from ..ops.parsing._open_files import at_call_site, listed_files
from ..pipe import Pipe
from ..storage.listing import Selection
from ..storage.tasks import in_threads
from ._npy_files import Joined, NpyFile, Ranges, looked_at

Paths: TypeAlias = Union["str", "os.PathLike[str]", "Iterable[str | os.PathLike[str]]"]

_ONLY = ""  # the name of the column where the user gave none


@dataclass(frozen=True)
class _Found:
    """The files of a column, in order, and the digest of their listing."""

    files: tuple[NpyFile, ...]
    digest: str

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, eq=False)
class ReadNumpy(Operator):
    kind: ClassVar[str] = "read_numpy"
    waits: ClassVar[bool] = True

    # Where the files lie is no part of a state; `identity` has what counts.
    selections: Mapping[str, Selection] = field(repr=False)
    found: Mapping[str, _Found] = field(default_factory=dict, repr=False)
    memory: PerProcess[Joined] = field(default_factory=PerProcess, repr=False)

    @property
    def columns(self) -> Columns:  # type: ignore[override]
        return Columns.LOSES if _ONLY in self.selections else Columns.MAKES

    def call(self) -> str:
        paths = {name: selection.paths for name, selection in self.selections.items()}
        return f"{self.kind}({redacted(value_code(paths.get(_ONLY, paths)))})"

    def resolve(self, stage: Stage) -> Operator:
        if self.found:
            return self
        try:
            found = {name: _found(selection) for name, selection in self.selections.items()}
            _check_lengths(found)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error
        return replace(self, found=found)

    def length(self, stage: Stage) -> int:
        return next(iter(self.found.values())).rows

    def origin(self, stage: Stage, index: int, context: Context) -> Origin:
        file, number = self._joined().place(index)
        return Origin(file.path, number + 1)

    def identity(self) -> Json:
        return {
            name: [found.files[0].head.dtype, [found.rows, *found.files[0].head.shape[1:]], found.digest]
            for name, found in self.found.items()
        }

    def begin(self, stage: Stage, index: int, context: Context) -> Ranges | None:
        return self._joined().begun(index)

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        begun = cast("Ranges | None", stage.begun(indices, context))
        try:
            rows = self._joined().rows(indices, begun or {}, threads=context.threads)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error
        return list[object](cast("Rows", rows).columns[_ONLY]) if _ONLY in self.selections else rows

    def _joined(self) -> Joined:
        return self.memory.get(lambda: Joined({name: found.files for name, found in self.found.items()}))


@overload  # a Mapping is an Iterable, too
def read_numpy(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    paths: Mapping[str, Paths], *, filesystem: object = None
) -> Pipe[Row]: ...
@overload
def read_numpy(paths: Paths, *, filesystem: object = None) -> Pipe[Array | np.generic]: ...
def read_numpy(
    paths: Mapping[str, Paths] | Paths, *, filesystem: object = None
) -> Pipe[Row] | Pipe[Array | np.generic]:
    """Begin a pipe with the rows of arrays in `.npy` files: the items along their first axis.

    Element: of one path, or of a list, an item: a NumPy array, or a NumPy scalar where the array has one axis. Of a
    dict a table row: a dict with, for each name, an array, or a Python scalar where the column has one axis. Arrays of
    several files are joined along the first axis, in the order of `list_files`. Length: that axis'; indexed. State: a
    position; it is refused where the files have changed.

    Files on this machine are memory-mapped, and travel to other processes as paths; of others only the rows asked for
    are read, up to 16 ranges at a time; those in Fortran's order whole, once in each process. Rows are read-only. Leave
    the files as they are while the pipe is in use: where a mapped file becomes shorter, the system ends the process
    that reads behind its end.

    Args:
        paths: a file, a folder, a glob, or a list of those; or a dict of such by the names of columns.
        filesystem: a pyarrow or fsspec file system that `paths` are on; else they are local paths or URLs.

    Raises:
        SourceError: a path is missing, stands for no file, cannot be read, or has changed since its header was read.
        DataError: a file is no `.npy` file, is truncated, holds Python objects, fields or dates, or has no axis; it
            differs from the first in dtype or in the shape of rows; columns differ in length.

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
        only = {_ONLY: Selection(cast("str", paths), filesystem=filesystem)}
        return cast("Pipe[Array | np.generic]", Pipe.source(ReadNumpy(only)))
    if not paths:
        raise ArgumentError(with_call_site("`paths` must hold at least one column but got: {}"))
    columns: dict[str, Selection] = {}
    for name, some in cast("Mapping[object, str]", paths).items():
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(with_call_site(f"`paths` must have names of columns but got: {name!r}"))
        columns[name] = Selection(some, filesystem=filesystem)
    return cast("Pipe[Row]", Pipe.source(ReadNumpy(columns)))


def _found(selection: Selection) -> _Found:
    """The files of a column.

    Raises:
        SourceError: there are none, or one cannot be read.
        DataError: one is no array of rows, or is unlike the first.
    """
    listing = selection.listing()
    files = listed_files(listing, selection.filesystem)
    looked = map(looked_at, files) if files[0].is_local() else in_threads(looked_at, files)
    found: list[NpyFile] = []
    for one in looked:
        found.append(one)
        _check_like(one, found[0])
    return _Found(tuple(found), listing.digest)


def _check_like(one: NpyFile, first: NpyFile) -> None:
    head = one.head
    dtype = np.dtype(head.dtype)
    if not head.shape:
        raise DataError(f"{one.file.name} must have an axis, for the rows, but holds a single item")
    if dtype.kind not in "biufcSU":
        raise DataError(
            f"{one.file.name} has dtype {dtype}, and a column holds numbers, bools, text or bytes of fixed width; of "
            "dates save the numbers"
        )
    if (head.dtype, head.shape[1:]) != (first.head.dtype, first.head.shape[1:]):
        raise DataError(
            f"files of one column must be alike but {first.file.name} has rows of shape {first.head.shape[1:]} and "
            f"{np.dtype(first.head.dtype)}, and {one.file.name} of {head.shape[1:]} and {dtype}"
        )


def _check_lengths(found: Mapping[str, _Found]) -> None:
    (first, column), *others = found.items()
    for name, other in others:
        if other.rows != column.rows:
            raise DataError(
                f"columns must be of one length but {first!r} has {column.rows} rows ({column.files[0].file.name}) and "
                f"{name!r} {other.rows} ({other.files[0].file.name})"
            )
