"""`unbatch`: the rows of each group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.block import Block, split_block
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import Order, StageView
from ...core.rows import BlockRows, Rows
from ...errors import Origin
from ._tokens import TokenOfInput

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Unbatch(TokenOfInput):
    kind: ClassVar[str] = "unbatch"
    order: ClassVar[Order] = Order.ROW_LOCAL
    expands: ClassVar[bool] = True

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        block_size = context.block_size()
        for block in stage.input.blocks(Cursor.of(at.token), context):
            for index, group in enumerate(block.rows):
                start = block.at.advance(index)
                end = block.at.advance(index + 1) if index + 1 < len(block) else block.end
                try:
                    rows: BlockRows = group if isinstance(group, (list, Rows)) else list(group)  # type: ignore[call-overload]
                except Exception as error:
                    raise stage.failed(error, start, context) from error
                if rows:
                    first, row = row, row + len(rows)
                    origins = block.origins and _origins(block.origins[index], len(rows))
                    whole = Block(rows, Cursor(start.plain, 0, first), Cursor(end.plain, 0, row), origins)
                    yield from split_block(whole, block_size)


def _origins(group: Origin | None, count: int) -> list[Origin | None]:
    """The origin of each of `count` rows of a group."""
    rows: list[Origin | None] = [] if group is None else [*group.rows]
    return rows if len(rows) == count else [group] * count


def unbatch(pipe: Pipe[Iterable[T]], /) -> Pipe[T]:
    """Give the rows of each group one by one, which undoes `batch`.

        [a b] [c d] [e]   ->   a b c d e

    Element: a row of the input's elements; the rows of a `feedpipe.Rows` stay columns. Order is the input's. Length:
    unknown; streamed. State: a position in the input and in the group.

    Raises:
        RowError: an element is not iterable.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence([[1, 2], [3]]).unbatch())
        [1, 2, 3]
    """
    return pipe.then(Unbatch())
