"""`Progress`, and the functions that save, validate, compare and restore a state."""

from __future__ import annotations

import json
import warnings

import pytest

import feedpipe as fp
from feedpipe.engine.stage import resolve
from feedpipe.errors import StateError, StateWarning
from feedpipe.loading.state import (
    Progress,
    compare,
    plan_signature,
    restore,
    resumed_shards,
    save,
    validated,
)
from feedpipe.plan.plan import Plan, Position, ShardState

INDEXED = fp.from_sequence(range(12))
STREAMED = INDEXED.filter(lambda x: True)


def make_plan(pipe: fp.Pipe[int], *, rank: int = 0, world_size: int = 1, shards: int | None = None, seed: int = 0):
    return Plan(resolve(pipe), seed=seed, rank=rank, world_size=world_size, workers=0, shards=shards)


def saved(progress: Progress, plan: Plan) -> dict[str, object]:
    return json.loads(json.dumps(save(progress, plan, plan_signature(plan))))


class TestProgress:
    def test_begins_with_an_element(self):
        assert not Progress(3, 2, 3).begun
        for progress in (Progress(taken=1), Progress(start=1), Progress(cursors={0: None}), Progress(ended={0: None})):
            assert progress.begun

    def test_next_epoch_is_a_new_pass_over_the_data(self):
        progress = Progress(1, 5, 1, taken=5, cursors={0: [None, 5, 0]})
        assert progress.next_epoch(by_steps=False) == Progress(2, 0, 2)

    def test_next_epoch_by_steps_keeps_the_place(self):
        progress = Progress(1, 5, 0, taken=9, cursors={0: [None, 9, 0]})
        after = progress.next_epoch(by_steps=True)
        assert after == Progress(2, 0, 0, taken=9, cursors={0: [None, 9, 0]})
        after.cursors[1] = None
        assert 1 not in progress.cursors

    def test_next_data_epoch_keeps_epoch_and_step(self):
        assert Progress(1, 5, 3, taken=9).next_data_epoch() == Progress(1, 5, 4)

    def test_position_of_an_indexed_pipe_counts_all_ranks(self):
        assert Progress(start=6, taken=2).position(make_plan(INDEXED, world_size=3)) == Position(12)

    def test_position_of_a_streamed_pipe(self):
        position = Progress(cursors={0: [None, 1, 0]}, ended={1: [None, 4, 0]}).position(make_plan(STREAMED, shards=2))
        assert position.of(0) == ShardState([None, 1, 0])
        assert position.of(1) == ShardState(None, True, [None, 4, 0])


@pytest.mark.parametrize(
    ("pipe", "progress", "restored"),
    [
        (INDEXED, Progress(2, 0, 2), Progress(2, 0, 2)),
        (INDEXED, Progress(2, 5, 2, taken=5), Progress(2, 5, 2, start=5)),
        (STREAMED, Progress(2, 0, 1), Progress(2, 0, 1)),
        (
            STREAMED,
            Progress(2, 3, 1, taken=3, cursors={0: [None, 3, 0]}, ended={1: None}),
            Progress(2, 3, 1, cursors={0: [None, 3, 0]}, ended={1: None}),
        ),
    ],
)
def test_restore_undoes_save(pipe, progress, restored):
    plan = make_plan(pipe, shards=2)
    state = saved(progress, plan)
    assert restore(validated(state), plan) == restored
    assert saved(restored, plan) == state


def test_keys_of_a_state():
    state = saved(Progress(2, 3, 1, taken=3, cursors={0: [None, 3, 0]}), make_plan(STREAMED, shards=1))
    assert {key: value for key, value in state.items() if key not in ("fingerprint", "code")} == {
        "feedpipe": 1,
        "seed": 0,
        "rank": 0,
        "world_size": 1,
        "shards": 1,
        "epoch": 2,
        "step": 3,
        "lap": 1,
        "position": {"shards": [0], "cursors": [[None, 3, 0]], "ended": [], "leftovers": []},
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"feedpipe": 2}, "version 2, and this feedpipe reads version 1"),
        ({"step": True}, "`step` of the state must be a whole number but is: True"),
        ({"lap": None}, "`lap` of the state must be a whole number"),
        ({"position": 3}, "`position` or `fingerprint` is missing"),
        ({"fingerprint": None}, "`position` or `fingerprint` is missing"),
    ],
)
def test_validated_refuses(change, words):
    with pytest.raises(StateError, match=words):
        validated({**saved(Progress(), make_plan(INDEXED)), **change})


def test_validated_refuses_what_is_no_state():
    for value in (None, [], {}, {"epoch": 1}):
        with pytest.raises(StateError, match=r"a state must be a dict that `state_dict\(\)` returned"):
            validated(value)


class TestCompare:
    def test_equal_states_pass_without_a_word(self):
        plan = make_plan(INDEXED)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compare(saved(Progress(), plan), plan_signature(plan), strict=True)

    def test_differences_are_refused_or_warned_of(self):
        state = saved(Progress(), make_plan(INDEXED.batch(2)))
        signature = plan_signature(make_plan(INDEXED.batch(3), seed=4))
        with pytest.raises(StateError, match=r"size=2.* is now .*size=3.*; `seed` was 0 and is now 4; `strict=False`"):
            compare(state, signature, strict=True)
        with pytest.warns(StateWarning) as seen:
            compare(state, signature, strict=False)
        assert len(seen) == 2

    def test_other_code_is_a_warning(self):
        plan = make_plan(INDEXED)
        with pytest.warns(StateWarning, match="code of a function"):
            compare({**saved(Progress(), plan), "code": "other"}, plan_signature(plan), strict=True)


class TestResumedShards:
    def test_of_a_streamed_pipe_are_those_of_the_state(self):
        state = saved(Progress(cursors={0: [None, 1, 0]}), make_plan(STREAMED, shards=4))
        assert resumed_shards(state, make_plan(STREAMED, shards=2)) == 4

    def test_without_a_position_are_those_of_the_plan(self):
        state = saved(Progress(3, 0, 3), make_plan(STREAMED, world_size=2, shards=4))
        assert resumed_shards(state, make_plan(STREAMED, shards=3)) == 3

    def test_another_rank_is_refused(self):
        state = saved(Progress(cursors={1: [None, 1, 0]}), make_plan(STREAMED, rank=1, world_size=2, shards=2))
        with pytest.raises(StateError, match=r"rank 1 of 2 in the middle of an epoch, and this is rank 0 of 2"):
            resumed_shards(state, make_plan(STREAMED, rank=0, world_size=2, shards=2))

    def test_an_indexed_state_does_not_fit_a_streamed_pipe(self):
        state = saved(Progress(taken=1), make_plan(INDEXED))
        with pytest.raises(StateError, match="only one of the state's pipe and this one is indexed"):
            resumed_shards(state, make_plan(STREAMED))


class TestRestore:
    def test_steps_of_other_ranks_are_converted(self):
        state = saved(Progress(0, 3, 0, taken=3), make_plan(INDEXED, world_size=4))
        assert restore(state, make_plan(INDEXED, world_size=2)) == Progress(0, 6, 0, start=12)

    @pytest.mark.parametrize("consumed", [-1, 99, True, "1"])
    def test_a_number_outside_the_pipe_is_refused(self, consumed):
        plan = make_plan(INDEXED)
        state = {**saved(Progress(taken=1), plan), "position": {"consumed": consumed}}
        with pytest.raises(StateError, match="`consumed` is no number of elements"):
            restore(state, plan)

    def test_shards_of_another_rank_are_refused(self):
        plan = make_plan(STREAMED, shards=1)
        state = saved(Progress(cursors={7: [None, 1, 0]}), plan)
        with pytest.raises(StateError, match=r"shards \[7\] are not of this rank"):
            restore(state, plan)
