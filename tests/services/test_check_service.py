"""`check_part`, which holds what services promise, finds the faults of one that does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import RowError
from feedpipe.extensions import Step

from ..support.testing import check_part

Items = Iterator[Any]


@dataclass(frozen=True)
class Broken:
    """`InProcess` with `change` applied to the items of its sessions."""

    change: Callable[[Items], Items]
    workers: int = 0
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


def with_quiet_errors(items: Items) -> Items:
    try:
        yield from items
    except RowError:
        return


def without_cause(items: Items) -> Items:
    try:
        yield from items
    except RowError as error:
        error.__cause__ = None
        raise


def with_a_file(items: Items) -> Items:
    kept.append(open("/dev/null"))  # noqa: SIM115
    return items


kept: list[Any] = []


@pytest.mark.parametrize(
    ("change", "part", "words"),
    [
        (without_the_first, "indexed", "epoch 0: element 0 is"),
        (swapped, "indexed", "element 0 is"),
        (twice, "indexed", "element 3 is"),
        (with_cursors_before, "streamed", "what follows element"),
        (without_leftovers, "streamed", "what follows element 10 of epoch 0"),
        (with_quiet_errors, "failing", "a pipe that must fail gave all"),
        (without_cause, "failing", "should have the cause SampleError"),
        (with_a_file, "epochs", "open files"),
    ],
)
def test_faults_are_found(change, part, words):
    with pytest.raises(AssertionError) as caught:
        check_part(part, Broken(change))
    assert words in str(caught.value)
    while kept:
        kept.pop().close()
