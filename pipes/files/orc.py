"""`parse_orc`: the rows of ORC files, a stripe at a time."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Unpack, cast

from ..core.block import BlockSize
from ..core.context import Context
from ..core.lazy import pa
from ..core.rows import Row
from ..errors import DataError, FeedpipeError
from ..formats.columns import FlatHead, arrow_errors, read_error
from ..formats.protobuf import read_fields, read_varint
from ..formats.streams import read_tail, seal_of
from ..formats.table_format import TableOptions, options_of
from ..storage.file import File
from ..storage.file_units import FileContents
from ..storage.tasks import Task
from .footers import CountedFormat, FileUnit, FileUnitReader
from .open_files import changed_error
from .units import Place, RowOrigins, Section, parse

if TYPE_CHECKING:
    from ..pipe import Pipe

_MAGIC = b"ORC"
_TAIL_BYTES = 2**16  # read at once: most footers are shorter
_CHUNK_HEAD_BYTES = 3
_MAX_FOOTER_BYTES = 2**28
"""The limit of a footer once it is decompressed, since a small one may hold any number of bytes."""


class OrcOptions(TableOptions, total=False):
    """The options of `parse_orc`."""


def parse_orc(pipe: Pipe[File], /, **options: Unpack[OrcOptions]) -> Pipe[Row]:
    """Give the rows of each ORC file, as a table.

    Element: a dict of Python scalars, None for a missing value; grouped, a `Rows`, which holds columns. Order: that of
    the files, and within each that of its rows. Length: known from the footers if files come in a fixed order;
    streamed. State: a stripe and a place in it. A resume reads that stripe again.

    Shards divide stripes, so a single file serves many workers. A `shuffle` after this shuffles the order of stripes
    as well. The footers of all files are read once per pipe, in threads; with a manifest, once for all runs. Names and
    types are those of the first file, by the rules of `parse_parquet`, also for folders named as in `year=2024` and
    with `unify_schemas=True`. Memory: one stripe, of the columns that are read. The format is ORC version 1, as Apache
    specifies it; it has no checksums, so damaged values may go unnoticed. Before version 24, pyarrow ends the process
    for some damaged files.

    Args:
        columns: reads only these columns, in this order.
        path_column: the name of an added column with the path of the file.
        row_column: the name of an added column with the number of the row in its file, from 0.
        unify_schemas: takes the columns of all files together; a file that lacks one has nulls there.

    Raises:
        SourceError: a file is missing, cannot be read, or has changed since its footer was read.
        DataError: names file and column of what does not fit: a missing column, columns or types unlike the first
            file's, types that cannot be unified; a file that is not ORC, or is damaged. The rows before the error come
            first.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.orc
        >>> pa.orc.write_table(pa.table({"id": [1, 2, 3], "said": ["well", "yes", None]}), "a.orc")
        >>> list(fp.list_files("a.orc").open_files().parse_orc(columns=["said"], row_column="row"))
        [{'said': 'well', 'row': 0}, {'said': 'yes', 'row': 1}, {'said': None, 'row': 2}]
    """
    return parse(pipe, Orc(**options))


@options_of(parse_orc, OrcOptions)
@dataclass(frozen=True, eq=False, kw_only=True)
class Orc(CountedFormat):
    """The arguments of `parse_orc`."""

    units: ClassVar[str] = "stripes"

    def head_of(self, file: File) -> OrcFooter:
        with file.open(None) as stream:
            return OrcFile(stream, file.path).footer

    def footer(self, file: File) -> FileContents:
        footer = self.head_of(file)
        return FileContents(footer.schema, footer.seal, footer.stripe_rows, [False] * len(footer.stripe_rows))

    def contents(self, file: File) -> FileContents:
        contents = self.footer(file)
        fixed = self.require_fixed_schema(file.name)
        fixed.constants(file.path, fixed.columns_in(FlatHead(file.path, contents.schema)))
        return contents

    def open(self, stripe: FileUnit) -> OrcFile:
        """Open the file of a stripe, which must be the one that lists it."""
        stream = stripe.file.open(None)
        try:
            file = OrcFile(stream, stripe.file.path)
            if file.footer.seal != stripe.seal:
                raise changed_error(stripe.file.path)
            self.require_fixed_schema(stripe.file.path).columns_in(file.footer)
        except BaseException:
            stream.close()
            raise
        return file

    def reader(self, context: Context, block_size: BlockSize) -> _StripeReader:
        return _StripeReader(self)


class _StripeReader(FileUnitReader[Task["OrcFile"], "OrcFile"]):
    """Reads stripes. A place is [rows of the stripe before it]; a resume reads the stripe again."""

    def __init__(self, form: Orc) -> None:
        super().__init__(form.open, lambda file: file.close())
        self._form = form

    def begin(self, unit: FileUnit, early: bool) -> Task[OrcFile]:
        return self.files.task(unit)

    def sections(self, unit: FileUnit, opened: Task[OrcFile], place: Place) -> Iterator[Section]:
        (before,) = place
        file, path = opened.result(), unit.file.path
        fixed = self._form.require_fixed_schema(path)
        names = [name for name in fixed.file_types if name in file.footer.names]
        # A batch without columns does not know its length.
        batch = file.read_stripe(unit.number, unit.rows, names or file.footer.names[:1])
        numbers = range(unit.first + before, unit.first + unit.rows)
        rows = self._form.to_rows(batch.select(names).slice(before), path, numbers)
        sections = [Section(rows, (before,), None, partial(RowOrigins, path, numbers))]
        del batch, rows
        yield sections.pop()


class OrcFooter(FlatHead):
    """The end of a file.

    Attributes:
        seal: a number that changes if the file does.
        stripe_rows: the number of rows of each stripe.
    """

    def __init__(self, name: str, schema: pa.Schema, seal: int, stripe_rows: list[int]) -> None:
        super().__init__(name, schema)
        self.seal = seal
        self.stripe_rows = stripe_rows


class OrcFile:
    """An open file.

    Args:
        stream: the file.
        name: of the file, for errors.

    Raises:
        SourceError: the file cannot be read.
        DataError: it is no ORC file, or is cut short or damaged.

    Attributes:
        footer: its end.
    """

    def __init__(self, stream: io.BufferedReader, name: str) -> None:
        from pyarrow import orc

        self._name = name
        self.stream = stream
        try:
            seal, rows = _read_stripes(stream, name)
            self._file: Any = orc.ORCFile(cast("Any", stream.raw))
            schema = self._file.schema.remove_metadata()
            count = self._file.nstripes
            self.footer = OrcFooter(name, schema, seal, rows)
        except FeedpipeError:
            raise
        except _orc_errors() as error:
            raise read_error(error, name) from error
        if count != len(rows):
            raise DataError(f"{name} is damaged: its footer lists {len(rows)} stripes, and it has {count}")

    def read_stripe(self, number: int, rows: int, columns: list[str]) -> pa.RecordBatch:
        """Read and validate a stripe.

        Args:
            number: that of the stripe.
            rows: the number of rows that it should have.
            columns: to read; at least one.
        """
        what = f"{self._name}, stripe {number},"
        try:
            # To Arrow a dot leads into a column of structs, and not to a column with that name.
            dotted = any("." in name for name in columns)
            batch = self._file.read_stripe(number, columns=None if dotted else columns)
            batch = batch.select(columns) if dotted else batch
            if batch.num_rows != rows:
                raise DataError(f"{what} should have {rows} rows and has {batch.num_rows}: it is damaged")
            batch.validate(full=True)
            return cast("pa.RecordBatch", batch)
        except FeedpipeError:
            raise
        except _orc_errors() as error:
            raise read_error(error, what) from error

    def close(self) -> None:
        self.stream.close()


def _orc_errors() -> tuple[type[Exception], ...]:
    return *arrow_errors(), zlib.error


def _read_stripes(stream: BinaryIO, name: str) -> tuple[int, list[int]]:
    """Read the seal of the footer of a file, and the number of rows of each stripe.

    The file ends with the footer, a postscript with its length and compression, and a byte with the length of the
    postscript. Arrow reads all this, but does not tell the rows of stripes.
    """
    size = stream.seek(0, io.SEEK_END)
    if not size:
        raise DataError(f"{name} is empty, but an ORC file has a footer; leave the file out")
    data = read_tail(stream, name, size, _TAIL_BYTES)
    length = data[-1]
    postscript = {number: value for number, _, value in read_fields(data[-1 - length : -1])}
    if postscript.get(8000) != _MAGIC:
        raise DataError(f"{name} is no ORC file, or is cut short: its last bytes are no postscript of ORC")
    footer_bytes, kind = _number(postscript.get(1, 0)), _number(postscript.get(2, 0))
    tail = footer_bytes + length + 1
    if tail > size:
        raise DataError(f"{name} is damaged: its footer would be longer than the file, which has {size} bytes")
    data = data if tail <= len(data) else read_tail(stream, name, size, tail)
    footer = data[-tail : -1 - length]
    rows: list[int] = []
    for number, _, stripe in read_fields(_decompress(footer, kind, _number(postscript.get(3, 0)))):
        if number == 3 and isinstance(stripe, bytes):
            fields = {field: value for field, _, value in read_fields(stripe)}
            rows.append(_number(fields.get(5, 0)))
    return seal_of(data[-tail:], size), rows


def _number(value: bytes | int) -> int:
    if isinstance(value, bytes):
        raise ValueError("a field of the footer is no number")
    return value


def _decompress(data: bytes, kind: int, block_bytes: int) -> bytes:
    """Decompress a footer: chunks, each after three bytes with its length and a bit for one that is not compressed."""
    if kind == 0:
        return data
    if kind not in _CODECS:
        raise ValueError(f"its footer is compressed in a way that is not read, number {kind} in ORC's specification")
    parts: list[bytes] = []
    at = size = 0
    while at < len(data):
        head = int.from_bytes(data[at : at + _CHUNK_HEAD_BYTES], "little")
        at += _CHUNK_HEAD_BYTES
        chunk = data[at : at + (head >> 1)]
        at += head >> 1
        parts.append(chunk if head & 1 else _CODECS[kind](chunk, block_bytes))
        size += len(parts[-1])
        if size > _MAX_FOOTER_BYTES:
            raise ValueError(f"the footer has more than {_MAX_FOOTER_BYTES} bytes")
    return b"".join(parts)


def _inflate(data: bytes, block_bytes: int) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, block_bytes)


def _unpack_zstd(data: bytes, block_bytes: int) -> bytes:
    with pa.input_stream(cast("Any", pa.BufferReader(data)), compression="zstd") as stream:
        return stream.read(block_bytes)


def _unpack_snappy(data: bytes, block_bytes: int) -> bytes:
    return _unpack("snappy", data, read_varint(data, 0)[0], block_bytes)


def _unpack_lz4(data: bytes, block_bytes: int) -> bytes:
    """Decompress a block of LZ4, which does not tell its length, so the bytes are counted."""
    at = size = 0
    while at < len(data):
        token = data[at]
        literals, at = _lz4_length(data, at + 1, token >> 4)
        at += literals
        size += literals
        if at < len(data):  # a match follows; its place takes two bytes
            matched, at = _lz4_length(data, at + 2, token & 15)
            size += matched + 4
    return _unpack("lz4_raw", data, size, block_bytes)


def _lz4_length(data: bytes, at: int, length: int) -> tuple[int, int]:
    """A length that begins with four bits, and its end."""
    if length == 15:
        more = 255
        while more == 255:
            more = data[at]
            length, at = length + more, at + 1
    return length, at


def _unpack(codec: str, data: bytes, size: int, block_bytes: int) -> bytes:
    if size > block_bytes:
        raise ValueError(f"a chunk of the footer has {size} bytes, and {block_bytes} are most")
    return pa.Codec(cast("Any", codec)).decompress(data, decompressed_size=size, asbytes=True)


_CODECS = {1: _inflate, 2: _unpack_snappy, 4: _unpack_lz4, 5: _unpack_zstd}
