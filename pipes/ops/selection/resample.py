"""`resample`: rows of rare classes several times, of frequent ones not always."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ...core.block import Block, split_block
from ...core.checks import check_int
from ...core.context import Context
from ...core.cursor import Cursor, Json
from ...core.operator import Operator, Order, StageView
from ...core.randomness import uniforms
from ...core.rows import BlockRows, take
from ...errors import ArgumentError, ArgumentTypeError, UnfitError, with_call_site
from .._data_error import data_error
from .._key_numbers import key_numbers
from .._keys import Key, check_key, check_named_key, keys_of
from .._same_rows import SameRows
from ..grouping._tokens import TokenOfInput
from ._class_shares import check_shares, copies_of_classes

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Resample(TokenOfInput, SameRows):
    kind: ClassVar[str] = "resample"
    order: ClassVar[Order] = Order.ROW_LOCAL

    key: Any
    target: Any = field(kw_only=True)
    source: Any = field(kw_only=True)
    limit: int = field(default=10, kw_only=True)
    name: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        key = check_key("key", self.key)
        if key is None:
            raise ArgumentTypeError(
                with_call_site("`key` must be the name of a column, names, or a function, not None")
            )
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "limit", check_int("limit", self.limit, least=1))
        if isinstance(self.target, str) and self.target != "uniform":
            raise ArgumentError(
                with_call_site(f"`target` must be 'uniform' or shares by class but got: {self.target!r}")
            )
        self.copies()

    def copies(self) -> dict[Hashable, float]:
        """How often a row of each class comes on average."""
        target = None if isinstance(self.target, str) else check_shares("target", self.target)
        return copies_of_classes(target, check_shares("source", self.source), self.limit)

    def reshuffles(self) -> bool:
        return True

    def identity(self) -> Json:
        return None if callable(self.key) else list(self.key)

    def resolve(self, stage: StageView) -> Operator:
        check_named_key(self, stage, self.key)
        return self

    def remark(self, stage: StageView) -> str | None:
        few = list(self.copies().items())[:8]
        return "gives a row, on average, " + ", ".join(f"{copies:.3g} times if {name!r}" for name, copies in few)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        copies = self.copies()
        draws = context.key(stage.name)
        block_size = context.block_size()
        row = at.row
        for block in stage.input.blocks(Cursor.of(at.token), context):
            average, error = self._copies_of_rows(block.rows, copies)
            count = len(average)
            whole = np.floor(average)
            more = uniforms(draws, np.arange(block.at.position, block.at.position + count)) < average - whole
            rows, origins = block.select(np.repeat(np.arange(count), whole.astype(np.int64) + more))
            end = block.end if count == len(block) else block.at.advance(count)
            start, row = Cursor(block.at.plain, 0, row), row + len(rows)
            yield from split_block(Block(rows, start, Cursor(end.plain, 0, row), origins), block_size)
            if error is not None:
                raise data_error(self, stage.failed(error, end, context))

    def _copies_of_rows(
        self, rows: BlockRows, copies: Mapping[Hashable, float]
    ) -> tuple[npt.NDArray[np.float64], Exception | None]:
        """How often the rows come on average, up to the first that has no class, and its error."""
        numbers, error = key_numbers(rows, self.key)
        distinct, first, places = np.unique(numbers, return_index=True, return_inverse=True)
        classes = keys_of(take(rows, first), self.key)[0] if len(distinct) else []
        for place, name in sorted(zip(first.tolist(), classes, strict=True)):
            if name not in copies:
                numbers = numbers[:place]
                error = UnfitError(f"the class of a row is {name!r}, which has no share in `source`; add it there")
                break
        average = np.array([copies.get(name, 0.0) for name in classes], np.float64)
        return average[places[: len(numbers)]], error


def resample(
    pipe: Pipe[T],
    /,
    key: Key,
    *,
    target: Literal["uniform"] | Mapping[Any, float],
    source: Mapping[Any, float],
    limit: int = 10,
    name: str | None = None,
) -> Pipe[T]:
    """Give rows of rare classes several times and leave out some of frequent ones, so that classes get other shares.

    Element: the rows as they are; copies of a row follow each other, so shuffle behind it. Order: the input's. Length:
    unknown, about the input's; streamed. State: a position in the input; which rows come is drawn by key, anew in each
    epoch. Memory: one block.

    Args:
        key: the class of a row: the name of a column, several names, or a function of the row.
        target: the shares of the classes that come out, or "uniform" for equal ones.
        source: the shares of the classes in the pipe, or their counts, such as a `Counter` of a first pass.
        limit: how often a row may come on average.
        name: identifies the operator in the key of its draws, in place of its kind and count.

    Raises:
        ArgumentError: `source` and `target` name other classes; a class must come more often than `limit`.
        PlanError: there is no such column. If only a run can tell, a `DataError`.
        DataError: a row is of a class without a share.

    Example:
        >>> import feedpipe as fp
        >>> rows = fp.from_sequence(["cat"] * 900 + ["dog"] * 100)
        >>> pipe = rows.resample(lambda row: row, target="uniform", source={"cat": 0.9, "dog": 0.1})
        >>> 450 < list(pipe).count("dog") < 550
        True
    """
    return pipe.then(Resample(key, target=target, source=source, limit=limit, name=name))
