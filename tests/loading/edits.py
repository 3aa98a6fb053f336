"""Random chains that are edited in the middle of a pass, and the jobs that go on with them, for tests of edits."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import feedpipe as fp
from feedpipe.errors import StateError

from ..support.loading import State
from .elastic import Job

Pipe = fp.Pipe[Any]
Step = tuple[Any, ...]
Row = tuple[str, Any]


def same(row: Row) -> Row:
    return row


def kept(row: Row) -> bool:
    return row[1] % 3 != 1


def several(row: Row) -> list[Row]:
    return [(row[0], (row[1], copy)) for copy in range(row[1] % 3)]


def listed(rows: list[Row]) -> list[Row]:
    return list(rows)


def copied(rows: list[Row]) -> list[Row]:
    return [*rows]


def pair(row: dict[str, Any]) -> Row:
    return row["name"], row["number"]


ROWS_OF_FILE = 5


@cache
def folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


@cache
def file_of(name: str, number: int) -> str:
    """A file of a few rows."""
    path = f"{folder().name}/{name}-{number:03}.jsonl"
    with open(path, "w") as file:
        for row in range(number * ROWS_OF_FILE, (number + 1) * ROWS_OF_FILE):
            file.write(json.dumps({"name": name, "number": row}) + "\n")
    return path


INDEXED = ("plain", "shuffle", "map", "split")
STREAMED = ("filter", "window", "flat", "iterable", "lines", "files")


@dataclass(frozen=True)
class Source:
    """A source of rows that are all different: its name and a number."""

    name: str
    rows: int
    kind: str

    def made(self, chance: random.Random) -> Pipe:
        pipe: Pipe = fp.from_sequence([(self.name, number) for number in range(self.rows)])
        files = [file_of(self.name, number) for number in range(-(-self.rows // ROWS_OF_FILE))]
        match self.kind:
            case "split":
                return pipe.split({"train": 0.7, "rest": 0.3})["train"].shuffle()
            case "lines":
                return fp.read_jsonl(files).map(pair)
            case "files":
                return fp.list_files(files).shuffle().open_files().parse_jsonl().shuffle(window=6).map(pair)
            case "shuffle":
                return pipe.shuffle()
            case "map":
                return pipe.map(same).shuffle()
            case "filter":
                return pipe.filter(kept)
            case "window":
                return pipe.filter(kept).shuffle(window=5)
            case "flat":
                return pipe.flat_map(several)
            case "iterable":
                return fp.from_iterable([(self.name, number) for number in range(self.rows)])
            case _:
                return pipe

    def all_rows(self) -> set[Row]:
        return {*self.made(random.Random(0))}


@dataclass(frozen=True)
class Chain:
    """Sources, how they are joined (the last two perhaps before the others), and what is done with the rows then."""

    sources: tuple[Source, ...]
    join: str = "mix"
    inner: str | None = None
    weights: Any = None
    is_random: bool = False
    steps: tuple[Step, ...] = ()
    is_named: bool = False

    def pipe(self) -> Pipe:
        pipes = {source.name: source.made(random.Random(0)) for source in self.sources}
        first, *others = pipes.values()
        if self.inner is not None and not self.is_named and len(others) > 1:
            others[-2:] = [getattr(others[-2], self.inner)(others[-1])]
        if not others and self.join != "mix":
            pipe = first
        elif self.join == "mix" and self.is_named:
            pipe = fp.mix(pipes, weights=self.weights_by_name(), random=self.is_random)
        elif self.join == "mix":
            pipe = first.mix(*others, weights=self.weights_of(1 + len(others)), random=self.is_random)
        else:
            pipe = getattr(first, self.join)(*others)
        for name, *arguments in self.steps:
            pipe = getattr(pipe, name)(*arguments)
        return pipe

    def weights_by_name(self) -> Any:
        names = [source.name for source in self.sources]
        if isinstance(self.weights, dict):
            return {row: dict(zip(names, weights, strict=True)) for row, weights in self.weights.items()}
        return self.weights and dict(zip(names, self.weights, strict=True))

    def weights_of(self, inputs: int) -> Any:
        if isinstance(self.weights, dict):
            return {row: weights[:inputs] for row, weights in self.weights.items()}
        return self.weights[:inputs] if self.weights and any(self.weights[:inputs]) else None


@dataclass
class Edits:
    """Random edits of chains.

    Attributes:
        chance: the source of all choices.
        kinds: the edits to choose from.
        is_indexed: the chains are indexed.
    """

    chance: random.Random
    kinds: tuple[str, ...]
    is_indexed: bool
    fresh: Iterator[str] = field(default_factory=lambda: iter("nopqrstuvwxyz"))

    def chain(self) -> Chain:
        chance = self.chance
        many = {*self.kinds} & {"weights", "add", "drop", "order", "join"}
        count = chance.choice([1, 2, 2, 3, 4]) if many or chance.random() < 0.2 else 1
        sources = [self.source(name) for name in "abcd"[:count]]
        if not self.is_indexed and all(source.kind in INDEXED for source in sources):
            sources[0] = replace(sources[0], kind=chance.choice(STREAMED))
        is_named = chance.random() < 0.4
        join = chance.choice(["mix", "mix", "round_robin", "concat"]) if count > 1 else "none"
        join = "mix" if is_named else join
        steps = self.steps(is_batched=chance.random() < 0.9)
        return Chain(tuple(sources), join, self.inner(), self.weights(count), chance.random() < 0.3, steps, is_named)

    def inner(self) -> str | None:
        return self.chance.choice([None, "mix", "round_robin", "concat"])

    def source(self, name: str) -> Source:
        kinds = INDEXED if self.is_indexed else STREAMED + INDEXED
        return Source(name, self.chance.choice([1, 5, 17, 40, 101]), self.chance.choice(kinds))

    def weights(self, count: int) -> Any:
        chance = self.chance
        whole = [chance.choice([0, 1, 2]) for _ in range(count)]
        some = [chance.choice([1, 2, 3, 0.5, 7]) for _ in range(count)]
        later = {0: some, chance.choice([1, 7, 40]): [*reversed(some)], chance.choice([20, 90]): [1] * count}
        return chance.choice([None, some, whole if any(whole) else None, later])

    def steps(self, *, is_batched: bool) -> tuple[Step, ...]:
        chance = self.chance
        steps: list[Step] = [("map", same)] if chance.random() < 0.2 else []
        if is_batched:
            size = chance.choice([1, 2, 3, 4, 5, 7, 11])
            steps.append(("batch", {0: size, chance.choice([9, 30]): 4} if chance.random() < 0.3 else size))
            if chance.random() < 0.3:
                steps.append(("map", chance.choice([listed, copied])))
        if chance.random() < 0.2:
            steps.append(("prefetch", 2))
        return tuple(steps)

    def edited(self, chain: Chain) -> Chain:
        """Another chain, after one or two edits."""
        for _ in range(self.chance.choice([1, 1, 2])):
            kind = self.chance.choice(self.kinds)
            chain = getattr(self, f"_{kind}")(chain)
        return chain

    def _batch(self, chain: Chain) -> Chain:
        return replace(chain, steps=self.steps(is_batched=True))

    def _rows(self, chain: Chain) -> Chain:
        return replace(chain, steps=self.steps(is_batched=False))

    def _dress(self, chain: Chain) -> Chain:
        steps = [step for step in chain.steps if step[-1] not in (listed, copied)]
        if any(step[0] == "batch" for step in steps):
            steps.append(("map", self.chance.choice([listed, copied])))
        return replace(chain, steps=tuple(steps))

    def _weights(self, chain: Chain) -> Chain:
        return replace(chain, weights=self.weights(len(chain.sources)))

    def _random(self, chain: Chain) -> Chain:
        return replace(chain, is_random=not chain.is_random)

    def _add(self, chain: Chain) -> Chain:
        sources = [*chain.sources]
        if len(sources) < 5:
            sources.insert(self.chance.randint(0, len(sources)), self.source(next(self.fresh)))
        join = "mix" if chain.join == "none" else chain.join
        return replace(chain, sources=tuple(sources), join=join, weights=self.weights(len(sources)))

    def _drop(self, chain: Chain) -> Chain:
        sources = [*chain.sources]
        if len(sources) > 1:
            sources.pop(self.chance.randrange(len(sources)))
        if not self.is_indexed and all(source.kind in INDEXED for source in sources):
            return chain
        return replace(chain, sources=tuple(sources), weights=self.weights(len(sources)))

    def _grow(self, chain: Chain) -> Chain:
        sources = [*chain.sources]
        number = self.chance.randrange(len(sources))
        if sources[number].kind != "iterable":
            rows = sources[number].rows + self.chance.choice([1, 6, 20, 60])
            sources[number] = replace(sources[number], rows=rows)
        return replace(chain, sources=tuple(sources))

    def _order(self, chain: Chain) -> Chain:
        sources = self.chance.sample(chain.sources, len(chain.sources))
        return replace(chain, sources=tuple(sources))

    def _join(self, chain: Chain) -> Chain:
        is_fixed = chain.is_named or len(chain.sources) == 1
        join = chain.join if is_fixed else self.chance.choice(["mix", "round_robin", "concat"])
        return replace(chain, join=join, inner=self.inner())


def rows_of(element: Any) -> list[Row]:
    return element if isinstance(element, list) else [element]


class EditedJob(Job):
    """The loaders of all ranks of a job whose chain may have changed."""

    def __init__(self, chain: Chain, ranks: int, states: Any = None, edits: str = "groups", **options: Any) -> None:
        super().__init__(chain.pipe(), ranks, states, edits, seed=5, **options)

    @property
    def resumed(self) -> object:
        return self.loaders[0].resumed if self.loaders else None

    def rest_and_states(self) -> tuple[list[Any], list[State]]:
        """The elements that are left of the first epoch, and the states after them."""
        elements: list[Any] = []
        states: list[State] = []
        for loader in self.loaders:
            states.append(loader.state_dict())
            if loader.epoch:
                continue
            goal, step = int(str(states[-1]["goal"])), loader.step
            for element, info in loader.with_info():
                if info.epoch:
                    break
                step += 1
                elements += [element] if np.all(info.valid) else []
                states[-1] = info.state_dict()
            assert goal in (-1, step), "a length that is known is right"
        return elements, states


@dataclass
class Pass:
    """A pass that lives through edits: the rows that it gave, those that it should give, and why edits were refused."""

    rows: Counter[Row] = field(default_factory=Counter)
    wanted: set[Row] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    edits: int = 0
    log: list[object] = field(default_factory=list)

    def check_ledger(self, chain: Chain, states: list[State], *, is_complete: bool = False) -> None:
        """Compares the ledger with the rows that came; ranks of an indexed pipe know those of all."""
        if not chain.is_named:
            return
        is_indexed = states[0]["shards"] == 0
        if is_indexed and not is_complete and len({(state["epoch"], state["position"]) for state in states}) > 1:
            return
        ledgers = [json.loads(str(state["ledger"]))["rows"] for state in states]
        combined = max if is_indexed else sum
        found = {name: combined(sum(ledger[name]) for ledger in ledgers) for name in ledgers[0]}
        counted = Counter(name for name, _ in self.rows.elements())
        assert found == {name: counted[name] for name in found}, "\n".join(map(str, self.log))
        assert counted.keys() <= found.keys()

    def check(self) -> None:
        doubled = {row: count for row, count in self.rows.items() if count > 1}
        wanted = {row for row in self.wanted if row[0] not in self.dropped}
        log = "\n".join(map(str, self.log))
        assert not doubled, f"doubled: {sorted(doubled, key=repr)[:5]}\n{log}"
        assert not wanted - self.rows.keys(), f"lost: {sorted(wanted - self.rows.keys(), key=repr)[:5]}\n{log}"
        assert self.rows.keys() <= self.wanted, log


def edited_pass(
    seed: int,
    kinds: tuple[str, ...],
    *,
    ranks_change: bool,
    kind: type[EditedJob] = EditedJob,
    most_ranks: int = 6,
    is_even: bool = False,
    **options: Any,
) -> Pass:
    """Runs a pass through one to three edits, and checks that each row of it comes once."""
    chance = random.Random(seed)
    edits = Edits(chance, kinds, chance.random() < 0.5)
    chain, result = edits.chain(), Pass()
    ranks = min(most_ranks, chance.choice([1, 1, 2, 3, 4]))
    if not edits.is_indexed and chance.random() < 0.5:
        options = {**options, "shards": ranks * chance.choice([1, 2, 3])}
    job = kind(chain, ranks, **options)
    result.log.append(("begins", chain, ranks, options))
    result.wanted |= {row for source in chain.sources for row in source.all_rows()}
    for _ in range(chance.choice([1, 1, 2, 3])):
        steps = chance.choice([0, 1, 2, 3, 5, 9, 20])
        uneven = chance.random() < 0.3 and not is_even
        elements, states = job.take([steps + (chance.choice([0, 0, 1, 2]) if uneven else 0) for _ in range(ranks)])
        result.rows.update(row for element in elements for row in rows_of(element))
        result.log.append(("takes", len(elements), [state["position"] for state in states]))
        result.check_ledger(chain, states)
        if any(state["epoch"] for state in states):
            if not all(state["epoch"] for state in states):
                job.close()
                job = kind(chain, ranks, states.__getitem__, **options)
            break
        now = edits.edited(chain)
        before, ranks_before = ranks, ranks
        if ranks_change and chance.random() < 0.5:
            ranks = min(most_ranks, chance.choice([1, 2, 3, 4, 6]))
        begun = all(state["position"] != "null" for state in states)
        at_one_place = not edits.is_indexed or len({str(state["position"]) for state in states}) == 1
        own = ranks == before and begun and at_one_place and chance.random() < 0.5
        options.pop("shards", None)
        result.log.append(("edit", now, ranks, "own" if own else "all"))
        job.close()
        try:
            job = kind(now, ranks, states.__getitem__ if own else states, "drop", **options)
        except StateError as error:
            result.refused.append(str(error).partition("it does not go on, because ")[2] or str(error))
            result.log.append(("refused", str(error)))
            job, ranks = kind(chain, ranks_before, states, **options), ranks_before
            continue
        resumed = job.resumed
        result.log.append(("resumed", resumed))
        result.edits += resumed is not None
        names = {source.name for source in now.sources}
        result.dropped |= {source.name for source in chain.sources} - names
        result.wanted |= {row for source in now.sources for row in source.all_rows()}
        chain = now
        if chance.random() < 0.3:  # a state of an edited pass is a state like any other
            _, again = job.take([0] * ranks)
            result.check_ledger(chain, again)
            twin = kind(chain, ranks, again.__getitem__ if begun else again, **options)
            rest, states = twin.rest_and_states()
            twin.close()
            assert rest == job.rest_and_states()[0], result.log
            job.close()
            result.rows.update(row for element in rest for row in rows_of(element))
            result.check_ledger(chain, states, is_complete=True)
            result.check()
            return result
    rest, states = job.rest_and_states()
    result.rows.update(row for element in rest for row in rows_of(element))
    result.check_ledger(chain, states, is_complete=True)
    job.close()
    result.check()
    return result
