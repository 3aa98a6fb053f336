"""`parse_mds`: the samples of MosaicML's shards, in order or by position.

A shard begins with the number of samples, their offsets and a description in JSON. A sample has the sizes of its values
of varying size, and then all values. Each number has four bytes. The layout is that of MosaicML Streaming, version 2.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypedDict, Unpack

import numpy as np

from ..core.block import BlockSize
from ..core.context import Context
from ..core.skips import OnError
from ..errors import (
    ArgumentError,
    DataError,
    FeedpipeError,
    MissingError,
    Origin,
    SourceError,
    redacted,
)
from ..formats.streams import MAX_CONTENT_BYTES, STREAM_ERRORS, ChunkSize, StreamWindow
from ..formats.table_format import options_of
from ..storage.file import WHOLE, File, Stream
from ..storage.filesystem import file_infos, locate, split_options
from ..storage.tasks import in_threads
from .by_position import (
    IndexedFormat,
    Numbers,
    ParseByPosition,
    ParsedRecords,
    RecordBytes,
    RecordRows,
    RowTable,
    UnitsAt,
)
from .open_files import OpenTask, changed_error, check_fixed_order, check_path_column
from .units import InputFiles, Malformed, Place, Section, UnitReader, parse, row_origins

if TYPE_CHECKING:
    from ..pipe import Pipe


Decode: TypeAlias = Callable[[bytes], object]

_INDEX = "index.json"
_MAX_SAMPLES = 2**28
_NUMBER_BYTES = 4
_DTYPES = {8: "u1", 9: "i1", 16: "u2", 17: "i2", 18: "f2", 32: "u4", 33: "i4", 34: "f4", 64: "u8", 65: "i8", 66: "f8"}
"""The types of arrays, by their numbers in values."""
_SCALARS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
_CHANNELS = {"L": (), "RGB": (3,), "RGBA": (4,)}


class MdsOptions(TypedDict, total=False):
    """The options of `parse_mds`."""

    path_column: str | None
    indexed: bool


def parse_mds(
    pipe: Pipe[File], /, *, on_error: OnError | None = None, **options: Unpack[MdsOptions]
) -> Pipe[dict[str, object]]:
    """Give the samples of each of MosaicML's shards (MDS).

    Element: a dict with a value for each column, by its encoding: numbers, strings, bytes, arrays, and what JSON holds;
    raw images (`pil`) become arrays, `jpeg` and `png` stay encoded bytes, which `.rename({"image": "jpg"}).decode()`
    decodes; lists of images become lists of these. Order: that of the files, and within each that of its samples.
    Length: unknown, streamed; with `indexed=True` known, indexed. State: the number of a sample in its shard. A resume
    seeks to it, or reads a compressed shard up to it.

    Shards of a loader divide files; with `indexed=True` they divide samples, so a single file serves many workers. The
    file `index.json` is not needed, because each shard describes itself; if there is one, it tells which shards are
    missing. Memory: 1 MiB of samples, or one sample. The
    layout is that of MosaicML Streaming, version 2.

    Args:
        path_column: the name of an added key with the path of the shard, without a password.
        indexed: makes `len`, `pipe[i]` and a full `shuffle()` work. The heads of all files are read once per pipe, in
            threads; a process reads that of a file again when it first opens it. Files must not be compressed, and come
            in a fixed order. Each process keeps 8 bytes a sample.
        on_error: what happens to a sample that is damaged; see `map`.

    Raises:
        ArgumentError: `indexed` is given, and a file is compressed, or files come in a new order in each epoch.
        SourceError: a file is missing, also one that `index.json` names; it cannot be read, has changed since its head
            was read, or ends before the place to resume from.
        DataError: names file and sample: a file that is no shard, or is damaged or cut short; or the column whose
            encoding is not read, such as `pkl`, which would run code. The rows before the error come first.

    Example:
        >>> import feedpipe as fp, json, pathlib, struct
        >>> columns = {"column_names": ["x"], "column_encodings": ["int"], "column_sizes": [8]}
        >>> text = json.dumps({"format": "mds", "version": 2, **columns}).encode()
        >>> begin = 16 + len(text)
        >>> head = struct.pack("<4I", 2, begin, begin + 8, begin + 16)
        >>> _ = pathlib.Path("shard.00000.mds").write_bytes(head + text + struct.pack("<2q", 5, 6))
        >>> list(fp.list_files("shard.00000.mds").open_files().parse_mds())
        [{'x': 5}, {'x': 6}]
        >>> fp.list_files("shard.00000.mds").open_files().parse_mds(indexed=True)[-1]
        {'x': 6}
    """
    form = Mds(**options)
    if form.indexed:
        check_fixed_order(pipe, "parse_mds")
        return pipe.then(ParseByPosition(form, on_error=on_error))
    return parse(pipe, form, on_error)


@options_of(parse_mds, MdsOptions)
@dataclass(frozen=True, eq=False)
class Mds(IndexedFormat):
    """The arguments of `parse_mds`, and if it is indexed, what the heads of all files say."""

    if_indexed: ClassVar[str] = "if no file is compressed"

    path_column: str | None = None
    indexed: bool = field(default=False, kw_only=True)
    descriptions: Sequence[bytes] = field(default=(), kw_only=True)
    """Those of the columns of all files, each once."""
    description_numbers: Numbers = field(default_factory=lambda: np.zeros(0, np.int64), kw_only=True)
    """Which of these each file has."""
    seals: Numbers = field(default_factory=lambda: np.zeros(0, np.int64), kw_only=True)
    """That of the head of each file."""
    complete: bool = field(default=False, kw_only=True)
    """Whether all shards are there that the file `index.json` in their folder names."""

    def __post_init__(self) -> None:
        check_path_column(self.path_column)

    def reader(self, context: Context, block_size: BlockSize) -> _ShardFileReader:
        return _ShardFileReader(self)

    def checked(self, files: InputFiles) -> Mds:
        if self.complete or not files.are_indexed:
            return self
        _check_complete(files)
        return replace(self, complete=True)

    def extra(self, path: str) -> dict[str, object]:
        """The keys of rows beside those of their columns."""
        return {} if self.path_column is None else {self.path_column: redacted(path)}

    def with_table(self, files: InputFiles) -> tuple[Mds, RowTable]:
        descriptions: dict[bytes, int] = {}
        numbers, seals, offsets = list[int](), list[int](), list[Numbers]()
        for name, head in in_threads(_read_indexed_head, files):
            if head.description not in descriptions:
                MdsParser(head.description, name, self.extra(""))  # raises an error that names the file
            numbers.append(descriptions.setdefault(head.description, len(descriptions)))
            seals.append(head.seal)
            offsets.append(head.offsets)
        form = replace(
            self.checked(files),
            descriptions=tuple(descriptions),
            description_numbers=np.array(numbers, np.int64),
            seals=np.array(seals, np.int64),
        )
        return form, RowTable.of_records(offsets)

    def part(self, units: range) -> Mds:
        numbers, seals = (array[units.start : units.stop] for array in (self.description_numbers, self.seals))
        return replace(self, description_numbers=numbers, seals=seals)

    def row_reader(self, table: RowTable, units: UnitsAt) -> _SampleRows:
        return _SampleRows(self, table, units)

    def origin(self, unit: File, number: int, begin: int) -> Origin:
        return Origin(unit.path, number + 1)


class _ShardFileReader(UnitReader[File, OpenTask]):
    """A place is [samples of the shard before it]."""

    def __init__(self, form: Mds) -> None:
        self._form = form

    def begin(self, unit: File, early: bool) -> OpenTask:
        return OpenTask(unit, WHOLE if early else None)  # a user may look at the first rows of a run only

    def sections(self, unit: File, opened: OpenTask, place: Place) -> Iterator[Section]:
        (first,), path = place, unit.path
        with opened.result() as stream:
            window, size = StreamWindow(stream, path), ChunkSize()
            offsets, description, _ = _read_head(window, path)
            extra = self._form.extra(path)
            decode = partial(MdsParser(description, path, extra).row, extra=extra)
            window.advance(int(offsets[0]))
            count = len(offsets) - 1
            while first < count:
                begin = int(offsets[first])
                stop = int(np.searchsorted(offsets, begin + size.next(), "right")) - 1
                stop = min(max(stop, first + 1), count)
                window.advance(begin)
                window.fill(int(offsets[stop]) - begin)
                section = _section(window, path, decode, offsets[first : stop + 1], first, is_last=stop == count)
                yield section
                if section.error is not None:
                    return
                first += len(section.rows) + (section.malformed is not None)


def _section(
    window: StreamWindow, path: str, decode: Decode, offsets: Numbers, first: int, *, is_last: bool
) -> Section:
    """The samples at the beginning of a window, with numbers from `first` on, up to the first that is malformed."""
    data, rows = window.data, list[object]()
    malformed: Malformed | None = None
    error: FeedpipeError | None = None
    for start, end in pairwise((offsets - offsets[0]).tolist()):
        number = first + len(rows)
        if end > len(data):
            error = window.error or sample_error(path, number, "it is cut short: the file ends within it")
            break
        try:
            rows.append(decode(data[start:end]))
        except ValueError as problem:
            content = data[start:end][:MAX_CONTENT_BYTES]
            malformed = Malformed(sample_error(path, number, str(problem)), Origin(path, number + 1), content)
            break
    after = first + len(rows) + (malformed is not None)
    is_end = is_last and error is None and after == first + len(offsets) - 1
    origins = partial(row_origins, path, range(first, first + len(rows)))
    return Section(rows, (first,), None if is_end else (after,), origins, malformed, error)


class _SampleRows(RecordRows):
    def __init__(self, form: Mds, table: RowTable, files: UnitsAt) -> None:
        super().__init__(form, table, files)
        self._mds = form
        self._parsers = [MdsParser(description, "a shard", form.extra("")) for description in form.descriptions]

    def parse(self, records: RecordBytes) -> ParsedRecords:
        places = records.places
        numbers = self._mds.description_numbers[places.units]
        extras = [self._mds.extra(file.path) for file in records.files]
        rows, sound, malformed = list[object](), list[int](), dict[int, DataError]()
        owners, starts, ends = (column.tolist() for column in (places.owners, records.starts, records.ends))
        for place, (owner, start, end) in enumerate(zip(owners, starts, ends, strict=True)):
            try:
                rows.append(self._parsers[numbers[owner]].row(records.data[start:end], extras[owner]))
                sound.append(place)
            except ValueError as error:
                name, number = records.files[owner].name, int(places.numbers[place])
                malformed[place] = sample_error(name, number, str(error))
        return ParsedRecords(rows, sound, malformed)

    def check(self, number: int, file: File, stream: Stream) -> None:
        if _read_head(StreamWindow(stream, file.name), file.name).seal != self._mds.seals[number]:
            raise changed_error(file.name, "head")


def _read_indexed_head(file: File) -> tuple[str, MdsHead]:
    """Read the head of a shard, which must not be compressed or cut short, and give its name too."""
    if file.is_compressed():
        raise ArgumentError(f"`indexed` must be left out here: {file.name} is compressed, so no sample can be sought")
    with file.open() as stream:
        head = _read_head(StreamWindow(stream, file.name), file.name)
    size, end = file.known_size(), int(head.offsets[-1])
    if size < end:
        raise DataError(f"{file.name} is cut short: it has {size} bytes, and its samples end at byte {end}")
    return file.name, head


def _check_complete(files: Iterable[File]) -> None:
    """Raise a `MissingError` if a shard is not there that the file `index.json` in its folder names."""
    folders: dict[tuple[str, str], tuple[File, set[str]]] = {}
    for file in files:
        path, options = (file.path, "") if file.filesystem is not None else split_options(file.path)
        folder, slash, name = path.rpartition("/")
        folders.setdefault((folder + slash, options), (file, set()))[1].add(name)
    for (folder, options), (file, names) in folders.items():
        index = File(f"{folder}{_INDEX}{options}", filesystem=file.filesystem, compression=None)
        try:
            with index.open() as stream:
                shards = [_shard_names(shard) for shard in json.loads(stream.read())["shards"]]
            others = [shard for shard in shards if names.isdisjoint(shard)]
            places = [locate(f"{folder}{name}{options}", file.filesystem) for shard in others for name in shard]
            infos = file_infos(locate(file.path, file.filesystem).filesystem, [place.path for place in places])
        except (SourceError, AttributeError, *_DECODING_ERRORS):  # it is not needed: each shard describes itself
            continue
        found = {place.path for place, info in zip(places, infos, strict=True) if info.is_file}
        for shard in others:
            if found.isdisjoint(locate(f"{folder}{name}{options}", file.filesystem).path for name in shard):
                raise MissingError(f"{index.name} names {shard[0]!r}, which is not there, so its samples are lost")


def _shard_names(shard: Any) -> list[str]:
    """The names of the files that may hold a shard: as it is, and compressed."""
    packed = shard.get("zip_data") or shard["raw_data"]
    return [shard["raw_data"]["basename"], packed["basename"]]


class _ShardColumn(NamedTuple):
    """A column: its name, the size of its values if all have the same, and their decoder."""

    name: str
    size: int | None
    decode: Decode


class MdsHead(NamedTuple):
    """The head of a shard: the bounds of its samples, the description of columns in JSON, and a seal of the head."""

    offsets: Numbers
    description: bytes
    seal: int


class MdsParser:
    """Makes rows of the samples of shards with the same description of columns, in JSON.

    `name` is that of a file that has it, for errors; `extra` are keys that rows have beside their columns.
    """

    def __init__(self, description: bytes, name: str, extra: Collection[str]) -> None:
        try:
            config = json.loads(description)
            names, encodings, sizes = (config[f"column_{key}"] for key in ("names", "encodings", "sizes"))
            form = config["format"], config["version"]
            columns = list(zip(names, encodings, sizes, strict=True))
            if not all(isinstance(text, str) for text in (*names, *encodings)):
                raise TypeError("a name or an encoding is no string")
            if not all(size is None or (type(size) is int and size >= 0) for size in sizes):
                raise TypeError("a size is no number")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _no_shard(name, "its head has no description of columns") from error
        if form != ("mds", 2):
            raise _no_shard(name, f"it is of format {form[0]!r}, version {form[1]!r}, and 'mds', version 2, is read")
        for key in extra:
            if key in names:
                raise DataError(f"{name} has a column {key!r} already; `path_column` needs another name")
        self._columns = [_ShardColumn(key, size, _decoder(key, encoding, name)) for key, encoding, size in columns]
        self._varying = sum(column.size is None for column in self._columns)

    def row(self, sample: bytes, extra: Mapping[str, object]) -> dict[str, object]:
        """The row of a sample, with `extra` after its columns; a `ValueError` if the sample is damaged."""
        try:
            return {**self._values(sample), **extra}
        except _DECODING_ERRORS as error:
            raise ValueError(f"it is damaged: {error}") from error

    def _values(self, sample: bytes) -> dict[str, object]:
        row: dict[str, object] = {}
        sizes = iter(np.frombuffer(sample, "<u4", self._varying).tolist())
        at = _NUMBER_BYTES * self._varying
        for name, size, decode in self._columns:
            end = at + (next(sizes) if size is None else size)
            if end > len(sample):
                raise ValueError(f"the value of {name!r} is longer than the sample")
            row[name] = decode(sample[at:end])
            at = end
        if at != len(sample):
            raise ValueError("it is longer than its values")
        return row


def sample_error(name: str, number: int, problem: str) -> DataError:
    """The error of a sample with this number, from 0, in a file."""
    return DataError(f"{name}, sample {number + 1}: {problem}")


def _read_head(window: StreamWindow, name: str) -> MdsHead:
    """Read the head of a shard from its beginning; `name` is that of the file, for errors."""
    (count,) = _numbers(_first_bytes(window, _NUMBER_BYTES, name))
    if count > _MAX_SAMPLES:
        raise _no_shard(name, f"it would have {count} samples")
    size = _NUMBER_BYTES * (int(count) + 2)
    offsets = _numbers(_first_bytes(window, size, name)[_NUMBER_BYTES:])
    begin = int(offsets[0])
    if begin < size or (np.diff(offsets) < 0).any():
        raise _no_shard(name, "the offsets of its samples do not rise")
    head = _first_bytes(window, begin, name)
    return MdsHead(offsets, head[size:], zlib.crc32(head))


def _first_bytes(window: StreamWindow, size: int, name: str) -> bytes:
    window.fill(size)
    if len(window.data) < size:
        raise window.error or _no_shard(name, f"it ends after {len(window.data)} bytes, within its head")
    return window.data[:size]


def _numbers(data: bytes) -> Numbers:
    return np.frombuffer(data, "<u4").astype(np.int64)


def _no_shard(name: str, problem: str) -> DataError:
    return DataError(f"{name} is no shard of MosaicML, is damaged, or is compressed in another way: {problem}")


def _decoder(column: str, encoding: str, name: str) -> Decode:
    kind, _, options = encoding.partition(":")
    if kind == "ndarray":
        dtype, _, shape = options.partition(":")
        if dtype in ("", *_SCALARS) and re.fullmatch(r"(\d{1,9}(,\d{1,9})*)?", shape, re.ASCII):
            return _array_decoder(dtype, tuple(map(int, shape.split(","))) if shape else None)
    if kind in _SCALARS:
        return lambda data: np.frombuffer(data, np.dtype(kind).newbyteorder("<"))[0]
    if kind in _DECODERS:
        return _DECODERS[kind]
    reason = "loading pickles runs code" if kind == "pkl" else f"those read are {', '.join(sorted(_DECODERS))}, ndarray"
    raise DataError(f"{name}, column {column!r}: its encoding {encoding!r} is not read; {reason}")


_DECODING_ERRORS = (*STREAM_ERRORS, KeyError, IndexError, TypeError, ArithmeticError, RecursionError)


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


def _list_decoder(decode: Decode, begin: int) -> Decode:
    """Decodes lists: from byte `begin` on, the number of values, their sizes, and the values."""

    def decode_list(data: bytes) -> object:
        (count,) = np.frombuffer(data, "<u4", 1, begin).tolist()
        ends = begin + _NUMBER_BYTES * (count + 1) + np.frombuffer(data, "<u4", count, begin + _NUMBER_BYTES).cumsum()
        bounds = [begin + _NUMBER_BYTES * (count + 1), *ends.tolist()]
        if bounds[-1] != len(data):
            raise ValueError(f"a list of {count} values ends at byte {bounds[-1]} of {len(data)}")
        return [decode(data[start:end]) for start, end in pairwise(bounds)]

    return decode_list


_DECODERS: dict[str, Decode] = {
    "bytes": bytes,
    "int": lambda data: int.from_bytes(data, "little", signed=True),
    "jpeg": bytes,
    "jpeg_array": _list_decoder(bytes, 0),
    "jpegarray": _list_decoder(bytes, 0),
    "json": json.loads,
    "list[jpeg]": _list_decoder(bytes, _NUMBER_BYTES),
    "list[pil]": _list_decoder(_pixels, _NUMBER_BYTES),
    "list[png]": _list_decoder(bytes, _NUMBER_BYTES),
    "pil": _pixels,
    "png": bytes,
    "str": bytes.decode,
    "str_decimal": lambda data: Decimal(data.decode()),
    "str_float": lambda data: float(data.decode()),
    "str_int": lambda data: int(data.decode()),
}
