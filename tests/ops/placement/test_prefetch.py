from __future__ import annotations

import threading

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError
from feedpipe.testing import check_operator


@pytest.mark.parametrize("source", [fp.from_sequence(range(30)), fp.from_sequence(range(30)).filter(lambda x: True)])
@pytest.mark.parametrize("count", [1, 3, 100])
def test_law(source, count):
    assert check_operator(source.prefetch(count)) == list(range(30))
    assert check_operator(source.prefetch(count).batch(4).prefetch(2), samples=4)[-1] == [28, 29]


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "feedpipe-prefetch"]


def ended(running: list[threading.Thread]) -> bool:
    for thread in running:
        thread.join(10)
    return not any(thread.is_alive() for thread in running)


@pytest.mark.parametrize(
    "source", [fp.from_sequence(range(10**6)), fp.from_sequence(range(10**6)).filter(lambda x: True)]
)
def test_the_thread_ends_with_its_iterator(source):
    iterator = iter(source.prefetch(4))
    assert next(iterator) == 0
    running = threads()
    assert len(running) == 1
    del iterator
    assert ended(running)
    loader = fp.Loader(source.prefetch(4).batch(2))
    loader_iterator = iter(loader)
    next(loader_iterator)
    assert threads()
    loader.close()
    assert threads() == []


def test_the_thread_stays_close_to_its_consumer():
    produced: list[int] = []
    reached = threading.Event()

    def row(x: int) -> int:
        produced.append(x)
        if x == 5:
            reached.set()
        return x

    iterator = iter(fp.from_iterable(range(10**6)).map(row).prefetch(8))
    next(iterator)
    assert reached.wait(10)
    running = threads()
    del iterator
    assert ended(running)
    assert len(produced) < 100


def test_an_error_comes_after_the_rows_before_it():
    rows: list[float] = []
    with pytest.raises(fp.RowError, match="ZeroDivisionError"):
        rows.extend(fp.from_sequence([1, 2, 0, 4]).filter(lambda x: True).map(lambda x: 1 / x).prefetch(10))
    assert rows == [1.0, 0.5]
    assert ended(threads())


def test_no_thread_when_debugging():
    loader = fp.Loader(fp.from_sequence(range(9)).prefetch(2), fp.InProcess(debug=True))
    next(iter(loader))
    assert threads() == []
    with pytest.raises(ArgumentError, match="`count` must be >= 1"):
        fp.from_sequence("a").prefetch(0)
