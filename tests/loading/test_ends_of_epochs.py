"""The end of an epoch is a property of the position of all ranks, not of one."""

from __future__ import annotations

import gc
import json
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import PlanError, StateError

from ..support.examples import examples


def loaders(count, ranks, *, indexed, **options):
    pipe = fp.from_sequence(range(count)).shuffle()
    if not indexed:
        pipe = pipe.filter(lambda x: True)
    return [fp.Loader(pipe, rank=rank, world_size=ranks, **options) for rank in range(ranks)]


def stepped(parts, steps):
    """Takes so many steps, as a training loop with all ranks does: who has no element left sees the end."""
    taken = []
    for loader in parts:
        iterator = iter(loader)
        taken.append([x for _, x in zip(range(steps), iterator, strict=False)])
        if len(taken[-1]) < steps:
            next(iterator, None)
    return taken


def states(parts):
    return [json.loads(json.dumps(loader.state_dict())) for loader in parts]


def resumed(state, count, ranks, **options):
    parts = loaders(count, ranks, indexed=True, **options)
    for loader in parts:
        loader.load_state_dict(state)
    return parts


small = st.integers(0, 7)
several = st.integers(1, 4)


@given(count=small, ranks=several, others=several, steps=small)
@settings(max_examples=examples(30))
def test_an_indexed_state_is_the_same_on_all_ranks_and_serves_any_number(count, ranks, others, steps):
    parts = loaders(count, ranks, indexed=True, even=None)
    taken = stepped(parts, steps)
    (state, *rest) = states(parts)
    assert all(other == state for other in rest)
    (whole,) = loaders(count, 1, indexed=True)
    epoch = list(whole)
    over = steps and steps * ranks >= count
    assert (state["epoch"], state["step"]) == ((1, 0) if over else (0, steps))
    others_taken = [list(loader) for loader in resumed(state, count, others, even=None)]
    expected = list(whole) if over else epoch
    assert sorted(sum(others_taken, [] if over else sum(taken, []))) == sorted(expected)
    again = resumed(state, count, others, even=None)
    for loader in again:
        list(loader)
    assert {loader.epoch for loader in again} == {2 if over else 1}


@given(count=small, ranks=several, steps=small)
@settings(max_examples=examples(25))
def test_a_streamed_state_stands_at_the_end_of_its_own_part(count, ranks, steps):
    parts = loaders(count, ranks, indexed=False, even=None)
    taken = stepped(parts, steps)
    whole = [[list(loader) for _ in range(2)] for loader in loaders(count, ranks, indexed=False, even=None)]
    for rank, state in enumerate(states(parts)):
        own = loaders(count, ranks, indexed=False, even=None)
        own[rank].load_state_dict(state)
        if state["epoch"] == 0:
            if ranks > 1 and state["position"] != "null":
                with pytest.raises(StateError, match=f"rank {rank} of {ranks}"):
                    own[rank - 1].load_state_dict(state)
                assert taken[rank] + list(own[rank]) == whole[rank][0]
            elif ranks > 1:
                assert taken[rank] == [] and list(own[rank]) == whole[rank][0]
            if ranks > 1:
                assert own[rank].epoch == 1
        if state["epoch"] == 1:
            assert taken[rank] == whole[rank][0] and list(own[rank]) == whole[rank][1]


@given(count=st.integers(1, 7), ranks=several, others=several, length=st.integers(1, 6), steps=st.integers(0, 14))
@settings(max_examples=examples(30))
def test_with_steps_the_ranks_stand_at_one_place_of_one_sequence(count, ranks, others, length, steps):
    (single,) = loaders(count, 1, indexed=True)
    passes = sum((list(single) for _ in range(14 * 4 + 60)), [])[: 14 * 4 + 60]
    parts = loaders(count, ranks, indexed=True, steps=length)
    taken = []
    for loader in parts:
        elements = []
        while len(elements) < steps:
            elements += [x for _, x in zip(range(steps - len(elements)), loader, strict=False)]
        taken.append(elements)
    assert [x for step in zip(*taken, strict=True) for x in step] == passes[: steps * ranks]
    (state, *rest) = states(parts)
    assert all(other == state for other in rest)
    parts = resumed(state, count, others, steps=length)
    for loader in parts:
        loader.set_epoch(loader.epoch)
    following = [[x for loop in range(2) for x in loader][: length // 2] for loader in parts]
    got = [x for step in zip(*following, strict=True) for x in step]
    assert got == passes[steps * ranks :][: len(got)]
    for loader in parts:
        loader.peek()  # a look moves nothing, also if the next element is of another pass
    assert len({json.dumps(state) for state in states(parts)}) == 1


def test_a_loop_that_saw_the_end_stands_at_the_next_epoch():
    for indexed in (True, False):
        parts = loaders(5, 2, indexed=indexed, even=None)
        for loader in parts:
            list(loader)
        assert [state["epoch"] for state in states(parts)] == [1, 1]


def test_a_finished_epoch_is_freed_at_once():
    pipe = fp.from_sequence(range(3)).map(str)
    freed = weakref.ref(pipe)
    gc.disable()
    try:
        iterator = iter(fp.Loader(pipe))
        while True:
            try:
                next(iterator)
            except StopIteration:
                break
        del iterator, pipe
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("even", ["auto", "drop", "pad"])
def test_ranks_of_a_stream_of_files_are_not_even_without_a_process_group(tmp_path, even):
    (tmp_path / "rows.txt").write_text("1\n")
    with pytest.raises(PlanError, match=r"because of `\.parse_lines\(\)`, so its 2 ranks cannot be made even without"):
        fp.Loader(fp.read_lines(tmp_path), rank=0, world_size=2, even=even)
