"""`zip_by_key`: rows of two pipes side by side that have the same key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar, cast

from ...core.block import Block
from ...core.checks import check_choice, check_int
from ...core.context import Context
from ...core.cursor import Cursor, Json
from ...core.operator import Columns, Input, Operator, Order, StageView
from ...errors import ArgumentTypeError, Origin, UnfitError, with_call_site
from .._data_error import data_error
from .._keys import check_hashable, check_key, check_named_key, keys_of
from ._partners import KeyOfRow, Partners, partners_cursor

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class ZipByKey(Operator):
    """A token is [the cursor of a row of the input, the token of `Partners` before it]."""

    kind: ClassVar[str] = "zip_by_key"
    order: ClassVar[Order] = Order.GLOBAL
    columns: ClassVar[Columns] = Columns.LOSES

    key: KeyOfRow = field(kw_only=True)
    other_key: KeyOfRow | None = field(default=None, kw_only=True)
    window: int = field(default=10_000, kw_only=True)
    unmatched: str = field(default="error", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", check_int("window", self.window, least=1))
        check_choice("unmatched", self.unmatched, ("error", "drop"))

    def lookback(self) -> int:
        return 2 * self.window

    def resolve(self, stage: StageView) -> Operator:
        for source, key in zip(stage.inputs, (self.key, self.other_key or self.key), strict=True):
            check_named_key(self, stage, key, source)
        return self

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, token = cast("tuple[Json, Json]", at.token or (None, None))
        yield from zip(stage.inputs, (source, partners_cursor(token)), strict=True)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source, token = cast("tuple[Json, Json]", at.token or (None, None))
        left, right = stage.inputs
        partners = Partners(right, self.other_key or self.key, self.window, token, context)
        row = at.row
        for block in left.blocks(Cursor.of(source), context):
            start = Cursor([block.at.plain, partners.token()], 0, row)
            pairs, places, tested, error = self._pairs(block, partners)
            row += len(pairs)
            after = block.end if tested == len(block) else block.at.advance(tested)
            if pairs:
                origins = block.origins and [block.origins[place] for place in places]
                yield Block(pairs, start, Cursor([after.plain, partners.token()], 0, row), origins)
            if error is not None:
                raise data_error(self, stage.failed_on(error, _origin(stage, after, context)))

    def _pairs(self, block: Block, partners: Partners) -> tuple[list[object], list[int], int, Exception | None]:
        """The pairs of the rows of a block, the places of these rows, how many were looked at, and what failed."""
        keys, error = keys_of(block.rows, self.key)
        pairs: list[object] = []
        places: list[int] = []
        for place, (key, row) in enumerate(zip(keys, block.rows, strict=False)):
            try:
                partner = partners.find(key)
            except Exception as failure:
                return pairs, places, place, check_hashable(key) or failure
            if partner is not None:
                pairs.append((row, *partner))
                places.append(place)
            elif self.unmatched == "error":
                return pairs, places, place, self._no_partner(key, partners)
        return pairs, places, len(keys), error

    def _no_partner(self, key: Hashable, partners: Partners) -> UnfitError:
        needed = partners.window_needed(key)
        where = "and does not come later" if needed is None else f"and comes later: `window={needed}` would do"
        return UnfitError(
            f"the key {key!r:.80} has no partner within the window of {self.window} rows of the other pipe, {where}; "
            '`unmatched="drop"` leaves out such rows'
        )


def _origin(stage: StageView, at: Cursor, context: Context) -> Origin | None:
    """Where a row of the first input comes from."""
    block = next(stage.inputs[0].blocks(at, context.replay()), None)
    return block.origins[0] if block is not None and block.origins else None


def zip_by_key(
    pipe: Pipe[T],
    /,
    other: Pipe[U],
    *,
    key: str | Sequence[str] | Callable[[T], Hashable],
    other_key: str | Sequence[str] | Callable[[U], Hashable] | None = None,
    window: int = 10_000,
    unmatched: Literal["error", "drop"] = "error",
) -> Pipe[tuple[T, U]]:
    """Put each row of this pipe beside the row of another that has the same key, if it comes at about the same place.

        1 2 3   and   B2 B1 B3   ->   (1 B1) (2 B2) (3 B3)

    Element: a pair. Each row of `other` is used once; of several with one key, the first comes first, and those that
    are not used are left out. Order: this pipe's. Length: unknown; streamed. State: a position in both; a resume reads
    at most 2 * `window` rows of `other` again, and so many are kept in memory. Every shard reads both pipes from end to
    end; `explain()` says so. `join` needs no order, and keeps all of the other side in memory.

    Args:
        key: the name of a column, several names, or a function of the row.
        other_key: the same for rows of `other`, if it differs.
        window: a partner may come up to so many rows of `other` before or behind the furthest partner so far. A row
            that is left out moves that place on by one row.
        unmatched: "error" raises if a row of this pipe has no partner within the window, "drop" leaves it out.

    Raises:
        PlanError: there is no such column. If only a run can tell, a `DataError`.
        DataError: a row has no partner, or a key is not hashable.
        ArgumentError: `window` is below 1.

    Example:
        >>> import feedpipe as fp
        >>> images, labels = fp.from_sequence(["1.jpg", "2.jpg"]), fp.from_sequence([(2, "dog"), (1, "cat")])
        >>> list(images.zip_by_key(labels, key=lambda name: name[0], other_key=lambda row: str(row[0])))
        [('1.jpg', (1, 'cat')), ('2.jpg', (2, 'dog'))]
    """
    own, others = check_key("key", key), check_key("other_key", other_key)
    if not own:
        raise ArgumentTypeError(with_call_site(f"`key` must be a column, columns or a function but got: {key!r}"))
    return pipe.then(ZipByKey(key=own, other_key=others or None, window=window, unmatched=unmatched), other)
