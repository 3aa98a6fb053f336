"""What the parsers of text share: a byte range becomes many rows, and a cursor is a place in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from ...core.block import Block, split_block
from ...core.context import Context
from ...core.cursor import Cursor, Json
from ...core.operator import Operator, Order
from ...core.rows import BlockRows
from ...engine.readahead import begun_ahead
from ...errors import DataError, Origin, SourceError
from ...formats.text.chunks import Chunk, ChunkReader, ChunkSize, TextFormat, TextPlace
from ._byte_ranges import ByteRange, ByteRanges
from ._open_files import OpenTask, at_call_site

if TYPE_CHECKING:
    from ...engine.stage import Stage


class _Piece(NamedTuple):
    """What became of a chunk: its rows up to the first malformed one, and what is wrong with that.

    `before` counts the rows of the range before the chunk.
    """

    chunk: Chunk
    before: int
    rows: BlockRows
    error: DataError | None
    origins: list[Origin | None] | None


@dataclass(frozen=True, eq=False)
class Parse(Operator):
    """The base: a subclass names its kind and what it makes.

    A token is [cursor of the range in the input, bytes before the place, line, rows of the range before the place]: a
    resume opens the file and seeks; where it is compressed it reads over. Within a chunk rows are skipped.
    """

    order: ClassVar[Order] = Order.ROW_LOCAL
    expands: ClassVar[bool] = True

    format: TextFormat[Any] = field(repr=False)

    def call(self) -> str:
        return self.format.call()

    def identity(self) -> Json:
        return self.format.identity()

    def resolve(self, stage: Stage) -> Operator:
        return replace(self, format=cast("ByteRanges", stage.input.op).format)

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        source, *place, before = cast("list[Any]", at.token) or (None, *TextPlace(), 0)
        row = at.row
        block_size, chunk_size = context.block_size(), ChunkSize()
        blocks = stage.input.blocks(Cursor.of(source), context)
        parts = ((block, index, cast("ByteRange", part)) for block in blocks for index, part in enumerate(block.rows))
        with begun_ahead(parts, _begin, lambda item: context.threads and not item[2].file.is_local()) as begun:
            for (block, index, part), opened in begun:
                here = block.at.advance(index).plain
                after = block.at.advance(index + 1) if index + 1 < len(block) else block.end
                for piece in self._pieces(
                    stage, part, opened, TextPlace(*place), before, chunk_size, origins=context.origins
                ):
                    count = len(piece.rows)
                    if count:
                        start = Cursor([here, *piece.chunk.at, piece.before], 0, row)
                        token: Json = [here, *piece.chunk.end, piece.before + count]
                        if piece.chunk.last:
                            token = [after.plain, *TextPlace(), 0]
                        row += count
                        end = start.advance(count) if piece.error is not None else Cursor(token, 0, row)
                        yield from split_block(Block(piece.rows, start, end, piece.origins), block_size)
                    if piece.error is not None:
                        raise at_call_site(piece.error, stage) from piece.error
                place, before = [*TextPlace()], 0

    def _pieces(
        self,
        stage: Stage,
        part: ByteRange,
        opened: OpenTask,
        place: TextPlace,
        before: int,
        chunk_size: ChunkSize,
        *,
        origins: bool,
    ) -> Iterator[_Piece]:
        """A range from `place` on, with `before` rows of it before that."""
        try:
            with opened.result() as stream:
                reader = ChunkReader(stream, part.file.path, self.format.last_record_end, part.start, part.stop)
                begin, parse = self.format.start_reading(reader)
                at = place if place.offset > part.start else reader.first_record(begin)
                for chunk in reader.chunks(at, chunk_size):
                    rows, error = parse(chunk, before)
                    found = reader.origins(chunk, self.format.row_lines(chunk)[: len(rows)]) if origins else None
                    yield _Piece(chunk, before, rows, error, found)
                    before += len(rows)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error


def _begin(item: tuple[Block, int, ByteRange], ahead: bool) -> OpenTask:
    file, start, stop, _ = item[2]
    # The first file of a run may be all that is looked at. A range is found from the byte before it.
    part = range(max(0, start - 1), stop) if ahead or start else None
    return OpenTask(file, part)
