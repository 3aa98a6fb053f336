"""Cursors of a state, and those inside their tokens, are checked when the state is loaded."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import StateError
from feedpipe.extensions import Block, Cursor, Operator, Order

from .signing import signed

PACKAGE = Path(fp.__file__).parent
STREAMED = fp.from_sequence(range(12)).filter(lambda x: True)


def begun_state(pipe, elements=3, **options):
    """The state of a loader after some elements, and its position."""
    loader = fp.Loader(pipe, **options)
    for _ in zip(range(elements), loader, strict=False):
        pass
    state = loader.state_dict()
    return state, json.loads(state["position"])


def loaded(pipe, state, position, **options):
    """A loader that has loaded a state with another position."""
    resumed = fp.Loader(pipe, **options)
    resumed.load_state_dict(signed({**state, "position": json.dumps(position)}))
    return resumed


def test_a_wrong_cursor_of_a_later_shard_is_refused_before_it_runs():
    pipe = STREAMED.shuffle(window=4)
    state, position = begun_state(pipe, shards=3)
    position["cursors"]["2"][0] = {"x": 1}
    with pytest.raises(
        StateError, match=r"position.cursors.2` does not fit this pipe: no cursor of `.shuffle\(window=4"
    ):
        loaded(pipe, state, position, shards=3)


@dataclass(frozen=True)
class OwnTokens(Operator):
    """An operator that names no cursors of its input."""

    kind: ClassVar[str] = "own_tokens"
    order: ClassVar[Order] = Order.ROW_LOCAL

    def blocks(self, stage, at, context):
        (source,) = at.token or [None]
        for block in stage.input.blocks(Cursor.of(source), context):
            yield Block(
                block.rows,
                Cursor([block.at.plain], 0, block.at.position),
                Cursor([block.end.plain], 0, block.end.position),
            )


def test_a_token_that_only_its_operator_can_read_is_refused_when_its_shard_begins():
    pipe = STREAMED.then(OwnTokens())
    state, position = begun_state(pipe, shards=3)
    position["cursors"]["2"][0] = [1, 2]
    resumed = loaded(pipe, state, position, shards=3)
    with pytest.raises(StateError, match=r"`position` of the state does not fit this pipe: shard 2 cannot begin"):
        list(resumed)


NUMBERS = fp.from_sequence(range(40)).filter(lambda row: row >= 0)
NESTED = {
    "batch": lambda: NUMBERS.batch(3),
    "batch_by_size": lambda: NUMBERS.batch_by_size(9, lambda row: 2),
    "batch_by_size, window": lambda: NUMBERS.batch_by_size(9, lambda row: 2, window=8),
    "bucket_by_length": lambda: NUMBERS.bucket_by_length(3, lambda row: row, window=8),
    "cache": lambda: NUMBERS.cache(),
    "concat": lambda: NUMBERS.concat(NUMBERS),
    "dispatch": lambda: NUMBERS.dispatch(),
    "distinct": lambda: NUMBERS.distinct(last=5),
    "enumerate": lambda: NUMBERS.enumerate(),
    "filter": lambda: NUMBERS.filter(lambda row: True),
    "flat_map": lambda: NUMBERS.flat_map(lambda row: [row, row]),
    "fork": lambda: NUMBERS.fork()[0],
    "group_by": lambda: NUMBERS.group_by(lambda row: row % 2, size=2, window=8),
    "interleave": lambda: NUMBERS.interleave(lambda row: [row, row], cycle=2),
    "map": lambda: NUMBERS.map(abs),
    "map, concurrent": lambda: NUMBERS.map(abs, concurrency=2),
    "map_batches": lambda: NUMBERS.map_batches(list, 3),
    "mix": lambda: NUMBERS.mix(NUMBERS, weights=[2, 1]),
    "pack": lambda: NUMBERS.map(lambda row: np.full(3, row)).pack(4),
    "pack, fit": lambda: NUMBERS.map(lambda row: np.full(3, row)).pack(4, strategy="fit", window=8),
    "prefetch": lambda: NUMBERS.prefetch(2),
    "repeat": lambda: NUMBERS.repeat(2),
    "resample": lambda: NUMBERS.resample(lambda row: row % 2, target="uniform", source={0: 0.3, 1: 0.7}),
    "round_robin": lambda: NUMBERS.round_robin(NUMBERS),
    "row generator": lambda: NUMBERS.pipe(fp.operator(lookback=1)(lambda rows: iter(rows))),
    "shuffle": lambda: NUMBERS.shuffle(window=4),
    "skip": lambda: NUMBERS.skip(1),
    "skip_while": lambda: NUMBERS.skip_while(lambda row: row < 2),
    "sliding": lambda: NUMBERS.sliding(3),
    "take_while": lambda: NUMBERS.take_while(lambda row: row < 30),
    "unbatch": lambda: NUMBERS.batch(3).unbatch(),
    "zip": lambda: NUMBERS.zip(NUMBERS),
    "zip_longest": lambda: NUMBERS.zip_longest(NUMBERS),
    "zip_by_key": lambda: NUMBERS.zip_by_key(NUMBERS, key=lambda row: row),
}


def damaged_inside(plain):
    """A cursor of a `filter` whose input is indexed, with another cursor of that, wherever it is in a token."""
    if isinstance(plain, list) and len(plain) == 3 and plain[0] is None and all(type(n) is int for n in plain[1:]):
        return [{"x": 1}, 0, 0]
    return [damaged_inside(value) for value in plain] if isinstance(plain, list) else plain


@pytest.mark.parametrize("name", NESTED)
def test_a_cursor_inside_a_token_is_checked_when_the_state_is_loaded(name):
    pipe = NESTED[name]()
    state, position = begun_state(pipe)
    loaded(pipe, state, position)
    wrong = damaged_inside(position["cursors"]["0"])
    assert wrong != position["cursors"]["0"]
    with pytest.raises(StateError, match=r"position.cursors.0` does not fit this pipe: no cursor of `"):
        loaded(pipe, state, {**position, "cursors": {"0": wrong}})


@pytest.mark.parametrize(
    "pipe", [NUMBERS.repeat(), NUMBERS.repeat().filter(lambda row: True), NUMBERS.repeat().shuffle(window=4).batch(2)]
)
def test_a_cursor_does_not_skip_an_endless_repeat(pipe):
    state, position = begun_state(pipe, steps=10, shards=1)
    token, _, row = position["cursors"]["0"][:3]
    for cursor in ([token, 2**62, row], [None, 2**62, 0]):
        with pytest.raises(StateError, match=r"skips 4611686018427387904 rows of a `repeat\(\)`"):
            loaded(pipe, state, {**position, "cursors": {"0": cursor}}, steps=10, shards=1)


def operators():
    """All operators of the package that make blocks of those of inputs."""
    for path in sorted([*PACKAGE.glob("ops/**/*.py"), *PACKAGE.glob("plan/*.py")]):
        module = importlib.import_module(".".join(("feedpipe", *path.relative_to(PACKAGE).with_suffix("").parts)))
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Operator) and value.__module__ == module.__name__:
                yield value


def test_each_operator_names_the_cursors_in_its_tokens():
    streamed = [op for op in operators() if op.blocks is not Operator.blocks]
    # Nothing runs it.
    without = {op.__name__ for op in streamed if op.input_cursors is Operator.input_cursors}
    assert len(streamed) > 40 and without == {"LocalOperator"}


def test_a_deep_stack_is_no_damage_of_a_state() -> None:
    pipe: fp.Pipe[int] = fp.from_sequence(range(50))
    for _ in range(140):
        pipe = pipe.filter(bool)
    loader = fp.Loader(pipe, shards=1)
    assert next(iter(loader)) == 1
    state = loader.state_dict()

    def load_at(depth: int) -> None:
        if depth:
            load_at(depth - 1)
        else:
            fp.Loader(pipe, shards=1).load_state_dict(state)

    used = len(inspect.stack())
    with pytest.raises(RecursionError):
        load_at(sys.getrecursionlimit() - used - 140)
    load_at(0)
