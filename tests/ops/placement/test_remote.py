"""`remote` marks the place up to which workers run a pipe. The order and the states stay the same."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError, PlanError, WorkerError, WorkerWarning
from feedpipe.testing import check_operator, same

from ...support.testing import Case, Sample, _check_failure, _check_sample, drawn, few, most, nothing_left, odd, picky

MAIN = os.getpid()
NUMBERS = fp.from_sequence(range(24))
OTHERS = (fp.Threads(2), fp.MultiProcess(3, prefetch=1))


def numbers() -> Iterator[int]:
    return iter(range(31))


def twice(x: int) -> list[int]:
    return [x, -x - 1]


def with_process(x: Any) -> tuple[Any, int]:
    return x, os.getpid()


def test_law():
    assert check_operator(NUMBERS.filter(odd).remote().batch(5))[-1] == [21, 23]
    assert check_operator(NUMBERS.remote()) == list(range(24))
    assert len(NUMBERS.remote()) == 24 and not NUMBERS.remote().indexed


SAMPLES = {
    "indexed": Sample(NUMBERS.shuffle().map(drawn, rng=True).remote().filter(lambda row: row[0] % 5 > 0).batch(3)),
    "streamed": Sample(fp.from_sequence(range(14)).flat_map(few).remote().flat_map(twice).shuffle(window=5).batch(4)),
    "groups": Sample(NUMBERS.filter(most).shuffle(window=6).batch(3).remote().map(list), ranks=2),
    "rounds": Sample(NUMBERS.take(9).remote().map(drawn, rng=True).repeat(2).shuffle(window=4)),
    "dispatched": Sample(fp.from_iterable(numbers).dispatch().filter(odd).remote().batch(2).prefetch(2), shards=3),
    "positions": Sample(NUMBERS.filter(most).remote().enumerate().take(17).batch(3).prefetch(1), shards=2),
    "shards": Sample(NUMBERS.shuffle().shard_by_rank().batch(3).remote().unbatch().map(drawn, rng=True)),
    "branches": Sample(NUMBERS.take(9).remote().concat(fp.from_sequence(range(50, 59)).map(str)).batch(2), shards=2),
    "zipped": Sample(NUMBERS.map(drawn, rng=True).remote().zip(NUMBERS.remote().map(str)).batch(2), shards=2),
    "arrays": Sample(
        fp.from_arrays({"x": np.arange(20), "y": np.ones((20, 2))}).remote().shuffle(window=4).batch(4).collate(),
    ),
    "tensors": Sample(fp.from_arrays({"x": np.arange(30)}).batch(4).collate().remote().map(lambda x: {**x, "k": 1})),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize("name", SAMPLES)
def test_all_services_agree(name):
    """Elements, `info`, and what follows each state, in each service, and again from a resumed run."""
    with nothing_left(name):
        _check_sample(fp.MultiProcess(2), SAMPLES[name], OTHERS)


@pytest.mark.parametrize(
    "pipe",
    [
        NUMBERS.map(picky).remote().batch(2),
        NUMBERS.filter(most).map(str).remote().map(lambda x: picky(int(x))).shuffle(window=3).batch(2),
        NUMBERS.filter(most).batch(2).remote().flat_map(lambda batch: [picky(x) for x in batch]),
    ],
    ids=["before", "behind", "after groups"],
)
def test_errors_keep_operator_and_row(pipe):
    _check_failure(Case(fp.MultiProcess(2), Sample(pipe, shards=3)))


def test_workers_run_what_stands_before_and_this_process_the_rest():
    lock = threading.Lock()  # cannot travel

    def here(row: tuple[int, int]) -> tuple[int, int, int]:
        with lock:
            return *row, os.getpid()

    pipe = NUMBERS.shuffle().map(with_process).remote().map(here).shuffle(window=5)
    with fp.Loader(pipe, workers=2, seed=1) as loader, fp.Loader(pipe, fp.Threads(2), seed=1) as threads:
        rows = list(loader)
        assert [row[0] for row in rows] == [row[0] for row in threads]
    assert len({process for _, process, _ in rows}) == 2
    assert all(process != MAIN == own for _, process, own in rows)
    bad = NUMBERS.map(lambda x: lock and x).remote()
    with fp.Loader(bad, workers=1) as loader, pytest.raises(ArgumentTypeError, match="`lock`.*cannot be pickled"):
        list(loader)


@pytest.mark.parametrize("killed", [0, 30])
def test_a_worker_that_is_killed_costs_no_row(killed):
    # So many rows that no worker has made all of its own when it is killed.
    pipe = fp.from_sequence(range(20_000)).filter(most).map(with_process).remote().shuffle(window=9).batch(4)
    with fp.Loader(pipe, workers=2, seed=2) as loader, fp.Loader(pipe, seed=2) as here:
        iterator = iter(loader)
        batches = [next(iterator) for _ in range(killed + 1)]
        os.kill(batches[-1][0][1], signal.SIGKILL)
        with pytest.warns(WorkerWarning, match=r"killed by SIGKILL.*while it made row \d+ of shard \d before `remote`"):
            batches += iterator
        assert [[x for x, _ in batch] for batch in batches] == [[x for x, _ in batch] for batch in here]


def test_a_row_that_ends_its_worker_is_named():
    pipe = NUMBERS.map(lambda x: os._exit(3) if x == 7 else x).remote().batch(2)
    with (
        fp.Loader(pipe, workers=1) as loader,
        pytest.warns(WorkerWarning),
        pytest.raises(WorkerError, match=r"row 7 of shard 0 before `remote`, in `.map(?s:.*)from_sequence, row 8"),
    ):
        list(loader)


def test_the_process_that_dispatches_may_die():
    source = fp.from_iterable(lambda: iter(range(2000))).map(with_process).dispatch()
    with fp.Loader(source.remote().batch(4), workers=2, shards=2) as loader:
        iterator = iter(loader)
        batches = [next(iterator)]
        os.kill(batches[0][0][1], signal.SIGKILL)
        with pytest.warns(WorkerWarning, match="the operators before `dispatch` was killed"):
            batches += iterator
    with fp.Loader(source.batch(4), shards=2) as here:
        assert [[x for x, _ in batch] for batch in batches] == [[x for x, _ in batch] for batch in here]


def test_a_run_that_is_dropped_leaves_the_next_one_alone():
    pipe = fp.from_sequence(range(400)).filter(most).remote().prefetch(2).batch(3)
    with fp.Loader(pipe, workers=2, shards=2) as loader, fp.Loader(pipe, shards=2) as here:
        expected = list(here)
        for count in (1, 5, 2):
            iterator = iter(loader)
            assert [next(iterator) for _ in range(count)] == expected[:count]
            del iterator
            loader.set_epoch(0)
        assert list(loader) == expected


def test_skipped_rows_are_counted_once():
    def fails(x: int) -> int:
        if x % 7 == 3:
            raise ValueError(x)
        return x

    pipe = NUMBERS.map(fails, on_error="skip").filter(most).remote().map(fails, on_error="skip").batch(3)
    with fp.Loader(pipe, workers=2, shards=2) as loader, fp.Loader(pipe, shards=2) as here:
        assert same(list(loader), list(here))


class TestRefused:
    def test_twice_on_one_path(self):
        with pytest.raises(PlanError, match=r"`remote\(\)` must not come twice on one path.*remove one of the two"):
            NUMBERS.remote().map(str).remote()
        assert list(NUMBERS.remote().zip(NUMBERS.remote()).take(1)) == [(0, 0)]

    @pytest.mark.parametrize("operator", ["dispatch", "load"])
    def test_operators_behind_it(self, operator):
        with pytest.raises(PlanError, match=rf"`{operator}\(\)` must come before `remote\(\)`"):
            getattr(NUMBERS.remote(), operator)()

    def test_in_the_other_side_of_a_join(self):
        rows = fp.from_sequence([{"a": 1}])
        with pytest.raises(PlanError, match=r"`remote\(\)` must not be in the other side of `join\(\)`"):
            rows.join(rows.remote(), on="a")

    def test_a_full_shuffle_behind_it(self):
        with pytest.raises(PlanError, match="window"):
            NUMBERS.remote().shuffle()

    def test_a_state_of_a_pipe_without_it(self):
        loader = fp.Loader(NUMBERS.filter(most).batch(2), shards=2)
        next(iter(loader))
        with pytest.raises(fp.errors.StateError, match="the pipe had 3 operators and now has 4"):
            fp.Loader(NUMBERS.filter(most).remote().batch(2), shards=2).load_state_dict(loader.state_dict())


def test_explain_shows_the_place(capsys):
    NUMBERS.filter(most).remote().batch(2).explain(workers=2)
    assert "-- workers run the graph up to here, the training process the rest --" in capsys.readouterr().out
    NUMBERS.filter(most).remote().enumerate().explain(workers=2)
    place = "-- one worker of each rank runs the graph up to here, the training process the rest --"
    assert place in capsys.readouterr().out
