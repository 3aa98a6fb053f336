"""`Plan`: which shards a rank runs, from where, how many elements they have, and the groups of leftover rows."""

from __future__ import annotations

import sys

import pytest

import feedpipe as fp
from feedpipe.errors import PlanError
from feedpipe.extensions import START, Context, Cursor, Plan, Position

from ..support.engine import Stage, resolve
from ..support.plan import ShardState


def make_plan(
    pipe: fp.Pipe[object], *, rank: int = 0, world_size: int = 1, workers: int = 0, shards: int | None = None
) -> Plan:
    return Plan(resolve(pipe), seed=0, rank=rank, world_size=world_size, shards=shards)


def streamed(count: int = 20) -> fp.Pipe[int]:
    return fp.from_sequence(range(count)).filter(lambda x: True)


def rows(stage: Stage, at: Cursor = START, context: Context | None = None) -> list[object]:
    return [row for block in stage.blocks(at, context or Context()) for row in block.rows]


class TestPosition:
    def test_a_shard_without_a_state_has_not_begun(self):
        assert Position().of(3) == ShardState(None, False, None)

    def test_after_the_end_of_shards(self):
        position = Position(shards={0: ShardState([None, 0, 2]), 1: ShardState([None, 0, 1])}).after({1: [None, 0, 4]})
        assert position.of(0) == ShardState([None, 0, 2])
        assert position.of(1) == ShardState(None, True, [None, 0, 4])


class TestShards:
    @pytest.mark.parametrize(
        ("rank", "worker", "workers", "shards"),
        [(0, 0, 1, [0, 2, 4, 6]), (1, 0, 1, [1, 3, 5, 7]), (1, 0, 2, [1, 5]), (1, 1, 2, [3, 7])],
    )
    def test_of_ranks_and_workers(self, rank, worker, workers, shards):
        plan = make_plan(streamed(), rank=rank, world_size=2, shards=8)
        assert [run.shard for run in plan.parts(Position(), worker, workers)] == shards
        assert list(plan.running(Position(), worker, workers)) == shards

    def test_that_have_ended_do_not_run(self):
        plan = make_plan(streamed(), shards=2)
        position = Position(shards={0: ShardState([None, 3, 0])}).after({1: None})
        (run,) = plan.parts(position)
        assert (run.shard, run.at) == (0, Cursor(None, 3, 0))
        assert rows(run.stage, run.at) == list(range(3, 10))

    def test_must_be_a_multiple_of_the_ranks(self):
        with pytest.raises(PlanError, match="`shards` must be a multiple of the 2 ranks.*but got: 3"):
            make_plan(streamed(), world_size=2, shards=3)

    def test_the_tail_has_a_number_of_its_own_on_each_rank(self):
        assert [make_plan(streamed(), rank=rank, world_size=2, shards=4).tail_shard for rank in range(2)] == [4, 5]


class TestIndexed:
    def test_elements_are_divided_one_by_one(self):
        plan = make_plan(fp.from_sequence(range(20)), rank=1, world_size=2)
        assert plan.indexed and plan.shards == 0
        runs = [plan.parts(Position(4), worker, 2)[0] for worker in range(2)]
        assert [rows(run.stage) for run in runs] == [[5, 9, 13, 17], [7, 11, 15, 19]]
        assert plan.length(1, start=4) == 8

    def test_a_boundary_of_the_user_makes_it_streamed(self):
        assert not make_plan(fp.from_sequence(range(4)).shard_by_rank()).indexed


class TestLength:
    def test_of_each_rank(self):
        pipe = fp.from_sequence(range(21)).shuffle(window=4)
        plan = make_plan(pipe, world_size=2)
        lengths = [plan.length(rank) for rank in range(2)]
        assert sum(lengths) == 21 and max(lengths) - min(lengths) <= 8

    def test_counts_the_groups_of_leftover_rows(self):
        pipe = fp.from_sequence(range(21)).shuffle(window=4).batch(4)
        assert make_plan(pipe).length(0) == 6
        assert make_plan(pipe.then(pipe.op)).length(0) == 2

    def test_is_not_known_behind_a_filter(self):
        assert make_plan(streamed().batch(4)).length(0) is None

    def test_varies_only_if_units_are_of_unlike_length(self):
        assert not make_plan(streamed()).varies
        assert not make_plan(fp.from_sequence(range(9))).varies


class TestTail:
    def test_makes_groups_of_what_shards_leave_over(self):
        plan = make_plan(streamed(10).batch(4), shards=2)
        assert plan.tail_name == "batch-1"
        cursors = {}
        for shard in plan.rank_shards:
            context = Context(shard=shard)
            assert len(rows(plan.shard_stage(shard), context=context)) == 1
            cursors[shard] = context.leftovers["batch-1"].at.plain
        tail = plan.tail(Position().after(cursors))
        assert tail is not None and tail.shard == plan.tail_shard
        assert rows(tail.stage) == [[4, 9]]

    def test_takes_rows_that_are_at_hand(self):
        plan = make_plan(streamed(10).batch(4), shards=2)
        tail = plan.tail(Position().after({0: [None, 4, 0], 1: [None, 4, 0]}), {0: ["a"], 1: ["b"]})
        assert tail is not None and rows(tail.stage) == [["a", "b"]]

    def test_there_is_none_without_leftovers_or_after_its_end(self):
        plan = make_plan(streamed(10).batch(4), shards=2)
        assert plan.tail(Position().after({0: None, 1: None})) is None
        position = Position().after({0: [None, 4, 0], 1: None})
        assert plan.tail(position) is not None
        assert plan.tail(position.after({plan.tail_shard: None})) is None

    @pytest.mark.parametrize(
        "pipe",
        [streamed().batch(4).take(2), streamed().batch(4).repeat(2), streamed().map(str)],
        ids=["take", "repeat", "map"],
    )
    def test_not_behind_an_operator_that_looks_at_positions_or_repeats(self, pipe):
        assert make_plan(pipe).tail_name is None


def calls_of_planning(operators: int) -> int:
    """The calls of functions, and steps of generators, that planning a chain of filters takes."""
    pipe: fp.Pipe[int] = fp.from_sequence(range(10))
    for _ in range(operators):
        pipe = pipe.filter(bool)
    root, count = resolve(pipe), 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        Plan(root, seed=0, rank=0, world_size=2, shards=4).shard_stage(0)
    finally:
        sys.setprofile(None)
    return count


def test_planning_takes_as_many_steps_as_operators():
    calls_of_planning(10)
    assert calls_of_planning(140) < 2.2 * calls_of_planning(70)
