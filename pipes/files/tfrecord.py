"""`parse_tfrecord`: the Examples of TFRecord files, in order or by position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, ClassVar, TypeAlias, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ..core.block import BlockSize
from ..core.context import Context
from ..core.lazy import pa
from ..core.rows import BlockRows, Column, Row, Rows, concat
from ..core.skips import OnError
from ..errors import ArgumentError, DataError, FeedpipeError, MissingError, Origin
from ..formats.columns import HEAD_BYTES, Schema, check_names, check_schema, suggest_name, to_column
from ..formats.streams import MAX_CONTENT_BYTES
from ..formats.table_format import SampledHead, SampledTable, options_of
from ..formats.text import by_parts
from ..storage.file import File, Stream
from ..storage.filesystem import split_options
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
    extend_rows,
)
from .open_files import check_fixed_order
from .ranges import ByteRange, ByteRangeReader, RangedFormat
from .tfrecord_examples import (
    BYTES,
    FLOATS,
    INTS,
    Feature,
    kinds_of,
    parse_example,
    read_features,
    to_arrow,
)
from .tfrecord_records import (
    PACKAGE,
    RECORD_HEAD_BYTES,
    RECORD_TAIL_BYTES,
    Offsets,
    RecordReader,
    Records,
    index_paths,
    is_index,
    read_bounds,
    right_records,
)
from .units import InputFiles, Malformed, Place, Section, byte_origins, parse

if TYPE_CHECKING:
    from ..pipe import Pipe

Features: TypeAlias = "Sequence[str] | Schema"
"""Names of features, or their types by name."""

_SAMPLED_RECORDS = 1000


class TfRecordOptions(TypedDict, total=False):
    """The options of `parse_tfrecord`."""

    features: Features | None
    path_column: str | None
    row_column: str | None
    unify_schemas: bool
    indexed: bool


def parse_tfrecord(
    pipe: Pipe[File], /, *, on_error: OnError | None = None, **options: Unpack[TfRecordOptions]
) -> Pipe[Row]:
    """Give the `tf.train.Example` messages of each TFRecord file, as a table; no TensorFlow is needed.

    Element: a dict with a value for each feature, None if a record lacks it; grouped, a `Rows`, which holds columns.
    Bytes, ints and floats become `binary`, `int64` and `float32`. Names and types are fixed before the first row, by
    `features`, or by the first records of the first file that has any (the first of `for x in pipe`): up to 1,000 of
    them, or 1 MiB. A feature that has one value in each of these is a single value, any other one a list; names are
    sorted, for an Example has no order of features. Order: that of the files, and within each that of its records.
    Length: unknown, streamed; with `indexed=True` known, indexed. State: the byte at which a record begins. A resume
    seeks to it, or reads a compressed file up to it. Indexes that lie among the files are left out.

    Shards divide ranges of files, so a single file serves many workers: about 1,024 ranges of all files, of 256 KiB to
    32 MiB each. A range begins with the first place that has the checksum of a record, so no index is needed. A
    `shuffle` after this shuffles the order of the ranges as well. A file is not split if it is compressed, if
    `row_column` is given, or if files come in a new order in each epoch, as with `list_files(...).shuffle()`.

    Both checksums of each record are compared. The format is that of TensorFlow's guide to TFRecord and
    `tf.train.Example`. `pip install 'feedpipe[tfrecord]'` installs what computes checksums.

    Args:
        features: reads only these, in this order: names, or types by name, as Arrow types or their names, such as
            {"label": "int32", "name": "string", "image": pa.list_(pa.float32(), 784)}. A list of one length, as here,
            and a type of `pa.fixed_shape_tensor` become arrays. Without it, a feature that the first records do not
            have is an error.
        path_column: the name of an added column with the path of the file, without a password.
        row_column: the name of an added column with the number of the record in its file, from 0.
        unify_schemas: takes the features of all files together, from the first records of each.
        indexed: makes `len`, `pipe[i]` and a full `shuffle()` work, by an index beside each file: lines with the first
            byte and the size of each record, as `write_tfrecord(index=True)`, DALI's `tfrecord2idx` and the package
            `tfrecord` write them. That of `a.tfrecord` is `a.index` or `a.tfrecord.idx`. Files must not be compressed,
            and come in a fixed order. Each process keeps 8 bytes a record.
        on_error: what happens to a record whose data have a wrong checksum, that is no Example, or whose features do
            not fit the columns; see `map`. It keeps its number.

    Raises:
        ArgumentError: the package for checksums is not installed; `indexed` is given, and a file has no index, is
            compressed, or files come in a new order in each epoch.
        SourceError: a file is missing, cannot be read, or ends before the place to resume from.
        DataError: names file and byte of a record with a wrong checksum, one that is cut short, no Example, or that has
            a feature of another type or an unknown one; damaged compressed bytes; an index of another file. The rows
            before the error come first.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(3)).map(lambda i: {"id": i, "name": f"n{i}", "xs": [i / 2] * i})
        >>> _ = fp.write_tfrecord(pipe, "records")
        >>> list(fp.list_files("records").open_files().parse_tfrecord(features={"name": "string", "id": "int64"}))
        [{'name': 'n0', 'id': 0}, {'name': 'n1', 'id': 1}, {'name': 'n2', 'id': 2}]
    """
    form = TfRecord(**options)
    if form.indexed:
        check_fixed_order(pipe, "parse_tfrecord")
        return pipe.then(ParseByPosition(form, on_error=on_error))
    return parse(pipe, form, on_error)


@options_of(parse_tfrecord, TfRecordOptions)
@dataclass(frozen=True, eq=False, kw_only=True)
class TfRecord(SampledTable, RangedFormat, IndexedFormat):
    """The arguments of `parse_tfrecord`."""

    type_repair: ClassVar[str] = "`features=` gives it a type"
    if_indexed: ClassVar[str] = "with an index beside each file"

    features: Features | None = None
    indexed: bool = False

    def __post_init__(self) -> None:
        PACKAGE.check()
        types = self.types()
        names = list(types) if types else check_names("features", self.features)
        object.__setattr__(self, "columns", names)
        super().__post_init__()

    def types(self) -> dict[str, pa.DataType]:
        """The types that the user gives."""
        is_names = isinstance(self.features, Sequence) or self.features is None
        return {} if is_names else check_schema(self.features, "features")

    def head(self, stream: BinaryIO, path: str) -> SampledHead | None:
        """The features in the first records of a file; None if it has none."""
        if is_index(path):
            return None
        types = self.types()
        if types:
            return SampledHead(path, types, has_rows=True)
        records = RecordReader(stream, path).first_records(HEAD_BYTES)
        sampled = [] if records is None else _sampled(records, path)
        return SampledHead(path, _infer_types(sampled, path), has_rows=True) if sampled else None

    def missing_name_error(self, source: str, name: str, names: Sequence[str]) -> DataError:
        origin = "all files" if self.unify_schemas else source
        return DataError(
            f"the first records of {origin} have no feature {name!r}, which `features` names; "
            f"{suggest_name(name, names)}; if it comes later, `features=` gives its type"
        )

    def reader(self, context: Context, block_size: BlockSize) -> _ExampleReader:
        return _ExampleReader(self)

    def with_table(self, files: InputFiles) -> tuple[TfRecord, RowTable]:
        table = RowTable.of_records(in_threads(_read_index, files))
        return self.fixed(files), table

    def row_reader(self, table: RowTable, units: UnitsAt) -> _ExampleRows:
        return _ExampleRows(self, table, units)

    def origin(self, unit: File, number: int, begin: int) -> Origin:
        return Origin(unit.path, begin, "byte")

    def parse(
        self, data: bytes, starts: Offsets, ends: Offsets, right: npt.NDArray[np.bool_]
    ) -> Iterator[tuple[range, dict[str, Column] | str]]:
        """Make columns of records, all at once, or if that fails of fewer and fewer of them.

        Give the columns of neighbours, in order, or what is wrong with a single record. `right` are those with a right
        checksum.
        """
        begin = 0
        for wrong in [*np.flatnonzero(~right).tolist(), len(right)]:
            if begin < wrong or not len(right):  # no records have columns too
                parsed = by_parts(
                    range(begin, wrong),
                    lambda span: self._columns(data, starts[span.start : span.stop], ends[span.start : span.stop]),
                    lambda span, error: (span[: len(span) // 2], span[len(span) // 2 :]) if len(span) > 1 else (),
                )
                for span, columns in parsed:
                    yield span, str(columns) if isinstance(columns, ValueError) else columns
            if wrong < len(right):
                yield range(wrong, wrong + 1), "its data have a wrong checksum"
            begin = wrong + 1

    def _columns(self, data: bytes, starts: Offsets, ends: Offsets) -> dict[str, Column]:
        """Make columns of Examples; a `ValueError` if one is malformed, or if they do not fit together."""
        fixed = self.require_fixed_schema("")
        names = fixed.file_types
        features, unknown = read_features(data, starts, ends, names)
        if unknown is not None and self.features is None:
            raise ValueError(
                f"it has a feature {unknown!r}, and the first records of {fixed.origin} have none; `features=` "
                "names those to read"
            )
        return {name: to_column(to_arrow(name, features[name], kind)) for name, kind in names.items()}


def _sampled(records: Records, path: str) -> list[dict[str, Feature]]:
    """The first records that are Examples; the error of the first one if none is."""
    sampled: list[dict[str, Feature]] = []
    problem: FeedpipeError | None = None
    bounds = zip(records.offsets(), records.starts.tolist(), records.ends.tolist(), records.right.tolist(), strict=True)
    for offset, start, end, is_right in bounds:
        try:
            if not is_right:
                raise ValueError("its data have a wrong checksum")
            sampled.append(parse_example(records.data[start:end]))
        except ValueError as error:
            problem = problem or record_error(path, offset, str(error))
        if len(sampled) == _SAMPLED_RECORDS:
            break
    problem = problem or records.error
    if problem is not None and not sampled:
        raise problem
    return sampled


def _infer_types(records: Sequence[Mapping[str, Feature]], path: str) -> dict[str, pa.DataType]:
    kinds: dict[int, pa.DataType] = {BYTES: pa.binary(), FLOATS: pa.float32(), INTS: pa.int64()}
    types: dict[str, pa.DataType] = {}
    for name in sorted({name for record in records for name in record}):  # a map has no order
        try:
            kind, single = kinds_of(record[name] for record in records if name in record)
        except ValueError as error:
            raise DataError(
                f"{path}, feature {name!r}: {error} in the first records, and a column has one type"
            ) from error
        inner = kinds.get(kind, pa.null())
        types[name] = inner if single else pa.list_(inner)
    return types


class _ExampleReader(ByteRangeReader):
    """Reads records in order.

    A place is [byte at which a record begins, records before it in the range]. A resume seeks to it; in a compressed
    file it reads up to there.
    """

    beginning: ClassVar[Place] = (0, 0)

    def __init__(self, form: TfRecord) -> None:
        super().__init__()
        self._form = form

    def sections_of(self, stream: Stream, unit: ByteRange, place: Place) -> Iterator[Section]:
        (offset, before), path = place, unit.file.path
        if is_index(path):
            return
        reader = RecordReader(stream, path, unit.start, unit.stop)
        at = offset if offset > unit.start else reader.first_record()
        for records in reader.records(at, self.chunk_size) if at is not None else ():
            if not (records.right.all() and records.error is None) and stream.remote is not None:
                stream.remote.check_unchanged()  # its error tells more than a checksum
            yield from self._sections(records, path, before)
            before += len(records.starts)

    def _sections(self, records: Records, path: str, before: int) -> Iterator[Section]:
        """The rows of some records; `before` is the number of those before them in the range."""
        fixed, count = self._form.require_fixed_schema(path), len(records.starts)
        constants = fixed.constants(path, fixed.file_types)
        bounds = [*records.offsets(), records.end]
        for span, parsed in self._form.parse(records.data, records.starts, records.ends, records.right):
            numbers = range(before + span.start, before + span.stop)
            at = bounds[span.start], numbers.start
            end = None if records.last and span.stop == count else (bounds[span.stop], numbers.stop)
            if isinstance(parsed, str):
                content = records.data[records.starts[span.start] : records.ends[span.start]][:MAX_CONTENT_BYTES]
                error = record_error(path, at[0], parsed)
                yield Section([], at, end, malformed=Malformed(error, Origin(path, at[0], "byte"), content))
            else:
                rows = self._form.extend(parsed, constants, path, numbers)
                yield Section(rows, at, end, partial(byte_origins, path, bounds[span.start : span.stop]))
        if records.error is not None:
            place = records.end, before + count
            yield Section([], place, place, error=records.error)


def record_error(path: str, at: int, problem: str) -> DataError:
    """The error of a record, which names its byte."""
    return DataError(f"{path}, the record at byte {at}: {problem}")


class _ExampleRows(RecordRows):
    def __init__(self, form: TfRecord, table: RowTable, files: UnitsAt) -> None:
        super().__init__(form, table, files)
        self._tfrecord = form

    def parse(self, records: RecordBytes) -> ParsedRecords:
        form, data, places = self._tfrecord, records.data, records.places
        right_heads, right_data = right_records(data, records.starts, records.ends)

        def error_at(place: int, problem: str) -> DataError:
            return record_error(records.file(place).name, int(places.begins[place]), problem)

        for place in np.flatnonzero(~right_heads).tolist()[:1]:
            raise error_at(place, "its length is not that of the index, or is damaged; make the index again")
        starts, ends = records.starts + RECORD_HEAD_BYTES, records.ends - RECORD_TAIL_BYTES
        rows: list[BlockRows] = []
        sound: list[int] = []
        malformed: dict[int, DataError] = {}
        for span, parsed in form.parse(data, starts, ends, right_data):
            if isinstance(parsed, str):
                malformed[span.start] = error_at(span.start, parsed)
            else:
                rows.append(Rows(parsed, len(span)))
                sound += span
        joined = concat(rows)
        if isinstance(joined, Rows):
            paths = [file.path for file in records.files]
            joined = extend_rows(form, joined, lambda: (paths, places.owners[sound], places.numbers[sound]))
        return ParsedRecords(joined, sound, malformed)


def _read_index(file: File) -> Numbers:
    """Read the byte at which each record of a file begins, and that after the last one, from the index beside it."""
    if is_index(file.path):
        return np.zeros(1, np.int64)  # it has no records
    if file.is_compressed():
        raise ArgumentError(f"`indexed` must be left out here: {file.name} is compressed, so no record can be sought")
    path, options = (file.path, "") if file.filesystem is not None else split_options(file.path)
    candidates = index_paths(path)
    for candidate in candidates:
        index = File(candidate + options, filesystem=file.filesystem, compression=None, cache=file.cache)
        try:
            with index.open() as stream:
                data = stream.read()
        except MissingError:
            continue
        return read_bounds(data, index.name, file.known_size())
    raise ArgumentError(
        f"`indexed` needs an index beside {file.name}, and there is neither {candidates[0]} nor {candidates[1]}; "
        "`write_tfrecord(index=True)` writes one, and so do DALI's `tfrecord2idx` and the package `tfrecord`"
    )
