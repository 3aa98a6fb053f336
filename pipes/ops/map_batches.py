"""`map_batches`: a function of many rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, Unpack, cast, overload

import numpy as np

from ..core.block import Block, Parted, cursor_at, group_rows, join_blocks, parted
from ..core.checks import check_int
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.lazy import pa
from ..core.operator import Ahead, Columns, StageView, TokenOfInput
from ..core.rows import BlockRows, Indices, concat, gather, index_array, take
from ..core.skips import OnError, Retry, skips
from ..engine.ahead import Limit, in_order
from ..engine.calls import PendingCall
from ..errors import UnfitError
from ._shared import data_error
from .map import CallOptions, ConcurrentMap
from .map_columns import FORMATS, Arrays, Tensors, check_format

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    from ..core.rows import Row
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[Sequence[T]], Iterable[U]],
    size: int,
    *,
    format: Literal["rows"] = "rows",
    rng: Literal[False, "global"] = False,
    **options: Unpack[CallOptions],
) -> Pipe[U]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[Sequence[T], np.random.Generator], Iterable[U]],
    size: int,
    *,
    format: Literal["rows"] = "rows",
    rng: Literal[True],
    **options: Unpack[CallOptions],
) -> Pipe[U]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[dict[str, npt.NDArray[Any]]], Arrays],
    size: int,
    *,
    format: Literal["numpy"],
    rng: Literal[False, "global"] = False,
    **options: Unpack[CallOptions],
) -> Pipe[Row]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    size: int,
    *,
    format: Literal["arrow"],
    rng: Literal[False, "global"] = False,
    **options: Unpack[CallOptions],
) -> Pipe[Row]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[dict[str, torch.Tensor]], Tensors],
    size: int,
    *,
    format: Literal["torch"],
    rng: Literal[False, "global"] = False,
    **options: Unpack[CallOptions],
) -> Pipe[Row]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[Any, np.random.Generator], Arrays | Tensors | pa.RecordBatch],
    size: int,
    *,
    format: Literal["numpy", "arrow", "torch"],
    rng: Literal[True],
    **options: Unpack[CallOptions],
) -> Pipe[Row]: ...
def map_batches(
    pipe: Pipe[Any],
    /,
    function: Callable[..., object],
    size: int,
    *,
    format: Literal["rows", "numpy", "arrow", "torch"] = "rows",
    rng: Literal[False, True, "global"] = False,
    concurrency: int = 1,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
    name: str | None = None,
) -> Pipe[Any]:
    """Replace each row with a row that `function` returns for it, calling it with many rows at once.

        a b c   ->   map_batches(lambda rows: [row.upper() for row in rows], size=2): A B C

    It is `batch(size).map(function).unbatch()` for a function that treats each row by itself, such as a model: groups
    are only for speed. So rows keep their positions. The rows of a group depend on how the pipe is read.

    Element: what `function` returns; for a format of columns a row of a table. Order and length are the input's.
    Indexed if the input is. State: a position; a resume calls `function` again for up to `size` rows.

    Args:
        function, size: called with up to `size` rows; returns one row for each, in their order. If it fails, it is
            called with single rows to find the one that fails; errors come with its file, line and row (`RowError`).
        format: the form of rows: "rows", a list, or for rows of a table a `feedpipe.Rows`; or "numpy", "arrow" or
            "torch" for columns, as in `map_columns`, given and returned.
        rng, name: as in `map`; with `rng=True` the call is `function(rows, rng)`. The generator is keyed by the number
            of the group, so each group then begins at a multiple of `size`, and is made as a whole for any row of it.
        concurrency, on_error, retry: as in `map`. Concurrent calls have groups as with `rng=True`.

    Raises:
        ArgumentError: `size` or `concurrency` is below 1.
        DataError: `function` returned another number of rows, or rows cannot form columns.

    Example:
        >>> import feedpipe as fp
        >>> fp.from_sequence([1, 2, 3]).map_batches(lambda rows: [10 * x for x in rows], 2)[2]
        30
    """
    options: dict[str, Any] = {"concurrency": concurrency, "on_error": on_error, "retry": retry}
    return pipe.then(GroupedMap(function, rng, name, size=size, format=format, **options))


_IN_GROUP = "in the group that begins at"


@dataclass(frozen=True)
class GroupedMap(TokenOfInput, ConcurrentMap):
    """Calls the function with groups of rows.

    Any rows may form a group, with two exceptions. Draws are keyed by the number of the group, and concurrent calls
    begin a group before its rows are asked for: each group then begins at a multiple of `size`.
    """

    kind: ClassVar[str] = "map_batches"
    awaits: ClassVar[bool] = False

    size: int = field(kw_only=True)
    format: Literal["rows", "numpy", "arrow", "torch"] = field(default="rows", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "size", check_int("size", self.size, least=1))
        check_format("map_batches", self.format, "rows", *FORMATS)

    @property
    def columns(self) -> Columns:  # type: ignore[override]
        return Columns.LOSES if self.format == "rows" else Columns.MAKES

    @property
    def row_function(self) -> Callable[..., object]:
        convert = _on_rows if self.format == "rows" else FORMATS[self.format]
        return partial(_checked, partial(convert, self.function))

    def ahead(self) -> Ahead | None:
        return Ahead(self.size * self.calls_ahead, together=True) if self.calls_ahead else None

    def lookback(self) -> int:
        return self.size

    def begin(self, stage: StageView, indices: Indices, context: Context) -> Iterable[PendingCall]:
        numbers: list[int] = (index_array(indices) // self.size).tolist()
        groups: dict[int, PendingCall] = {}
        for number in dict.fromkeys(numbers):
            begin = partial(self._begin_group, stage, number, context)
            # Kept, because a later call of this method may ask for the other rows of a group.
            group = stage.memo(("begun", context.key(stage.name).tobytes(), number), begin)
            groups[number] = begin() if group.is_cancelled else group
        return [groups[number] for number in numbers]

    def _begin_group(self, stage: StageView, number: int, context: Context) -> PendingCall:
        parts = parted(stage.input.rows(self._range(stage, number), context))
        call = self._pool(stage, context).submit(self._call, stage, parts.values, number, context)
        call.about = parts
        return call

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if not len(indices):  # the function need not return columns without rows
            first = range(1 if stage.input.length and self.format != "rows" else 0)
            return take(self.rows(stage, first, context), range(0)) if first else []
        if self.rng is False and not self.calls_ahead:
            parts = parted(stage.input.rows(indices, context))
            called = self._call(stage, parts.values, 0, context)
            rows, error = self._finished(stage, parts, 0, called, lambda row: int(indices[row]), context)
            if error is not None:
                raise data_error(self, stage.failed_at(error, int(indices[len(rows)]), context), _IN_GROUP)
            return rows
        length = stage.input.length or 0
        bounds = stage.memo("bounds", lambda: np.append(np.arange(0, length, self.size, dtype=np.int64), length))
        groups: list[int] = (index_array(indices) // self.size).tolist() if context.started else []
        calls = cast("list[PendingCall | None]", context.take_started(stage.name, indices))
        begun = {group: call for group, call in zip(groups, calls, strict=False) if call is not None}
        return gather(
            indices, bounds, lambda number, places: take(self._group(stage, number, begun.get(number), context), places)
        )

    def _group(self, stage: StageView, number: int, begun: PendingCall | None, context: Context) -> BlockRows:
        def make() -> BlockRows:
            ahead = self.calls_ahead and context.process.threads
            call = self._begin_group(stage, number, context) if begun is None and ahead else begun
            if call is None:
                parts = parted(stage.input.rows(self._range(stage, number), context))
                called = self._call(stage, parts.values, number, context)
            else:
                parts, called = call.about, self._result(stage, call, context)
            first = number * self.size
            rows, error = self._finished(stage, parts, number, called, lambda row: first + row, context)
            if error is not None:
                raise data_error(self, stage.failed_at(error, first, context), _IN_GROUP)
            return rows

        return stage.memo((context.key(stage.name).tobytes(), number), make)

    def _range(self, stage: StageView, number: int) -> range:
        return range(number * self.size, min((number + 1) * self.size, stage.input.length or 0))

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        skip = at.skip % self.size  # of the first group, which is made again
        row = at.position - skip
        groups = group_rows(stage.input.blocks(Cursor.of(at.token).advance(at.skip - skip), context), self.size)
        called = self._called(stage, _joined(groups, row), context)
        for group, whole, parts, results, error in context.running.add(called):
            if (
                error is not None
                and self.rng is False
                and not isinstance(error, UnfitError)
                and not skips(self.on_error)
            ):
                # Look for the row that fails. If none fails again, it counts as the first.
                singles, again = replace(self, size=1)._call(stage, parts.values, 0, context)
                results, error = (singles, again) if again is not None else (results, error)
            place = partial(cursor_at, group)
            number = whole.at.row // self.size
            converted, error = self._finished(stage, parts, number, (results, error), place, context)
            failing = cursor_at(group, len(converted)) if error is not None else None
            output = [whole.with_rows(converted).slice(skip, len(converted))] if len(converted) > skip else []
            skip = 0
            del group, whole, parts, place, results, converted  # only the consumer holds them now
            if output:
                yield output.pop()
            if error is not None and failing is not None:
                raise data_error(self, stage.failed(error, failing, context), _IN_GROUP)

    def _called(
        self, stage: StageView, groups: Iterator[tuple[list[Block], Block]], context: Context
    ) -> Iterator[tuple[list[Block], Block, Parted, list[BlockRows], Exception | None]]:
        """Each group, as blocks, as one block and as the arguments of the calls; its results and their error."""
        parts = ((group, whole, parted(whole.rows)) for group, whole in groups)
        if not self.calls_ahead or not context.process.threads:
            for group, whole, part in parts:
                yield group, whole, part, *self._call(stage, part.values, whole.at.row // self.size, context)
            return
        limit = Limit(self.calls_ahead, context.process.shards)
        submit = partial(self._pool(stage, context).submit, self._call, stage)
        calls = in_order(parts, lambda part, early: submit(part[2].values, part[1].at.row // self.size, context), limit)
        for (group, whole, part), call in context.running.add(calls):
            results, error = self._result(stage, call, context)
            for rows in results:
                limit.measure(rows, 1)
            yield group, whole, part, results, error

    def _finished(
        self,
        stage: StageView,
        parts: Parted,
        number: int,
        called: tuple[list[BlockRows], Exception | None],
        place: Callable[[int], Cursor | int],
        context: Context,
    ) -> tuple[BlockRows, Exception | None]:
        """The results with skipped rows in their places, up to the first error that no policy covers, and that error.

        If a group failed and rows may be skipped, the function is called with each row of it alone.
        """
        pieces, error = called
        pieces = list(pieces)
        done = sum(map(len, pieces))
        while error is not None and skips(self.on_error):
            group = parts.values[done : done + self.size]
            for row in range(len(group)):
                single = take(group, range(row, row + 1))
                result, failed = self._call(stage, single, number, context)
                if failed is not None:
                    at = place(parts.places[done + row])
                    skipped = stage.skip(failed, at, next(iter(single)), context)
                    if skipped is None:
                        return parts.merged(concat(pieces) if pieces else []), failed
                    result = [cast("BlockRows", [skipped])]
                pieces.extend(result)
            done += len(group)
            more, error = self._call(stage, parts.values[done:], number, context)
            pieces += more
            done += sum(map(len, more))
        return parts.merged(concat(pieces) if pieces else []), error

    def _result(
        self, stage: StageView, call: PendingCall, context: Context
    ) -> tuple[list[BlockRows], Exception | None]:
        result, failed = self._pool(stage, context).result(call)
        return cast("tuple[list[BlockRows], Exception | None]", result) if failed is None else ([], failed)

    def _call(
        self, stage: StageView, rows: BlockRows, number: int, context: Context
    ) -> tuple[list[BlockRows], Exception | None]:
        """The results of the groups in `rows`, and the error of the next; `number` is that of the first group."""
        starts = range(0, len(rows), self.size)
        groups: list[object] = [take(rows, range(start, min(start + self.size, len(rows)))) for start in starts]
        results, error = self._apply(stage, groups, range(number, number + len(groups)), context)
        return cast("list[BlockRows]", results), error


def _joined(groups: Iterable[list[Block]], row: int) -> Iterator[tuple[list[Block], Block]]:
    """Each group, and the same as one block. The first begins at row `row` of the output."""
    for group in groups:
        rows, origins = join_blocks(group)
        whole = Block(rows, Cursor(group[0].at.plain, 0, row), Cursor(group[-1].end.plain, 0, row + len(rows)), origins)
        row += len(rows)
        del rows
        yield group, whole
        del group, whole  # only the consumer holds them now


def _checked(convert: Callable[..., BlockRows], group: BlockRows, *rng: object) -> BlockRows:
    rows = convert(group, *rng)
    if len(rows) != len(group):
        raise UnfitError(f"the function must return a row for each of the {len(group)} rows but returned {len(rows)}")
    return rows


def _on_rows(function: Callable[..., object], group: BlockRows, *rng: object) -> list[object]:
    rows = function(group[:], *rng)  # the function may change the list
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes, Mapping)):
        raise UnfitError(f"the function must return a list of rows but returned a value of type {type(rows).__name__}")
    return list(cast("Iterable[object]", rows))
