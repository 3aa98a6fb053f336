"""`flat_map`: many rows from each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ..core.block import Block
from ..core.checks import check_callable
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Columns, Operator, Order
from ..engine.apply import extend_until_error
from ..errors import Origin

if TYPE_CHECKING:
    from ..engine.stage import Stage
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class FlatMap(Operator):
    kind: ClassVar[str] = "flat_map"
    order: ClassVar[Order] = Order.ROW_LOCAL
    columns: ClassVar[Columns] = Columns.LOSES
    expands: ClassVar[bool] = True

    function: Callable[..., Iterable[object]]

    def __post_init__(self) -> None:
        check_callable("function", self.function)

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        block_size = context.block_size()
        for block in stage.input.blocks(Cursor.of(at.token), context):
            made: list[object] = []
            origins: list[Origin | None] | None = block.origins and []
            start = Cursor(block.at.plain, 0, row)
            limit = block_size.rows()
            for index, value in enumerate(block.rows):
                here = block.at.advance(index)
                base = row
                if not made:
                    start = Cursor(here.plain, 0, row)
                items, error = self._expand(value)
                more = error is None
                while more:
                    before = len(made)
                    error = extend_until_error(islice(items, limit - before), made)
                    row += len(made) - before
                    if origins is not None and block.origins is not None:
                        origins.extend([block.origins[index]] * (len(made) - before))
                    more = error is None and len(made) == limit
                    if more:  # cut within an expansion: go on from this input row, past what it has given
                        inside = Cursor(here.plain, row - base, base)
                        yield Block(made, start, inside, origins)
                        block_size.produced(made)
                        made, origins, start, limit = [], origins and [], inside, block_size.rows()
                if error is not None:
                    if made:
                        yield Block(made, start, Cursor(here.plain, row - base, base), origins)
                    raise stage.failed(error, here, context)
            if made:
                yield Block(made, start, Cursor(block.end.plain, 0, row), origins)

    def _expand(self, value: object) -> tuple[Iterator[object], Exception | None]:
        try:
            return iter(self.function(value)), None
        except Exception as error:
            return iter(()), error


def flat_map(pipe: Pipe[T], /, function: Callable[[T], Iterable[U]]) -> Pipe[U]:
    """Give every item of `function(row)` in place of each row.

    Element: an item of what `function` returns: a list, a generator, any iterable; it is read lazily, so one row may
    become more than fits into memory. Order is the input's, the length is unknown, streamed. State: a position in the
    input and in the expansion; a resume expands one row again.

    Args:
        function: called once for each row; its errors, also those of a generator halfway, come with file, line and row
            (`RowError`), after the items before them.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(["a b", "c"]).flat_map(str.split))
        ['a', 'b', 'c']
    """
    return pipe.then(FlatMap(function))
