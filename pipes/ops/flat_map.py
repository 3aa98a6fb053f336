"""`flat_map`: any number of rows from each row."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from types import GeneratorType
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ..core.block import Block, BlockSize
from ..core.checks import check_callable
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Columns, Order, StageView, TokenOfInput
from ..core.origins import Origins
from ..core.skips import OnError, Retry, check_on_error, check_retry
from ..engine.calls import extend_until_error
from ..engine.retrying import retrying

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


def flat_map(
    pipe: Pipe[T], /, function: Callable[[T], Iterable[U]], *, on_error: OnError | None = None, retry: int | Retry = 0
) -> Pipe[U]:
    """Replace each row with all items of `function(row)`.

        ab c de   ->   flat_map(list): a b c d e

    Element: an item of the list, generator or other iterable that `function` returns. The iterable is read lazily, so
    the items of one row may take more than fits into memory. Order is the input's. Length: unknown; streamed. State: a
    position in the input and among the items of a row; a resume calls `function` again for one row.

    Args:
        function: called once for each row; its errors come with file, line and row (`RowError`). If a generator fails
            halfway, the items that it has given come first.
        on_error, retry: what happens to a row on which it fails; see `map`. With `retry`, all items of a row are made
            before the first of them comes.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(["a b", "c"]).flat_map(str.split))
        ['a', 'b', 'c']
    """
    return pipe.then(FlatMap(function, on_error=on_error, retry=retry))


@dataclass(frozen=True, eq=False, repr=False)
class FlatMap(TokenOfInput):
    kind: ClassVar[str] = "flat_map"
    order: ClassVar[Order] = Order.ROW_LOCAL
    needs_positions: ClassVar[bool] = False  # type: ignore[misc]
    columns: ClassVar[Columns] = Columns.LOSES
    expands: ClassVar[bool] = True

    function: Callable[..., Iterable[object]]
    on_error: OnError | None = field(default=None, kw_only=True, compare=False)
    retry: int | Retry = field(default=0, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        check_callable("function", self.function)
        check_on_error(self.on_error)
        check_retry(self.retry)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        block_size = context.block_size()
        for block in stage.input.blocks(Cursor.of(at.token), context):
            row = yield from self._expand(block, row, block_size, stage, context)

    def _expand(
        self, block: Block, row: int, block_size: BlockSize, stage: StageView, context: Context
    ) -> Generator[Block, None, int]:
        """Give the items of all rows of `block`, the first of which is row `row`; return the number of the next row."""
        items: list[object] = []
        owners: list[int] = []  # the row of each item; ~row if it is not the first item of it
        start = Cursor(block.at.plain, 0, row)
        limit = block_size.rows()
        for index, value in enumerate(block.rows):
            first = row + len(items)  # of this expansion
            if not items:
                start = Cursor(block.at.advance(index).plain, 0, first)
            expansion, error = self._call(stage, value, context)
            while error is None:
                before = len(items)
                error = extend_until_error(map(next, repeat(expansion, limit - before)), items)
                if block.origins and len(items) > before:
                    owners += [index if row + before == first else ~index, *[~index] * (len(items) - before - 1)]
                if error is not None or len(items) < limit:
                    break
                # The block is full: the next one begins inside this expansion, after its items so far.
                row += len(items)
                end = Cursor(block.at.advance(index).plain, row - first, first)
                block_size.produced(items)
                output = [Block(items, start, end, _origins(block, owners))]
                items, owners, start = [], [], end
                yield output.pop()
                limit = block_size.rows()
            if error is not None:
                here = block.at.advance(index)
                end = Cursor(here.plain, row + len(items) - first, first)
                row += len(items)
                if items:
                    yield Block(items, start, end, _origins(block, owners))
                skipped = stage.skip(error, here, value, context)
                if skipped is None:
                    raise stage.failed(error, here, context)
                items, owners = [], []
                after = block.at.advance(index + 1) if index + 1 < len(block) else block.end
                yield Block(
                    [skipped], end, Cursor(after.plain, 0, row + 1), block.origins and block.origins[index : index + 1]
                )
                row += 1
        row += len(items)
        if items:
            yield Block(items, start, Cursor(block.end.plain, 0, row), _origins(block, owners))
        return row

    def _call(self, stage: StageView, value: object, context: Context) -> tuple[Iterator[object], Exception | None]:
        try:
            if not self.retry:
                items = iter(self.function(value))
                return items if type(items) is not GeneratorType else context.running.add(items), None
            return iter(retrying(lambda: list(self.function(value)), self.retry, stage.name, context)()), None
        except Exception as error:
            return iter(()), error


def _origins(block: Block, owners: Sequence[int]) -> Origins | None:
    """The origins of the items of these rows of a block."""
    if not block.origins:
        return None
    rows = np.array(owners, np.int64)
    return block.origins.select(np.where(rows < 0, ~rows, rows)).counted(rows >= 0)
