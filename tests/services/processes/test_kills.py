"""Workers are killed at random moments: rows and their order are those of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import warnings
from contextlib import closing
from itertools import islice

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import WorkerError, WorkerWarning
from feedpipe.extensions import Plan, Position, Step

from ...soak import SOAK
from ...support.engine import resolve

PIPES = {
    "indexed": lambda: numbers(60).map(square),
    "indexed shuffle and batch": lambda: numbers(240).shuffle().map(square).batch(7),
    "keyed draws": lambda: numbers(60).map(lambda row, rng: (row, rng.random()), rng=True),
    "arrays": lambda: numbers(60).map(lambda row: np.full(3000, row)).map(lambda row: row + 1),
    "window": lambda: streamed(200).shuffle(window=20).map(square),
    "window and tails": lambda: streamed(223).shuffle(window=20).batch(6),
    "flat_map": lambda: numbers(40).flat_map(lambda row: [row] * (row % 5)).batch(3),
    "dispatched": lambda: fp.from_iterable(range(150)).dispatch().map(square).batch(4),
    "ahead": lambda: streamed(150).map(square).prefetch(3).batch(4),
}
EPOCHS = 8


def numbers(count):
    return fp.from_sequence(range(count))


def streamed(count):
    return numbers(count).filter(lambda row: row % 10)


def square(row):
    return row * row


def rows(elements):
    return [element.tolist() if isinstance(element, np.ndarray) else element for element in elements]


def undisturbed(pipe, shards, epochs):
    loader = fp.Loader(pipe, seed=3, shards=shards)
    return [rows(loader) for _ in range(epochs)]


@pytest.mark.parametrize("turn", range(SOAK))
@pytest.mark.parametrize("pipe", PIPES)
def test_one_or_all_killed_in_each_epoch(pipe, turn, processes, deaths):
    chain, chance = PIPES[pipe](), random.Random(f"{pipe} {turn}")
    workers, prefetch = chance.choice([1, 2]) + turn, chance.choice([1, 2, 4])
    expected = undisturbed(chain, 6, EPOCHS)
    with deaths(), fp.Loader(chain, fp.MultiProcess(workers, prefetch=prefetch), seed=3, shards=6) as loader:
        for epoch in range(EPOCHS):
            moment, got = chance.randrange(len(expected[epoch])), []
            for place, element in enumerate(loader):
                if place == moment:
                    kill_some(processes, chance)
                got.append(element)
            assert rows(got) == expected[epoch]


def kill_some(processes, chance):
    workers = processes.workers()
    processes.kill(workers if chance.random() < 0.3 else [chance.choice(workers)])


GROUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2
"""What a terminal or a scheduler sends to all processes of a job; the program has handlers."""


@pytest.mark.parametrize("turn", range(2 * SOAK))
@pytest.mark.parametrize("pipe", ["indexed shuffle and batch", "window and tails", "dispatched", "ahead"])
@pytest.mark.slow
def test_signals_to_every_process_of_a_job(pipe, turn, processes):
    """A preempted job: signals to all; kills of workers, of the dispatcher, and of the server, which ends the pool."""
    chain, chance = PIPES[pipe](), random.Random(f"{pipe} {turn} signals")
    (expected,) = undisturbed(chain, 6, 1)
    seen, got, state = [], [], None
    before = {number: signal.signal(number, lambda number, frame: seen.append(number)) for number in GROUP}
    moments = set(chance.sample(range(len(expected)), 6))
    try:
        while True:
            with warnings.catch_warnings(), fp.Loader(chain, workers=2, seed=3, shards=6) as loader:
                warnings.simplefilter("ignore", WorkerWarning)
                if state is not None:
                    loader.load_state_dict(state)
                try:
                    for element in loader:
                        got += rows([element])
                        state = loader.state_dict()
                        if len(got) in moments:
                            moments.discard(len(got))
                            disturb(processes, chance)
                except WorkerError as error:
                    assert "the process that starts workers" in str(error)
                    continue
                break
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert got == expected
    assert not processes.below()


def disturb(processes, chance):
    helpers = [one.pid for one in processes.below()]
    if chance.random() < 0.6:
        number = chance.choice(GROUP)
        for pid in [*helpers, processes.server_pid(), os.getpid()]:
            os.kill(pid, number)
    elif helpers and chance.random() < 0.8:  # there are none once the server was killed, and all elements have arrived
        os.kill(chance.choice(helpers), signal.SIGKILL)
    else:
        processes.kill_server()


def test_three_workers_killed_right_after_the_number_of_ranks_has_changed(processes, deaths):
    pipe = streamed(240).shuffle(window=10).batch(7)
    states = []
    for rank, count in enumerate((3, 5)):
        loader = fp.Loader(pipe, seed=1, rank=rank, world_size=2, even=None)
        list(islice(loader, count))
        states.append(loader.state_dict())

    def resumed(workers):
        loader = fp.Loader(pipe, workers=workers, seed=1, rank=1, world_size=3, shards=9, even=None)
        loader.load_state_dict(states)
        return loader

    expected = list(resumed(0))
    with deaths(least=6), resumed(3) as loader:
        got = []
        for place, element in enumerate(loader):
            got.append(element)
            if place in (0, 4):
                processes.kill(processes.workers())
    assert got == expected


def test_elements_are_kept_and_dropped_over_many_restarts(processes, deaths):
    pipe, chance, kept = numbers(50).map(lambda row: np.full(4000 + row, row)), random.Random(5), []
    with deaths(), fp.Loader(pipe, fp.MultiProcess(2, memory="4MiB")) as loader:
        for epoch in range(8):
            for row, element in enumerate(loader):
                if chance.random() < 0.3:
                    kept.append((row, element))
                if row == 5 * epoch + 2:
                    kill_some(processes, chance)
            chance.shuffle(kept)
            assert all(len(element) == 4000 + row and (element == row).all() for row, element in kept)
            del kept[5:]


def test_killed_while_they_start(processes, deaths):
    plan = Plan(resolve(numbers(40)), seed=0, rank=0, world_size=1, shards=None)
    with deaths(), closing(fp.MultiProcess(2).start()) as executor:
        session = executor.open(plan, Position(), 0)  # it waits for no worker
        processes.kill(processes.workers())
        with closing(session):
            assert [item.element for item in session if isinstance(item, Step)] == list(range(40))


def test_killed_in_the_tail(tmp_path, deaths):
    flag = tmp_path / "flag"

    def die(batch):
        if len(batch) < 5 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    pipe = streamed(60).shuffle(window=6).batch(5)
    expected = undisturbed(pipe.map(list), 8, 1)[0]
    with deaths(), fp.Loader(pipe.map(die), seed=3, workers=2) as loader:
        assert list(loader) == expected
    assert flag.exists()


def test_a_state_taken_after_a_death_is_exact(processes, deaths):
    pipe = streamed(100).shuffle(window=10).batch(3)
    expected = undisturbed(pipe, None, 1)[0]
    with deaths(), fp.Loader(pipe, workers=2, seed=3) as loader:
        iterator = iter(loader)
        got = [next(iterator) for _ in range(9)]
        kill_some(processes, random.Random(0))
        got += [next(iterator) for _ in range(9)]
        state = loader.state_dict()
    resumed = fp.Loader(pipe, seed=3)
    resumed.load_state_dict(state)
    assert got + list(resumed) == expected


def test_a_worker_that_dies_while_the_warning_is_an_error(processes):
    with fp.Loader(numbers(40), workers=2) as loader:
        iterator = iter(loader)
        assert next(iterator) == 0
        processes.kill(processes.workers())
        with pytest.raises(Warning, match="SIGKILL"):
            list(iterator)
        with pytest.warns(match="SIGKILL"):
            assert list(loader) == list(range(40))
