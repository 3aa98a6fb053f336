"""Small elements travel in bursts: what arrives, resumes, closes and is kept as if each had come alone."""

from __future__ import annotations

import os
import random
import socket
from itertools import islice

import numpy as np
import pytest

import feedpipe as fp

from ...support.services import (
    MAX_COPIED_BYTES,
    Arena,
    Channel,
    Outbox,
    Packer,
    PrefetchLimit,
    create_shared_memory,
    received_items,
)
from ...support.services import worker as outbox

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


@pytest.fixture
def long_bursts(monkeypatch):
    """On a slow machine, a burst would end by its time."""
    monkeypatch.setattr(outbox, "MAX_BURST_SECONDS", 60.0)


class Ends:
    """An outbox, and the other end of its connection."""

    def __init__(self, memory: int = 2**20, limit: int = 1000) -> None:
        self.sockets = socket.socketpair()
        ours, theirs = map(Channel, self.sockets)
        self.owner = theirs
        self.limit = PrefetchLimit(limit)
        self.arena = None
        if memory:
            descriptor = create_shared_memory(memory)
            self.arena = Arena(descriptor, memory, [])
            os.close(descriptor)
        self.outbox = Outbox(ours, self.arena, self.limit, self.wait)
        self.packer = Packer()
        self.waits = 0

    def __del__(self) -> None:
        for end in self.sockets:
            end.close()

    def wait(self) -> bool:
        self.waits += 1
        if self.limit.waiting:
            self.limit.remove(1)
            return True
        return False

    def add(self, element, run=7):
        self.outbox.add(run, "step", 0, [None, 0, 0], self.packer.pack(element))

    def bursts(self):
        """The numbers of items in the messages that have arrived."""
        counts = []
        while (message := self.owner.receive(wait=False)) is not None:
            kind, run, _, heads, _ = message.head
            assert (kind, run) == ("items", 7)
            counts.append(len(heads))
        return counts


@pytest.mark.usefixtures("long_bursts")
class TestOutbox:
    def test_nothing_is_sent_before_it_is_flushed(self):
        ends = Ends()
        for n in range(5):
            ends.add(np.full(10, n))
        assert ends.bursts() == [] and ends.limit.waiting == 5 and ends.outbox
        ends.outbox.flush()
        ends.outbox.flush()
        assert ends.bursts() == [5] and not ends.outbox

    def test_a_burst_has_limits(self, monkeypatch):
        ends = Ends()
        for n in range(2 * outbox.MAX_BURST_ITEMS + 1):
            ends.add(n)
        assert ends.bursts() == [outbox.MAX_BURST_ITEMS] * 2
        ends.outbox.flush()
        assert ends.bursts() == [1]
        ends.add(np.zeros(outbox.MAX_BURST_BYTES, "u1"))
        assert len(ends.bursts()) == 1
        monkeypatch.setattr(outbox, "MAX_BURST_SECONDS", 0.0)
        ends.add(1)
        assert ends.bursts() == [1]

    def test_what_is_added_may_change_afterwards(self):
        ends, array = Ends(), np.zeros(10)
        ends.add(array)
        array[:] = 1
        ends.add(array)
        ends.outbox.flush()
        message = ends.owner.receive()
        first, second = (item.value() for item in received_items(message.head[3], message.body))
        assert first.tolist() == [0] * 10 and second.tolist() == [1] * 10

    def test_a_burst_that_is_dropped_frees_its_memory(self):
        ends = Ends(memory=2**20)
        for _ in range(40):
            ends.add(np.zeros(50_000, "u1"))
            ends.outbox.discard()
        assert ends.bursts() == [] and ends.arena.reserve([2**19, 2**18]) is not None

    def test_finished_elements_are_sent_before_it_waits_for_memory(self):
        ends = Ends(memory=2**17)
        for _ in range(3):
            ends.add(np.zeros(50_000, "u1"))
        # Two fit. For the third one it waits until the consumer has taken both, and then sends it without the arena.
        assert ends.waits == 3 and ends.bursts() == [2] and ends.outbox

    @pytest.mark.parametrize("memory", [0, 5000, 2**20])
    def test_whatever_the_memory(self, memory):
        ends = Ends(memory=memory)
        for n in range(20):
            ends.add(np.full(SMALL, n))
        ends.outbox.flush()
        assert sum(ends.bursts()) == 20


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPES)
def test_elements_and_their_order(name):
    pipe = PIPES[name]()
    with fp.Loader(pipe, workers=2, seed=3, shards=4) as loader:
        assert [value(element) for element in loader] == undisturbed(pipe)


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


def test_elements_before_a_failing_row_arrive_first():
    def check(element):
        if element["x"][0] == 201:
            raise ValueError("201")
        return element

    with fp.Loader(small().map(check), workers=1) as loader:
        got = []
        with pytest.raises(fp.RowError, match="201"):
            for element in loader:
                got.append(value(element))
    assert got == list(range(201))
