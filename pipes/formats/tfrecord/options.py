"""`TfRecord`: the options of TFRecord files, and how their records become columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, ClassVar, TypeAlias

from ...core.column import Column
from ...core.rows import BlockRows, Rows
from ...errors import DataError, FeedpipeError
from ..ranges import MAX_CONTENT_BYTES, MalformedRecord, Place, RangePart
from ..tables.arrow import HEAD_BYTES, to_column
from ..tables.columns import Schema, check_names, check_schema, suggest_name
from ..tables.sampled_table import SampledHead, SampledTable
from ..window import ChunkSize
from .columns import Entries, UnusualError, collect_values, kinds_of, parse_one_by_one, to_arrow
from .crc import PACKAGE
from .index import is_index
from .message import BYTES, FLOATS, INTS, Feature, parse_example
from .records import Offsets, RecordReader, Records

if TYPE_CHECKING:
    import pyarrow as pa

Features: TypeAlias = "Sequence[str] | Schema"
"""Names of features, or their types by name."""

_SAMPLED_RECORDS = 1000


@dataclass(frozen=True, eq=False, kw_only=True)
class TfRecord(SampledTable):
    """The arguments of `parse_tfrecord`."""

    kind: ClassVar[str] = "parse_tfrecord"
    arguments: ClassVar[tuple[str, ...]] = ("features", "path_column", "row_column", "unify_schemas", "indexed")
    type_repair: ClassVar[str] = "`features=` gives it a type"

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
        sampled, problem = _sample_records(RecordReader(stream, path).first_records(HEAD_BYTES), path)
        if not sampled and problem is not None:
            raise problem
        return SampledHead(path, _infer_types(sampled, path), has_rows=True) if sampled else None

    def missing_name_error(self, source: str, name: str, names: Sequence[str]) -> DataError:
        origin = "all files" if self.unify_schemas else source
        return DataError(
            f"the first records of {origin} have no feature {name!r}, which `features` names; "
            f"{suggest_name(name, names)}; if it comes later, `features=` gives its type"
        )

    def why_not_split(self) -> str | None:
        return None if self.row_column is None else "`row_column` counts from the beginning of a file"

    def parts(
        self, stream: BinaryIO, path: str, unit: range, place: Place, chunk_size: ChunkSize
    ) -> Iterator[RangePart]:
        """The rows of the records that begin in a range of a file, from a place on: [byte, rows before it]."""
        reader = RecordReader(stream, path, unit.start, unit.stop)
        offset, before = place
        at = offset if offset > unit.start else reader.first_record()
        if is_index(path):
            return
        parser: _RecordParser | None = None
        for records in reader.records(at, chunk_size) if at is not None else ():
            parser = parser or _RecordParser(self, path)
            yield from parser.parts(records, before)
            before += len(records.starts) + (records.malformed is not None)

    def parse_columns(self, data: bytes, starts: Offsets, ends: Offsets) -> dict[str, Column]:
        """The columns of Examples, whose bytes begin and end at these places of `data`.

        Raises:
            ValueError: one of them is malformed, or they hold a feature in several ways that do not fit together.
        """
        fixed = self.require_fixed_schema("")
        names = fixed.file_types
        try:
            entries = Entries(data, starts, ends)
            features = {name: entries.feature(name) for name in names}
            unknown = entries.unknown_name()
        except UnusualError:
            parsed = parse_one_by_one(data, starts, ends)
            features = {name: collect_values(parsed, name) for name in names}
            unknown = next((name for record in parsed for name in record if name not in names), None)
        if unknown is not None and self.features is None:
            raise ValueError(
                f"it has a feature {unknown!r}, and the first records of {fixed.origin} have none; `features=` "
                "names those to read"
            )
        return {name: to_column(to_arrow(name, features[name], kind)) for name, kind in names.items()}


def _sample_records(records: Iterable[Records], path: str) -> tuple[list[dict[str, Feature]], FeedpipeError | None]:
    """The first records that are Examples, and what is wrong with the first one that is none."""
    sampled: list[dict[str, Feature]] = []
    problems: list[FeedpipeError | None] = []
    for some in records:
        for offset, start, end in zip(some.offsets(), some.starts.tolist(), some.ends.tolist(), strict=True):
            if len(sampled) < _SAMPLED_RECORDS:
                try:
                    sampled.append(parse_example(some.data[start:end]))
                except ValueError as error:
                    problems.append(record_error(path, offset, str(error)))
        problems += [some.malformed and some.malformed.error, some.error]
    return sampled, next(filter(None, problems), None)


def _infer_types(records: Sequence[Mapping[str, Feature]], path: str) -> dict[str, pa.DataType]:
    import pyarrow as pa

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


class _RecordParser:
    """Makes columns of the records of one file."""

    def __init__(self, form: TfRecord, path: str) -> None:
        fixed = form.require_fixed_schema(path)
        self._form = form
        self._path = path
        self._names = fixed.names
        self._constants = fixed.constants(path, fixed.file_types)

    def parts(self, records: Records, before: int) -> Iterator[RangePart]:
        """The rows of some records, all at once, or if that fails of fewer and fewer of them.

        Args:
            records: some records.
            before: the records of the file or range that come before them.
        """
        whole = len(records.starts)
        bounds = [*records.offsets(), records.end]
        if records.malformed is not None:
            bounds.insert(whole, records.malformed.offset)
        total = len(bounds) - 1
        spans = [span for span in (range(whole, total), range(whole)) if span]
        while spans:
            span = spans.pop()
            rows: BlockRows = []
            malformed = records.malformed
            if span.start < whole:
                try:
                    rows, malformed = self._rows(records, span, before + span.start), None
                except ValueError as error:
                    if len(span) > 1:
                        middle = len(span) // 2
                        spans += [span[middle:], span[:middle]]
                        continue
                    malformed = self._malformed(records, span.start, bounds[span.start], error)
            end = None if records.last and span.stop == total else (bounds[span.stop], before + span.stop)
            offsets = bounds[span.start : span.stop]
            yield RangePart(rows, (bounds[span.start], before + span.start), end, offsets, malformed)
        if records.error is not None:
            place = (records.end, before + total)
            yield RangePart([], place, place, [], None, records.error)

    def _malformed(self, records: Records, number: int, offset: int, error: ValueError) -> MalformedRecord:
        start, end = int(records.starts[number]), int(records.ends[number])
        content = records.data[start:end][:MAX_CONTENT_BYTES]
        return MalformedRecord(record_error(self._path, offset, str(error)), offset, content)

    def _rows(self, records: Records, span: range, before: int) -> Rows:
        """The rows of the records with these numbers.

        Raises:
            ValueError: one of them is malformed, or they hold a feature in several ways that do not fit together.
        """
        import pyarrow as pa

        starts, ends = records.starts[span.start : span.stop], records.ends[span.start : span.stop]
        columns = self._form.parse_columns(records.data, starts, ends)
        for name, value in self._constants.items():
            columns[name] = pa.repeat(value, len(span))
        columns = {name: columns[name] for name in self._names}
        return Rows(
            {**columns, **self._form.lineage.columns_for(self._path, range(before, before + len(span)))}, len(span)
        )


def record_error(path: str, at: int, problem: str) -> DataError:
    """The error of a record, which names its byte."""
    return DataError(f"{path}, the record at byte {at}: {problem}")
