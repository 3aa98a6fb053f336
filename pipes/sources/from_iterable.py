"""`from_iterable`: anything that can be iterated again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, TypeVar, cast

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import START, Cursor
from ..core.operator import Operator, StageView
from ..engine.apply import extend_until_error
from ..errors import ArgumentTypeError, Origin, with_call_site
from ..pipe import Pipe
from ._right_source import check_right_source

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class FromIterable(Operator):
    kind: ClassVar[str] = "from_iterable"

    iterable: Iterable[object] | Callable[[], Iterable[object]]

    def __post_init__(self) -> None:
        if isinstance(self.iterable, Iterator):
            raise ArgumentTypeError(
                with_call_site(
                    f"`iterable` must give its items again in each epoch but got the iterator: {self.iterable!r}, "
                    "which can be read only once; give the function that makes it, without calling it"
                )
            )
        if not (callable(self.iterable) or isinstance(self.iterable, Iterable)):
            raise ArgumentTypeError(
                with_call_site(f"`iterable` must be an iterable or a function but got: {self.iterable!r}")
            )

    def length(self, stage: StageView) -> int | None:
        # A function may give another number of items each time.
        items: object = self.iterable
        return len(items) if isinstance(items, Sized) else None

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        block_size = context.block_size()
        row = at.position
        try:
            iterable = self.iterable() if callable(self.iterable) else self.iterable
            items = islice(iterable, row, None)
        except Exception as error:
            raise stage.failed(error, START, context) from error
        while True:
            rows: list[object] = []
            count = block_size.rows()
            failure = extend_until_error(islice(items, count), rows)
            if rows:
                block_size.produced(rows)
                after = row + len(rows)
                origins = (
                    [Origin("from_iterable", i + 1) for i in range(row, after)] if context.tracing.origins else None
                )
                yield Block(rows, START.advance(row), START.advance(after), origins)  # type: ignore[arg-type]
                row = after
            if failure is not None:
                raise stage.failed(failure, START, context)
            if len(rows) < count:
                return

    seeks: ClassVar[bool] = True


def from_iterable(iterable: Iterable[T] | Callable[[], Iterable[T]]) -> Pipe[T]:
    """Begin a pipe with the items of an iterable.

    Element: an item. Order: the iterable's. Length: `len()` of the iterable if it has one, else unknown; streamed.
    State: a position; a resume iterates from the start and leaves out the items before it. An iterable cannot be cut:
    every process that needs a part of it reads all of it.

    Args:
        iterable: an object that gives the same items each time it is iterated, or a function that returns such an
            iterable, such as a generator function.

    Raises:
        ArgumentTypeError: `iterable` is an iterator, which can be read only once, or an object for another source, such
            as a data frame.

    Example:
        >>> import feedpipe as fp
        >>> def numbers():
        ...     yield 1
        ...     yield 2
        >>> list(fp.from_iterable(numbers))
        [1, 2]
    """
    check_right_source("from_iterable", iterable)
    return cast("Pipe[T]", Pipe.source(FromIterable(iterable)))
