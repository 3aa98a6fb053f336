"""`Progress`, and the functions that save, validate, compare and restore a state."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import StateError, StateWarning
from feedpipe.extensions import Json, Plan, Position

from ..soak.state_mutations import main as mutate_states
from ..support.engine import resolve
from ..support.loading import IndexedPosition, Progress, Signature, compare, restore, resumed_shards, save, validated
from ..support.plan import ShardState

INDEXED = fp.from_sequence(range(12))
STREAMED = INDEXED.filter(lambda x: True)


def make_plan(pipe: fp.Pipe[int], *, rank: int = 0, world_size: int = 1, shards: int | None = None, seed: int = 0):
    return Plan(resolve(pipe), seed=seed, rank=rank, world_size=world_size, shards=shards)


PLAN = make_plan(STREAMED, shards=8)


def saved(progress: Progress, plan: Plan) -> dict[str, object]:
    return json.loads(json.dumps(save(progress, plan, Signature(plan))))


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=20,
)


@given(st.lists(plain_values))
def test_a_cursor_is_encoded_as_json_does_it(token: list[Json]):
    cursor = [token, 3, 14]
    state = save(Progress(taken=1, cursors={2: cursor, 5: None}, ended={1: None}), PLAN, Signature(PLAN))
    expected = {"cursors": {"2": cursor, "5": None}, "ended": {"1": None}}
    assert state["position"] == json.dumps(expected)


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

    def test_next_data_pass_keeps_epoch_and_step(self):
        assert Progress(1, 5, 3, taken=9).next_data_pass() == Progress(1, 5, 4)

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


def test_entries_of_a_state():
    state = saved(Progress(2, 3, 1, taken=3, cursors={0: [None, 3, 0]}, ended={}), make_plan(STREAMED, shards=1))
    assert list(state) == [
        *("feedpipe", "seed", "epoch", "step", "data_epoch", "rank", "world_size", "shards"),
        *("pipe", "code", "position", "checksum", "goal"),
    ]
    assert {type(value) for value in state.values()} == {int, str}
    assert {key: value for key, value in state.items() if key not in ("pipe", "code", "checksum")} == {
        "feedpipe": 3,
        "seed": 0,
        "epoch": 2,
        "step": 3,
        "data_epoch": 1,
        "rank": 0,
        "world_size": 1,
        "shards": 1,
        "position": '{"cursors": {"0": [null, 3, 0]}, "ended": {}}',
        "goal": -1,
    }


def test_an_indexed_state_is_the_same_on_all_ranks():
    states = [saved(Progress(1, 3, 1, taken=3), make_plan(INDEXED, rank=rank, world_size=4)) for rank in range(4)]
    assert states[1:] == states[:-1]
    assert (states[0]["rank"], states[0]["world_size"], states[0]["position"]) == (-1, 4, '{"consumed": 12}')


def test_the_text_of_a_position_follows_each_change():
    plan = make_plan(STREAMED, shards=3)
    signature = Signature(plan)
    token = [[0, [None, 4, 0]], 0, 2]
    steps = [
        Progress(taken=1, cursors={0: [None, 1, 0]}),
        Progress(taken=2, cursors={0: [None, 1, 0], 1: [token, 1, 0]}),
        Progress(taken=3, cursors={0: [None, 1, 0], 1: [token, 2, 0]}, ended={0: None}),
        Progress(taken=4, cursors={0: [None, 1, 0], 1: [[token, "\u00e4"], 0, 3]}, ended={0: [token, 0, 9], 2: None}),
        Progress(taken=1, cursors={0: [None, 1, 0]}),
    ]
    for progress in steps:
        position = json.loads(save(progress, plan, signature)["position"])
        assert position["cursors"] == {str(shard): cursor for shard, cursor in progress.cursors.items()}
        assert position["ended"] == {str(shard): cursor for shard, cursor in progress.ended.items()}


class TestValidated:
    @pytest.mark.parametrize(
        "change",
        [
            *({"step": True}, {"step": 1.0}, {"data_epoch": None}, {"epoch": -1}, {"world_size": 0}, {"position": 3}),
            *({"pipe": None}, {"extra": 1}, {1: 1}, {"step": 2}, {"checksum": 2}, {"epoch": 10**5000}),
            *({"position": "[" * 100_000}, {"position": "{}"}, {"position": "\ud800"}, {"code": "\ud800"}),
        ],
    )
    def test_a_changed_entry_is_refused(self, change):
        with pytest.raises(StateError, match="`checksum` does not fit its other entries; it was changed, or mixed"):
            validated({**saved(Progress(), make_plan(INDEXED)), **change})

    def test_a_missing_entry_is_refused(self):
        for name in saved(Progress(), make_plan(INDEXED)).keys() - {"feedpipe"}:
            state = saved(Progress(), make_plan(INDEXED))
            del state[name]
            with pytest.raises(StateError, match="the state is damaged"):
                validated(state)

    def test_what_is_no_state_is_refused(self):
        for value in (None, [], [1, 2], "garbage", {}, {"epoch": 1}):
            with pytest.raises(StateError, match=r"a state must be a dict that `state_dict\(\)` returned"):
                validated(value)

    @pytest.mark.parametrize(
        ("version", "epoch", "advice"),
        [
            (1, 3, r"begin its epoch again with `set_epoch\(3\)`"),
            (1, None, "begin its epoch again with `set_epoch`"),
            (99, 3, r"begin its epoch again with `set_epoch\(3\)`"),
        ],
    )
    def test_another_version_says_what_to_do(self, version, epoch, advice):
        with pytest.raises(StateError, match=f"is of version {version}, and this feedpipe reads version 3; .*{advice}"):
            validated({"feedpipe": version, "epoch": epoch})

    def test_entries_of_several_ranks_do_not_fit_together(self):
        states = [
            saved(Progress(taken=1, cursors={rank: [None, 1, 0]}), make_plan(STREAMED, rank=rank, world_size=2))
            for rank in range(2)
        ]
        different = [name for name in states[0] if states[0][name] != states[1][name]]
        assert set(different) == {"rank", "position", "checksum"}
        for name in different:
            with pytest.raises(StateError, match="mixed from the states of several ranks"):
                validated({**states[0], name: states[1][name]})


class TestCompare:
    def test_equal_states_pass_without_a_word(self):
        plan = make_plan(INDEXED)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compare(validated(saved(Progress(), plan)), Signature(plan), strict=True)

    def test_differences_are_refused_or_warned_of(self):
        state = validated(saved(Progress(), make_plan(INDEXED.batch(2))))
        signature = Signature(make_plan(INDEXED.batch(3), seed=4))
        with pytest.raises(
            StateError, match=r"`batch\(2\)` is now `batch\(3\)`; `seed` was 0 and is now 4; `strict=False`"
        ):
            compare(state, signature, strict=True)
        with pytest.warns(StateWarning) as seen:
            compare(state, signature, strict=False)
        assert len(seen) == 2

    def test_other_code_is_a_warning(self):
        state = saved(Progress(), make_plan(INDEXED.map(lambda x: x + 1)))
        with pytest.warns(StateWarning, match="the code of `<lambda>` in .* has changed since the state was taken"):
            compare(validated(state), Signature(make_plan(INDEXED.map(lambda x: x + 2))), strict=True)


class TestResumedShards:
    def test_of_a_streamed_pipe_are_those_of_the_state(self):
        state = saved(Progress(cursors={0: [None, 1, 0]}), make_plan(STREAMED, shards=4))
        assert resumed_shards(validated(state), make_plan(STREAMED, shards=2)) == 4

    def test_without_a_position_are_those_of_the_plan_on_another_number_of_ranks(self):
        state = validated(saved(Progress(3, 0, 3), make_plan(STREAMED, world_size=2, shards=4)))
        assert resumed_shards(state, make_plan(STREAMED, shards=3)) == 3
        for rank in range(2):
            assert resumed_shards(state, make_plan(STREAMED, rank=rank, world_size=2, shards=8)) == 4

    def test_another_rank_is_refused(self):
        state = saved(Progress(cursors={1: [None, 1, 0]}), make_plan(STREAMED, rank=1, world_size=2, shards=2))
        with pytest.raises(StateError, match=r"rank 1 of 2 in the middle of an epoch, and this is rank 0 of 2"):
            resumed_shards(validated(state), make_plan(STREAMED, rank=0, world_size=2, shards=2))

    def test_an_indexed_state_does_not_fit_a_streamed_pipe(self):
        state = saved(Progress(taken=1), make_plan(INDEXED))
        with pytest.raises(StateError, match="only one of the state's pipe and this one is indexed"):
            resumed_shards(validated(state), make_plan(STREAMED))

    def test_one_rank_that_skips_rows_does_not_go_on_on_several(self):
        pipe = fp.from_sequence(range(9)).map(int, on_error="skip")
        one, two = make_plan(pipe), make_plan(pipe, world_size=2, shards=2)
        for before, after in ((one, two), (two, one)):
            progress = Progress(taken=1) if before.indexed else Progress(cursors={0: [None, 1, 0]})
            with pytest.raises(StateError, match="rows of this pipe may be skipped, .* only at the end of an epoch"):
                resumed_shards(validated(saved(progress, before)), after)

    def test_too_many_shards_are_refused(self):
        state = replace(validated(saved(Progress(cursors={0: [None, 1, 0]}), make_plan(STREAMED))), shards=10**6)
        with pytest.raises(StateError, match="has 1000000 shards, and this loader 1; .*`shards=1000000`"):
            resumed_shards(state, make_plan(STREAMED))
        assert resumed_shards(state, make_plan(STREAMED, shards=10**6)) == 10**6


class TestRestore:
    def test_steps_of_other_ranks_are_converted(self):
        state = saved(Progress(0, 3, 0, taken=3), make_plan(INDEXED, world_size=4))
        assert restore(validated(state), make_plan(INDEXED, world_size=2)) == Progress(0, 6, 0, start=12)

    @pytest.mark.parametrize("consumed", [0, 14, 99])
    def test_a_number_outside_the_pipe_is_refused(self, consumed):
        state = validated(saved(Progress(taken=1), make_plan(INDEXED, world_size=2)))
        with pytest.raises(StateError, match=r"`position.consumed` must be from 1 to 12"):
            restore(replace(state, position=IndexedPosition(consumed)), make_plan(INDEXED))

    def test_padding_goes_beyond_the_length(self):
        state = saved(Progress(0, 2, 0, taken=2), make_plan(INDEXED.batch(5), world_size=2))
        assert restore(validated(state), make_plan(INDEXED.batch(5))).start == 4


def test_changed_states_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "200 from seed 0" in mutate_states(200)


def test_an_error_of_a_fresh_run_is_no_state_error():
    class Broken(type(STREAMED.op)):
        def blocks(self, stage, at, context):
            raise KeyError("a bug")
            yield

    with pytest.raises(KeyError, match="a bug"):
        list(fp.Loader(INDEXED.then(Broken(abs))))
