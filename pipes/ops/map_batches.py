"""`map_batches`: a function of many rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, TypeVar, Unpack, cast, overload

from ..core.block import Block, Parted, cursor_at, group_rows, join_blocks, parted
from ..core.checks import check_int
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.lazy import pa
from ..core.operator import Columns, StageView, TokenOfInput
from ..core.rows import BlockRows, Indices, concat, take
from ..core.skips import OnError, Retry, skips
from ..errors import UnfitError
from ._shared import data_error
from .map import ConcurrentMap
from .map_columns import FORMATS, Arrays, Tensors, check_format

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    from ..core.rows import Row
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


class PolicyOptions(TypedDict, total=False):
    """The policies for rows that fail, which all overloads take."""

    on_error: OnError | None
    retry: int | Retry


@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[Sequence[T]], Iterable[U]],
    size: int,
    *,
    format: Literal["rows"] = "rows",
    **options: Unpack[PolicyOptions],
) -> Pipe[U]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[dict[str, npt.NDArray[Any]]], Arrays],
    size: int,
    *,
    format: Literal["numpy"],
    **options: Unpack[PolicyOptions],
) -> Pipe[Row]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    size: int,
    *,
    format: Literal["arrow"],
    **options: Unpack[PolicyOptions],
) -> Pipe[Row]: ...
@overload
def map_batches(
    pipe: Pipe[T],
    /,
    function: Callable[[dict[str, torch.Tensor]], Tensors],
    size: int,
    *,
    format: Literal["torch"],
    **options: Unpack[PolicyOptions],
) -> Pipe[Row]: ...
def map_batches(
    pipe: Pipe[Any],
    /,
    function: Callable[..., object],
    size: int,
    *,
    format: Literal["rows", "numpy", "arrow", "torch"] = "rows",
    on_error: OnError | None = None,
    retry: int | Retry = 0,
) -> Pipe[Any]:
    """Replace each row with a row that `function` returns for it, calling it with many rows at once.

        a b c   ->   map_batches(lambda rows: [row.upper() for row in rows], size=2): A B C

    It is `batch(size).map(function).unbatch()` for a function that treats each row by itself, such as a model: groups
    are only for speed. So rows keep their positions. The rows of a group depend on how the pipe is read; a function of
    whole groups, with draws or with calls at the same time needs the long form.

    Element: what `function` returns; for a format of columns a row of a table. Order and length are the input's.
    Indexed if the input is. State: a position; a resume calls `function` again for up to `size` rows.

    Args:
        function, size: called with up to `size` rows; returns one row for each, in their order. If it fails, it is
            called with single rows to find the one that fails; errors come with its file, line and row (`RowError`).
        format: the form of rows: "rows", a list, or for rows of a table a `feedpipe.Rows`; or "numpy", "arrow" or
            "torch" for columns, as in `map_columns`, given and returned.
        on_error, retry: as in `map`.

    Raises:
        ArgumentError: `size` is below 1.
        DataError: `function` returned another number of rows, or rows cannot form columns.

    Example:
        >>> import feedpipe as fp
        >>> fp.from_sequence([1, 2, 3]).map_batches(lambda rows: [10 * x for x in rows], 2)[2]
        30
    """
    return pipe.then(GroupedMap(function, size=size, format=format, on_error=on_error, retry=retry))


_IN_GROUP = "in the group that begins at"


@dataclass(frozen=True, eq=False, repr=False)
class GroupedMap(TokenOfInput, ConcurrentMap):
    """Calls the function with groups of rows; any rows may form a group."""

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

    def lookback(self) -> int:
        return self.size

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if not len(indices):  # the function need not return columns without rows
            first = range(1 if stage.input.length and self.format != "rows" else 0)
            return take(self.rows(stage, first, context), range(0)) if first else []
        parts = parted(stage.input.rows(indices, context))
        called = self._call(stage, parts.values, context)
        rows, error = self._finished(stage, parts, called, lambda row: int(indices[row]), context)
        if error is not None:
            raise data_error(self, stage.failed_at(error, int(indices[len(rows)]), context), _IN_GROUP)
        return rows

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        skip = at.skip % self.size  # of the first group, which is made again
        row = at.position - skip
        for group in group_rows(stage.input.blocks(Cursor.of(at.token).advance(at.skip - skip), context), self.size):
            rows, origins = join_blocks(group)
            start, end = Cursor(group[0].at.plain, 0, row), Cursor(group[-1].end.plain, 0, row + len(rows))
            row += len(rows)
            parts = parted(rows)
            results, error = self._call(stage, parts.values, context)
            if error is not None and not isinstance(error, UnfitError) and not skips(self.on_error):
                # Look for the row that fails. If none fails again, it counts as the first.
                singles, again = replace(self, size=1)._call(stage, parts.values, context)
                results, error = (singles, again) if again is not None else (results, error)
            converted, error = self._finished(stage, parts, (results, error), partial(cursor_at, group), context)
            failing = cursor_at(group, len(converted)) if error is not None else None
            whole = Block(rows, start, end, origins)
            output = [whole.with_rows(converted).slice(skip, len(converted))] if len(converted) > skip else []
            skip = 0
            del group, rows, whole, parts, results, converted  # only the consumer holds them now
            if output:
                yield output.pop()
            if error is not None and failing is not None:
                raise data_error(self, stage.failed(error, failing, context), _IN_GROUP)

    def _finished(
        self,
        stage: StageView,
        parts: Parted,
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
                result, failed = self._call(stage, single, context)
                if failed is not None:
                    at = place(parts.places[done + row])
                    skipped = stage.skip(failed, at, next(iter(single)), context)
                    if skipped is None:
                        return parts.merged(concat(pieces) if pieces else []), failed
                    result = [cast("BlockRows", [skipped])]
                pieces.extend(result)
            done += len(group)
            more, error = self._call(stage, parts.values[done:], context)
            pieces += more
            done += sum(map(len, more))
        return parts.merged(concat(pieces) if pieces else []), error

    def _call(self, stage: StageView, rows: BlockRows, context: Context) -> tuple[list[BlockRows], Exception | None]:
        """The results of the groups in `rows`, and the error of the next."""
        starts = range(0, len(rows), self.size)
        groups: list[object] = [take(rows, range(start, min(start + self.size, len(rows)))) for start in starts]
        results, error = self._apply(stage, groups, range(len(groups)), context)
        return cast("list[BlockRows]", results), error


def _checked(convert: Callable[..., BlockRows], group: BlockRows) -> BlockRows:
    rows = convert(group)
    if len(rows) != len(group):
        raise UnfitError(f"the function must return a row for each of the {len(group)} rows but returned {len(rows)}")
    return rows


def _on_rows(function: Callable[..., object], group: BlockRows) -> list[object]:
    rows = function(group[:])  # the function may change the list
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes, Mapping)):
        raise UnfitError(f"the function must return a list of rows but returned a value of type {type(rows).__name__}")
    return list(cast("Iterable[object]", rows))
