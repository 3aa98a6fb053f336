"""Bugs that adversarial tests found: one test for each."""

from __future__ import annotations

import gc
import json
import pickle
import threading
import traceback
from collections import Counter

import cloudpickle
import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import LoaderError, PlanError, StateError


def numbers(count: int) -> fp.Pipe[int]:
    return fp.from_sequence(range(count))


def streamed(count: int) -> fp.Pipe[int]:
    return numbers(count).filter(lambda x: True)


def rows(loader: fp.Loader[object]) -> Counter[object]:
    return Counter(row for batch in loader for row in batch)


def running() -> list[threading.Thread]:
    """Threads of runs; one that ends what another test has dropped ends by itself."""
    names = {thread: thread.name for thread in threading.enumerate()}
    return [thread for thread, name in names.items() if name.startswith("feedpipe") and name != "feedpipe-end"]


def test_rows_that_a_round_leaves_over_stay_in_the_round():
    twice = Counter(dict.fromkeys(range(100), 2))
    assert rows(fp.Loader(streamed(100).shuffle(window=10).batch(8).repeat(2))) == twice
    loader = fp.Loader(streamed(12).batch(5).repeat(), steps=30)
    assert set(rows(loader)) == set(range(12))


def test_batches_of_an_indexed_shard_lose_nothing():
    once = Counter(range(20))
    loader = fp.Loader(numbers(20).shard_by_rank().batch(3), shards=4)
    assert rows(loader) == once and len(loader) == 8
    assert rows(fp.Loader(numbers(20).shard_by_rank().shuffle().batch(3), shards=4)) == once
    assert Counter(fp.Loader(numbers(20).shard_by_rank().batch(3).unbatch(), shards=4)) == once


def test_load_behind_shard_by_rank_is_refused():
    with pytest.raises(PlanError, match=r"must come before `shard_by_rank\(\)`"):
        numbers(4).shard_by_rank().load()


def test_concat_of_nothing():
    assert list(fp.from_sequence([]).repeat(3).concat(numbers(3))) == [0, 1, 2]
    assert list(fp.Loader(fp.from_sequence([]).concat(fp.from_sequence([])))) == []


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize("even", ["auto", "drop", "error", "pad"])
def test_the_end_of_an_epoch_may_have_less_than_an_element_for_each_rank(even):
    loader = fp.Loader(numbers(12))
    iterator = iter(loader)
    for _ in range(11):
        next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    for rank in range(4):
        other = fp.Loader(numbers(12), rank=rank, world_size=4, even=even)
        other.load_state_dict(state)
        assert len(list(other)) == (1 if even == "pad" else 3)  # nothing left for all ranks: the next epoch


def test_a_dropped_loader_ends_its_threads_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        loader = fp.Loader(fp.from_iterable(range(10**6)).prefetch(5).batch(2))
        for _ in loader:
            break
        threads = running()
        assert threads
        del loader
        for thread in threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in threads)
    finally:
        gc.enable()


def test_collecting_in_a_thread_of_its_own_does_not_hang():
    def source():
        for x in range(2000):
            if x % 100 == 0:
                gc.collect()
            yield x

    for _ in range(3):
        loader = fp.Loader(fp.from_iterable(source).shuffle(window=4).prefetch(50))
        knot: list[object] = [loader]
        knot.append(knot)
        for _ in loader:
            break
        del loader, knot
    gc.collect()


def test_global_generators_are_left_alone_by_threads():
    def draw(x: int) -> float:
        return float(np.random.rand())

    pipe = streamed(500).map(draw, rng="global").prefetch(8)
    iterator = iter(pipe)
    next(iterator)
    assert not running()
    assert list(pipe) == list(streamed(500).map(draw, rng="global"))


@pytest.mark.parametrize("bad", [0, 7, 11])
def test_a_stop_iteration_in_the_last_row_of_a_block(bad):
    def keep(x: int) -> bool:
        if x == bad:
            raise StopIteration
        return True

    for service in (fp.InProcess(), fp.InProcess(debug=True)):
        got: list[int] = []
        with pytest.raises(fp.RowError, match="StopIteration"):
            got.extend(fp.Loader(numbers(12).filter(keep), service))
        assert got == list(range(bad))


def test_a_failed_run_does_not_grow():
    for iterator in (iter(numbers(1).map(lambda x: 1 // x)), iter(fp.Loader(numbers(1).map(lambda x: 1 // x)))):
        lengths = set()
        for _ in range(20):
            with pytest.raises(fp.RowError) as error:
                next(iterator)
            lengths.add(len(traceback.extract_tb(error.value.__traceback__)))
        assert max(lengths) - min(lengths) <= 3


def test_memory_does_not_grow_with_epochs():
    loader = fp.Loader(streamed(50).shuffle(window=4).batch(4))
    sizes = set()
    for _ in range(4):
        list(loader)
        plan = loader._schedule.plan
        sizes.add((len(plan.names), len(plan._stages)))
    assert len(sizes) == 1


def test_set_epoch_with_steps():
    loader = fp.Loader(numbers(10), steps=4)
    got = []
    for epoch in range(3):
        loader.set_epoch(epoch)
        got.append(list(loader))
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]


def test_valid_rows_of_collated_pairs():
    pipe = fp.from_sequence([(np.zeros(2), k) for k in range(4)]).batch(4).collate()
    assert [info.valid.shape for _, info in fp.Loader(pipe).with_info()] == [(4,)]
    assert [info.valid.shape for _, info in fp.Loader(fp.from_sequence([(1, 2, 3)])).with_info()] == [()]


def test_padding_needs_an_element_on_every_rank():
    for rank in range(3):
        with pytest.raises(PlanError, match="no element at all"):
            list(fp.Loader(numbers(2), rank=rank, world_size=3, even="pad"))


def test_a_refused_state_ends_no_epoch():
    loader = fp.Loader(numbers(9))
    iterator = iter(loader)
    assert next(iterator) == 0
    with pytest.raises(StateError):
        loader.load_state_dict({"feedpipe": 99})
    assert next(iterator) == 1
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(LoaderError, match="a state was loaded"):
        next(iterator)


def test_errors_and_pipes_can_be_pickled():
    with pytest.raises(fp.RowError) as error:
        list(numbers(1).map(lambda x: 1 // x))
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value) and again.origin == error.value.origin
    assert list(pickle.loads(cloudpickle.dumps(streamed(3).load()))) == [0, 1, 2]


def test_errors_of_sources_are_named():
    class Broken:
        def __len__(self) -> int:
            return 9

        def __getitem__(self, i: int) -> int:
            return {k: k for k in range(6)}[i]

    got: list[int] = []
    with pytest.raises(fp.RowError, match="from_sequence, row 7"):
        got.extend(fp.from_sequence(Broken()))
    assert got == list(range(6))

    def half():
        yield 1
        raise ValueError("half")

    with pytest.raises(fp.RowError, match="unbatch.*ValueError: half"):
        list(fp.from_sequence([0]).map(lambda x: half()).unbatch())


def test_a_batch_is_its_consumers_own():
    source = [[7], [1, 2]]
    for size in (1, 2, 5):
        for batch in fp.from_sequence(source).unbatch().batch(size):
            batch.append(99)
    assert source == [[7], [1, 2]]


def test_a_diamond_is_printed_and_planned_at_once():
    pipe = streamed(1)
    for _ in range(30):
        pipe = pipe.concat(pipe)
    assert len(repr(pipe)) < 10_000
    pipe.explain(world_size=2)
