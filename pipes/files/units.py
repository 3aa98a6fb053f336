"""The operators of all readers: `Units` finds the units of files, such as row groups; `Parse` makes rows of them.

Shards divide units, and a resume starts from one. A `Format` says what a unit is, and how its rows are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar, cast

from ..core.block import Block, BlockSize, split_block
from ..core.checks import digest
from ..core.code import value_code
from ..core.context import Context, ProcessContext, Work
from ..core.cursor import START, Cursor, Json
from ..core.lazy import pa
from ..core.operator import Amount, Columns, Input, Operator, Order, Source, StageView, TokenOfInput, Trait, Weights
from ..core.origins import Origins
from ..core.rows import BlockRows, Indices
from ..core.skips import OnError, check_on_error
from ..engine.ahead import read_ahead
from ..errors import ArgumentError, DataError, FeedpipeError, Origin, SourceError
from ..formats.table_format import FormatOptions, TableFormat
from ..storage.file import File
from ..storage.file_units import UnitTable
from ..storage.index import IndexedUnits
from ..storage.tasks import in_threads, in_turn
from .open_files import at_call_site, check_file, has_fixed_order

if TYPE_CHECKING:
    from ..pipe import Pipe

Place: TypeAlias = tuple[Any, ...]
"""A position in a unit: the plain values, such as numbers, from which its reader goes on."""


def parse(pipe: Pipe[File], form: Format, on_error: OnError | None = None) -> Pipe[Any]:
    """The pipe of the rows of its files."""
    units = pipe.then(Units(form, has_fixed_order(pipe))) if isinstance(form, UnitFormat) else pipe
    counts_rows = isinstance(form, UnitFormat) and form.counts_rows
    return units.then((ParseCounted if counts_rows else Parse)(form, on_error=on_error))


class Format(FormatOptions, ABC):
    """A format of files whose units are whole files: a frozen value of the user's arguments."""

    @abstractmethod
    def reader(self, context: Context, block_size: BlockSize) -> UnitReader[Any, Any]:
        """Make the reader of one run."""

    def identity(self) -> Json:
        """What a state is checked against: by default the arguments, unless they have their defaults."""
        values = ((name, getattr(self, name)) for name in self.arguments)
        return {name: digest(value) for name, value in values if value != getattr(type(self), name)}

    def checked(self, files: InputFiles) -> Self:
        """With what a look at all files tells before the first row."""
        return self

    def row_schema(self) -> pa.Schema | None:
        """Names and types of the columns of the rows; None if they are no table, or not fixed yet."""
        return None

    def fraction_before(self, unit: Any, place: Place) -> float:
        """The fraction of a unit before `place`, from 0 to 1; 0 if it is not known."""
        return 0.0

    def remark(self) -> str | None:
        """A remark for `explain`."""
        return None


class UnitFormat(Format):
    """A format whose files are divided into units. Before the first row, `fixed` sets names and types of columns."""

    units: ClassVar[str]
    """The name of the units, such as `row_groups`."""
    fields: ClassVar[tuple[str, ...]]
    """The names of the fields of a unit; the first one is its file, the others are numbers."""
    counts_rows: ClassVar[bool] = False
    """Whether units know their numbers of rows, which are then the field `rows`."""
    unify_schemas: bool = False
    """Whether the columns are those of all files together."""

    @abstractmethod
    def head_of(self, file: File) -> Any:
        """The columns of a file."""

    def fix(self, heads: Iterable[Any], paths: Iterable[str]) -> Self:
        """Fix names and types of columns by the heads of files, which are read lazily, and by their paths."""
        return self

    @abstractmethod
    def find_units(self, files: Iterable[File]) -> UnitTable:
        """The units of files. Names and types are fixed by then."""

    @abstractmethod
    def unit(self, file: File, *numbers: int) -> tuple[Any, ...]:
        """The unit with these fields."""

    @abstractmethod
    def start(self, unit: Any) -> Origin:
        """The origin of the first row of a unit."""

    @abstractmethod
    def weights(self, units: UnitTable) -> Weights:
        """The cost of each unit."""

    def length(self, units: UnitTable) -> int | None:
        """The number of rows of some units; asked for only if `counts_rows`."""
        return None

    def units_in(self, file: File) -> list[tuple[Any, ...]]:
        """The units of a file that comes in another order each time."""
        return [self.unit(file, *numbers) for _, *numbers in self.find_units([file]).numbers.tolist()]

    def cut(self, unit: object, first: int, stop: int, slots: int) -> object | None:
        """A part of a unit, as another unit; see `Operator.cut`."""
        return None

    def unit_remark(self, units: UnitTable) -> str | None:
        """A remark on the units for `explain`."""
        return None

    def resolved(self, files: InputFiles) -> tuple[Self, UnitTable | None]:
        """With names and types of columns, and if files have a fixed order, all units."""
        form = self.fixed(files)
        return form, form.find_units(files) if files.has_fixed_order else None

    def fixed(self, files: InputFiles) -> Self:
        """With names and types of columns, by the files themselves."""
        heads: Iterator[Any] = (in_threads if self.unify_schemas else in_turn)(self.head_of, files)
        # All paths, unless only a run of the input can give them and nothing else needs that run.
        some = None if files.are_indexed or self.unify_schemas else 1
        return self.fix(heads, (file.path for file in islice(files, some)))


class InputFiles:
    """The files that a stage reads, in the order of `for x in pipe`."""

    def __init__(self, stage: StageView, kind: str, *, has_fixed_order: bool) -> None:
        self.source = stage.input.op
        self.are_indexed = stage.input.indexed
        self.has_fixed_order = has_fixed_order
        self._stage = stage
        self._kind = kind

    def __iter__(self) -> Iterator[File]:
        for block in self._stage.input.blocks(START, Context(process=ProcessContext(threads=False))):
            for value in block.rows:
                yield check_file(self._stage, self._kind, value)

    def at(self, positions: Indices, context: Context) -> list[File]:
        """The files at these positions."""
        values = self._stage.input.rows(positions, context) if len(positions) else ()
        return [check_file(self._stage, self._kind, value) for value in values]


@dataclass(frozen=True, eq=False, repr=False)
class Units(TokenOfInput, Source):
    """A handle for each unit of each file. It comes before the parser.

    If the files have a fixed order, this is indexed: `resolve` finds all units, once per pipe. Otherwise each file is
    divided into units when it comes.
    """

    order: ClassVar[Order] = Order.ROW_LOCAL
    columns: ClassVar[Columns] = Columns.LOSES

    format: UnitFormat = field(repr=False)
    has_fixed_order: bool = field(repr=False)
    table: UnitTable | None = field(default=None, repr=False)
    """None before `resolve`, and if files are divided when they come."""

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.format.units

    @property
    def expands(self) -> bool:  # type: ignore[override]
        return self.format.counts_rows

    @property
    def trait(self) -> Trait | None:  # type: ignore[override]
        return Trait.FOLLOWS if isinstance(self.table, IndexedUnits) else None

    @property
    def resolved_table(self) -> UnitTable:
        assert self.table is not None, "a run begins with `resolve`"
        return self.table

    def call(self) -> None:
        return None

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return inputs[0] and self.has_fixed_order

    def resolve(self, stage: StageView) -> Operator:
        if self.table is not None:
            return self
        try:
            form, table = self.format.resolved(self._files(stage))
        except (SourceError, DataError, ArgumentError) as error:
            raise at_call_site(error, stage) from error.__cause__
        return replace(self, format=form, table=table)

    def length(self, stage: StageView) -> int | None:
        return None if self.table is None else len(self.table)

    def weights(self, stage: StageView, context: Context) -> Weights:
        return self.format.weights(self.resolved_table)

    def within(self, rows: range) -> Operator | None:
        if self.table is None:
            return self
        part = self.table.part(rows)
        return None if part is None else replace(self, table=part)

    def cut(self, unit: object, first: int, stop: int, slots: int) -> object | None:
        return self.format.cut(unit, first, stop, slots)

    def remark(self, stage: StageView) -> str | None:
        return None if self.table is None else self.format.unit_remark(self.table)

    def identity(self) -> Json:
        if self.table is None:
            return None
        identity: dict[str, Json] = {self.kind: len(self.table), "digest": self.table.digest()}
        return {**identity, "rows": self.table.rows()} if self.format.counts_rows else identity

    def origin(self, stage: StageView, index: int, context: Context) -> Origin | None:
        (unit,) = self._at(stage, range(index, index + 1), context)
        return self.format.start(unit)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return self._at(stage, indices, context)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        block_size = context.block_size()
        for block in stage.input.blocks(Cursor.of(at.token), context):
            for index, value in enumerate(block.rows):
                after = block.at.advance(index + 1) if index + 1 < len(block) else block.end
                file = check_file(stage, self.format.kind, value)
                try:
                    units = self.format.units_in(file)
                except (SourceError, DataError) as error:
                    raise at_call_site(error, stage) from error.__cause__
                if units:
                    start = Cursor(block.at.advance(index).plain, 0, row)
                    row += len(units)
                    origins = Origins([*map(self.format.start, units)]) if context.tracing.origins else None
                    yield from split_block(
                        Block(list[object](units), start, Cursor(after.plain, 0, row), origins), block_size
                    )

    def _at(self, stage: StageView, indices: Indices, context: Context) -> list[object]:
        numbers, units = self.resolved_table.at(indices)
        files = self._files(stage).at(numbers, context)
        return [self.format.unit(files[place], *fields) for place, fields in units]

    def _files(self, stage: StageView) -> InputFiles:
        return InputFiles(stage, self.format.kind, has_fixed_order=self.has_fixed_order)


# The loop from units to rows, and the one place where parsers make their cursors.

ParsedUnit = TypeVar("ParsedUnit")
W = TypeVar("W", bound=Work)


class Malformed(NamedTuple):
    """A row that cannot be parsed: what is wrong with it, where it comes from, and as much of it as is known."""

    error: DataError
    origin: Origin
    content: object = None


class Section(NamedTuple):
    """Rows of a unit that follow each other, or all rows of several units.

    Attributes:
        rows: none if a filter leaves out all that was read.
        at: the place from which they are read.
        end: the place after them, and after a malformed row; None at the end of the unit.
        origins: finds the origin of each row, for a run that carries origins.
        malformed: the row that follows, if it is malformed.
        error: why nothing after these rows can be read. It ends the run.
        units: the number of units; all are whole if there are several.
    """

    rows: BlockRows
    at: Place
    end: Place | None
    origins: Callable[[], Sequence[Origin]] | None = None
    malformed: Malformed | None = None
    error: FeedpipeError | None = None
    units: int = 1


def row_origins(path: str, numbers: Iterable[int]) -> list[Origin]:
    """The origins of the rows with these numbers in a file, counted from 0."""
    return [Origin(path, int(number) + 1) for number in numbers]


def byte_origins(path: str, offsets: Iterable[int]) -> list[Origin]:
    """The origins of the rows that begin at these bytes of a file."""
    return [Origin(path, offset, "byte") for offset in offsets]


class UnitReader(ABC, Generic[ParsedUnit, W]):
    """Reads the units of one run, one after the other. `ParseUnits` adds the user's line to its errors."""

    beginning: ClassVar[Place] = (0,)
    """The place where each unit begins."""
    makes_blocks: ClassVar[bool] = False
    """Whether sections have the size of blocks already, because the reader looks at the block size itself."""

    def is_remote(self, unit: ParsedUnit) -> bool:
        """Whether it pays to start reading the unit, a file or a tuple with one, before its turn."""
        file: File = unit if isinstance(unit, File) else cast("Any", unit).file
        return not file.is_local()

    @abstractmethod
    def begin(self, unit: ParsedUnit, early: bool) -> W:
        """Make the work that opens the unit, not started yet; `early` if a thread will start it before its turn."""

    @abstractmethod
    def sections(self, unit: ParsedUnit, opened: W, place: Place) -> Iterator[Section]:
        """Read the rows of the unit from `place` on. Drop each section that is yielded, so its memory is reused."""

    def joined(self, unit: ParsedUnit, following: Sequence[object], opened: W) -> Section | None:
        """Read the unit and some of those that follow at once; None if each is read by itself.

        A reader does this if units are so small that most of the time would be spent on beginning them. It raises no
        error of the data, because the rows before the error come first.
        """
        return None

    def close(self) -> None:
        """Close the files that are still open, at the end of the run."""
        return


@dataclass(frozen=True, eq=False, repr=False)
class ParseUnits(Operator, Generic[ParsedUnit]):
    """The base of operators that make many rows of each unit: a byte range, a row group, a file, a range of keys.

    A token is [cursor of the unit in the input, *place in the unit, section]. At the end of a unit it points to the
    next one, so a resume does not open a unit that is done. The section is [number of rows, *place after them], or
    [number of rows, [number of units]] for several units. A resume does not need it, and may cut sections elsewhere;
    `Loader.progress` tells by it how far the loader is in a section.
    """

    order: ClassVar[Order] = Order.ROW_LOCAL
    needs_positions: ClassVar[bool] = False  # type: ignore[misc]
    expands: ClassVar[bool] = True

    @abstractmethod
    def reader(self, context: Context, block_size: BlockSize) -> UnitReader[ParsedUnit, Any]:
        """Make the reader of one run."""

    def check_unit(self, stage: StageView, value: object) -> ParsedUnit:
        """Return an element of the input as a unit. A subclass checks it if the user can write that input."""
        return cast("ParsedUnit", value)

    def fraction_before(self, unit: ParsedUnit, place: Place) -> float:
        """The fraction of a unit before `place`, from 0 to 1; 0 if it is not known."""
        return 0.0

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, *_ = cast("list[Json]", at.token or [None])
        yield stage.input, source

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        source, *place = cast("list[Json]", at.token or [None])
        amount = stage.input.amount_before(source, context)
        if amount is None or not place or not stage.input.indexed or amount.done >= amount.total:
            return amount
        number = Cursor.of(source).position
        (value,) = stage.input.rows(range(number, number + 1), context)
        unit, section = self.check_unit(stage, value), place.pop() if isinstance(place[-1], list) else None
        fraction, units = self._fraction_before(unit, place), 1
        if isinstance(section, list):
            rows, *end = section
            if end and isinstance(end[0], list):
                units, end = cast("int", end[0][0]), []
            after_section = self._fraction_before(unit, end) if end else 1.0
            fraction += max(0.0, after_section - fraction) * min(1.0, at.skip / cast("int", rows))
        after = stage.input.amount_before([None, number + units, 0], context) or amount
        return amount._replace(done=amount.done + fraction * (after.done - amount.done))

    def _fraction_before(self, unit: ParsedUnit, place: list[Json]) -> float:
        return min(1.0, max(0.0, self.fraction_before(unit, tuple(place))))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        block_size = context.block_size()
        reader = self.reader(context, block_size)
        source, *values = cast("list[Json]", at.token) or (None, *reader.beginning)
        place: Place = tuple(values[: len(reader.beginning)])
        row = at.row
        blocks = stage.input.blocks(Cursor.of(source), context)
        units = ((block, index, self.check_unit(stage, v)) for block in blocks for index, v in enumerate(block.rows))
        reading = read_ahead(
            units,
            lambda item, early: reader.begin(item[2], early),
            lambda item: context.process.threads and reader.is_remote(item[2]),
        )
        with closing(reader), reading as started:
            done = 0  # the units of this block whose rows have come
            for (block, index, unit), opened in started:
                if index == 0:
                    done = 0
                elif index < done:
                    continue
                unit_at = block.at.advance(index).plain
                following = block.rows[index + 1 :] if place == reader.beginning else ()
                sections = self._sections(stage, reader, unit, following, opened, place, context)
                for section in context.running.add(sections):
                    done = index + section.units
                    after = block.at.advance(done) if done < len(block) else block.end
                    end_of_section = section.end or (() if section.units == 1 else ([section.units],))
                    start = Cursor([unit_at, *section.at, [len(section.rows) or 1, *end_of_section]], 0, row)
                    malformed = section.malformed
                    row += len(section.rows) + (malformed is not None)
                    if section.end is None:
                        end = Cursor([after.plain, *reader.beginning], 0, row)
                    else:
                        end = Cursor([unit_at, *section.end], 0, row)
                    is_whole = malformed is None and section.error is None
                    stop = end if is_whole else start.advance(len(section.rows))  # a resume finds the error again
                    if len(section.rows):
                        origins = section.origins if context.tracing.origins else None
                        output = Block(section.rows, start, stop, None if origins is None else Origins([*origins()]))
                        for piece in (output,) if reader.makes_blocks else split_block(output, block_size):
                            yield piece
                            del piece
                        del output
                    if malformed is not None:
                        yield self._skipped(stage, malformed, stop, end, context)
                    if section.error is not None:
                        raise at_call_site(section.error, stage) from section.error.__cause__
                    del section
                place = reader.beginning

    def _skipped(self, stage: StageView, malformed: Malformed, at: Cursor, end: Cursor, context: Context) -> Block:
        """The block of a mark for a malformed row, or its error."""
        error, origin, content = malformed
        skipped = stage.skip(error, at, content, context, origin)
        if skipped is None:
            raise at_call_site(error, stage) from error.__cause__
        return Block([skipped], at, end, Origins([origin]) if context.tracing.origins else None)

    def _sections(
        self,
        stage: StageView,
        reader: UnitReader[ParsedUnit, Any],
        unit: ParsedUnit,
        following: Sequence[object],
        opened: Work,
        place: Place,
        context: Context,
    ) -> Iterator[Section]:
        """The sections of a unit, or one of it and of units that follow."""
        try:
            joined = reader.joined(unit, following, opened) if len(following) else None
            yield from reader.sections(unit, opened, place) if joined is None else (joined,)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__


@dataclass(frozen=True, eq=False, repr=False)
class OfFormat(Operator):
    """The base of operators that make rows of a format."""

    format: Format = field(repr=False)
    on_error: OnError | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.format.kind

    @property
    def columns(self) -> Columns:  # type: ignore[override]
        return Columns.MAKES if isinstance(self.format, TableFormat) else Columns.LOSES

    def call(self) -> str | None:
        """The call of the chain function, with its options and `on_error`."""
        call = self.format.call()
        if self.on_error is None:
            return call
        return f"{call[:-1]}{'' if call.endswith('()') else ', '}on_error={value_code(self.on_error)})"

    def identity(self) -> Json:
        return self.format.identity()

    def schema(self, stage: StageView) -> pa.Schema | None:
        return self.format.row_schema()


@dataclass(frozen=True, eq=False, repr=False)
class Parse(OfFormat, ParseUnits[Any]):  # pyright: ignore[reportIncompatibleVariableOverride]
    """The rows of the units of files, or of whole files."""

    trait: ClassVar[Trait | None] = Trait.FOLLOWS

    def resolve(self, stage: StageView) -> Operator:
        units = stage.input.op
        if isinstance(units, Units):
            return replace(self, format=units.format)
        try:
            return replace(self, format=self.format.checked(InputFiles(stage, self.kind, has_fixed_order=False)))
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def within(self, rows: range) -> Operator:
        return self

    def fraction_before(self, unit: Any, place: Place) -> float:
        return self.format.fraction_before(unit, place)

    def remark(self, stage: StageView) -> str | None:
        return self.format.remark()

    def check_unit(self, stage: StageView, value: object) -> object:
        return value if isinstance(self.format, UnitFormat) else check_file(stage, self.kind, value)

    def reader(self, context: Context, block_size: BlockSize) -> UnitReader[Any, Any]:
        return self.format.reader(context, block_size)


@dataclass(frozen=True, eq=False, repr=False)
class ParseCounted(Parse):
    """As `Parse`, of units that know their numbers of rows."""

    def length(self, stage: StageView) -> int | None:
        table = units.table if isinstance(units := stage.input.op, Units) else None
        return None if table is None else cast("UnitFormat", self.format).length(table)
