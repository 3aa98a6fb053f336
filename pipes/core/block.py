"""`Block`, a run of rows with its cursors: operators pass blocks to each other."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import Origin
from .block_size import BlockSize
from .cursor import Cursor
from .rows import BlockRows, Indices, concat, take


@dataclass(slots=True)
class Block:
    """Rows in order, and their cursors. A block is never empty. Results never depend on where a block ends.

    Attributes:
        rows: a list of Python objects, or columns.
        at: the cursor of the first row.
        end: the cheapest cursor of the row after the last.
        origins: the origin of each row; only in a replay that looks for it.
    """

    rows: BlockRows
    at: Cursor
    end: Cursor
    origins: list[Origin | None] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, start: int, stop: int) -> Block:
        """Rows `start` to `stop` (exclusive); 0 <= start < stop <= length."""
        if start == 0 and stop == len(self.rows):
            return self
        return Block(
            take(self.rows, range(start, stop)),
            self.at.advance(start) if start else self.at,
            self.end if stop == len(self.rows) else self.at.advance(stop),
            self.origins and self.origins[start:stop],
        )

    def with_rows(self, rows: BlockRows) -> Block:
        """This block with `rows` in place of its own; if there are fewer, only the first rows of the block remain."""
        if len(rows) == len(self.rows):
            return Block(rows, self.at, self.end, self.origins)
        count = len(rows)
        return Block(rows, self.at, self.at.advance(count), self.origins and self.origins[:count])

    def with_row(self, index: int, row: object) -> Block:
        """The block of row `index` alone, with `row` in its place."""
        end = self.end if index + 1 == len(self.rows) else self.at.advance(index + 1)
        return Block([row], self.at.advance(index), end, self.origins and self.origins[index : index + 1])

    def numbered(self, number: int, row: int) -> Block:
        """This block of part `number` with tokens that `Cursor.numbered` reads; its first row is row `row` of all."""
        at, end = Cursor([number, self.at.plain], 0, row), Cursor([number, self.end.plain], 0, row + len(self.rows))
        return Block(self.rows, at, end, self.origins)

    def select(self, indices: Indices) -> tuple[BlockRows, list[Origin | None] | None]:
        """The rows at `indices`, and their origins."""
        return take(self.rows, indices), self.origins and [self.origins[i] for i in indices]


def join_blocks(blocks: list[Block]) -> tuple[BlockRows, list[Origin | None] | None]:
    """The rows of all blocks, and their origins."""
    return concat([block.rows for block in blocks]), join_origins(blocks)


def join_origins(blocks: list[Block]) -> list[Origin | None] | None:
    """The origins of the rows of all blocks."""
    return [origin for block in blocks for origin in block.origins or ()] or None


def group_origins(origins: list[Origin | None] | None, groups: Iterable[Iterable[int]]) -> list[Origin | None] | None:
    """The origin of each group; `groups` has the numbers of its rows."""
    return origins and [Origin.joined(origins[row] for row in rows) for rows in groups]


def zipped_origins(blocks: Sequence[Block]) -> list[Origin | None] | None:
    """The origins of elements made of one row of each block."""
    origins = [block.origins for block in blocks if block.origins is not None]
    return [Origin.joined(rows) for rows in zip(*origins, strict=True)] if origins else None


def cursor_at(blocks: list[Block], index: int) -> Cursor:
    """The cursor of row `index` among the rows of all blocks."""
    for block in blocks:
        if index < len(block):
            return block.at.advance(index)
        index -= len(block)
    return blocks[-1].end


def skip_rows(blocks: Iterable[Block], count: int) -> Iterator[Block]:
    """The blocks without their first `count` rows."""
    for block in blocks:
        if count >= len(block):
            count -= len(block)
            continue
        yield block.slice(count, len(block))
        count = 0


def group_rows(blocks: Iterable[Block], size: int) -> Iterator[list[Block]]:
    """The rows in groups of `size`; the last group may have fewer. Copies nothing."""
    group: list[Block] = []
    room = size
    for block in blocks:
        start = 0
        while start < len(block):
            stop = min(len(block), start + room)
            group.append(block.slice(start, stop))
            room -= stop - start
            start = stop
            if not room:
                yield group
                group, room = [], size
    if group:
        yield group


def split_block(block: Block, block_size: BlockSize) -> Iterator[Block]:
    """The block in equal pieces of about the length that `block_size` allows. Copies nothing."""
    start = 0
    while start < len(block):
        rest = len(block) - start
        pieces = max(1, round(rest / block_size.rows()))
        stop = start + -(-rest // pieces)
        piece = block.slice(start, stop)
        block_size.produced(piece.rows)
        yield piece
        start = stop


def close(blocks: Iterator[Block]) -> None:
    """Ends a run of blocks and all that runs for it. An iterator that is not a generator has nothing to end."""
    if isinstance(blocks, Generator):
        blocks.close()
