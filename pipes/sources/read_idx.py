"""`read_idx`: the IDX format of MNIST and its kin."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO, ClassVar, NamedTuple, cast

import numpy as np

from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Columns, Operator
from ..core.per_process import PerProcess
from ..core.rows import Array, BlockRows, Indices, Row, read_only
from ..engine.stage import Stage
from ..errors import ArgumentError, ArgumentTypeError, DataError, Origin, SourceError, with_call_site
from ..pipe import Pipe
from ..storage.file import File
from ..storage.filesystem import locate
from ._arrays import rows_at

_DTYPES = {0x08: "|u1", 0x09: "|i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"


class _Head(NamedTuple):
    """What a file says of itself: two zero bytes, a code for the type, the number of axes, and their lengths."""

    dtype: str
    shape: tuple[int, ...]
    gzip: bool

    @property
    def begin(self) -> int:
        return 4 + 4 * len(self.shape)

    @property
    def size(self) -> int:
        return self.begin + math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, eq=False)
class ReadIdx(Operator):
    kind: ClassVar[str] = "read_idx"
    columns: ClassVar[Columns] = Columns.MAKES

    # Where the files lie is no part of a state; `identity` has their names.
    files: Mapping[str, str] = field(repr=False)
    heads: Mapping[str, _Head] = field(default_factory=dict, repr=False)
    memory: PerProcess[dict[str, Array]] = field(default_factory=PerProcess, repr=False)

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return True

    def resolve(self, stage: Stage) -> Operator:
        heads = {name: _head(path) for name, path in self.files.items()}
        first, *others = self.files
        for name in others:
            if heads[name].shape[0] != heads[first].shape[0]:
                raise DataError(
                    with_call_site(
                        f"files of `read_idx` must be of one length but {self.files[first]} has "
                        f"{heads[first].shape[0]} rows and {self.files[name]} {heads[name].shape[0]}",
                        stage.node.call_site,
                    )
                )
        return replace(self, heads=heads)

    def length(self, stage: Stage) -> int:
        return next(iter(self.heads.values())).shape[0]

    def origin(self, stage: Stage, index: int, context: Context) -> Origin:
        return Origin(next(iter(self.files.values())), index + 1)

    def identity(self) -> Json:
        return {
            name: [os.path.basename(self.files[name]), head.dtype, list(head.shape)]
            for name, head in self.heads.items()
        }

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        return rows_at(self._arrays(), self.length(stage), indices)

    def call(self) -> str:
        return f"{self.kind}({value_code(self.files)})"

    def _arrays(self) -> dict[str, Array]:
        return self.memory.get(lambda: {name: _array(path, self.heads[name]) for name, path in self.files.items()})


def read_idx(files: Mapping[str, str | os.PathLike[str]]) -> Pipe[Row]:
    r"""Begin a pipe with the rows of IDX files, the format of MNIST: row i holds item i of each.

    Element: a dict with, for each name, a NumPy array, or a Python scalar where the file has one axis. Order is the
    files'; their length; indexed; columns. State: a position. Plain local files are memory-mapped; those compressed by
    gzip, and remote ones, are read into memory once in each process. Rows are read-only.

    Args:
        files: paths or URLs by name, all of one length.

    Raises:
        SourceError: a file is missing or cannot be read.
        DataError: a file is no IDX file, is truncated, or is of another length than the first. Both are found at the
            first look at the pipe; a damaged file of gzip may be found at the first row.

    Source: Yann LeCun, "The MNIST database of handwritten digits", section "File formats".

    Example:
        >>> import feedpipe as fp, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "labels-idx1-ubyte")
        >>> _ = path.write_bytes(b"\0\0\x08\1" + b"\0\0\0\3" + b"\5\0\4")
        >>> list(fp.read_idx({"label": path}))
        [{'label': 5}, {'label': 0}, {'label': 4}]
    """
    if not isinstance(files, Mapping):
        raise ArgumentTypeError(
            with_call_site(
                f'`files` must be a dict of paths, such as {{"image": path}}, but got: {type(files).__name__}'
            )
        )
    if not files:
        raise ArgumentError(with_call_site("`files` must hold at least one path but got: {}"))
    for name, path in cast("Mapping[object, object]", files).items():
        if not isinstance(name, str) or not isinstance(path, (str, os.PathLike)):
            raise ArgumentTypeError(with_call_site(f"`files` must hold paths by name but got: {name!r}: {path!r}"))
    return cast("Pipe[Row]", Pipe.source(ReadIdx({name: os.fspath(path) for name, path in files.items()})))


def _head(path: str) -> _Head:
    with File(path).open(None) as stream:
        gzip = stream.read(2) == _GZIP
        stream.seek(-4, os.SEEK_END) if gzip else stream.seek(0)
        trailer = stream.read(4)
    if gzip:
        with File(path).open("gzip") as stream:
            head = _parsed(path, stream, gzip)
        # gzip ends with the length of what it holds, modulo 2**32. Where that differs, the file may yet be several
        # streams, one after another: reading it all tells.
        if int.from_bytes(trailer, "little") != head.size % 2**32:
            _read(path, head)
        return head
    with File(path).open(None) as stream:
        head = _parsed(path, stream, gzip)
    _check_size(path, head, File(path).size())
    return head


def _parsed(path: str, stream: BinaryIO, gzip: bool) -> _Head:
    try:
        magic = stream.read(4)
        axes = magic[3] if len(magic) == 4 else 0
        lengths = stream.read(4 * axes)
    except OSError as error:
        raise DataError(f"{path} is truncated or damaged: {error}") from error
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _DTYPES or not axes:
        raise DataError(
            f"{path} is no IDX file: it begins with 0x{magic.hex()}, where two zero bytes, a type code and the number "
            "of axes should stand"
        )
    if len(lengths) < 4 * axes:
        raise DataError(f"{path} is truncated: it ends within the lengths of its {axes} axes")
    return _Head(_DTYPES[magic[2]], struct.unpack(f">{axes}I", lengths), gzip)


def _check_size(path: str, head: _Head, size: int) -> None:
    if size != head.size:
        what = "is truncated" if size < head.size else "is longer than it says"
        shape = " x ".join(map(str, head.shape))
        raise DataError(f"{path} {what}: {shape} items of {head.dtype} make {head.size} bytes, and it has {size}")


def _array(path: str, head: _Head) -> Array:
    if _head(path) != head:
        raise SourceError(f"{path} has changed since its header was read")
    place = locate(path)
    if head.gzip or place.filesystem.type_name != "local" or not math.prod(head.shape):
        return _read(path, head)
    return read_only(np.memmap(place.path, head.dtype, "r", head.begin, head.shape))


def _read(path: str, head: _Head) -> Array:
    try:
        with File(path).open("gzip" if head.gzip else None) as stream:
            data = stream.read()
    except SourceError:
        raise
    except OSError as error:
        raise DataError(f"{path} is truncated or damaged: {error}") from error
    _check_size(path, head, len(data))
    return read_only(np.frombuffer(data, head.dtype, offset=head.begin).reshape(head.shape))
