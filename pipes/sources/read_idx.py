"""`read_idx`: the rows of files in the IDX format, which MNIST is published in."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np

from ..core.code import value_code
from ..core.cursor import Json
from ..core.rows import Array, Row
from ..errors import ArgumentError, ArgumentTypeError, DataError, SourceError
from ..formats.npy import ArrayHeader
from ..pipe import Pipe
from ..storage.file import File
from ..storage.filesystem import locate
from ._arrays import ArrayColumn, ArrayPart, ReadArrays

_DTYPES = {0x08: "|u1", 0x09: "|i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP_MAGIC = b"\x1f\x8b"


def read_idx(files: Mapping[str, str | os.PathLike[str]]) -> Pipe[Row]:
    r"""Begin a pipe with the rows of IDX files, the format of MNIST: row i holds item i of each.

    Element: a dict with a value for each name: a NumPy array, or a Python scalar if the file has one axis. Order: that
    of the files. Length: theirs; indexed; columns. State: a position. Plain local files are memory-mapped. Remote files
    and files compressed with gzip are read into memory, once in each process. Rows are read-only.

    Args:
        files: paths or URLs by name; all files must have the same number of rows.

    Raises:
        SourceError: a file is missing or cannot be read.
        DataError: a file is no IDX file, is truncated, or has another length than the first. The first look at the pipe
            raises both; damage inside a gzip file may only be seen at the first row.

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
            f'`files` must be a dict of paths, such as {{"image": path}}, but got: {type(files).__name__}'
        )
    if not files:
        raise ArgumentError("`files` must hold at least one path but got: {}")
    for name, path in cast("Mapping[object, object]", files).items():
        if not isinstance(name, str) or not isinstance(path, (str, os.PathLike)):
            raise ArgumentTypeError(f"`files` must hold paths by name but got: {name!r}: {path!r}")
    return cast("Pipe[Row]", Pipe.source(ReadIdx({name: os.fspath(path) for name, path in files.items()})))


@dataclass(frozen=True, eq=False)
class ReadIdx(ReadArrays):
    kind: ClassVar[str] = "read_idx"

    # The folders are not part of a state; `identity` has the names of the files.
    paths: Mapping[str, str] = field(repr=False)

    def find(self) -> Mapping[str, ArrayColumn]:
        return {name: ArrayColumn((_read_head(path),)) for name, path in self.paths.items()}

    def identity(self) -> Json:
        parts = {name: column.parts[0] for name, column in self.resolved.items()}
        return {name: [os.path.basename(part.path), part.dtype, list(part.shape)] for name, part in parts.items()}

    def call(self) -> str:
        return f"{self.kind}({value_code(self.paths)})"


@dataclass(frozen=True)
class IdxArray(ArrayPart):
    """The array of a file: mapped, or read into memory if it is remote or compressed."""

    file: File
    head: ArrayHeader

    def view(self) -> Array:
        if _read_head(self.path).head != self.head:
            raise SourceError(f"{self.path} has changed since its header was read")
        place = locate(self.path)
        if self.file.compression is None and place.filesystem.type_name == "local" and 0 not in self.shape:
            return np.memmap(place.path, self.dtype, "r", self.head.begin, self.shape)
        return self.head.array(_read(self.file, self.head))


def _read_head(path: str) -> IdxArray:
    """Reads the head of a file: two zero bytes, the code of the type, the number of axes, and their lengths.

    Raises:
        SourceError: the file cannot be read.
        DataError: it is no IDX file, or its size is not what its head says.
    """
    with File(path).open(None) as stream:
        gzip = stream.read(2) == _GZIP_MAGIC
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 4))
        trailer = stream.read(4)
    file = File(path, compression="gzip" if gzip else None)
    with file.open() as stream:
        try:
            magic = stream.read(4)
            axes = magic[3] if len(magic) == 4 else 0
            lengths = stream.read(4 * axes)
        except OSError as error:
            raise DataError(f"{path} is truncated or damaged: {error}") from error
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _DTYPES or not axes:
        raise DataError(
            f"{path} is no IDX file: it begins with 0x{magic.hex()}, and should begin with two zero bytes, a type code "
            "and the number of axes"
        )
    if len(lengths) < 4 * axes:
        raise DataError(f"{path} is truncated: it ends within the lengths of its {axes} axes")
    head = ArrayHeader(_DTYPES[magic[2]], struct.unpack(f">{axes}I", lengths), fortran=False, begin=4 + 4 * axes)
    if not gzip:
        head.check_size(path, size)
    # gzip ends with the length of its content, modulo 2**32. A file of several gzip streams has only that of the last.
    elif int.from_bytes(trailer, "little") != head.size % 2**32:
        _read(file, head)
    return IdxArray(path, path, head.dtype, head.shape, file, head)


def _read(file: File, head: ArrayHeader) -> bytes:
    """The content of the whole file."""
    try:
        with file.open() as stream:
            data = stream.read()
    except SourceError:
        raise
    except OSError as error:
        raise DataError(f"{file.path} is truncated or damaged: {error}") from error
    head.check_size(file.path, len(data))
    return data
