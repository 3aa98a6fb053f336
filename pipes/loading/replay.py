"""`replay`, and the facts that a loader has of its elements: cursors, and `Info`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Block, OneRow
from ..core.context import Context, Pacing, ProcessContext, Tracing
from ..core.cursor import START, Cursor, Json
from ..engine.run import present
from ..engine.stage import Stage, resolve
from ..errors import (
    ArgumentTypeError,
    DataError,
    FeedpipeError,
    LoaderError,
    Origin,
    RowError,
    StateError,
    StateWarning,
    call_site,
    shown_traceback,
    warn,
)
from ..plan.fingerprint import Fingerprint
from ..plan.plan import Plan, Position
from ..plan.rests import Redivision
from .schedule import Schedule
from .state import Progress, State

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")

ElementCursor = dict[str, Json]
"""The place of one element in a pass over the data as plain JSON, with all that is needed to make it again."""


def replay(pipe: Pipe[T], /, cursor: Mapping[str, object]) -> T:
    """Make one element of a loader again: alone, in this thread, so that a debugger can step into your functions.

    Nothing else runs: no workers, no other shard, and no earlier element except those that a stream reads again to come
    to its place (`explain()` says how many). Random draws are those of the loader. The element is what the pipe gives,
    before a loader copies it to a device.

    Args:
        pipe: the loader's, or the same made again, as in another process or on another machine with the same files.
        cursor: `info.cursor` of `loader.with_info()`, `error.cursor` of a `RowError`, or the `cursor` of a record of a
            `Quarantine`, with which the row that was left out fails again; it may have gone through JSON.

    Raises:
        StateError: the cursor is none, or does not fit the pipe.
        RowError: a function fails on the row, as it did in the loader; its cause is the error of the function.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence([3, 1, 0, 2]).shuffle().map(lambda x: 6 / x)
        >>> loader = fp.Loader(pipe, seed=4)
        >>> try:
        ...     list(loader)
        ... except fp.errors.RowError as error:
        ...     cursor = error.cursor
        >>> cursor["element"] < 4
        True
        >>> fp.replay(pipe, cursor)
        Traceback (most recent call last):
        ...
        feedpipe.errors.RowError: `.map(<lambda>)` failed with ZeroDivisionError: division by zero...
    """
    if not isinstance(cursor, Mapping):
        raise ArgumentTypeError(f"`cursor` must be an `info.cursor` but got: {cursor!r:.80}")
    values = cast("ElementCursor", cursor)
    try:
        plan = _plan_of(pipe, values)
        block = _block_at(plan, values, origins=False)
    except RowError as error:
        raise error.with_traceback(shown_traceback(error)) from error.__cause__
    except FeedpipeError:
        raise
    except Exception as error:
        raise StateError(f"`cursor` does not fit this pipe: {error!r}", at=call_site()) from error
    return cast("T", present(next(iter(block.rows))))


_RANK = {"rank": 0, "world_size": 1, "shards": 0}


def _plan_of(pipe: Pipe[object], cursor: ElementCursor) -> Plan:
    """The plan of the rank of the cursor."""
    rank, world_size, shards = (cast("int", cursor.get(name, default)) for name, default in _RANK.items())
    plan = Plan(
        resolve(pipe),
        seed=cast("int", cursor["seed"]),
        rank=rank,
        world_size=world_size,
        shards=shards or None,
    )
    if plan.indexed != ("element" in cursor):
        raise StateError("`cursor` is of another pipe: only one of both is indexed", at=call_site())
    if cursor["pipe"] != _digest(Fingerprint(plan.root).pipe):
        warn("`cursor` is of another pipe, or of this one before a change; it may give another element", StateWarning)
    return plan


def _block_at(plan: Plan, cursor: ElementCursor, *, origins: bool) -> Block:
    """The element at a cursor, as a block of one row."""
    shard = cast("int", cursor.get("shard", 0))
    stage, at = _run_of(plan, cursor, shard)
    context = _replay_context(plan, cursor, shard, Tracing(origins=origins, raises=_skipped_row(cursor)))
    blocks = stage.blocks(at, context)
    with closing(context):
        block = next(blocks, None)
    if block is None:
        raise StateError("`cursor` does not fit this pipe, which has no element there", at=call_site())
    return block


def _replay_context(plan: Plan, cursor: ElementCursor, shard: int, tracing: Tracing = Tracing()) -> Context:  # noqa: B008 - it is immutable
    return Context(
        seed=plan.seed,
        epoch=cast("int", cursor["epoch"]),
        shard=plan.draws_of(shard),
        pacing=Pacing(OneRow),
        process=ProcessContext((shard,), threads=False, rank_shards=max(1, len(plan.rank_shards))),
        tracing=tracing,
    )


def _skipped_row(cursor: ElementCursor) -> tuple[str, int] | None:
    """The row of a quarantine's record: the name of the operator that failed, and the position of its row."""
    if "skipped" not in cursor:
        return None
    name, position = cast("list[Json]", cursor["skipped"])
    return cast("str", name), cast("int", position)


def _run_of(plan: Plan, cursor: ElementCursor, shard: int) -> tuple[Stage, Cursor]:
    """The graph that makes the element, and the cursor at which it begins."""
    if plan.indexed:
        return plan.indexed_pass(_redivision_of(cursor)), START.advance(cast("int", cursor["element"]))
    redivision = _redivision_of(cursor)
    at = Cursor.of(cursor["at"])
    if shard != plan.tail_shard:
        return plan.shard_stage(shard, redivision), at
    leftovers = cast("dict[str, Json]", cursor["leftovers"])
    ended = {int(s): leftover for s, leftover in leftovers.items()}
    tail = plan.tail(Position(ended=ended, redivision=redivision))
    if tail is None:
        raise StateError("`cursor` does not fit this pipe, which leaves no rows over", at=call_site())
    return tail.stage, at


def _redivision_of(cursor: ElementCursor) -> Redivision | None:
    return Redivision.of(cursor["cut"]) if "cut" in cursor else None


def cursor_of(schedule: Schedule, progress: Progress, shard: int, at: Json) -> ElementCursor:
    """The cursor of the next element: that of an indexed pipe, or of a shard at the plain cursor `at`."""
    plan = schedule.plan
    cursor: ElementCursor = {"pipe": _digest(schedule.signature.pipe), "seed": plan.seed, "epoch": progress.data_pass}
    if progress.redivision is not None:
        cursor["cut"] = progress.redivision.plain
    if plan.indexed:
        position = progress.position(plan)
        stage = plan.indexed_stage(plan.rank, plan.world_size, position)
        number = position.taken.total
        if stage is not plan.indexed_pass(position.redivision):
            number = next(stage.op.trace(stage, 0, Context()))[1]
        return {**cursor, "element": number}
    cursor |= {"rank": plan.rank, "world_size": plan.world_size, "shards": plan.shards}
    cursor |= {"shard": shard, "at": at and cast("list[Json]", at)[:3]}
    if shard == plan.tail_shard:
        cursor["leftovers"] = {str(s): leftover for s, leftover in progress.ended.items() if leftover is not None}
    return cursor


def note_cursor(error: DataError | RowError, schedule: Schedule, progress: Progress) -> None:
    """Gives `error`, which ended a run after `progress`, the cursor of the failing element; its traceback shows it.

    The message does not: it is the same in each run, and two cursors may mean one place.
    """
    plan = schedule.plan
    if plan.indexed:
        error.cursor = dict(cursor_of(schedule, progress, 0, None))
    elif error.place is not None:
        shard, at = error.place
        if shard == plan.tail_shard and {*plan.shards_of_rank(progress.redivision)} - {*progress.position(plan).over}:
            return  # the run was ahead of the consumer, and the leftover rows are not known here
        error.cursor = dict(cursor_of(schedule, progress, shard, cast("Json", at)))
    if error.cursor is not None:
        error.add_note(f"fp.replay(pipe, {error.cursor}) makes this element again")


def _digest(fingerprint: str) -> str:
    return hashlib.blake2b(fingerprint.encode(), digest_size=8).hexdigest()


class Info:
    """The facts about one element from `with_info()`. They stay right if the consumer takes further elements."""

    __slots__ = ("_is_last", "_place", "_schedule", "_shape", "_snapshot")

    def __init__(
        self,
        schedule: Schedule,
        snapshot: dict[str, Any],
        is_last: bool,
        shape: int | tuple[()],
        place: tuple[int, Json] | None,
    ) -> None:
        self._schedule = schedule
        self._snapshot = snapshot  # of the progress
        self._is_last = is_last  # of all ranks
        self._shape = shape
        self._place = place  # the shard, and its plain cursor before the element; None for padding

    @property
    def epoch(self) -> int:
        """The epoch of the element."""
        return cast("int", self._snapshot["epoch"])

    @property
    def step(self) -> int:
        """The number of elements of the epoch that this rank had taken, this one included."""
        return cast("int", self._snapshot["step"])

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """A bool for each row of the element, False if the row is padding; one bool for an element without rows."""
        return np.full(self._shape, self._place is not None)

    def state_dict(self) -> State:
        """The state of the loader right after this element."""
        progress = Progress(**self._snapshot)
        return self._schedule.state(self._schedule.next_epoch(progress) if self._is_last else progress)

    @property
    def cursor(self) -> ElementCursor:
        """The place of the element as plain JSON: `fp.replay(pipe, info.cursor)` makes it again, alone.

        Raises:
            LoaderError: the element is padding, which repeats an element that this rank has taken before.
        """
        progress = Progress(**self._snapshot)
        if self._place is None:
            raise LoaderError("padding has no cursor of its own, because it repeats an earlier element of this rank")
        if self._schedule.plan.indexed:
            progress.taken -= 1
        return cursor_of(self._schedule, progress, *self._place)

    def lineage(self) -> list[Origin]:
        """Return file and row of each row that the element is made of, in the order of its rows.

        It costs nothing if it is not called. Of an indexed pipe it follows the positions to the source, and reads
        nothing; of a stream it makes the element again in this thread, as `fp.replay` does.

        Example:
            >>> import feedpipe as fp
            >>> loader = fp.Loader(fp.from_sequence("abcd").shuffle().batch(2), seed=1)
            >>> batch, info = next(loader.with_info())
            >>> ["abcd"[origin.row - 1] for origin in info.lineage()] == batch
            True

        Raises:
            LoaderError: the element is padding.
        """
        plan, cursor = self._schedule.plan, self.cursor
        if plan.indexed:
            context = Context(seed=plan.seed, epoch=cast("int", cursor["epoch"]))
            stage = plan.indexed_pass(_redivision_of(cursor))
            origin = Origin.joined(stage.origins(cast("int", cursor["element"]), context))
        else:
            block = _block_at(plan, cursor, origins=True)
            origin = block.origins[0] if block.origins else None
        return [] if origin is None else origin.rows
