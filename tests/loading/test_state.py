"""`Progress`, and the functions that save, validate, compare and restore a state."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import pytest

import feedpipe as fp
from feedpipe.errors import StateError
from feedpipe.extensions import Plan

from ..soak.state_mutations import main as mutate_states
from ..support.engine import resolve
from ..support.loading import Progress, Signature, resumed_shards, save, validated

INDEXED = fp.from_sequence(range(12))
STREAMED = INDEXED.filter(lambda x: True)


def make_plan(pipe: fp.Pipe[int], *, rank: int = 0, world_size: int = 1, shards: int | None = None, seed: int = 0):
    return Plan(resolve(pipe), seed=seed, rank=rank, world_size=world_size, shards=shards)


def saved(progress: Progress, plan: Plan) -> dict[str, object]:
    return json.loads(json.dumps(save(progress, plan, Signature(plan))))


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
        with pytest.raises(StateError, match=f"is of version {version}, and this feedpipe reads version 5; .*{advice}"):
            validated({"feedpipe": version, "epoch": epoch})


class TestResumedShards:
    def test_a_policy_that_only_one_run_has(self):
        rows = fp.from_sequence(range(9))
        plans = make_plan(rows.map(int)), make_plan(rows.map(int, on_error="skip"), world_size=2, shards=2)
        for before, after in (plans, reversed(plans)):
            progress = Progress(taken=1) if before.indexed else Progress(cursors={0: [None, 1, 0]})
            with pytest.raises(
                StateError, match="`on_error` .* of only one .* keep the policy until the end of the ep"
            ):
                resumed_shards(validated(saved(progress, before)), after)

    def test_too_many_shards_are_refused(self):
        state = replace(validated(saved(Progress(cursors={0: [None, 1, 0]}), make_plan(STREAMED))), shards=10**6)
        with pytest.raises(StateError, match="has 1000000 shards, and this loader 1; .*`shards=1000000`"):
            resumed_shards(state, make_plan(STREAMED))
        assert resumed_shards(state, make_plan(STREAMED, shards=10**6)) == 10**6


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
