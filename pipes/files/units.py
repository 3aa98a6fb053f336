"""Units of files, such as row groups: shards divide them, a resume starts from them, a parser makes rows of them."""

from __future__ import annotations

import hashlib
import logging
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Block, BlockSize, split_block
from ..core.context import Context, ProcessContext, Work
from ..core.cursor import START, Cursor, Json
from ..core.operator import Columns, Input, Operator, Order, StageView, TokenOfInput, Weights
from ..core.rows import BlockRows, Indices, index_array
from ..engine.ahead import read_ahead
from ..errors import ArgumentError, DataError, FeedpipeError, MissingError, Origin, SourceError
from ..formats.columns import FlatHead
from ..formats.table_format import TableFormat
from ..storage.file import File
from ..storage.manifest import ManifestPlace, open_output
from ..storage.tasks import in_threads, in_turn
from .open_files import OpenFiles, at_call_site, check_file

if TYPE_CHECKING:
    import pyarrow as pa

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UnitTable:
    """A row for each unit, and a column for each of its fields; a file is its position in the input."""

    fields: tuple[str, ...]
    numbers: Numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, name: str) -> Numbers:
        return self.numbers[:, self.fields.index(name)]

    def digest(self) -> str:
        """A digest of the units, for states, without the length of footers, which follows from the seal."""
        columns = [number for number, name in enumerate(self.fields) if name != "footer_bytes"]
        return hashlib.blake2b(self.numbers[:, columns].tobytes(), digest_size=16).hexdigest()

    def at(self, indices: Indices) -> tuple[Numbers, Iterator[tuple[int, list[int]]]]:
        """Look up units.

        Returns:
            the positions of their files in the input, each once; for each unit the index of its file among these, and
            its other fields.
        """
        rows = self.numbers[index_array(indices)]
        files, places = np.unique(rows[:, 0], return_inverse=True)
        return files, zip(places.tolist(), rows[:, 1:].tolist(), strict=True)


class _Format(Protocol):
    kind: ClassVar[str]
    """The name of the chain function."""

    @property
    def unify_schemas(self) -> bool:
        """Whether the columns are those of all files together."""
        ...

    def fix(self, heads: Iterable[Any], paths: Iterable[str]) -> object:
        """Fix names and types of columns by the heads of files, which are read lazily, and by their paths."""


F = TypeVar("F", bound=_Format)
U = TypeVar("U", bound="tuple[Any, ...]")


@dataclass(frozen=True, eq=False)
class Units(TokenOfInput, ABC, Generic[F, U]):
    """The base of operators that give a handle for each unit of each file. They come before the parser.

    A unit is a named tuple of a `File` and numbers. If the files have a fixed order, this is indexed: `resolve` finds
    all units, once per pipe. Otherwise each file is divided into units when it comes.
    """

    order: ClassVar[Order] = Order.ROW_LOCAL
    columns: ClassVar[Columns] = Columns.LOSES

    fields: ClassVar[tuple[str, ...]]
    """The names of the fields of a unit."""

    format: F = field(repr=False)
    has_fixed_order: bool = field(repr=False)
    table: UnitTable | None = field(default=None, repr=False)
    """None before `resolve`, and if files are divided when they come."""

    @property
    def resolved_table(self) -> UnitTable:
        assert self.table is not None, "a run begins with `resolve`"
        return self.table

    @abstractmethod
    def head(self, file: File) -> object:
        """The columns of a file."""

    @abstractmethod
    def find_units(self, files: Iterator[File]) -> UnitTable:
        """The units of files. The format is fixed by then."""

    def units_in(self, file: File) -> list[U]:
        """The units of a file that comes in another order each time."""
        return [self.unit(file, *numbers) for _, *numbers in self.find_units(iter([file])).numbers.tolist()]

    @abstractmethod
    def unit(self, file: File, *numbers: int) -> U:
        """The unit with these fields."""

    @abstractmethod
    def start(self, unit: U) -> Origin:
        """The origin of the first row of a unit."""

    def call(self) -> None:
        return None

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return inputs[0] and self.has_fixed_order

    def resolve(self, stage: StageView) -> Operator:
        if self.table is not None:
            return self
        try:
            return self.with_fixed_units(stage)
        except (SourceError, DataError, ArgumentError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def length(self, stage: StageView) -> int | None:
        return None if self.table is None else len(self.table)

    def identity(self) -> Json:
        return None if self.table is None else {self.kind: len(self.table), "digest": self.table.digest()}

    def origin(self, stage: StageView, index: int, context: Context) -> Origin | None:
        (unit,) = self._at(stage, range(index, index + 1), context)
        return self.start(unit)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return list[object](self._at(stage, indices, context))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        block_size = context.block_size()
        for block in stage.input.blocks(Cursor.of(at.token), context):
            for index, value in enumerate(block.rows):
                after = block.at.advance(index + 1) if index + 1 < len(block) else block.end
                try:
                    units = self.units_in(self._file(stage, value))
                except (SourceError, DataError) as error:
                    raise at_call_site(error, stage) from error.__cause__
                if units:
                    start = Cursor(block.at.advance(index).plain, 0, row)
                    row += len(units)
                    origins = list[Origin | None](map(self.start, units)) if context.tracing.origins else None
                    yield from split_block(
                        Block(list[object](units), start, Cursor(after.plain, 0, row), origins), block_size
                    )

    def _files(self, stage: StageView) -> Iterator[File]:
        """The files of the input, in the order of `for x in pipe`."""
        for block in stage.input.blocks(START, Context(process=ProcessContext(threads=False))):
            for value in block.rows:
                yield self._file(stage, value)

    def with_fixed_units(self, stage: StageView) -> Units[F, U]:
        """Fix names and types of columns, and if files have a fixed order, find all units."""
        op = self.with_fixed_format(stage)
        return replace(op, table=op.find_units(self._files(stage))) if self.has_fixed_order else op

    def with_fixed_format(self, stage: StageView) -> Units[F, U]:
        """Fix names and types of columns by the files themselves."""
        heads = (in_threads if self.format.unify_schemas else in_turn)(self.head, self._files(stage))
        return replace(self, format=self.fixed_format(stage, heads))

    def fixed_format(self, stage: StageView, heads: Iterable[object]) -> F:
        """Fix names and types of the format by these heads, which are read lazily."""
        # All paths, unless only a run of the input can give them and nothing else needs that run.
        some = None if stage.input.indexed or self.format.unify_schemas else 1
        return cast("F", self.format.fix(heads, (file.path for file in islice(self._files(stage), some))))

    def _at(self, stage: StageView, indices: Indices, context: Context) -> list[U]:
        numbers, units = self.resolved_table.at(indices)
        files = [self._file(stage, value) for value in (stage.input.rows(numbers, context) if len(numbers) else ())]
        return [self.unit(files[place], *fields) for place, fields in units]

    def _file(self, stage: StageView, value: object) -> File:
        return check_file(stage, self.format.kind, value)


# The loop from units to rows, and the one place where parsers make their cursors.

Place: TypeAlias = tuple[Any, ...]
"""A position in a unit: the plain values, such as numbers, from which its reader goes on."""

ParsedUnit = TypeVar("ParsedUnit")
W = TypeVar("W", bound=Work)


class Piece(NamedTuple):
    """Rows of a unit that follow each other.

    Attributes:
        rows: none if a filter leaves out all that was read.
        at: the place from which they are read.
        end: the place behind them, and behind a malformed row; None at the end of the unit.
        origins: of each row, if the run carries origins.
        malformed: the row that follows, if it is malformed.
        error: why nothing behind these rows can be read. It ends the run.
    """

    rows: BlockRows
    at: Place
    end: Place | None
    origins: list[Origin | None] | None = None
    malformed: Malformed | None = None
    error: FeedpipeError | None = None


class Malformed(NamedTuple):
    """A row that cannot be parsed.

    Attributes:
        error: what is wrong with it.
        origin: where it comes from.
        content: as much of it as is known.
    """

    error: DataError
    origin: Origin | None
    content: object


def row_origins(path: str, numbers: Iterable[int], context: Context) -> list[Origin | None] | None:
    """The origins of the rows with these numbers in a file, counted from 0, if the run carries origins."""
    return [Origin(path, int(number) + 1) for number in numbers] if context.tracing.origins else None


class UnitReader(ABC, Generic[ParsedUnit, W]):
    """Reads the units of one run, one after the other. `ParseUnits` adds the user's line to its errors."""

    beginning: ClassVar[Place] = (0,)
    """The place where each unit begins."""
    makes_blocks: ClassVar[bool] = False
    """Whether pieces have the size of blocks already, because the reader looks at the block size itself."""

    def is_remote(self, unit: ParsedUnit) -> bool:
        """Whether it pays to start reading the unit, a file or a tuple with one, before its turn."""
        file: File = unit if isinstance(unit, File) else cast("Any", unit).file
        return not file.is_local()

    @abstractmethod
    def start_reading(self, unit: ParsedUnit, early: bool) -> W:
        """Make the work that opens the unit, not started yet; `early` if a thread will start it before its turn."""

    @abstractmethod
    def pieces(self, unit: ParsedUnit, opened: W, place: Place) -> Iterator[Piece]:
        """Read the rows of the unit from `place` on. Drop each piece that is yielded, so that its memory is reused."""

    def close(self) -> None:
        """Close the files that are still open, at the end of the run."""
        return


@dataclass(frozen=True, eq=False)
class ParseUnits(Operator, Generic[ParsedUnit]):
    """The base of parsers that make many rows of each unit: a byte range, a row group, a record batch, a file.

    A token is [cursor of the unit in the input, *place in the unit]. At the end of a unit it points to the next one,
    so a resume does not open a unit that is done.
    """

    order: ClassVar[Order] = Order.ROW_LOCAL
    expands: ClassVar[bool] = True

    @abstractmethod
    def reader(self, context: Context, block_size: BlockSize) -> UnitReader[ParsedUnit, Any]:
        """Make the reader of one run."""

    def check_unit(self, stage: StageView, value: object) -> ParsedUnit:
        """Return an element of the input as a unit. A subclass checks it if the user can write that input."""
        return cast("ParsedUnit", value)

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, *_ = cast("list[Json]", at.token or [None])
        yield stage.input, source

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        block_size = context.block_size()
        reader = self.reader(context, block_size)
        source, *values = cast("list[Json]", at.token) or (None, *reader.beginning)
        place: Place = tuple(values)
        row = at.row
        blocks = stage.input.blocks(Cursor.of(source), context)
        units = ((block, index, self.check_unit(stage, v)) for block in blocks for index, v in enumerate(block.rows))
        reading = read_ahead(
            units,
            lambda item, early: reader.start_reading(item[2], early),
            lambda item: context.process.threads and reader.is_remote(item[2]),
        )
        with closing(reader), reading as started:
            for (block, index, unit), opened in started:
                here = block.at.advance(index).plain
                after = block.at.advance(index + 1) if index + 1 < len(block) else block.end
                for piece in context.running.add(self._pieces(stage, reader, unit, opened, place)):
                    start = Cursor([here, *piece.at], 0, row)
                    malformed = piece.malformed
                    row += len(piece.rows) + (malformed is not None)
                    if piece.end is None:
                        end = Cursor([after.plain, *reader.beginning], 0, row)
                    else:
                        end = Cursor([here, *piece.end], 0, row)
                    is_whole = malformed is None and piece.error is None
                    behind = end if is_whole else start.advance(len(piece.rows))  # a resume finds the error again
                    if len(piece.rows) and reader.makes_blocks:
                        yield Block(piece.rows, start, behind, piece.origins)
                    elif len(piece.rows):
                        yield from split_block(Block(piece.rows, start, behind, piece.origins), block_size)
                    if malformed is not None:
                        yield self._skipped(stage, malformed, behind, end, context)
                    if piece.error is not None:
                        raise at_call_site(piece.error, stage) from piece.error.__cause__
                    del piece
                place = reader.beginning

    def _skipped(self, stage: StageView, malformed: Malformed, at: Cursor, end: Cursor, context: Context) -> Block:
        """The block of a mark for a malformed row, or its error."""
        error, origin, content = malformed
        skipped = stage.skip(error, at, content, context, origin)
        if skipped is None:
            raise at_call_site(error, stage) from error.__cause__
        return Block([skipped], at, end, [origin] if context.tracing.origins else None)

    def _pieces(
        self, stage: StageView, reader: UnitReader[ParsedUnit, Any], unit: ParsedUnit, opened: Work, place: Place
    ) -> Iterator[Piece]:
        try:
            yield from reader.pieces(unit, opened, place)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__


# Units that know their number of rows, such as row groups: the footers of files, and the unit file that keeps them.

UNKNOWN = -1
"""The number of rows of a unit that does not know it, such as a stream. It is the only unit of its file."""
VERSION = "2"

_LOG = logging.getLogger("feedpipe")


class FileContents(NamedTuple):
    """The content of the footer of one file.

    Attributes:
        schema: names and types of its columns.
        seal: identifies the version of the file.
        rows: of each of its units.
        compressed: whether the columns of each unit are.
        selected: the numbers of the units that a filter leaves; None for all.
        footer_bytes: the length of the footer; 0 if it is not known.
    """

    schema: pa.Schema
    seal: int
    rows: Sequence[int]
    compressed: Sequence[bool]
    selected: Sequence[int] | None = None
    footer_bytes: int = 0


@dataclass(frozen=True, eq=False)
class FileUnits:
    """The contents of all files.

    Attributes:
        schemas: each once, in the order in which they first occur.
        schema_numbers, seals, footer_bytes, counts: of each file, the number of its schema, its seal, the length of its
            footer and the number of its units.
        rows, compressed: of each unit of each file.
        selected: the positions among all units of those that a filter leaves; None for all.
    """

    schemas: Sequence[pa.Schema]
    schema_numbers: Numbers
    seals: Numbers
    footer_bytes: Numbers
    counts: Numbers
    rows: Numbers
    compressed: Numbers
    selected: Numbers | None = None

    @staticmethod
    def of(files: Iterable[FileContents]) -> FileUnits:
        schemas: dict[bytes, tuple[int, pa.Schema]] = {}
        last: tuple[int, pa.Schema] | None = None
        numbers, seals, footers, counts, rows, compressed, selected = (array("q") for _ in range(7))
        filtered = False
        for file in files:
            if last is None or not file.schema.equals(last[1], check_metadata=True):
                last = schemas.setdefault(file.schema.serialize().to_pybytes(), (len(schemas), file.schema))
            numbers.append(last[0])
            seals.append(file.seal)
            footers.append(file.footer_bytes)
            counts.append(len(file.rows))
            filtered = filtered or file.selected is not None
            selected.extend(len(rows) + k for k in (range(len(file.rows)) if file.selected is None else file.selected))
            rows.extend(file.rows)
            compressed.extend(file.compressed)
        columns = (np.array(column, np.int64) for column in (numbers, seals, footers, counts, rows, compressed))
        units = FileUnits([schema for _, schema in schemas.values()], *columns)
        return replace(units, selected=np.array(selected, np.int64)) if filtered else units

    def __len__(self) -> int:
        return len(self.counts)

    def unit_table(self, fields: tuple[str, ...]) -> UnitTable:
        """The units that have rows, by these fields: file, number, rows, first, seal, compressed and footer_bytes."""
        files = np.repeat(np.arange(len(self)), self.counts)
        begins = np.cumsum(self.counts) - self.counts
        before = np.cumsum(self.rows) - self.rows
        unknown = self.rows == UNKNOWN
        firsts = np.append(before, 0)[begins]  # the rows before each file
        columns = {
            "file": files,
            "number": np.where(unknown, -1, np.arange(len(files)) - begins[files]),
            "rows": self.rows,
            "first": before - firsts[files],
            "seal": self.seals[files],
            "compressed": self.compressed,
            "footer_bytes": self.footer_bytes[files],
        }
        numbers = np.stack([columns[name] for name in fields], axis=1)
        chosen = np.arange(len(files)) if self.selected is None else self.selected
        return UnitTable(fields, numbers[chosen[self.rows[chosen] != 0]])

    def first_files(self) -> Numbers:
        """The position of the first file of each schema."""
        return np.unique(self.schema_numbers, return_index=True)[1]

    def digest(self) -> str:
        """A digest of all values, whatever the format that they are written in."""
        digest = hashlib.blake2b(digest_size=16)
        for column in (self.schema_numbers, self.seals, self.footer_bytes, self.counts, self.rows, self.compressed):
            digest.update(len(column).to_bytes(8, "little") + column.tobytes())
        for schema in self.schemas:
            digest.update(schema.serialize())
        return digest.hexdigest()

    def write(self, manifest: ManifestPlace, kind: str) -> None:
        """Write the unit file of a manifest. If that fails, log it; the next run reads the footers again."""
        import pyarrow as pa

        offsets = pa.array(np.append(0, np.cumsum(self.counts)), pa.int64())
        columns: dict[str, Any] = {
            "schema": pa.array(self.schema_numbers),
            "seal": pa.array(self.seals),
            "footer_bytes": pa.array(self.footer_bytes),
            "rows": pa.LargeListArray.from_arrays(offsets, pa.array(self.rows)),
            "compressed": pa.LargeListArray.from_arrays(offsets, pa.array(self.compressed)),
        }
        metadata: dict[str, bytes] = {
            "feedpipe units": VERSION.encode(),
            "kind": kind.encode(),
            "listing": manifest.digest.encode(),
            "digest": self.digest().encode(),
            **{f"schema {number}": schema.serialize().to_pybytes() for number, schema in enumerate(self.schemas)},
        }
        table = pa.table(columns).replace_schema_metadata(metadata)
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        try:
            with (
                open_output(manifest.unit_file, manifest.filesystem) as stream,
                pa.ipc.new_file(stream, table.schema, options=options) as writer,
            ):
                writer.write_table(table)
        except (SourceError, pa.ArrowException, OSError) as error:
            _LOG.warning("footers are not kept for the next run: %s", error)

    @staticmethod
    def read(manifest: ManifestPlace, kind: str, files: int) -> FileUnits | None:
        """Read the unit file of a manifest. If none fits these files, log it and return None."""
        path = manifest.unit_file
        try:
            with File(path, filesystem=manifest.filesystem).open(None) as stream:
                data = stream.read()
            units = _parse(data, manifest.digest, kind)
            if len(units) != files:
                raise DataError(f"it has {len(units)} files of {files}")
        except MissingError:
            _LOG.info("%s is not there yet: the footers of %d files are read and kept in it", path, files)
        except (SourceError, DataError) as error:
            _LOG.warning("%s is not used, and written again: %s", path, error)
        else:
            return units
        return None


def _parse(data: bytes, listing: str, kind: str) -> FileUnits:
    """The content of a unit file.

    Raises:
        DataError: it is damaged, or belongs to other files.
    """
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        table.validate(full=True)
        metadata = {key.decode(): value for key, value in (table.schema.metadata or {}).items()}
        expected = {"feedpipe units": VERSION, "kind": kind, "listing": listing}
        for key, value in expected.items():
            if metadata.get(key) != value.encode():
                raise DataError(f"its {key!r} is {metadata.get(key, b'').decode()!r} and should be {value!r}")
        count = sum(key.startswith("schema ") for key in metadata)
        schemas = [pa.ipc.read_schema(pa.py_buffer(metadata[f"schema {number}"])) for number in range(count)]
        names = ("schema", "seal", "footer_bytes", "rows", "compressed")
        schema, seal, footers, rows, compressed = (cast("Any", table.column(name).combine_chunks()) for name in names)
        flat = [schema, seal, footers, rows.value_lengths(), rows.flatten(), compressed.flatten()]
        units = FileUnits(schemas, *(np.asarray(column.to_numpy(zero_copy_only=False), np.int64) for column in flat))
    except DataError:
        raise
    except (pa.ArrowException, OSError, KeyError, ValueError, AttributeError) as error:
        raise DataError(f"it is damaged: {' '.join(str(error).split())}") from error
    if units.digest() != metadata.get("digest", b"").decode():
        raise DataError("it is damaged: its digest is another one")
    return units


CountedFormat = TypeVar("CountedFormat", bound=TableFormat)


@dataclass(frozen=True, eq=False)
class CountedUnits(Units[CountedFormat, U]):
    """The base of units that know the number of their `rows`, and the number in the file of the `first` of them."""

    expands: ClassVar[bool] = True

    @abstractmethod
    def contents(self, file: File) -> FileContents:
        """Read the footer of a file. The format is fixed by then, and the columns of the file fit it."""

    def can_use(self, units: FileUnits) -> bool:
        """Whether the units that were kept tell all that is needed of the files."""
        return True

    def find_units(self, files: Iterator[File]) -> UnitTable:
        return self._read_footers(files).unit_table(self.fields)

    def with_fixed_units(self, stage: StageView) -> Units[CountedFormat, U]:
        manifest, kind = self._manifest(stage)
        if manifest is None:
            return super().with_fixed_units(stage)
        kept = FileUnits.read(manifest, kind, stage.input.length or 0)
        if kept is not None and not self.can_use(kept):
            return super().with_fixed_units(stage)
        if kept is not None:
            return replace(self._with_kept_format(stage, kept), table=kept.unit_table(self.fields))
        op = cast("CountedUnits[CountedFormat, U]", self.with_fixed_format(stage))
        units = op._read_footers(self._files(stage))
        units.write(manifest, kind)
        return replace(op, table=units.unit_table(self.fields))

    def start(self, unit: U) -> Origin:
        return Origin(unit[0].path, unit[self.fields.index("first")] + 1)

    def total(self) -> int | None:
        """The number of rows of all units; None if one of them does not know it."""
        if self.table is None:
            return None
        rows = self.table.column("rows")
        return None if (rows == UNKNOWN).any() else int(rows.sum())

    def weights(self, stage: StageView, context: Context) -> Weights:
        return Weights(self.resolved_table.column("rows"), are_rows=True)

    def identity(self) -> Json:
        identity = cast("dict[str, Json] | None", super().identity())
        return identity and {**identity, "rows": self.total()}

    def _read_footers(self, files: Iterator[File]) -> FileUnits:
        return FileUnits.of(in_threads(self.contents, files))

    def _manifest(self, stage: StageView) -> tuple[ManifestPlace | None, str]:
        """The place of the manifest of the files, if it may keep their units, and what else these depend on."""
        op = stage.input.op
        if not isinstance(op, OpenFiles) or not self.has_fixed_order:
            return None, ""
        return op.listed_in, f"{self.kind}, compression {op.compression}"

    def _with_kept_format(self, stage: StageView, kept: FileUnits) -> CountedUnits[CountedFormat, U]:
        """Fix names and types by the schemas that were kept of the files, which must fit them."""
        firsts = [self._file(stage, value) for value in stage.input.rows(kept.first_files(), Context())]
        heads = [FlatHead(file.path, schema) for file, schema in zip(firsts, kept.schemas, strict=True)]
        op = replace(self, format=self.fixed_format(stage, iter(heads)))
        fixed = op.format.require_fixed_schema(firsts[0].name)
        columns = [fixed.columns_in(head) for head in heads]
        if fixed.folder_types:
            for file, number in zip(self._files(stage), kept.schema_numbers.tolist(), strict=True):
                fixed.constants(file.path, columns[number])
        return op


@dataclass(frozen=True, eq=False)
class ParseCounted(ParseUnits[U], Generic[CountedFormat, U]):
    """The base of parsers of such units."""

    columns: ClassVar[Columns] = Columns.MAKES

    format: CountedFormat = field(repr=False)

    def call(self) -> str | None:
        return self.format.call()

    def identity(self) -> Json:
        return self.format.identity()

    def resolve(self, stage: StageView) -> Operator:
        return replace(self, format=cast("CountedUnits[Any, Any]", stage.input.op).format)

    def schema(self, stage: StageView) -> pa.Schema | None:
        return self.format.row_schema()

    def length(self, stage: StageView) -> int | None:
        return cast("CountedUnits[Any, Any]", stage.input.op).total()
