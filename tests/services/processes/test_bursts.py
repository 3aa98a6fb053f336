"""Small elements travel in bursts: what arrives, resumes, closes and is kept as if each had come alone."""

from __future__ import annotations

import random
from itertools import islice

import numpy as np
import pytest

import feedpipe as fp

from ...support.services import MAX_COPIED_BYTES

COUNT = 300
SMALL = MAX_COPIED_BYTES // 16


def small(count=COUNT):
    return fp.from_sequence(range(count)).map(lambda row: {"x": np.full(SMALL, row), "y": np.full(3, -row)})


def streamed(count=COUNT):
    return small(count).filter(lambda row: True).shuffle(window=20)


def mixed(count=COUNT):
    def element(row):
        return np.full(SMALL if row % 3 else 4 * SMALL, row) if row % 5 else str(row)

    return fp.from_sequence(range(count)).map(element)


PIPES = {"small": small, "streamed": streamed, "mixed": mixed}


def value(element):
    if isinstance(element, dict):
        assert (element["x"] == element["x"][0]).all() and (element["y"] == -element["x"][0]).all()
        return int(element["x"][0])
    return element if isinstance(element, str) else (int(element.sum()), element.shape)


def undisturbed(pipe):
    return [value(element) for element in fp.Loader(pipe, seed=3, shards=4)]


def test_a_kept_element_does_not_keep_its_burst(caplog):
    count = 2000
    with fp.Loader(small(count), fp.MultiProcess(1, memory="300KiB")) as loader:
        kept = []
        for row, element in enumerate(loader):
            if row % 8 == 0:
                kept.append(element)
    assert not caplog.records  # the memory was never full, though the elements that are kept have more bytes
    kept[1]["x"][:] = 5
    assert [value(element) for element in kept[2:]] == list(range(16, count, 8))
    assert (kept[0]["x"] == 0).all() and (kept[1]["y"] == -8).all()


@pytest.mark.parametrize("name", PIPES)
def test_closed_in_the_middle_of_a_burst(name):
    pipe = PIPES[name](60)
    expected = fp.Loader(pipe, seed=3, shards=4)
    with fp.Loader(pipe, workers=2, seed=3, shards=4) as loader:
        for stop in (*range(0, 40, 3), 60):
            elements = list(islice(expected, stop))
            assert [value(element) for element in islice(loader, stop)] == [value(element) for element in elements]


@pytest.mark.parametrize("name", PIPES)
def test_killed_in_the_middle_of_a_burst(name, processes, deaths):
    pipe, chance = PIPES[name](), random.Random(1)
    kills = set(chance.sample(range(1, COUNT - 70), 5))
    with deaths(least=1), fp.Loader(pipe, workers=2, seed=3, shards=4) as loader:
        got = []
        for number, element in enumerate(loader):
            got.append(value(element))
            if number in kills:
                processes.kill(processes.workers()[:1])
    assert got == undisturbed(pipe)


@pytest.mark.parametrize("name", PIPES)
def test_resumed_in_the_middle_of_a_burst(name):
    pipe = PIPES[name]()
    expected = undisturbed(pipe)
    with fp.Loader(pipe, workers=1, seed=3, shards=4) as loader:
        iterator = iter(loader)
        for stop in (1, 7, 30, 45, 100):
            while loader.step < stop:
                next(iterator)
            resumed = fp.Loader(pipe, seed=3, shards=4)
            resumed.load_state_dict(loader.state_dict())
            assert [value(element) for element in resumed] == expected[stop:]
