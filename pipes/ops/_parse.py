"""What the parsers share: a file becomes many rows, and a cursor is a place in a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ..block import Block, in_pace
from ..context import Context
from ..cursor import START, Cursor, Json
from ..errors import ArgumentError, ArgumentTypeError, DataError, FeedpipeError, Origin, SourceError, located
from ..formats.chunks import Chunk, ChunkReader, Format, Growth, Place
from ..graph import written
from ..rows import RowList
from ..storage.file import File
from ..traits import Operator

if TYPE_CHECKING:
    from ..stage import Stage


@dataclass(frozen=True, eq=False)
class Parse(Operator):
    """The base: a subclass names its kind and what it makes.

    A token is [cursor of the file in the input, bytes before the place, line]: a resume opens that file and seeks;
    where it is compressed it reads over. Within a chunk rows are skipped.
    """

    expands: ClassVar[bool] = True

    format: Format[Any] = field(repr=False)

    def call(self) -> str:
        return written(cast("Operator", self.format))  # the fields of the format are the arguments

    def identity(self) -> Json:
        return {"call": self.call(), "types": self.format.types()}

    def resolve(self, stage: Stage) -> Operator:
        try:
            return replace(self, format=self.format.fix(self._heads(stage)))
        except (SourceError, DataError, ArgumentError) as error:
            raise _located(error, stage) from error

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        source, *place = cast("list[Any]", at.token) or (None, 0, 1)
        row = at.row
        pace, growth = context.pace(), Growth()
        for block in stage.input.blocks(Cursor.of(source), context):
            for index, file in enumerate(block.rows):
                here = block.at.advance(index).plain
                after = block.at.advance(index + 1) if index + 1 < len(block) else block.end
                for chunk, rows, error in self._read(stage, file, Place(*place), growth):
                    count = len(rows)
                    if count:
                        start = Cursor([here, *chunk.at], 0, row)
                        token: Json = [after.plain, 0, 1] if chunk.last else [here, *chunk.end]
                        end = start.advance(count) if error is not None else Cursor(token, 0, row + count)
                        origins = self._origins(file, chunk, count) if context.origins else None
                        yield from in_pace(Block(rows, start, end, origins), pace)
                        row += count
                    if error is not None:
                        raise _located(error, stage) from error
                place = [0, 1]

    def _read(
        self, stage: Stage, file: object, place: Place, growth: Growth
    ) -> Iterator[tuple[Chunk, RowList, FeedpipeError | None]]:
        """The chunks of a file from `place` on, and their rows."""
        try:
            with self._opened(stage, file) as stream:
                reader = ChunkReader(stream, cast("File", file).path, self.format.cut)
                start, parse = self.format.begin(reader)
                for chunk in reader.chunks(max(start, place), growth):
                    yield chunk, *parse(chunk)
        except (SourceError, DataError) as error:
            raise _located(error, stage) from error

    def _heads(self, stage: Stage) -> Iterator[ChunkReader]:
        for block in stage.input.blocks(START, Context()):
            for file in block.rows:
                with self._opened(stage, file) as stream:
                    yield ChunkReader(stream, cast("File", file).path, self.format.cut)

    def _opened(self, stage: Stage, file: object) -> Any:
        if not isinstance(file, File):
            raise ArgumentTypeError(
                located(
                    f"`{self.kind}` reads files but got: {file!r}; `.open_files()` comes before it", stage.node.where
                )
            )
        return file.open()

    def _origins(self, file: object, chunk: Chunk, count: int) -> list[Origin | None]:
        path = cast("File", file).path
        return [Origin(path, line, "line") for line in self.format.lines(chunk)[:count]]


def _located(error: FeedpipeError, stage: Stage) -> FeedpipeError:
    return type(error)(located(str(error), stage.node.where))
