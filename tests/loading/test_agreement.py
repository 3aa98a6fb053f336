"""`AgreedItems`: all ranks end at one step, whatever their lengths and the speed of each. Ranks are threads here."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedpipe.errors import PlanError, RankError
from feedpipe.extensions import ShardEnd, Step

from ..support.examples import examples
from ..support.loading import PADDING, AgreedItems, Job

pytestmark = pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")


class Exchanges:
    """What ranks exchange: each asks for the n-th answer after it has given its own."""

    def __init__(self, ranks: int) -> None:
        self.numbers: list[list[list[int]]] = [[] for _ in range(ranks)]
        self.names: list[list[str]] = [[] for _ in range(ranks)]
        self.changed = threading.Condition()

    def answer(self, number: int) -> list[list[int]]:
        with self.changed:
            self.changed.wait_for(lambda: all(len(given) > number for given in self.numbers), timeout=30)
            assert len({names[number] for names in self.names}) == 1, "the ranks are at one place"
            return [given[number] for given in self.numbers]


class ThreadJob:
    """A `Job` of threads."""

    def __init__(self, rank: int, exchanges: Exchanges) -> None:
        self.rank = rank
        self.exchanges = exchanges

    def exchange(self, name: str, *numbers: int) -> int:
        with self.exchanges.changed:
            self.exchanges.names[self.rank].append(name)
            self.exchanges.numbers[self.rank].append([int(number) for number in numbers])
            self.exchanges.changed.notify_all()
            return len(self.exchanges.numbers[self.rank]) - 1

    def result(self, exchange: int) -> list[list[int]]:
        return self.exchanges.answer(exchange)

    def hear_from(self, rank: int) -> None:
        raise RankError(f"rank {rank}")


def items(length: int, fails: bool) -> Iterator[Step | ShardEnd]:
    """The elements of two shards; at the end there may be an error."""
    for number in range(length):
        if number == length // 2:
            yield ShardEnd(0)
        yield Step(number, 0, None)
    if fails:
        raise ZeroDivisionError
    yield ShardEnd(1)


def run(
    lengths: list[int], failing: set[int], even: str, memories: list[int], segments: Sequence[int] = (1,) * 9
) -> list[tuple[list[object], str]]:
    """What each rank takes, and why it stops."""
    exchanges = Exchanges(len(lengths))

    def take(rank: int) -> tuple[list[object], str]:
        job = cast("Job", ThreadJob(rank, exchanges))
        own = items(lengths[rank], rank in failing)
        agreed = AgreedItems(own, job, cast("Any", even), 0, memories[rank], segments[rank])
        taken: list[object] = []
        try:
            for item in agreed:
                if not isinstance(item, ShardEnd):
                    taken.append(item if item == PADDING else cast("Step", item).element)
        except (ZeroDivisionError, RankError, PlanError) as error:
            return taken, type(error).__name__
        return taken, "end"

    with ThreadPoolExecutor(len(lengths)) as pool:
        return list(pool.map(take, range(len(lengths))))


ranks = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(1, 40), min_size=n, max_size=n),
        st.sets(st.integers(0, n - 1), max_size=1),
        st.lists(st.sampled_from((1, 300, 2**20)), min_size=n, max_size=n),
        st.lists(st.integers(1, 50), min_size=n, max_size=n),
    )
)


@given(ranks, st.sampled_from(("drop", "pad", "error")))
@settings(max_examples=examples(60))
def test_all_ranks_end_at_one_step(case: tuple[list[int], set[int], list[int], list[int]], even: str) -> None:
    lengths, failing, memories, segments = case
    results = run(lengths, failing, even, memories, segments)
    whole = [length for rank, length in enumerate(lengths) if rank not in failing]
    ends = max(whole, default=0) if even == "pad" else min(lengths)
    limit = min((lengths[rank] for rank in failing), default=None)
    fails = limit is not None and (limit <= ends or not whole or even == "pad")
    steps = limit if fails and limit is not None else ends
    for rank, (taken, stop) in enumerate(results):
        own = list(range(min(steps, lengths[rank])))
        assert taken == own + [PADDING] * (steps - len(own))
        if fails:
            assert stop == ("ZeroDivisionError" if rank in failing else "RankError")
        elif even == "error" and len(set(lengths)) > 1:
            assert stop == "PlanError"
        elif even == "pad" or sum(lengths) - min(lengths) * len(lengths) <= 0.2 * sum(lengths):
            assert stop == "end"
        else:
            assert stop in ("end", "PlanError")  # it depends on how many elements the others hold at the end
    if not fails:
        assert len({stop for _, stop in results}) == 1


def test_a_rank_holds_few_elements_if_memory_is_small() -> None:
    made = 0

    def counted() -> Iterator[Step | ShardEnd]:
        nonlocal made
        for made in range(1, 1001):  # noqa: B007 - it counts what was made
            yield Step(bytes(1000), 0, None)

    agreed = AgreedItems(counted(), cast("Job", ThreadJob(0, Exchanges(1))), "drop", 0, 16_000)
    for taken, _ in enumerate(agreed, 1):
        assert made - taken <= 16
