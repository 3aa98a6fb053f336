"""`replay`: one element of a loader again, alone, in this thread; and where the rows of an element come from."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from ..core.block import Block, close
from ..core.block_size import OneRow
from ..core.context import Context, Pacing, ProcessContext, ProcessResources, Tracing
from ..core.cursor import START, Cursor, Json
from ..engine.run import present
from ..engine.stage import Stage, resolve
from ..errors import (
    ArgumentTypeError,
    DataError,
    FeedpipeError,
    Origin,
    RowError,
    StateError,
    StateWarning,
    shown_traceback,
    warn,
    with_call_site,
)
from ..plan.fingerprint import Fingerprint
from ..plan.items import Cut
from ..plan.plan import Plan, Position, ShardState
from .state import Progress

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")

ElementCursor = dict[str, Json]
"""Where one element is in a pass over the data, as plain JSON: all that it takes to make it again."""


def cursor_of_indexed(plan: Plan, fingerprint: str, progress: Progress) -> ElementCursor:
    """The cursor of the next element of an indexed pipe."""
    position = progress.position(plan)
    stage = plan.indexed_stage(plan.rank, plan.world_size, position.start, position.beyond)
    number = position.start
    if stage is not plan.unsharded:
        number = next(stage.op.trace(stage, 0, Context()))[1]
    return {**_common(plan, fingerprint, progress), "element": number}


def cursor_of_streamed(plan: Plan, fingerprint: str, progress: Progress, shard: int, at: Json) -> ElementCursor:
    """The cursor of the element of a shard that begins at the plain cursor `at`."""
    cursor = {
        **_common(plan, fingerprint, progress),
        "rank": plan.rank,
        "world_size": plan.world_size,
        "shards": plan.shards,
        "shard": shard,
        "at": None if at is None else cast("list[Json]", at)[:3],
    }
    if shard == plan.tail_shard:
        cursor["leftovers"] = {str(s): leftover for s, leftover in progress.ended.items() if leftover is not None}
    if progress.cut is not None:
        cursor["cut"] = progress.cut.plain
    return cursor


def note_cursor(error: DataError | RowError, plan: Plan, fingerprint: str, progress: Progress) -> None:
    """Gives `error`, which ended a run after `progress`, the cursor of the failing element; its traceback shows it.

    The message does not: it is the same in each run, and two cursors may mean one place.
    """
    if plan.indexed:
        error.cursor = dict(cursor_of_indexed(plan, fingerprint, progress))
    elif error.place is not None:
        shard, at = error.place
        if shard == plan.tail_shard and not progress.ended.keys() >= set(plan.rank_shards):
            return  # the run was ahead of the consumer, and the leftover rows are not known here
        error.cursor = dict(cursor_of_streamed(plan, fingerprint, progress, shard, cast("Json", at)))
    if error.cursor is not None and sys.version_info >= (3, 11):
        error.add_note(f"fp.replay(pipe, {error.cursor}) makes this element again")


def lineage_at(plan: Plan, cursor: ElementCursor) -> list[Origin]:
    """The origin of each row that an element is made of; of an indexed pipe nothing is read for that."""
    if plan.indexed:
        context = Context(seed=plan.seed, epoch=cast("int", cursor["epoch"]))
        origin = Origin.joined(plan.unsharded.origins(cast("int", cursor["element"]), context))
    else:
        block = _block_at(plan, cursor, origins=True)
        origin = block.origins[0] if block.origins else None
    return [] if origin is None else origin.rows


def replay(pipe: Pipe[T], /, cursor: Mapping[str, object]) -> T:
    """Make one element of a loader again: alone, in this thread, so that a debugger can step into your functions.

    Nothing else runs: no workers, no other shard, and no element before it but those that a stream reads again to come
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
        raise ArgumentTypeError(with_call_site(f"`cursor` must be an `info.cursor` but got: {cursor!r:.80}"))
    values = cast("ElementCursor", cursor)
    try:
        plan = _plan_of(pipe, values)
        block = _block_at(plan, values, origins=False)
    except RowError as error:
        raise error.with_traceback(shown_traceback(error)) from error.__cause__
    except FeedpipeError:
        raise
    except Exception as error:
        raise StateError(with_call_site(f"`cursor` does not fit this pipe: {error!r}")) from error
    return cast("T", present(next(iter(block.rows))))


def _common(plan: Plan, fingerprint: str, progress: Progress) -> ElementCursor:
    return {"pipe": _digest(fingerprint), "seed": plan.seed, "epoch": progress.data_epoch}


def _digest(fingerprint: str) -> str:
    return hashlib.blake2b(fingerprint.encode(), digest_size=8).hexdigest()


def _plan_of(pipe: Pipe[object], cursor: ElementCursor) -> Plan:
    """The plan of the rank that the cursor is of."""
    rank, world_size, shards = (cast("int", cursor.get(name, default)) for name, default in _RANK.items())
    plan = Plan(
        resolve(pipe),
        seed=cast("int", cursor["seed"]),
        rank=rank,
        world_size=world_size,
        workers=1,
        shards=shards or None,
    )
    if plan.indexed != ("element" in cursor):
        raise StateError(with_call_site("`cursor` is of another pipe: only one of both is indexed"))
    if cursor["pipe"] != _digest(Fingerprint(plan.root).pipe):
        warn("`cursor` is of another pipe, or of this one before a change; it may give another element", StateWarning)
    return plan


_RANK = {"rank": 0, "world_size": 1, "shards": 0}


def _block_at(plan: Plan, cursor: ElementCursor, *, origins: bool) -> Block:
    """The element at a cursor, as a block of one row."""
    shard = cast("int", cursor.get("shard", 0))
    stage, at = _run_of(plan, cursor, shard)
    resources = ProcessResources()
    context = Context(
        seed=plan.seed,
        epoch=cast("int", cursor["epoch"]),
        shard=None if plan.indexed else shard,
        pacing=Pacing(OneRow),
        process=ProcessContext((shard,), resources, threads=False),
        tracing=Tracing(origins=origins, raises=_skipped_row(cursor)),
    )
    blocks = stage.blocks(at, context)
    try:
        block = next(blocks, None)
    finally:
        close(blocks)
        resources.close()
    if block is None:
        raise StateError(with_call_site("`cursor` does not fit this pipe, which has no element there"))
    return block


def _skipped_row(cursor: ElementCursor) -> tuple[str, int] | None:
    """The row of a quarantine's record: the name of the operator that failed, and the position of its row."""
    if "skipped" not in cursor:
        return None
    name, position = cast("list[Json]", cursor["skipped"])
    return cast("str", name), cast("int", position)


def _run_of(plan: Plan, cursor: ElementCursor, shard: int) -> tuple[Stage, Cursor]:
    """The graph that makes the element, and where it begins."""
    if plan.indexed:
        return plan.unsharded, START.advance(cast("int", cursor["element"]))
    cut = Cut.of(cursor["cut"]) if "cut" in cursor else None
    at = Cursor.of(cursor["at"])
    if shard != plan.tail_shard:
        return plan.shard_stage(shard, cut), at
    leftovers = cast("dict[str, Json]", cursor["leftovers"])
    ended = {int(s): ShardState(None, True, leftover) for s, leftover in leftovers.items()}
    tail = plan.tail(Position(0, ended, cut=cut))
    if tail is None:
        raise StateError(with_call_site("`cursor` does not fit this pipe, which leaves no rows over"))
    return tail.stage, at
