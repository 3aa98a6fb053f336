"""`ParseUnits`: the loop from units of files to rows, and the one place where parsers make their cursors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, cast

from ...core.block import Block, split_block
from ...core.block_size import BlockSize
from ...core.context import Context, Work
from ...core.cursor import Cursor, Json
from ...core.operator import Input, Operator, Order, StageView
from ...core.rows import BlockRows
from ...engine.readahead import read_ahead
from ...errors import DataError, FeedpipeError, Origin, SourceError
from ._open_files import at_call_site

Place: TypeAlias = tuple[Any, ...]
"""A position in a unit, in the plain values that its reader needs to go on from there: numbers, or a key."""

U = TypeVar("U")
W = TypeVar("W", bound=Work)


class Piece(NamedTuple):
    """Rows of a unit that follow each other.

    Attributes:
        rows: none if a filter leaves out all that was read.
        at: the place from which the unit is read to get these rows.
        end: the place behind them, and behind a malformed row; None at the end of the unit.
        origins: the source of each row, if the run carries origins.
        malformed: the row that follows, if it is malformed.
        error: why nothing behind these rows can be read; it ends the run.
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
        origin: its source.
        content: what is known of it.
    """

    error: DataError
    origin: Origin | None
    content: object


class UnitReader(ABC, Generic[U, W]):
    """Reads the units of one run, one after the other.

    Errors are raised without the user's line; `ParseUnits` adds it.
    """

    beginning: ClassVar[Place] = (0,)
    """The place where each unit begins."""
    makes_blocks: ClassVar[bool] = False
    """Whether pieces have the size of blocks already, because the reader looks at the block size itself."""

    @abstractmethod
    def is_remote(self, unit: U) -> bool:
        """Whether it pays to start reading the unit before its turn."""

    @abstractmethod
    def start_reading(self, unit: U, early: bool) -> W:
        """The work that opens the unit, not started yet; `early` if a thread will start it before its turn."""

    @abstractmethod
    def pieces(self, unit: U, opened: W, place: Place) -> Iterator[Piece]:
        """The rows of the unit from `place` on. It drops each piece that it yields, so that the memory is reused."""

    def close(self) -> None:
        """Closes the files that are still open, at the end of the run."""
        return


@dataclass(frozen=True, eq=False)
class ParseUnits(Operator, Generic[U]):
    """The base of parsers that make many rows of each unit: a byte range, a row group, a record batch, a file.

    A token is [cursor of the unit in the input, *place in the unit]. At the end of a unit it points to the next one,
    so a resume does not open a unit that is done.
    """

    order: ClassVar[Order] = Order.ROW_LOCAL
    expands: ClassVar[bool] = True

    @abstractmethod
    def reader(self, context: Context, block_size: BlockSize) -> UnitReader[U, Any]:
        """The reader of one run."""

    def check_unit(self, stage: StageView, value: object) -> U:
        """An element of the input as a unit; a subclass checks it if the user can write that input."""
        return cast("U", value)

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
                for piece in self._pieces(stage, reader, unit, opened, place):
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
        """A block in place of a malformed row."""
        error, origin, content = malformed
        skipped = stage.skip(error, at, content, context, origin)
        if skipped is None:
            raise at_call_site(error, stage) from error.__cause__
        return Block([skipped], at, end, [origin] if context.tracing.origins else None)

    def _pieces(
        self, stage: StageView, reader: UnitReader[U, Any], unit: U, opened: Work, place: Place
    ) -> Iterator[Piece]:
        try:
            yield from reader.pieces(unit, opened, place)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__
