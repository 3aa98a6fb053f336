"""What a run tells its operators."""

from __future__ import annotations

import numpy as np

from feedpipe.extensions import Context

from ..support.core import AdaptiveBlockSize, Clock, NoWork, OneRow, ProcessContext, RowShare, RowsRequest, Tracing


def key(context: Context, name: str = "map-1", *, seed: int | None = None) -> bytes:
    return context.key(name, seed=seed).tobytes()


def test_keys_depend_on_seed_name_epoch_rounds_and_shard_alone() -> None:
    context = Context(seed=3, epoch=2, shard=1)
    others = [Context(seed=4, epoch=2, shard=1), Context(seed=3, epoch=1, shard=1), Context(seed=3, epoch=2)]
    keys = [key(context), *map(key, others), key(context.round(0)), key(context.round(1)), key(context, "map-2")]
    assert len(set(keys)) == len(keys)
    assert key(context.round(0).round(1)) != key(context.round(1).round(0))
    assert key(context.replay().with_clock(Clock())) == key(context)
    assert key(Context(seed=9, epoch=2, shard=1), seed=3) == key(context)


def test_a_key_stays_what_it_was() -> None:
    """A state that was saved earlier would else go on with other draws."""
    assert Context(seed=7, epoch=1, rounds=(2,), shard=3).key("deal of shuffle-1").tolist() == [
        2059712553836458306,
        5282958439806486663,
    ]


def test_where_rows_are_the_same_for_all_shards() -> None:
    context = Context(seed=3, epoch=2, rounds=(1,), shard=1, process=ProcessContext(shards=(1, 3)))
    assert context.unsharded().shard is None and context.unsharded().epoch == 2
    assert Context().unsharded().shard is None
    assert key(context.epoch_independent()) == key(Context())


def test_a_replay_records_origins_and_disturbs_nothing() -> None:
    context = Context()
    replay = context.replay()
    assert replay.tracing.origins and not replay.process.threads and isinstance(replay.block_size(), OneRow)
    assert replay.leftovers is not context.leftovers and replay.process.resources is not context.process.resources
    assert isinstance(context.block_size(), AdaptiveBlockSize)


def test_rows_for_another_process() -> None:
    context = Context(seed=3)
    other = context.for_request(RowsRequest("map-1", None, RowShare(0, 1, 2), (4,), origins=True))
    assert (other.rounds, other.tracing) == ((4,), Tracing(origins=True))
    assert other.pacing.clock is not context.pacing.clock and other.process.resources is context.process.resources
    assert other.running is not context.running


def test_work_is_taken_once() -> None:
    work = NoWork()
    context = Context(rounds=(1,), started={("map-1", 3, (1,)): work})
    assert context.take_started("map-1", np.array([4, 5])) == [None, None]
    assert context.take_started("map-2", range(3, 4)) == [None]
    assert context.round(0).take_started("map-1", range(3, 4)) == [None]
    assert context.take_started("map-1", range(2, 5)) == [None, work, None]
    assert context.take_started("map-1", range(3, 4)) == [None]
