"""`sample` and `resample`: rows drawn at random, or rows of classes more or less often."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Block, split_block
from ..core.checks import check_int
from ..core.code import call_code
from ..core.context import Context, uniforms
from ..core.cursor import Cursor, Json
from ..core.operator import Operator, Order, StageView, TokenOfInput
from ..core.rows import BlockRows, Indices, index_array, take
from ..engine.seeds import Permutation
from ..errors import ArgumentError, ArgumentTypeError, DataError, PlanError, UnfitError
from ._keys import Key, check_key, check_named_key, comparable_key, key_numbers, keys_of
from ._shared import Rearranged, SameRows, data_error

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
Floats = npt.NDArray[np.float64]


def sample(
    pipe: Pipe[T],
    /,
    size: int | None = None,
    *,
    weights: Any = None,
    replacement: bool = False,
    seed: int | None = None,
    each_epoch: bool = True,
    name: str | None = None,
) -> Pipe[T]:
    """Draw rows at random, others in each epoch.

        a b c d e f   ->   sample(4): e f d b

    Element: the rows as they are. Order: that of the draws. Length: `size`. The pipe must be indexed, and so is the
    sample. State: a position; a resume runs nothing again. Memory: with weights 16 bytes for each row.

    Args:
        size: the number of draws; None draws as many as there are rows, or, without replacement, all with a weight.
        weights: a number >= 0 for each row, in proportion to its chance; one over the size of the row's class makes all
            classes equally likely. Or a function that returns them for the number of an epoch, such as losses of the
            epoch before; it must return the same for one epoch, because each process calls it, and a resume too. It
            needs `size`, or `replacement=True`, so that each epoch has one length.
        replacement: True may draw a row repeatedly.
        seed: used instead of the loader's seed.
        each_epoch: False draws the same rows in each epoch, and in each round of a `repeat`.
        name: identifies the operator in the key of its draws, instead of its kind and count.

    Raises:
        PlanError: the pipe is streamed; weights of another number than the rows; `size` is above the number of rows,
            without replacement.
        ArgumentError: a weight is below 0 or no number, or all are 0; `size` or `seed` is below 0; a function is given
            without `size`, or with `each_epoch=False`.
        DataError: a function returned weights that do not fit.

    Source: weighted draws without replacement by Efraimidis and Spirakis, "Weighted random sampling with a reservoir"
    (2006).

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(100))
        >>> len({*pipe.sample(10)}), len(pipe.sample(500, replacement=True))
        (10, 500)
        >>> sorted(fp.from_sequence("abc").sample(weights=[1, 0, 5]))
        ['a', 'c']
    """
    if not pipe.indexed:
        raise PlanError(
            "`sample` must follow an indexed pipe, because it reads rows in any order, and this pipe is streamed; "
            "put `.load()` before it, or use `resample`"
        )
    return pipe.then(
        DrawRows(size, row_weights=weights, replacement=replacement, seed=seed, each_epoch=each_epoch, name=name)
    )


@dataclass(frozen=True, eq=False, repr=False)
class DrawRows(Rearranged):
    kind: ClassVar[str] = "sample"
    order: ClassVar[Order] = Order.GLOBAL

    size: int | None = None
    row_weights: Floats | Callable[[int], object] | None = field(default=None, kw_only=True)
    replacement: bool = field(default=False, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    each_epoch: bool = field(default=True, kw_only=True)
    name: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.size is not None:
            object.__setattr__(self, "size", check_int("size", self.size, least=0))
        if not callable(self.row_weights):
            if self.row_weights is not None:
                object.__setattr__(self, "row_weights", _check_weights(self.row_weights))
        elif self.size is None and not self.replacement:
            raise ArgumentError(
                "`size` must be given if `weights` is a function, because the number of rows with a weight may "
                "change with the epoch"
            )
        elif self.each_epoch is False:
            raise ArgumentError("`each_epoch` must be left out if `weights` is a function of the epoch but got: False")
        if self.seed is not None:
            object.__setattr__(self, "seed", check_int("seed", self.seed, least=0))

    def call(self) -> str:
        return call_code(self).replace("row_weights=", "weights=")

    def reshuffles(self) -> bool:
        return self.each_epoch

    def length(self, stage: StageView) -> int | None:
        rows = stage.input.length
        assert rows is not None, "an indexed pipe knows its length"
        if callable(self.row_weights):
            return rows if self.size is None else self.size
        return self._length(stage, rows, self.row_weights)

    def _length(self, stage: StageView, rows: int, weights: Floats | None) -> int:
        if weights is not None and len(weights) != rows:
            raise self._plan_error(
                stage, f"there must be a weight for each of {rows} rows but there are {len(weights)}"
            )
        drawable = rows if weights is None else int(np.count_nonzero(weights))
        if self.replacement:
            if self.size and not drawable:
                raise self._plan_error(stage, f"there are no rows to draw {self.size} from")
            return rows if self.size is None else self.size
        if self.size is not None and self.size > drawable:
            kind = "rows" if weights is None else "rows with a weight above 0"
            raise self._plan_error(
                stage,
                f"`size` must be at most the number of {kind}, {drawable}, but is {self.size}; give "
                "`replacement=True` to draw rows repeatedly",
            )
        return drawable if self.size is None else self.size

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        rows = stage.input.length or 0
        weights = self._weights(stage, rows, context.epoch)
        context = context if self.each_epoch else context.every_epoch()
        run = (context.seed, context.epoch, context.rounds, context.shard)
        key = stage.memo(run, lambda: context.key(stage.name, seed=self.seed))
        if not self.replacement:
            if weights is None:
                return stage.memo(("order", run), lambda: Permutation(key, rows))[indices]
            order = stage.memo(("order", run), lambda: _weighted_order(weights, uniforms(key, np.arange(rows))))
            return order[index_array(indices)]
        numbers = uniforms(key, index_array(indices))
        if weights is None:
            return (numbers * rows).astype(np.int64)
        epoch = context.epoch if callable(self.row_weights) else None
        sums: Floats = stage.memo(("sums", epoch), lambda: np.cumsum(weights))
        last = np.searchsorted(sums, sums[-1])  # the last row with a weight
        return index_array(np.minimum(np.searchsorted(sums, numbers * sums[-1], side="right"), last))

    def _weights(self, stage: StageView, rows: int, epoch: int) -> Floats | None:
        """The weights of the rows in an epoch, which are checked; None if there are none."""
        row_weights = self.row_weights

        def make() -> Floats | None:
            if not callable(row_weights):
                self._length(stage, rows, row_weights)
                return row_weights
            try:
                weights = _check_weights(row_weights(epoch))
                self._length(stage, rows, weights)
            except (ArgumentError, ArgumentTypeError, PlanError) as error:
                raise DataError(f"in epoch {epoch}, {str(error).splitlines()[0]}", at=stage.call_site) from None
            return weights

        return stage.memo(("weights", epoch if callable(row_weights) else None), make)

    def _plan_error(self, stage: StageView, problem: str) -> PlanError:
        return PlanError(f"`{self.call()}`: {problem}", at=stage.call_site)


def _weighted_order(weights: Floats, numbers: Floats) -> npt.NDArray[np.int64]:
    """The rows in the order in which they are drawn, one after the other, each by the weights of those left."""
    drawable = np.flatnonzero(weights)
    return drawable[np.argsort(np.log1p(-numbers[drawable]) / -weights[drawable], kind="stable")]


def _check_weights(weights: object) -> Floats:
    """A copy of the weights as an array."""
    try:
        array = np.array(weights, np.float64)
    except (TypeError, ValueError):
        array = np.zeros((0, 0))
    if array.ndim != 1:
        raise ArgumentTypeError(
            f"`weights` must be a list or an array with a number for each row but got: {weights!r:.80}"
        )
    wrong = np.flatnonzero(~(array >= 0) | np.isinf(array))
    if len(wrong):
        place = int(wrong[0])
        raise ArgumentError(f"`weights` must be finite numbers >= 0 but that of row {place + 1} is: {array[place]}")
    if len(array) and not array.any():
        raise ArgumentError("`weights` must not all be 0, because no row could be drawn")
    array.flags.writeable = False
    return array


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

        a a a b a a a b   ->   resample(str, target="uniform", source={"a": 3, "b": 1}): a a a b b a a b b

    Element: the rows as they are; copies of a row follow each other, so shuffle after it. Order: the input's. Length:
    unknown, about the input's; streamed. State: a position in the input; the draws are keyed, and others in each epoch.
    Memory: one block.

    Args:
        key: the class of a row: the name of a column, several names, or a function of the row.
        target: the shares of the classes in the output, or "uniform" for equal ones.
        source: the shares of the classes in the pipe, or their counts, such as a `Counter` of a first pass.
        limit: the most copies of a row, on average.
        name: identifies the operator in the key of its draws, instead of its kind and count.

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


@dataclass(frozen=True, eq=False, repr=False)
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
            raise ArgumentTypeError("`key` must be the name of a column, names, or a function, not None")
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "limit", check_int("limit", self.limit, least=1))
        if isinstance(self.target, str) and self.target != "uniform":
            raise ArgumentError(f"`target` must be 'uniform' or shares by class but got: {self.target!r}")
        self.copies()

    def copies(self) -> dict[Hashable, float]:
        """The average number of copies of a row, by class."""
        target = None if isinstance(self.target, str) else _check_shares("target", self.target)
        return _copies_of_classes(target, _check_shares("source", self.source), self.limit)

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

    def _copies_of_rows(self, rows: BlockRows, copies: Mapping[Hashable, float]) -> tuple[Floats, Exception | None]:
        """The average number of copies of each row before the first that has no class, and the error of that row."""
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


def _check_shares(argument: str, value: object) -> dict[Hashable, float]:
    """Shares by class that sum to 1; numbers in the same proportions, such as counts, are accepted."""
    items = cast("Mapping[Hashable, object]", value).items() if isinstance(value, Mapping) else ()
    shares = {comparable_key(name): share for name, share in items}
    numbers = {name: share for name, share in shares.items() if _is_number(share)}
    if not shares or len(numbers) < len(shares):
        raise ArgumentTypeError(
            f'`{argument}` must map classes to shares, such as {{"a": 0.9, "b": 0.1}}, but got: {value!r}'
        )
    floats = {name: float(cast("float", share)) for name, share in numbers.items()}
    total = math.fsum(floats.values())
    if any(not 0 <= share < math.inf for share in floats.values()) or not total:
        raise ArgumentError(f"the shares in `{argument}` must be finite, >= 0 and not all 0 but got: {value!r}")
    return {name: share / total for name, share in floats.items()}


def _copies_of_classes(
    target: Mapping[Hashable, float] | None, source: Mapping[Hashable, float], limit: float
) -> dict[Hashable, float]:
    """The average number of copies of a row, by class, so that the shares become those of `target`.

    The number of rows stays the same on average.

    Args:
        target: the shares of the output; None for the same share of each class of `source`.
        source: the shares of the input.
        limit: the most copies of a row.
    """
    present = {name for name, share in source.items() if share}
    if target is None:
        target = {name: float(name in present) / len(present) for name in source}
    if unlike := [name for name in {**source, **target} if (name in source) != (name in target)]:
        lacks = "source" if unlike[0] in target else "target"
        raise ArgumentError(
            f"`source` and `target` must name the same classes, but `{lacks}` lacks {unlike[0]!r}; a share of 0 in "
            "`target` leaves a class out"
        )
    copies: dict[Hashable, float] = {}
    for name, share in target.items():
        if share and name not in present:
            raise ArgumentError(f"class {name!r} has a share in `target` but none in `source`, so no row of it comes")
        copies[name] = share / source[name] if share else 0.0
        if copies[name] > limit:
            raise ArgumentError(
                f"rows of class {name!r} would come {copies[name]:.4g} times on average, and `limit` is {limit:g}; "
                "raise the limit, or lower its share in `target`"
            )
    return copies


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
