"""Random chains of all operators: the law, indexed against streamed, ranks and shards, seeds and epochs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError, PlanError
from feedpipe.testing import check_operator, same

from .soak import SOAK
from .support.examples import examples
from .support.loading import KEPT_STEPS

pytestmark = pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")

Chain = fp.Pipe[Any]


def weight(row: object) -> int:
    """A small number that belongs to a row, whatever it is."""
    return sum(map(ord, repr(row))) + len(repr(row))


def draw(row: object, rng: np.random.Generator) -> object:
    return row, int(rng.integers(1000))


def fails(row: object) -> object:
    if weight(row) % 13 == 0:
        raise ValueError("a row that fails")
    return row


def few(row: object) -> list[object]:
    return [row] * (weight(row) % 4)


def tokens(row: object) -> np.ndarray:
    return np.arange(weight(row) % 7, dtype=np.int32)


def two_columns(row: object) -> dict[str, object]:
    return {"tokens": tokens(row), "others": tokens(row)[:3] / 2}


def rows_of(group: Any) -> list[object]:
    """The rows of a batch; the tokens of a pack."""
    if not isinstance(group, dict):
        return list(group)
    ids = group["segment_ids"] if "segment_ids" in group else group["tokens_segment_ids"]
    return group["tokens"][ids > 0].tolist()  # type: ignore[no-any-return]


def streamed(pipe: Chain) -> Chain:
    """The same rows, in order only."""
    return pipe.filter(lambda row: True)


def part(pipe: Chain, seed: int) -> Chain:
    """A part of the rows; the whole pipe if it cannot be split, such as after `batch`."""
    try:
        return pipe.split({"rest": 0.3, "most": 0.7}, seed=seed)["most"]
    except PlanError:
        return pipe


def zipped(one: Chain, other: Chain) -> Chain:
    """Two branches of a fork together again."""
    return one.map(weight).zip(other)


counts = st.integers(0, 60)
small = st.integers(1, 9)


def sources(count: int) -> list[Callable[[], Chain]]:
    return [
        lambda: fp.from_sequence(range(count)),
        lambda: fp.from_iterable(lambda: iter(range(count))),
        lambda: fp.from_arrays({"x": np.arange(count), "y": np.arange(2.0 * count).reshape(count, 2)}),
        lambda: fp.from_table(pa.table({"a": list(range(count)), "b": [str(k) for k in range(count)]})),
    ]


def columns_steps(names: list[str]) -> list[Callable[[Chain], Chain]]:
    """Operators on the columns of a table, whose first column has whole numbers."""
    number = names[0]
    return [
        lambda p: p.select(*reversed(names)).select(names),
        lambda p: p.with_columns(**{number: pc.field(number) + 1}).rename({number: f"{number}_"}),
        lambda p: p.with_columns(half=lambda columns: columns[number] / 2).drop("half"),
        lambda p: p.filter(pc.bit_wise_and(pc.field(number), 3) != 0),
        lambda p: p.cast({number: "int32"}).cast({number: "int64"}),
        lambda p: p.map_batches(lambda columns: {**columns, number: columns[number] * 2}, 3, format="numpy"),
        lambda p: p.join({k: {"even": k % 2 == 0} for k in range(0, 50, 3)}, on=number, how="left"),
        lambda p: p.join(
            pa.table({"key": [1, 2, 2, 5, 8], "n": [1, 2, 3, 4, 5]}), on=number, other_on="key", multiple="all"
        ),
    ]


@st.composite
def chains(draw_: st.DrawFn, steps: int = 4, *, local: bool = False, skipping: bool = False) -> Chain:
    """A chain. `local` leaves out operators whose rows differ between shards by more than grouping.

    In a `skipping` chain rows fail and are left out.
    """
    source = draw_(st.sampled_from(range(4)))
    pipe = sources(draw_(counts))[source]()
    for _ in range(draw_(st.integers(0, steps))):
        size = draw_(small)
        steps_: list[Callable[[Chain], Chain]] = [
            lambda p: p.map(lambda row: row),
            lambda p, n=size: p.map(lambda row: row, concurrency=n),
            lambda p: p.filter(lambda row: weight(row) % 3 != 0),
            lambda p: p.flat_map(few),
            lambda p, n=size: p.interleave(few, cycle=n, block=2),
            lambda p, n=size: p.shuffle(window=n * 3),
            lambda p, n=size: p.prefetch(n),
            lambda p: p.shuffle() if p.indexed else p.load().shuffle(),
            lambda p, n=size: p.shuffle(window=n, each_epoch=False),
            lambda p, n=size: part(p, seed=n),
            lambda p: p.route(lambda row: weight(row) % 2, 2)[1],
            lambda p, n=size: p.take(5 * n),
            lambda p, n=size: p.skip(n),
            lambda p, n=size: p.slice(1, None, n),
            lambda p: p.concat(fp.from_sequence(range(1000, 1007))),
            lambda p, n=size: p.batch(n).unbatch(),
            lambda p, n=size: p.batch({0: n, 4: 2, 9: n + 1}).unbatch(),
            lambda p, n=size: p.mix(fp.from_sequence(range(1000, 1009)), weights=[n, 3]),
            lambda p, n=size: p.mix(streamed(p).take(n), weights=[2, 1], random=True),
            lambda p, n=size: fp.mix(
                {"one": p, "more": fp.from_sequence(range(1000, 1009))}, by=lambda row: weight(row) % n
            ),
            lambda p: p.round_robin(p, fp.from_sequence(range(1000, 1007))),
            lambda p: p.repeat(2),
            lambda p: p.dispatch(),
            lambda p, n=size: p.map_batches(list, n),
        ]
        if skipping:
            steps_ += [
                lambda p: p.map(fails, on_error="skip"),
                lambda p, n=size: p.map(fails, concurrency=n, on_error="skip"),
                lambda p: p.filter(lambda row: weight(fails(row)) % 5 != 0, on_error="skip"),
                lambda p: p.flat_map(lambda row: few(fails(row)), on_error="skip"),
                lambda p, n=size: p.map_batches(lambda rows: list(map(fails, rows)), n, on_error="skip"),
            ]
        if pipe.schema is not None:
            steps_ += columns_steps(pipe.schema.names)
        if not local:
            steps_ += [
                lambda p: p.take_while(lambda row: weight(row) % 11 != 0),
                lambda p, n=size: p.distinct(weight, last=2 * n),
                lambda p: p.map(draw, rng=True),
                lambda p: zipped(*p.fork()),
                lambda p, n=size: p.sample(n, replacement=True) if p.indexed and p.length else p,
                lambda p: p.resample(lambda row: weight(row) % 2, target="uniform", source={0: 0.3, 1: 0.7}),
                lambda p: p.enumerate(),
                lambda p: p.zip(fp.from_sequence(range(50))),
                lambda p: streamed(p).zip(streamed(p)),
                lambda p, n=size: p.mix(fp.from_sequence(range(n)), weights=[3, 2], random=True, stop="first"),
                lambda p: p.round_robin(fp.from_sequence(range(9)).repeat(), stop="first"),
                lambda p, n=size: p.zip_by_key(streamed(p).skip(1), key=weight, window=2 * n, unmatched="drop"),
                lambda p: p.concat(fp.from_sequence([0]).repeat()).zip(fp.from_sequence(range(99))),
                lambda p, n=size: p.batch(n),
                lambda p, n=size: p.batch(n, drop_last=True),
                lambda p, n=size: p.group_by(lambda row: weight(row) % 3, size=n, window=3 * n),
                lambda p, n=size: p.bucket_by_length(n, weight, window=3 * n),
                lambda p, n=size: p.batch_by_size(10 * n, lambda row: weight(row) % 10),
                lambda p, n=size: p.sliding(n, step=3),
                lambda p, n=size: p.map(tokens).pack(n),
                lambda p, n=size: p.map(tokens).pack(n, strategy="fit", window=n),
                lambda p, n=size: p.map(two_columns).pack({"tokens": 7, "others": 3}, strategy="fit", window=n),
            ]
        pipe = draw_(st.sampled_from(steps_))(pipe)

    return pipe


quick = settings(max_examples=examples(60 * SOAK), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(chains(), st.integers(0, 3))
def test_every_chain_keeps_the_law(pipe, epoch):
    check_operator(pipe, samples=3, epoch=epoch, rows_of=rows_of)


@contextmanager
def refused() -> Iterator[None]:
    """Leaves out chains that cannot skip rows: each row of a batch has failed, or an operator needs several rows."""
    try:
        yield
    except (DataError, PlanError) as error:
        if "were skipped" not in str(error):
            raise
        reject()


@quick
@given(chains(skipping=True))
def test_a_chain_that_skips_rows_keeps_the_law(pipe):
    with refused():
        check_operator(pipe, samples=3, rows_of=rows_of)


@quick
@given(chains(skipping=True), st.integers(1, 2), st.data())
def test_a_loader_that_skips_rows_resumes_exactly(pipe, shards, data):
    def loader() -> fp.Loader[Any]:
        return fp.Loader(pipe, shards=shards, seed=5)

    with refused():
        reference = loader()
        steps = [(element, info.state_dict()) for element, info in reference.with_info()]
    for step in data.draw(st.lists(st.integers(1, len(steps) - 1), max_size=3)) if len(steps) > 1 else []:
        resumed = loader()
        resumed.load_state_dict(json.loads(json.dumps(steps[step - 1][1])))
        agree(list(resumed), [element for element, _ in steps[step:]])
        assert resumed.skipped == reference.skipped


@quick
@given(chains())
def test_streamed_gives_what_indexed_gives(pipe):
    if pipe.indexed:
        for one, other in zip(pipe, streamed(pipe), strict=True):
            assert same(one, other)


@quick
@given(chains(local=True), st.integers(1, 4), st.integers(1, 4))
def test_the_union_over_ranks_is_the_pipe(pipe, ranks, each):
    expected = Counter(map(repr, list(pipe)))
    windows_before_a_cut = "shuffle" in repr(pipe) and any(w in repr(pipe) for w in ("take", "skip", "slice"))
    for shards in (None, ranks * each):
        parts = [list(fp.Loader(pipe, rank=rank, world_size=ranks, even=None, shards=shards)) for rank in range(ranks)]
        got = Counter(repr(row) for part in parts for row in part)
        if windows_before_a_cut:  # a random draw cuts off rows, and `for x in pipe` draws with another key
            assert got.total() == expected.total()
        else:
            assert got == expected


@quick
@given(chains(), st.integers(1, 3), st.data())
def test_a_loader_resumes_exactly_anywhere(pipe, ranks, data):
    rank = data.draw(st.integers(0, ranks - 1))

    def loader() -> fp.Loader[Any]:
        return fp.Loader(pipe, rank=rank, world_size=ranks, even=None, seed=5)

    reference = loader()
    first, second = list(reference), list(reference)
    for _ in range(3):
        taken = data.draw(st.integers(0, len(first)))
        other = loader()
        iterator = iter(other)
        for row in first[:taken]:
            assert same(next(iterator), row)
        ahead = list(islice(iterator, data.draw(st.integers(0, KEPT_STEPS)) if first else 0))
        state = json.loads(json.dumps(other.state_dict(step=taken) if ahead else other.state_dict()))
        resumed = loader()
        resumed.load_state_dict(state)
        rest = first[taken:] if taken < len(first) or not first else second
        got = list(resumed)
        if taken == len(first) and ranks > 1 and not got:  # other ranks may still be in the epoch, so it goes on empty
            got = list(resumed)
        assert len(got) == len(rest) and all(map(same, got, rest))


@quick
@given(chains(skipping=True), st.integers(1, 2), st.sampled_from([None, 1, 3]), st.data())
def test_progress_never_falls_and_a_state_has_it(pipe, ranks, each, data):
    rank = data.draw(st.integers(0, ranks - 1))

    def loader() -> fp.Loader[Any]:
        shards = None if each is None else each * ranks
        return fp.Loader(pipe, rank=rank, world_size=ranks, even=None, shards=shards, seed=5)

    with refused():
        reference = loader()
        steps = [(reference.progress, info.state_dict()) for _, info in reference.with_info()]
    assert reference.progress == 1.0
    shares = [share for share, _ in steps]
    if None in shares:
        assert not any(shares)
        return
    assert all(0.0 <= one <= other <= 1.0 for one, other in pairwise(shares)), shares
    for place in data.draw(st.lists(st.integers(0, len(steps) - 2), max_size=3)) if len(steps) > 1 else []:
        resumed = loader()
        resumed.load_state_dict(json.loads(json.dumps(steps[place][1])))
        assert resumed.progress == shares[place]


@pytest.mark.slow
@settings(quick, max_examples=examples(30 * SOAK))
@given(chains(), st.integers(1, 3), st.sampled_from([None, 1, 7, 40]), st.sampled_from([None, 3, 6]), st.data())
def test_skipping_is_taking(pipe, ranks, steps, each, data):
    rank = data.draw(st.integers(0, ranks - 1))

    def loader() -> fp.Loader[Any]:
        shards = None if each is None else each * ranks
        return fp.Loader(pipe, rank=rank, world_size=ranks, even=None, steps=steps, shards=shards, seed=5)

    reference = loader()
    try:
        first, second = list(reference), list(reference)
    except PlanError:
        reject()  # no element, where `steps` asks for some
    taken = data.draw(st.integers(0, len(first)))
    count = data.draw(st.integers(0, len(first) - taken))
    skipping = loader()
    elements = iter(skipping)
    agree(list(islice(elements, taken)), first[:taken])
    skipping.skip(count)
    resumed = loader()
    resumed.load_state_dict(json.loads(json.dumps(skipping.state_dict())))
    agree(list(elements), first[taken + count :])
    agree(list(skipping), second)
    if taken + count < len(first):
        agree(list(resumed), first[taken + count :])
        agree(list(resumed), second)


@quick
@given(chains())
def test_seeds_and_epochs(pipe):
    one, other = fp.Loader(pipe, seed=3), fp.Loader(pipe, seed=3)
    for _ in range(2):
        rows, again = list(one), list(other)
        assert len(rows) == len(again) and all(map(same, rows, again))


def agree(got: list[Any], expected: list[Any]) -> None:
    assert len(got) == len(expected) and all(map(same, got, expected))


@pytest.mark.slow
@settings(quick, max_examples=examples(10 * SOAK))
@given(chains(), st.integers(1, 4), st.data())
def test_worker_processes_give_the_same(pipe, shards, data):
    with fp.Loader(pipe, shards=shards) as here, fp.Loader(pipe, workers=2, shards=shards) as loader:
        epochs = [list(here) for _ in range(2)]
        agree(list(loader), epochs[0])
        taken = data.draw(st.integers(0, len(epochs[0])))
        rest = epochs[0][taken:] if taken < len(epochs[0]) or not epochs[0] else epochs[1]
        states = []
        for one in (here, loader):
            one.set_epoch(0)
            iterator = iter(one)
            agree([next(iterator) for _ in range(taken)], epochs[0][:taken])
            states.append(json.loads(json.dumps(one.state_dict())))
        for state, one in ((states[1], loader), (states[0], loader), (states[1], here)):
            one.load_state_dict(state)
            agree(list(one), rest)


def test_two_epochs_differ_where_there_is_a_shuffle():
    for pipe in (fp.from_sequence(range(99)).shuffle(), streamed(fp.from_sequence(range(99))).shuffle(window=30)):
        loader = fp.Loader(pipe)
        first, second = list(loader), list(loader)
        assert first != second and sorted(first) == sorted(second)
