"""The states of all ranks of a job, loaded as a list or gathered, on the same or another number of ranks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import StateError

from ..support.examples import examples
from ..support.loading import State, gathered, joined, read_states

INDEXED = fp.from_sequence(range(120)).shuffle()
STREAMED = fp.from_sequence(range(200)).filter(lambda n: n % 3 != 1).shuffle(window=10).batch(3)

Pipe = fp.Pipe[Any]


def is_odd(number: int) -> bool:
    return number % 2 == 1


def loaders(pipe: Pipe, ranks: int, **options: Any) -> list[fp.Loader[Any]]:
    return [fp.Loader(pipe, rank=rank, world_size=ranks, seed=3, **{"even": None, **options}) for rank in range(ranks)]


def after(job: list[fp.Loader[Any]], steps: list[int]) -> tuple[list[list[Any]], list[State]]:
    """The elements that each rank takes, and its state after them."""
    taken = [list(islice(iter(loader), count)) for loader, count in zip(job, steps, strict=True)]
    return taken, json.loads(json.dumps([loader.state_dict() for loader in job]))


def resumed(pipe: Pipe, ranks: int, state: Any, **options: Any) -> list[fp.Loader[Any]]:
    job = loaders(pipe, ranks, **options)
    for loader in job:
        loader.load_state_dict(state)
    return job


def rows(elements: list[Any]) -> Iterator[Any]:
    for element in elements:
        yield from element if isinstance(element, list) else [element]


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(1, 6), st.data())
def test_an_indexed_job_goes_on_with_the_exact_set_that_is_left(ranks: int, data: st.DataObject) -> None:
    job, everything = loaders(INDEXED, ranks), list[int]()
    for _ in range(data.draw(st.integers(1, 4))):
        taken, states = after(job, [data.draw(st.integers(0, 9)) for _ in job])
        state = states if data.draw(st.booleans()) else gathered(states)
        job = resumed(INDEXED, data.draw(st.integers(1, 6)), state)
        everything += chain(*taken)
    steps = data.draw(st.integers(0, 5))
    more, states = after(job, [steps] * len(job))
    job = resumed(INDEXED, data.draw(st.integers(1, 6)), states[0])
    assert sorted([*everything, *chain(*more, *job)]) == list(range(120))


def test_a_gathered_state_goes_on_in_the_order_of_the_job():
    pipe = fp.from_sequence(range(600)).shuffle().filter(lambda n: n % 3 != 1).batch(3)
    whole = list(fp.Loader(pipe, seed=3, shards=24))
    _, states = after(loaders(pipe, 4, shards=24), [3] * 4)
    state = gathered(states)
    assert (state["rank"], state["step"], state["world_size"], state["shards"]) == (-1, 3, 4, 24)
    for ranks in (1, 2, 3, 4, 6, 12):
        parts = [list(loader) for loader in resumed(pipe, ranks, state)]
        assert Counter(rows(sum(parts, []))) == Counter(rows(whole[12:]))
        assert [parts[n % ranks][n // ranks] for n in range(24)] == whole[12:36]


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize("even", ["drop", "pad"])
def test_ranks_stay_even_after_their_number_has_changed(even: str):
    pipe = fp.from_sequence(range(203)).shuffle(window=10)
    _, states = after(loaders(pipe, 4, shards=24, even=even), [7] * 4)
    job = resumed(pipe, 6, states, even=even)
    lengths = {len(list(islice(iter(loader), 5))) for loader in job}
    later = [loader.state_dict() for loader in job]
    assert lengths == {5} and len({state["goal"] for state in later}) == 1
    # A state of one rank suffices from here on.
    job = loaders(pipe, 6, even=even)
    for loader, state in zip(job, later, strict=True):
        loader.load_state_dict(state)
    left = [len(list(loader)) for loader in job]
    assert left == [left[0]] * 6 and abs(left[0] - (203 - 28 - 30) / 6) < 5
    assert [loader.epoch for loader in job] == [1] * 6


class TestWhatIsRefused:
    def states(self, pipe: Pipe = STREAMED, ranks: int = 3, steps: int = 2, **options: Any) -> list[State]:
        return after(loaders(pipe, ranks, **options), [steps] * ranks)[1]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda s: s[:2], "one state of each of the 3 ranks, and has none or several of rank 2"),
            (lambda s: [s[0], s[0], s[2]], "none or several of ranks 0, 1"),
            (lambda s: [*s, s[1]], "none or several of rank 1"),
            (lambda s: [], "must have the state of each rank but is empty"),
            (lambda s: [s[0], {}, s[2]], "state 1 of the list: a state must be a dict"),
            (lambda s: [s[0], {**s[1], "rank": 2}, s[2]], "state 1 of the list: .* `checksum` does not fit"),
            (lambda s: [gathered(s), *s], "a gathered state has the states of all ranks already"),
            (lambda s: {**gathered(s), "position": s[0]["position"]}, "save and load `gather_state"),
        ],
    )
    def test_a_list_that_is_not_of_all_ranks(self, change: Callable[[list[State]], Any], words: str):
        with pytest.raises(StateError, match=words):
            fp.Loader(STREAMED, rank=1, world_size=3, even=None, seed=3).load_state_dict(change(self.states()))

    @pytest.mark.parametrize(
        ("other", "words"),
        [
            ({"ranks": 4}, "states of ranks 0, 1 and rank 2 are not of one job, because their `world_size` differs: 3"),
            ({"shards": 6}, "their `shards` differs: 24 and 6"),
            ({"pipe": INDEXED.shuffle(window=4)}, "because their `pipe` differs$"),
        ],
    )
    def test_states_of_several_jobs(self, other: dict[str, Any], words: str):
        states = [*self.states()[:2], self.states(**other)[2]]
        if other == {"shards": 6}:
            states = [*self.states(shards=24)[:2], self.states(**other)[2]]
        with pytest.raises(StateError, match=words):
            fp.Loader(STREAMED, seed=3).load_state_dict(states)

    def test_states_of_several_epochs(self):
        job = loaders(STREAMED, 2)
        list(job[1])
        states = after(job, [1, 1])[1]
        with pytest.raises(StateError, match="ranks? 0 and rank 1 .* their `epoch` differs: 0 and 1"):
            fp.Loader(STREAMED, seed=3).load_state_dict(states)

    def test_the_state_of_one_rank_on_another(self):
        states = self.states()
        for rank, ranks in ((0, 3), (1, 2)):
            with pytest.raises(StateError, match=f"rank 2 of 3 .* this is rank {rank} of {ranks}, .*`gather_state"):
                loaders(STREAMED, ranks)[rank].load_state_dict(states[2])

    @pytest.mark.parametrize("steps", [[1, 4], [1, 9]])
    def test_indexed_states_of_different_resumes(self, steps: list[int]):
        states = after(loaders(INDEXED, 2), steps)[1]
        first, second = (after(resumed(INDEXED, 2, state), [2, 2])[1][0] for state in (states, states[0]))
        with pytest.raises(StateError, match="state 0 of the list comes from another resume"):
            fp.Loader(INDEXED, seed=3).load_state_dict([first, second])

    def test_a_list_of_too_few_indexed_states(self):
        with pytest.raises(StateError, match="has 2 states of a job of 3 ranks"):
            fp.Loader(INDEXED, seed=3).load_state_dict(self.states(INDEXED)[:2])


def test_the_constants_of_a_job_stand_once_in_its_state():
    """10,000 ranks of a chain of 1,000 inputs, whose fingerprint has 110 kB."""
    first, *others = [fp.from_sequence(range(number, number + 40_000)) for number in range(1_000)]
    pipe = first.concat(*others).filter(is_odd)
    ranks = 10_000
    loader = fp.Loader(pipe, rank=0, world_size=ranks, even=None, seed=3, shards=ranks)
    next(iter(loader))
    own = loader.state_dict()
    cursor = json.loads(str(own["position"]))["cursors"]["0"]
    places = [{"cursors": {str(rank): cursor}, "ended": {}} for rank in range(ranks)]
    parts = [json.dumps([1, 0, -1, place, {}]).encode() for place in places]
    state = joined(own, parts, lambda one: one.numbers)
    assert len(json.dumps(own)) > 100_000 and len(json.dumps(state)) < 5_000_000
    saved = read_states(json.loads(json.dumps(state)))
    assert [one.position and one.position.cursors for one in saved[:2]] == [{0: cursor}, {1: cursor}]
    assert len(saved) == ranks


def test_the_gathered_state_of_a_fresh_job_is_a_template():
    fresh = gathered([loader.state_dict() for loader in loaders(STREAMED, 3)])
    later = gathered(after(loaders(STREAMED, 3), [4] * 3)[1])
    assert {name: type(value) for name, value in fresh.items()} == {name: type(value) for name, value in later.items()}
    for ranks in (2, 3, 5):
        everything = [row for loader in resumed(STREAMED, ranks, fresh) for row in rows(list(loader))]
        assert sorted(everything) == sorted(rows(list(STREAMED)))
