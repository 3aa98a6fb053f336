"""The ledger counts the rows of named sources in the elements that were taken, whatever a pass lives through."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp

from ..soak import SOAK
from ..support.examples import examples
from ..support.loading import Ledger

Pipe = fp.Pipe[Any]
Row = tuple[str, int]
SIZES = (1, 3, 7, 20, 64)


def kept(row: Row) -> bool:
    return row[1] % 3 != 1


def mostly(row: Row) -> Row:
    if row[1] % 5 == 2:
        raise ValueError("a row that fails")
    return row


def same(row: Row) -> Row:
    return row


def copied(rows: list[Row]) -> list[Row]:
    return [*rows]


def several(row: Row) -> list[tuple[Row, int]]:
    return [(row, copy) for copy in range(row[1] % 3)]


def size_of(row: Row) -> int:
    return row[1] % 7 + 1


class Chains:
    """Random chains over named sources; each row has the path of names to it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.names: set[str] = set()

    def source(self, path: str) -> Pipe:
        chance = self.chance
        if path.count("/") < 1 and chance.random() < 0.2:
            return self.mixture(f"{path}/")
        pipe: Pipe = fp.from_sequence([(path, number) for number in range(chance.choice(SIZES))])
        match chance.choice(["plain", "shuffle", "filter", "window", "skip", "iterable", "twice"]):
            case "shuffle":
                return pipe.shuffle()
            case "filter":
                return pipe.filter(kept)
            case "window":
                return pipe.filter(kept).shuffle(window=5)
            case "skip":
                return pipe.map(mostly, on_error="skip") if chance.random() < 0.4 else pipe.map(same)
            case "iterable":
                return fp.from_iterable([(path, number) for number in range(chance.choice(SIZES))])
            case "twice":
                return pipe.repeat(2)
            case _:
                return pipe

    def mixture(self, branch: str = "") -> Pipe:
        chance = self.chance
        names = [branch + name for name in "xyz"[: chance.choice([1, 2, 2, 3])]]
        self.names.update(names)
        pipes = {name.rpartition("/")[2]: self.source(name) for name in names}
        weights = chance.choice([None, {name: chance.choice([1, 2, 5]) for name in pipes}])
        by = size_of if chance.random() < 0.2 else None
        return fp.mix(pipes, weights=weights, by=by, random=by is None and chance.random() < 0.2)

    def pipe(self) -> Pipe:
        chance, pipe = self.chance, self.mixture()
        if chance.random() < 0.15:
            pipe = pipe.concat(fp.from_sequence([("plain", number) for number in range(9)]))
        for _ in range(chance.choice([0, 1, 1, 2])):
            match chance.choice(["shuffle", "window", "filter", "skip", "flat", "map", "take", "prefetch"]):
                case "shuffle" if pipe.indexed:
                    pipe = pipe.shuffle()
                case "window":
                    pipe = pipe.shuffle(window=chance.choice([2, 9, 40]))
                case "filter":
                    pipe = pipe.filter(kept)
                case "skip" if chance.random() < 0.5:
                    pipe = pipe.map(mostly, on_error="skip")
                case "map":
                    pipe = pipe.map(same)
                case "take":
                    pipe = pipe.take(50)
                case "prefetch":
                    pipe = pipe.prefetch(2)
                case _:
                    pass
        match chance.choice(["batch", "batch", "limit", "none", "flat", "pairs"]):
            case "batch":
                pipe = pipe.batch(chance.choice([1, 2, 5, 8]), drop_last=chance.random() < 0.3)
                return pipe.map(copied) if chance.random() < 0.3 else pipe
            case "limit":
                return pipe.batch_by_size(12, size_of)
            case "flat":
                return pipe.flat_map(several)
            case "pairs":
                return pipe.batch(2).batch(3)
            case _:
                return pipe


def rows_of(element: Any) -> Iterator[Row]:
    """The rows of an element that count: of one that was expanded, the first item."""
    if isinstance(element, list):
        for each in element:
            yield from rows_of(each)
    elif isinstance(element[0], tuple):
        if not element[1]:
            yield element[0]
    else:
        yield element


class Recount:
    """The rows that came, by source."""

    def __init__(self, chains: Chains) -> None:
        self.rows: Counter[str] = Counter(dict.fromkeys(chains.names, 0))
        self.tokens: Counter[str] = Counter()

    def add(self, element: Any) -> None:
        for row in rows_of(element):
            parts = row[0].split("/")
            for depth in range(1, len(parts) + 1):
                if (name := "/".join(parts[:depth])) in self.rows:
                    self.rows[name] += 1
                    self.tokens[name] += size_of(row)

    def check(self, ledger: Ledger, *, is_pass: bool = False) -> None:
        found = {name: seen.pass_rows if is_pass else seen.rows for name, seen in ledger.items()}
        assert found == dict(self.rows)
        for name, seen in ledger.items():
            tokens = seen.pass_tokens if is_pass else seen.tokens
            assert tokens in (None, self.tokens[name])


def sum_of(loaders: list[fp.Loader[Any]]) -> Ledger:
    return fp.gather_ledger(json.loads(json.dumps([loader.state_dict() for loader in loaders])))


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@settings(max_examples=examples(24 * SOAK), deadline=None)
@given(seed=st.integers(0, 10**9))
def test_the_ledger_is_a_recount_of_the_rows_that_came(seed: int) -> None:
    check_recount(seed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@settings(max_examples=examples(8 * SOAK), deadline=None)
@given(seed=st.integers(0, 10**9))
def test_workers_count_the_same(seed: int) -> None:
    check_recount(seed, service=fp.MultiProcess(2))


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("steps", [None, 5])
def test_states_count_the_same_in_any_order(rank: int, steps: int | None) -> None:
    sources = {
        name: fp.from_sequence([(name, number) for number in range(size)]) for name, size in (("a", 7), ("b", 12))
    }
    with fp.Loader(fp.mix(sources).batch(2), rank=rank, world_size=2, steps=steps, even="drop") as loader:
        infos = [info for _ in range(4) for _, info in loader.with_info()]
        ledgers = [json.loads(str(info.state_dict()["ledger"])) for info in reversed(infos)]
    with fp.Loader(fp.mix(sources).batch(2), rank=rank, world_size=2, steps=steps, even="drop") as again:
        each = [json.loads(str(again.state_dict()["ledger"])) for _ in range(4) for _ in again]
    assert ledgers[::-1] == each


def check_recount(seed: int, **options: Any) -> None:
    chains = Chains(seed)
    pipe, recount, chance = chains.pipe(), Recount(chains), chains.chance
    ranks = chance.choice([1, 1, 2, 3])

    def job(ranks: int, states: Any = None) -> list[fp.Loader[Any]]:
        loaders = [fp.Loader(pipe, rank=n, world_size=ranks, even=None, seed=3, **options) for n in range(ranks)]
        for loader in loaders if states is not None else ():
            loader.load_state_dict(states)
        return loaders

    loaders = job(ranks)
    for _ in range(chance.choice([1, 2, 3])):
        steps = chance.choice([0, 1, 2, 5, 9])
        for loader in loaders:
            elements = iter(loader) if not loader.epoch else iter(())
            for _, element in zip(range(steps), elements, strict=False):
                recount.add(element)
        if len({(loader.epoch, loader.step) for loader in loaders}) > 1:
            break  # some ranks have come to their end
        recount.check(sum_of(loaders))
        states = json.loads(json.dumps([loader.state_dict() for loader in loaders]))
        if states[0]["epoch"]:
            return
        ranks = chance.choice([1, 2, 3, 4])
        for loader in loaders:
            loader.close()
        loaders = job(ranks, states)
        recount.check(sum_of(loaders))
    for loader in loaders:
        loader.close()
