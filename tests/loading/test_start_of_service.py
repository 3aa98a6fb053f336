"""The first epoch starts the service before it looks at the data, so that processes start meanwhile."""

import pickle
from operator import itemgetter

import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, PlanError, SourceError
from feedpipe.extensions import KeyRange

EVENTS: list[str] = []


@pytest.fixture(autouse=True)
def _no_events():
    EVENTS.clear()


class Recorded(fp.InProcess):
    def start(self):
        EVENTS.append("start")
        executor = super().start()
        close = executor.close
        executor.close = lambda: [EVENTS.append("close"), close()]
        return executor


class Numbers:
    """A driver whose first look fails so many times."""

    def __init__(self, failures=0):
        self.failures = failures

    def connect(self, uri):
        return self

    def describe(self, query):
        return pa.schema([("n", pa.int64())])

    def ranges(self, query, count):
        EVENTS.append("look")
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the server is busy")
        return [KeyRange(low=0, high=2, rows=3)]

    def read(self, query, after, high):
        yield pa.record_batch({"n": [0, 1, 2]})

    def close(self):
        return


def loader(failures=0):
    numbers = fp.read_sql("numbers", "numbers://", partition_on="n", driver=Numbers(failures))
    return fp.Loader(numbers.map(itemgetter("n")), Recorded())


def test_the_service_starts_before_the_first_look():
    with loader() as numbers:
        for _ in range(2):
            assert list(iter(numbers)) == [0, 1, 2]  # `list(numbers)` would ask for the length first
    assert EVENTS == ["start", "look", "close"]


def test_a_look_that_fails_leaves_nothing_behind():
    numbers = loader(failures=1)
    with pytest.raises(SourceError, match="the server is busy"):
        next(iter(numbers))
    assert EVENTS == ["start", "look", "close"]
    copy = pickle.loads(pickle.dumps(numbers))
    for each in numbers, copy:
        EVENTS.clear()
        with each:
            assert list(iter(each)) == [0, 1, 2]
        assert EVENTS == ["start", "look", "close"]


def test_a_pipe_that_is_refused_starts_nothing():
    numbers = fp.read_sql("numbers", "numbers://", partition_on="n", driver=Numbers())
    with pytest.raises(ArgumentError, match="`shards`"):
        fp.Loader(numbers, Recorded(), shards=0)
    assert EVENTS == []


def test_ranks_that_are_refused_start_nothing():
    numbers = fp.read_sql("numbers", "numbers://", partition_on="n", driver=Numbers())
    with pytest.raises(PlanError), fp.Loader(numbers, Recorded(), rank=0, world_size=2) as loader:
        next(iter(loader))
    assert EVENTS == []
