"""`read_tokens`: windows of the token shards that pretraining programs write."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple, TypeAlias, Union, cast

import numpy as np
import numpy.typing as npt

from ..core.checks import check_bool, check_int
from ..core.code import call_code, value_code
from ..core.context import Context
from ..core.lazy import pa
from ..core.operator import StageView
from ..core.process import PerProcess
from ..core.rows import Array, BlockRows, Indices, Row, Rows, index_array, read_only
from ..errors import ArgumentError, ArgumentTypeError, DataError, FeedpipeError, MissingError, redacted
from ..files.open_files import at_call_site, changed_error, read_whole
from ..formats.npy import HEADER_BYTES, read_header
from ..formats.streams import STREAM_ERRORS, stream_error
from ..pipe import Pipe
from ..storage.file import File, Stream
from ..storage.file_cache import FileCache
from ..storage.filesystem import split_options
from ..storage.listing import Selection
from ..storage.mapping import local_path, map_file
from ..storage.tasks import in_threads, in_turn
from ._arrays import ArrayColumn, FileRows, Memory, ReadArrays
from .from_arrays import arrays_schema

Paths: TypeAlias = Union["str", "os.PathLike[str]", "Iterable[str | os.PathLike[str]]"]
Numbers: TypeAlias = "npt.NDArray[np.int64]"


def read_tokens(
    paths: Paths,
    *,
    length: int,
    dtype: npt.DTypeLike | None = None,
    step: int | None = None,
    documents: bool = False,
    end: int | None = None,
    filesystem: object = None,
    cache: FileCache | None = None,
) -> Pipe[Row]:
    """Begin a pipe with windows of token shards, as pretraining programs write them: `.bin` and `.npy` files.

    Element: a dict with "tokens", an array of `length` tokens of the files' dtype. Order: that of `list_files`, and of
    the tokens. Length: for each file, the number of full windows; its last tokens, if they fill none, are left out.
    Indexed; columns. State: a position; it is refused if the files have changed.

    These files are read: `.bin` files of bare tokens, as nanoGPT writes them; those with the header of llm.c and
    modded-nanogpt; Megatron's, with a `.idx` file of the same name beside each; and `.npy` files of one axis. Local
    files are memory-mapped, and travel to other processes as paths. Remote ones are read by windows, up to 16 ranges at
    a time. Do not change the files while the pipe is in use.

    Args:
        paths: a file, a folder, a glob, or a list of those.
        length: tokens of a window. A model that takes inputs and targets of 1024 tokens needs 1025, and `step=1024`:
            `batch["tokens"][:, :-1]` and `[:, 1:]`, of which each token is a target once.
        dtype: that of the tokens, an integer such as "uint16". Needed for bare tokens; other files know it.
        step: tokens from the begin of a window to that of the next; `length` by default.
        documents: add "segment_ids", int32, which counts the documents of a window from 1, and "position_ids", int32,
            which counts the tokens of each from 0, and begins with 0 in each window. Borders are those of the `.idx`
            file, or of `end`.
        end: the token that ends a document, such as 50256 of GPT-2, for files without an index.
        filesystem: a pyarrow or fsspec file system for `paths`; without it, they are local paths or URLs.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.

    Raises:
        ArgumentError: `length` or `step` is below 1; `dtype` is no integer, or is missing for bare tokens; `documents`
            is given for files without an index and without `end`, or `end` without `documents`.
        SourceError: a path is missing, matches no file, cannot be read, or has changed since it was listed.
        DataError: a file is truncated, has another dtype than `dtype` or than the first, or does not fit its index; or
            no file has `length` tokens.

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> np.arange(10, dtype="uint16").tofile("shard.bin")
        >>> windows = fp.read_tokens("shard.bin", dtype="uint16", length=4, step=3)
        >>> [window["tokens"].tolist() for window in windows]
        [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    """
    selection = Selection(cast("str", paths), filesystem=filesystem)
    named = None if dtype is None else _dtype_name(dtype)
    return cast("Pipe[Row]", Pipe.source(ReadTokens(selection, length, named, step, documents, end, cache=cache)))


def _dtype_name(dtype: npt.DTypeLike) -> str:
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise ArgumentTypeError(f"`dtype` must be a dtype of NumPy but got: {dtype!r}") from None
    if found.kind not in "iu":
        raise ArgumentError(f"`dtype` must be an integer, for tokens, but got: {found}")
    return str(found)


@dataclass(frozen=True, eq=False, repr=False)
class ReadTokens(ReadArrays):
    kind: ClassVar[str] = "read_tokens"

    selection: Selection = field(repr=False)
    size: int  # the `length`, which is a method here
    dtype: str | None = None
    step: int | None = None
    documents: bool = False
    end: int | None = None
    borders: PerProcess[Memory] = field(default_factory=PerProcess, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int("length", self.size, least=1))
        if self.step is not None:
            object.__setattr__(self, "step", check_int("step", self.step, least=1))
        if self.end is not None:
            object.__setattr__(self, "end", check_int("end", self.end, least=0))
        check_bool("documents", self.documents)
        super().__post_init__()
        if self.end is not None and not self.documents:
            raise ArgumentError("`end` must be left out without `documents=True`, which it is for")

    @property
    def shown(self) -> Sequence[str]:
        arguments = call_code(self).removeprefix(f"{self.kind}(").removesuffix(")")
        return redacted(value_code(self.selection.paths)), f"length={arguments}"

    def find(self) -> Mapping[str, ArrayColumn]:
        files, digest = self.files(self.selection)
        indexes = {file.path: file for file in files if split_options(file.path)[0].endswith(_INDEX)}
        shards = [file for file in files if file.path not in indexes]
        if not shards:
            raise DataError(f"{files[0].name} is an index; give the `.bin` files, and each index is found beside them")
        finder = partial(self._find_windows, indexes)
        parts = (in_turn if shards[0].is_local() else in_threads)(finder, shards)
        column = ArrayColumn.of(parts, digest)
        if not column.rows:
            longest = max(cast("TokenWindows", part).shard.tokens for part in column.parts)
            raise DataError(
                f"no file has a window of {self.size} tokens: the longest of {len(shards)}, such as "
                f"{shards[0].name}, has {longest}"
            )
        return {"tokens": column}

    def _find_windows(self, indexes: Mapping[str, File], file: File) -> TokenWindows:
        shard = _read_shard(file, indexes, self.dtype)
        if self.documents and self.end is None and shard.borders is None:
            raise ArgumentError(
                f"`documents` takes the borders from an index, and {file.name} has none beside it; give the token that "
                "ends a document, such as `end=50256`"
            )
        step = self.step or self.size
        count = max(0, (shard.tokens - self.size) // step + 1)
        return TokenWindows(file.path, file.name, shard.dtype, (count, self.size), file, shard, step)

    def schema(self, stage: StageView) -> pa.Schema:
        heads = {"tokens": (np.dtype(self.resolved["tokens"].parts[0].dtype), (0, self.size))}
        ids = (np.dtype(np.int32), (0, self.size))
        return arrays_schema(heads | ({"segment_ids": ids, "position_ids": ids} if self.documents else {}))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        rows = super().rows(stage, indices, context)
        if not self.documents:
            return rows
        tokens = np.asarray(cast("Rows", rows).columns["tokens"])
        begins = np.zeros(tokens.shape, bool)  # whether a document begins at a token
        if self.end is not None:
            np.equal(tokens[:, :-1], self.end, out=begins[:, 1:])
        else:
            try:
                self._mark_begins(begins, index_array(indices))
            except FeedpipeError as error:
                raise at_call_site(error, stage) from error.__cause__
        begins[:, 0] = True
        firsts = np.flatnonzero(begins)
        counts = np.append(firsts[1:], tokens.size) - firsts
        numbers = np.arange(len(firsts))
        numbers -= np.repeat(numbers[firsts % self.size == 0], begins.sum(axis=1))  # of a document in its window
        columns: dict[str, Array] = {
            "tokens": tokens,
            "segment_ids": np.repeat((numbers + 1).astype(np.int32), counts),
            "position_ids": np.arange(tokens.size, dtype=np.int32) - np.repeat(firsts.astype(np.int32), counts),
        }
        return Rows({name: read_only(ids.reshape(tokens.shape)) for name, ids in columns.items()}, len(tokens))

    def _mark_begins(self, begins: npt.NDArray[np.bool_], positions: Numbers) -> None:
        """Mark the tokens of the windows at `positions` where a document begins, as the indexes say."""
        parts = self.resolved["tokens"].parts
        starts = np.cumsum([0, *(part.rows for part in parts)])
        owners = np.searchsorted(starts, positions, "right") - 1
        memory = self.borders.get(Memory)
        for number in np.unique(owners).tolist():
            part = cast("TokenWindows", parts[number])
            borders = cast("Numbers", memory.chunk(part.path, part.borders))
            rows = np.flatnonzero(owners == number)
            tokens = (positions[rows] - starts[number]) * part.step
            low, high = np.searchsorted(borders, tokens), np.searchsorted(borders, tokens + self.size)
            counts = high - low
            which = np.arange(counts.sum()) + np.repeat(low - (np.cumsum(counts) - counts), counts)
            begins[np.repeat(rows, counts), borders[which] - np.repeat(tokens, counts)] = True


@dataclass(frozen=True)
class TokenWindows(FileRows):
    """The windows of a file: rows that may overlap."""

    shard: Shard
    step: int

    @property
    def first(self) -> int:
        return self.shard.begin

    @property
    def distance(self) -> int:
        return self.step * np.dtype(self.dtype).itemsize

    def mapped(self) -> Array:
        data = map_file(cast("str", local_path(self.file)), self.file.name)
        if data.size != self.shard.size:
            raise changed_error(self.file.name, "size")
        return read_only(self.spread(data, self.first, self.rows))

    def borders(self) -> Numbers:
        """The tokens where the documents of the file begin, in order."""
        assert self.shard.borders is not None, "`find` sees to it"
        file = self.shard.borders.file
        path = local_path(file)
        data = memoryview(read_whole(file) if path is None else map_file(path, file.name))
        if len(data) != self.shard.borders.size or _index_head(data[: _INDEX_HEAD.size], file) != self.shard.borders:
            raise changed_error(file.name, "header")
        sequences, documents = self.shard.borders.sequences, self.shard.borders.documents
        at = _INDEX_HEAD.size + 4 * sequences
        begins = np.frombuffer(data, "<i8", sequences, at) // np.dtype(self.dtype).itemsize
        firsts = np.frombuffer(data, "<i8", documents, at + 8 * sequences)
        begins = np.append(begins, self.shard.tokens)
        if firsts.size and not 0 <= firsts.min() <= firsts.max() <= sequences:
            raise DataError(f"{file.name} is damaged: a document begins at none of its {sequences} sequences")
        borders = np.unique(begins[firsts])
        return cast("Numbers", borders[borders < self.shard.tokens])


# Files of tokens


_INDEX = ".idx"
_INDEX_HEAD = struct.Struct("<9sQBQQ")
_INDEX_MAGIC = b"MMIDIDX\0\0"
_INDEX_DTYPES = {1: "|u1", 2: "|i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
_HEADER_BYTES = 1024
_HEADERS = {(20240520, 1): "<u2", (20240801, 7): "<u4"}
"""The magic number and the version in the header of llm.c, and the dtype that it stands for."""


class TokenIndex(NamedTuple):
    """The head of an index of Megatron.

    Attributes:
        sequences, documents: the lengths of its arrays; it has a document more than the file, at the end.
    """

    file: File
    dtype: str
    sequences: int
    documents: int
    size: int


class Shard(NamedTuple):
    """Where the tokens of a file are.

    Attributes:
        begin: the byte of the first.
        size: bytes of the file.
    """

    dtype: str
    begin: int
    tokens: int
    size: int
    borders: TokenIndex | None = None


def _read_shard(file: File, indexes: Mapping[str, File], asked: str | None) -> Shard:
    """Find the tokens of a file."""
    name, options = split_options(file.path)
    if File(name).is_compressed():
        raise DataError(f"{file.name} is compressed, and windows are read by position; decompress it first")
    size = file.known_size()
    with file.open(None) as stream:
        if name.endswith(".npy"):
            head = read_header(_read(file, stream, 0, HEADER_BYTES), file.name, size)
            if len(head.shape) != 1:
                raise DataError(f"{file.name} has {len(head.shape)} axes, and tokens have one; `read_numpy` reads rows")
            return _checked(file, Shard(head.dtype, head.begin, head.shape[0], size), asked)
        start = _read(file, stream, 0, 12)
    index = _find_index(file, name, options, indexes) if name.endswith(".bin") else None
    if index is not None:
        items = np.dtype(index.dtype).itemsize
        return _checked(file, Shard(index.dtype, 0, size // items, size, index), asked)
    magic, version, count = struct.unpack("<3i", start) if len(start) == 12 else (0, 0, 0)
    if (magic, version) in _HEADERS:
        shard = _checked(file, Shard(_HEADERS[magic, version], _HEADER_BYTES, count, size), asked)
        expected = _HEADER_BYTES + count * np.dtype(shard.dtype).itemsize
        if size != expected:
            raise DataError(f"{file.name} has {size} bytes, and {expected} says its header; is it truncated?")
        return shard
    if asked is None:
        raise ArgumentError(f'`dtype` must be given for {file.name}, which has bare tokens, such as `dtype="uint16"`')
    items = np.dtype(asked).itemsize
    if size % items:
        raise DataError(
            f"{file.name} has {size} bytes, and tokens of {asked} take {items} each; is it truncated, or of another "
            "`dtype`?"
        )
    return Shard(np.dtype(asked).str, 0, size // items, size)


def _checked(file: File, shard: Shard, asked: str | None) -> Shard:
    found = np.dtype(shard.dtype)
    if found.kind not in "iu":
        raise DataError(f"{file.name} has items of {found}, and tokens are integers")
    if asked is not None and np.dtype(asked) != found:
        raise DataError(f"{file.name} has tokens of {found}, not of {asked}; leave `dtype` out, for the file knows it")
    return shard


def _find_index(file: File, name: str, options: str, indexes: Mapping[str, File]) -> TokenIndex | None:
    """The index beside a file, which must fit it; None if there is none."""
    path = name.removesuffix(".bin") + _INDEX + options
    index = indexes.get(path) or File(path, filesystem=file.filesystem, compression=None, cache=file.cache)
    try:
        stream = index.open(None)
    except MissingError:
        return None
    with stream:
        size = index.known_size()
        head = _index_head(_read(index, stream, 0, _INDEX_HEAD.size), index)
        sequences, items = head.sequences, np.dtype(head.dtype).itemsize
        if size not in (head.size, head.size + sequences):  # of several kinds of data, with a byte for each sequence
            what = "is truncated" if size < head.size else "is longer than it says"
            raise DataError(f"{index.name} {what}: {sequences} sequences make {head.size} bytes, and it has {size}")
        end = 0
        if sequences:
            length = _read(index, stream, _INDEX_HEAD.size + 4 * (sequences - 1), 4)
            begin = _read(index, stream, _INDEX_HEAD.size + 4 * sequences + 8 * (sequences - 1), 8)
            end = int.from_bytes(begin, "little") + items * int.from_bytes(length, "little")
    found = file.known_size()
    if found != end:
        raise DataError(
            f"{file.name} has {found} bytes, and {end} says {index.name}; is one of them truncated, or of another data "
            "set?"
        )
    return head._replace(size=size)


def _index_head(head: bytes | memoryview, file: File) -> TokenIndex:
    try:
        magic, version, code, sequences, documents = _INDEX_HEAD.unpack(head)
        dtype = _INDEX_DTYPES[code]
    except (struct.error, KeyError):
        magic, version, sequences, documents, dtype = b"", 0, 0, 0, ""
    if (magic, version) != (_INDEX_MAGIC, 1):
        raise DataError(
            f"{file.name} is no index of Megatron that can be read: it must begin with MMIDIDX, version 1, and a dtype "
            "of integers; move it away if it belongs to something else"
        )
    return TokenIndex(file, dtype, sequences, documents, _INDEX_HEAD.size + 12 * sequences + 8 * documents)


def _read(file: File, stream: Stream, begin: int, size: int) -> bytes:
    try:
        stream.seek(begin)
        return stream.read(size)
    except FeedpipeError:
        raise
    except STREAM_ERRORS as error:
        raise stream_error(error, file.name, stream, begin) from error
