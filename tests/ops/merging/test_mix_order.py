"""The order of mixtures of any number of inputs, against that of the first version."""

from __future__ import annotations

import hashlib
import json
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.testing import check_operator

from ...support.examples import examples
from ...support.mixtures import ReferenceTurns, reference_rows, reference_weights
from ...support.operators import MixtureLayout, WeightedTurns, rounded_weights, whole_weights

weight = st.one_of(st.integers(0, 7), st.floats(0, 1), st.sampled_from([1e-5, 0.25, 1e5, 2.0**20]))
stops = st.sampled_from(["longest", "first"])


@st.composite
def mixtures(draw, least=0):
    """Rows of inputs, and weights for each or none."""
    count = draw(st.one_of(st.integers(1, 5), st.integers(60, 90)))
    lengths = draw(st.lists(st.integers(least, 12), min_size=count, max_size=count))
    weights = draw(st.none() | st.lists(weight, min_size=count, max_size=count).filter(sum))
    return [[100 * source + row for row in range(length)] for source, length in enumerate(lengths)], weights


def mixed(inputs, weights, stop, *, streamed, **arguments):
    first, *others = (fp.from_sequence(rows) for rows in inputs)
    first = first.filter(lambda row: True) if streamed else first
    if weights is None:
        return first.round_robin(*others, stop=stop)
    return first.mix(*others, weights=weights, stop=stop, **arguments)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(weight.filter(bool), min_size=1, max_size=150), st.randoms(use_true_random=False))
def test_turns_are_those_of_a_tree_of_objects(weights, random):
    whole = whole_weights(weights)
    turns, reference = WeightedTurns(rounded_weights(whole)), ReferenceTurns(weights)
    for positions in (range(300), range(10**9, 10**9 + 50), np.array([10**12, 3, 10**12 + 1, 700])):
        sources, before = turns.at(positions)
        places = list(map(int, positions))
        assert list(zip(sources.tolist(), before.tolist(), strict=True)) == list(map(reference.at, places))
    counts = [0] * len(weights)
    for position in range(60):
        assert turns.counts(position).tolist() == counts
        counts[reference.at(position)[0]] += 1
    rows = np.array([random.randint(0, 5) for _ in weights])
    some = sorted(random.sample(range(len(weights)), random.randint(1, len(weights))))
    assert rounded_weights(whole[some]).tolist() == reference_weights([weights[source] for source in some])
    source, before = reference.at(turns.first_end(rows))
    assert before == rows[source]
    if turns.first_end(rows) < 3000:
        assert all(before < rows[source] for source, before in map(reference.at, range(turns.first_end(rows))))


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(mixtures(least=1), stops)
def test_rows_are_those_of_one_turn_at_a_time(mixture, stop):
    inputs, weights = mixture
    expected = reference_rows(inputs, weights, stop)
    for streamed in (False, True):
        assert list(mixed(inputs, weights, stop, streamed=streamed)) == expected
    indexed = mixed(inputs, weights, stop, streamed=False)
    assert len(indexed) == len(expected)
    places = list(fp.from_sequence(range(len(expected))).shuffle())
    assert list(indexed.shuffle()) == [expected[place] for place in places]


@pytest.mark.slow
@settings(max_examples=examples(6), deadline=None)
@given(mixtures(), st.booleans(), st.booleans())
def test_resume(mixture, streamed, random):
    inputs, weights = mixture
    arguments = {} if weights is None else {"random": random}
    pipe = mixed(inputs, weights, "longest", streamed=streamed, **arguments)
    rows = check_operator(pipe, samples=1)
    if not arguments.get("random"):
        assert rows == reference_rows(inputs, weights, "longest")
    loader = fp.Loader(pipe, seed=1)
    stream = iter(loader)
    states = [loader.state_dict()]
    order = []
    for row in stream:
        order.append(row)
        states.append(loader.state_dict())
    for place in range(0, len(order), 1 + len(order) // 10):
        other = fp.Loader(pipe, seed=1)
        other.load_state_dict(states[place])
        assert list(islice(other, 20)) == order[place : place + 20]


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(mixtures(), st.integers(1, 4), st.booleans())
def test_ranks(mixture, ranks, streamed):
    inputs, weights = mixture
    pipe = mixed(inputs, weights, "longest", streamed=streamed)
    loaders = [fp.Loader(pipe, rank=rank, world_size=ranks, even=None) for rank in range(ranks)]
    for _ in range(2):
        found = [list(loader) for loader in loaders]
        assert sorted(sum(found, [])) == sorted(sum(inputs, []))
        if ranks == 1 and not streamed:
            assert found[0] == reference_rows(inputs, weights, "longest")


# Computed before the turns of thousands of inputs were one tree of arrays.
GOLDEN = {
    ("weights", False): ["86f7e7e8d9c36f712e2a4866f68af62c", "be0b7b4f5a6489c390894d86a0f2b7a0"],
    ("weights", True): ["d8cc8ff02061d12ba673610eebd18348", "070810e2c6bd2155f08a9fa9eb697d09"],
    ("random", False): ["f6e4cee8da4b951093d2b712153f0066", "a4bbe8134d77e43056c7addd1f97cca3"],
    ("random", True): ["418932a66ee2973b3de9197b4beb29bb", "455c8f10667f89cc0843aeee9bf98b27"],
    ("round robin", False): ["b7fbbdbe3563424ea6dc11ab67c753fa", "db8a5a68e92f3051e6a10ab48b54208a"],
    ("round robin", True): ["396fe58f553124990375a852c06acb50", "5cd68c510b35e6807bfe320e8cc1eefe"],
    ("far apart", False): ["6e495d381c0ddfed2104a0cb7879d375", "14564a59048f2507161fc6ed47da3a2a"],
    ("far apart", True): ["9c999bd89a6a71dc8a35df9723060142", "93a7f247d87ca8b98b17f0b10c8f59bc"],
}


def golden_mixture(kind, streamed):
    def inputs(count, least, step):
        pipes = [fp.from_sequence([k * 1000 + i for i in range(least + (k * 7) % step)]) for k in range(count)]
        return [pipe.filter(lambda row: True) for pipe in pipes] if streamed else pipes

    if kind == "weights":
        first, *others = inputs(90, 1, 23)
        return first.mix(*others, weights=[(k * 5) % 11 / 10 for k in range(90)])
    if kind == "random":
        first, *others = inputs(70, 3, 9)
        return first.mix(*others, weights=[1 + k % 3 for k in range(70)], random=True, name="two")
    if kind == "round robin":
        first, *others = inputs(100, 0, 13)
        return first.round_robin(*others)
    first, *others = inputs(6, 30, 40)
    return first.mix(*others, weights=[1e-5, 3.7, 1e5, 0, 0, 1], random=True, name="four")


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize(("kind", "streamed"), GOLDEN)
def test_the_order_is_that_of_earlier_versions(kind, streamed):
    pipe = golden_mixture(kind, streamed)
    whole = fp.Loader(pipe, seed=7, shards=3)
    rank = fp.Loader(pipe, seed=7, rank=0, world_size=2, even=None, shards=4)
    found = [hashlib.blake2b(json.dumps(list(rows)).encode(), digest_size=16).hexdigest() for rows in (whole, rank)]
    assert found == GOLDEN[kind, streamed]


@settings(max_examples=examples(30), deadline=None)
@given(mixtures(), stops, st.booleans(), st.randoms(use_true_random=False))
def test_rows_may_be_asked_for_in_any_order(mixture, stop, random, shuffler):
    inputs, weights = mixture
    options = {} if weights is None else {"random": random}
    rows = list(mixed(inputs, weights, stop, streamed=False, **options))
    places = list(range(len(rows)))
    shuffler.shuffle(places)
    asked = mixed(inputs, weights, stop, streamed=False, **options)
    assert [asked[place] for place in places] == [rows[place] for place in places]


def test_the_first_row_does_not_wait_for_the_ends_of_all_inputs(monkeypatch):
    ends = []
    extend = MixtureLayout.extend
    monkeypatch.setattr(MixtureLayout, "extend", lambda layout: (ends.append(1), extend(layout))[1])
    inputs = [[100 * source + row for row in range(50)] for source in range(80)]
    pipe = mixed(inputs, [1 + source % 3 for source in range(80)], "longest", streamed=False)
    assert pipe[0] == next(iter(pipe)) and len(ends) == 1
    assert sorted(pipe) == sum(inputs, []) and len(ends) == 80
