"""`check_service` finds the faults of a reading service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import RowError
from feedpipe.extensions import Step

from ..support.check_service import check_part, check_service

Items = Iterator[Any]


@dataclass(frozen=True)
class Broken:
    """`InProcess` with `change` applied to the items of its sessions."""

    change: Callable[[Items], Items]
    workers: int = 0
    ordered: bool = True
    global_generators: bool = True

    def start(self) -> BrokenExecutor:
        return BrokenExecutor(self.change)


class BrokenExecutor:
    def __init__(self, change: Callable[[Items], Items]) -> None:
        self.inner = fp.InProcess().start()
        self.change = change

    def open(self, *args: Any) -> BrokenSession:
        return BrokenSession(self.inner.open(*args), self.change)

    def close(self) -> None:
        self.inner.close()


class BrokenSession:
    def __init__(self, inner: Any, change: Callable[[Items], Items]) -> None:
        self.inner = inner
        self.items = change(iter(inner))

    def __iter__(self) -> Items:
        return self.items

    def close(self) -> None:
        self.inner.close()


def whole(items: Items) -> Items:
    return items


def without_the_first(items: Items) -> Items:
    next(items)
    return items


def swapped(items: Items) -> Items:
    start = [item for _, item in zip(range(2), items, strict=False)]
    return chain(reversed(start), items)


def twice(items: Items) -> Items:
    for k, item in enumerate(items):
        yield item
        if k == 2:
            yield item


def with_cursors_before(items: Items) -> Items:
    cursors: dict[int, Any] = {}
    for item in items:
        if isinstance(item, Step):
            yield item._replace(cursor=cursors.get(item.shard, [None, 0, 0]))
            cursors[item.shard] = item.cursor
        else:
            yield item


def without_leftovers(items: Items) -> Items:
    return (item if isinstance(item, Step) else item._replace(leftover=None) for item in items)


def as_lists(items: Items) -> Items:
    return (item._replace(element=list(item.element)) if hasattr(item.element, "arrow") else item for item in items)


def with_quiet_errors(items: Items) -> Items:
    try:
        yield from items
    except RowError:
        return


def with_other_words(items: Items) -> Items:
    try:
        yield from items
    except RowError as error:
        raise type(error)("failed", operator=error.operator, where=error.where, origin=error.origin) from error


def without_cause(items: Items) -> Items:
    try:
        yield from items
    except RowError as error:
        error.__cause__ = None
        raise


def with_errors_first(items: Items) -> Items:
    yield from list(items)


def with_a_thread(items: Items) -> Items:
    if not threads:
        threads.append(threading.Thread(target=stop.wait, name="that-stays", daemon=True))
        threads[0].start()
    return items


def with_a_file(items: Items) -> Items:
    kept.append(open("/dev/null"))  # noqa: SIM115
    return items


stop = threading.Event()
threads: list[threading.Thread] = []
kept: list[Any] = []


@pytest.mark.parametrize(
    ("change", "part", "words"),
    [
        (without_the_first, "indexed", "epoch 0: element 0 is"),
        (swapped, "indexed", "element 0 is"),
        (twice, "indexed", "element 3 is"),
        (with_cursors_before, "streamed", "what follows element"),
        (without_leftovers, "streamed", "what follows element 10 of epoch 0"),
        (as_lists, "indexed", "element 0 is"),
        (with_quiet_errors, "failing", "a pipe that must fail gave all"),
        (with_other_words, "failing", "the error is RowError('failed"),
        (without_cause, "failing", "should have the cause SampleError"),
        (with_errors_first, "failing", "gave 0 elements"),
        (with_a_file, "epochs", "open files"),
    ],
)
def test_faults_are_found(change, part, words):
    with pytest.raises(AssertionError) as caught:
        check_part(part, Broken(change))
    assert words in str(caught.value)
    while kept:
        kept.pop().close()


def test_a_thread_that_stays_is_found(monkeypatch):
    monkeypatch.setattr("tests.support.check_service.MAX_WAIT_SECONDS", 0.001)
    try:
        with pytest.raises(AssertionError, match="thread that-stays"):
            check_part("indexed", Broken(with_a_thread))
    finally:
        stop.set()


def test_each_part_is_checked(monkeypatch):
    checked = []
    monkeypatch.setattr("tests.support.check_service.check_part", lambda part, *_: checked.append(part))
    check_service(Broken(whole))
    assert checked == ["indexed", "streamed", "files", "failing", "epochs"]


@pytest.mark.slow
def test_a_service_without_faults_passes():
    check_service(Broken(whole))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_the_first, "lacks"),
        (twice, "in excess"),
        (swapped, "has the order"),
    ],
)
def test_without_order(change, words):
    with pytest.raises(AssertionError, match=words):
        check_service(Broken(change, ordered=False))


def test_a_service_without_order_passes():
    check_service(Broken(whole, ordered=False))
