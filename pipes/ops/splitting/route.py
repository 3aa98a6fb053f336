"""`route`: each row to one of several pipes, by a function."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ...core.block import Block
from ...core.checks import check_callable, check_int
from ...core.code import call_code
from ...core.cursor import Json
from ...core.operator import StageView
from ...engine.apply import map_until_error
from ...errors import UnfitError
from ..rows._filter_rows import FilterResult, FilterRows

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Route(FilterRows):
    """Gives the rows of one of the pipes."""

    kind: ClassVar[str] = "route"

    function: Callable[[Any], int]
    count: int
    part: int = field(kw_only=True, repr=False)

    def call(self) -> str:
        return f"{call_code(self)}[{self.part}]"

    def identity(self) -> Json:
        return {"part": self.part}

    def select(self, stage: StageView, block: Block) -> FilterResult:
        numbers, error = map_until_error(self._number, block.rows, user_function=self.function)
        places = np.flatnonzero(np.array(numbers, np.int64) == self.part)
        return FilterResult(*block.select(places), len(numbers), error)

    def _number(self, row: object) -> int:
        answer: Any = self.function(row)
        try:
            number = operator.index(bool(answer) if isinstance(answer, np.bool_) else answer)
        except TypeError:
            number = -1
        if not 0 <= number < self.count:
            raise UnfitError(
                f"the function must return the number of a pipe, an int from 0 to {self.count - 1}, but returned: "
                f"{answer!r:.80}"
            )
        return number


def route(pipe: Pipe[T], /, function: Callable[[T], int], count: int) -> tuple[Pipe[T], ...]:
    """Give each row to one of `count` pipes: to the one whose number `function(row)` returns, from 0.

    Element: the rows as they are; columns stay columns. Order: the input's. Length: unknown; streamed. State: a
    position in the input. Each pipe reads the input and calls `function` for each row by itself; put `fork` before it,
    or `load`, if that is costly.

    Args:
        function: called once for each row and pipe, so it must not draw at random; True and False are 1 and 0. Its
            errors come with file, line and row (`RowError`).
        count: the number of pipes.

    Raises:
        ArgumentError: `count` is below 1.
        DataError: `function` returns something else than a number of a pipe.

    Example:
        >>> import feedpipe as fp
        >>> even, odd = fp.from_sequence(range(6)).route(lambda x: x % 2, 2)
        >>> list(even), list(odd)
        ([0, 2, 4], [1, 3, 5])
    """
    check_callable("function", function)
    count = check_int("count", count, least=1)
    return tuple(pipe.then(Route(function, count, part=part)) for part in range(count))
