"""What is left of shards is dealt among ranks again and again: each element once, evenly, in few bytes."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.extensions import Operator

from ..soak import SOAK
from ..support.examples import examples
from ..support.plan import PARTS, Redivision, Rest, dealt, numbered


def elements_of(rest: Rest, elements: range, chance: random.Random) -> list[int]:
    """The elements of a shard that belong to a rest, looked up in blocks of random lengths."""
    own, first = list[int](), 0
    while first < len(elements):
        count = chance.randint(1, len(elements) - first)
        own += [first + int(place) for place in rest.top.places(first, count)]
        first += count
    return own


@settings(max_examples=examples(60 * SOAK), deadline=None)
@given(seed=st.integers(0, 10**9))
def test_each_element_belongs_to_one_rest(seed: int) -> None:
    chance = random.Random(seed)
    shards, elements = chance.choice([1, 3, 8, 48]), range(chance.choice([1, 50, 101]))
    rests = [Rest.of_shard(shard, None) for shard in range(shards)]
    for _ in range(chance.randint(1, 6)):
        ranks = chance.choice([1, 2, 5, 12, 64])
        of_ranks = dealt(rests, ranks, lambda rest: rest.part)
        numbers = numbered(of_ranks, shards + -shards % ranks)
        assert [rest for of_rank in of_ranks for rest in of_rank] == [
            rest for rank in range(ranks) for number, rest in numbers.items() if number % ranks == rank
        ]
        rests = [rest for of_rank in of_ranks for rest in of_rank]
        for shard in range(shards):
            of_shard = [rest for rest in rests if rest.shard == shard]
            own = [elements_of(rest, elements, chance) for rest in of_shard]
            assert sorted(element for part in own for element in part) == [*elements]
            assert [rest.top.count(len(elements)) for rest in of_shard] == [*map(len, own)]
            for rest, part in zip(of_shard, own, strict=True):
                taken = chance.randint(0, len(part))
                after = rest.top.after(None, taken).position
                assert rest.top.count(after) == taken and after <= len(elements)
        weights = [float(sum(rest.top.weight for rest in of_rank)) for of_rank in of_ranks]
        assert max(weights) - min(weights) <= 2 / PARTS * shards / ranks, "each border is right to half a part"
        plain = Redivision(shards, 1, 0, "digest", numbers).plain
        assert Redivision.of(json.loads(json.dumps(plain))) == Redivision(shards, 1, 0, "digest", numbers)


def operators() -> Iterator[type[Operator]]:
    """All operators of the package that make blocks of those of inputs."""
    package = Path(fp.__file__).parent
    for path in sorted([*package.glob("ops/**/*.py"), *package.glob("plan/*.py")]):
        module = importlib.import_module(".".join(("feedpipe", *path.relative_to(package).with_suffix("").parts)))
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Operator) and value.__module__ == module.__name__:
                yield value


def test_each_operator_names_the_cursors_in_its_tokens() -> None:
    streamed = [op for op in operators() if op.blocks is not Operator.blocks]
    # Nothing runs it.
    without = {op.__name__ for op in streamed if op.input_cursors is Operator.input_cursors}
    assert len(streamed) > 40 and without == {"LocalOperator"}
