"""`Units`: the handles that shards divide and that a resume starts from, such as row groups of files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from ...core.block import Block, split_block
from ...core.context import Context, ProcessContext
from ...core.cursor import START, Cursor, Json
from ...core.operator import Columns, Operator, Order, StageView
from ...core.rows import BlockRows, Indices
from ...errors import ArgumentError, DataError, Origin, SourceError
from ...storage.file import File
from ...storage.tasks import in_threads, in_turn
from ..grouping._tokens import TokenOfInput
from ._open_files import at_call_site, check_file
from ._unit_table import UnitTable


class _Format(Protocol):
    kind: ClassVar[str]
    """The name of the chain function."""

    @property
    def unify_schemas(self) -> bool:
        """Whether the columns are those of all files together."""
        ...

    def fix(self, heads: Iterable[Any], paths: Iterable[str]) -> object:
        """The format with names and types of columns fixed, by the heads of files, read lazily, and by their paths."""


F = TypeVar("F", bound=_Format)
U = TypeVar("U", bound="tuple[Any, ...]")


@dataclass(frozen=True, eq=False)
class Units(TokenOfInput, ABC, Generic[F, U]):
    """The base: a handle for each unit of each file. The chain function of a parser puts it before the parser.

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
        """What a file says about its columns."""

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
        """Where a unit begins."""

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
        """With names and types of columns fixed, and if files have a fixed order, with all units."""
        op = self.with_fixed_format(stage)
        return replace(op, table=op.find_units(self._files(stage))) if self.has_fixed_order else op

    def with_fixed_format(self, stage: StageView) -> Units[F, U]:
        """With names and types of columns fixed, by the files themselves."""
        heads = (in_threads if self.format.unify_schemas else in_turn)(self.head, self._files(stage))
        return replace(self, format=self.fixed_format(stage, heads))

    def fixed_format(self, stage: StageView, heads: Iterable[object]) -> F:
        """The format with names and types fixed by these heads, which are read lazily."""
        # All paths, unless only a run of the input can give them and nothing else needs that run.
        some = None if stage.input.indexed or self.format.unify_schemas else 1
        return cast("F", self.format.fix(heads, (file.path for file in islice(self._files(stage), some))))

    def _at(self, stage: StageView, indices: Indices, context: Context) -> list[U]:
        numbers, units = self.resolved_table.at(indices)
        files = [self._file(stage, value) for value in (stage.input.rows(numbers, context) if len(numbers) else ())]
        return [self.unit(files[place], *fields) for place, fields in units]

    def _file(self, stage: StageView, value: object) -> File:
        return check_file(stage, self.format.kind, value)
