"""MosaicML's shards (MDS): a head with the offset of each sample and the encoding of each column, then the samples.

A shard begins with the number of samples, their offsets and a description in JSON. A sample has the sizes of its values
of varying size, and then all values. Each number has four bytes. The layout is that of MosaicML Streaming, version 2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from ..errors import DataError, FeedpipeError
from .ranges import MAX_CONTENT_BYTES
from .streams import STREAM_ERRORS
from .window import ChunkSize, StreamWindow

Decode: TypeAlias = Callable[[bytes], object]

_MAX_SAMPLES = 2**28
_NUMBER_BYTES = 4
_DTYPES = {8: "u1", 9: "i1", 16: "u2", 17: "i2", 18: "f2", 32: "u4", 33: "i4", 34: "f4", 64: "u8", 65: "i8", 66: "f8"}
"""The types of arrays, by the number that stands for each in a value."""
_SCALARS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
_CHANNELS = {"L": (), "RGB": (3,), "RGBA": (4,)}


class MdsRows(NamedTuple):
    """Samples of a shard that follow each other.

    Attributes:
        rows: the samples.
        first: the number of the first one, from 0.
        last: whether the shard ends behind them.
        malformed: what is wrong with the next one, if those behind it can be read.
        content: the first bytes of that one.
        error: why nothing behind these samples can be read.
    """

    rows: list[object]
    first: int
    last: bool
    malformed: DataError | None = None
    content: bytes | None = None
    error: FeedpipeError | None = None


class _ShardColumn(NamedTuple):
    """A column: its name, the size of its values if all have one, and what decodes them."""

    name: str
    size: int | None
    decode: Decode


class MdsReader:
    """Reads the samples of a shard.

    Args:
        stream: the shard, not compressed.
        name: of the file, for errors.
        extra: keys that each row has beside its columns.

    Raises:
        SourceError: the stream cannot be read.
        DataError: it is no shard, or has a column whose encoding is not read.
    """

    def __init__(self, stream: BinaryIO, name: str, extra: Mapping[str, object]) -> None:
        self._name = name
        self._extra = extra
        self._window = window = StreamWindow(stream, name)
        (count,) = self._numbers(self._head(_NUMBER_BYTES))
        if count > _MAX_SAMPLES:
            raise self._no_shard(f"it would have {count} samples")
        size = _NUMBER_BYTES * (count + 2)
        self._offsets = self._numbers(self._head(size)[_NUMBER_BYTES:])
        begin = int(self._offsets[0])
        if begin < size or (np.diff(self._offsets) < 0).any():
            raise self._no_shard("the offsets of its samples do not rise")
        self._columns = self._read_columns(self._head(begin)[size:])
        window.advance(begin)

    def rows(self, first: int) -> Iterator[MdsRows]:
        """The samples from number `first` on. If the shard fails, the samples before come first."""
        count, size = len(self._offsets) - 1, ChunkSize()
        while first < count:
            begin = int(self._offsets[first])
            stop = int(np.searchsorted(self._offsets, begin + size.next(), "right")) - 1
            stop = min(max(stop, first + 1), count)
            self._window.advance(begin)
            self._window.fill(int(self._offsets[stop]) - begin)
            some = self._decode(first, stop, begin)
            yield some
            if some.error is not None:
                return
            first += len(some.rows) + (some.malformed is not None)

    def _decode(self, first: int, stop: int, begin: int) -> MdsRows:
        """The samples from number `first` up to `stop`, or up to the first that is malformed."""
        count = len(self._offsets) - 1
        data, rows = self._window.data, list[object]()
        bounds = (self._offsets[first : stop + 1] - begin).tolist()
        for number in range(stop - first):
            start, end = bounds[number], bounds[number + 1]
            if end > len(data):
                cut = self._error(first + number, "is cut short: the file ends within it")
                return MdsRows(rows, first, last=False, error=self._window.error or cut)
            try:
                rows.append(self._sample(data[start:end]))
            except _DECODING_ERRORS as error:
                malformed = self._error(first + number, f"is damaged: {error}")
                content = data[start:end][:MAX_CONTENT_BYTES]
                return MdsRows(rows, first, first + number + 1 == count, malformed, content)
        return MdsRows(rows, first, stop == count)

    def _sample(self, data: bytes) -> dict[str, object]:
        row: dict[str, object] = {}
        varying = sum(column.size is None for column in self._columns)
        sizes = iter(np.frombuffer(data, "<u4", varying).tolist())
        at = _NUMBER_BYTES * varying
        for name, size, decode in self._columns:
            end = at + (next(sizes) if size is None else size)
            if end > len(data):
                raise ValueError(f"the value of {name!r} is longer than the sample")
            row[name] = decode(data[at:end])
            at = end
        if at != len(data):
            raise ValueError("it is longer than its values")
        row.update(self._extra)
        return row

    def _head(self, size: int) -> bytes:
        """The first bytes of the shard."""
        window = self._window
        window.fill(size)
        if len(window.data) < size:
            raise window.error or self._no_shard(f"it ends after {len(window.data)} bytes, within its head")
        return window.data[:size]

    def _numbers(self, data: bytes) -> Any:
        return np.frombuffer(data, "<u4").astype(np.int64)

    def _read_columns(self, description: bytes) -> list[_ShardColumn]:
        try:
            config = json.loads(description)
            names, encodings, sizes = (config[f"column_{key}"] for key in ("names", "encodings", "sizes"))
            form = config["format"], config["version"]
            columns = list(zip(names, encodings, sizes, strict=True))
        except (ValueError, KeyError, TypeError) as error:
            raise self._no_shard("its head has no description of columns") from error
        if form != ("mds", 2):
            raise self._no_shard(f"it is of format {form[0]!r}, version {form[1]!r}, and 'mds', version 2, is read")
        for name in self._extra:
            if name in names:
                raise DataError(f"{self._name} has a column {name!r} already; `path_column` needs another name")
        return [_ShardColumn(name, size, self._decoder(name, encoding)) for name, encoding, size in columns]

    def _decoder(self, name: str, encoding: str) -> Decode:
        kind, _, options = encoding.partition(":")
        if kind == "ndarray":
            dtype, _, shape = options.partition(":")
            return _array_decoder(dtype, tuple(map(int, shape.split(","))) if shape else None)
        if kind in _SCALARS:
            return lambda data: np.frombuffer(data, np.dtype(kind).newbyteorder("<"))[0]
        if kind in _DECODERS:
            return _DECODERS[kind]
        reason = (
            "loading pickles runs code" if kind == "pkl" else f"those read are {', '.join(sorted(_DECODERS))}, ndarray"
        )
        raise DataError(f"{self._name}, column {name!r}: its encoding {encoding!r} is not read; {reason}")

    def _no_shard(self, problem: str) -> DataError:
        return DataError(
            f"{self._name} is no shard of MosaicML, is damaged, or is compressed in another way: {problem}"
        )

    def _error(self, number: int, problem: str) -> DataError:
        return DataError(f"{self._name}, sample {number + 1}: it {problem}")


_DECODING_ERRORS = (*STREAM_ERRORS, KeyError, IndexError, TypeError, ArithmeticError)


def _array_decoder(dtype: str, shape: tuple[int, ...] | None) -> Decode:
    """Decodes arrays; a value begins with its type and its shape, if not all values have the same."""

    def decode(data: bytes) -> object:
        at = 0
        kind = np.dtype(dtype) if dtype else np.dtype(_DTYPES[data[0]])
        at += not dtype
        sizes = shape
        if sizes is None:
            axes, width = data[at] >> 2, 1 << (data[at] & 3)
            sizes = tuple(np.frombuffer(data, f"<u{width}", axes, at + 1).tolist())
            at += 1 + axes * width
        return np.frombuffer(data, kind.newbyteorder("<"), offset=at).reshape(sizes)

    return decode


def _pixels(data: bytes) -> object:
    """A raw image: width, height and mode, then the pixels."""
    width, height, length = np.frombuffer(data, "<u4", 3).tolist()
    mode = data[12 : 12 + length].decode()
    if mode not in _CHANNELS:
        raise ValueError(f"its image has the mode {mode!r}, and those read are {', '.join(_CHANNELS)}")
    return np.frombuffer(data, np.uint8, offset=12 + length).reshape(height, width, *_CHANNELS[mode])


_DECODERS: dict[str, Decode] = {
    "bytes": lambda data: data,
    "int": lambda data: int.from_bytes(data, "little", signed=True),
    "jpeg": lambda data: data,
    "json": json.loads,
    "pil": _pixels,
    "png": lambda data: data,
    "str": bytes.decode,
    "str_decimal": lambda data: Decimal(data.decode()),
    "str_float": lambda data: float(data.decode()),
    "str_int": lambda data: int(data.decode()),
}
