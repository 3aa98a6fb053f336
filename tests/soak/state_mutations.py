"""States changed at random: each is refused, or goes on where the unchanged one does."""

from __future__ import annotations

import json
import random
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import FrameType
from typing import Any

import feedpipe as fp
from feedpipe.errors import StateError

ROWS = 60
HANG_SECONDS = 20


def _pairs(row: int) -> list[int]:
    return [row, row]


def _is_kept(row: int) -> bool:
    return row % 3 != 0


def _numbers() -> Iterator[int]:
    return iter(range(ROWS))


def _source() -> fp.Pipe[Any]:
    return fp.from_sequence(range(ROWS))


CHAINS: dict[str, Callable[[], fp.Pipe[Any]]] = {
    "indexed": lambda: _source().shuffle().batch(4),
    "indexed rows": lambda: _source().map(abs).repeat(2),
    "filter": lambda: _source().filter(_is_kept),
    "filter, window, batch": lambda: _source().filter(_is_kept).shuffle(window=8).batch(4),
    "window, drop_last": lambda: _source().shuffle(window=8).batch(7, drop_last=True),
    "flat_map": lambda: _source().flat_map(_pairs).batch(3),
    "unbatch": lambda: _source().filter(_is_kept).batch(5).unbatch().shuffle(window=6),
    "iterable": lambda: fp.from_iterable(_numbers).map(abs).batch(4),
    "slices": lambda: _source().filter(_is_kept).skip(3).take(30).batch(4),
    "concat": lambda: _source().filter(_is_kept).concat(_source().shuffle(window=4)),
    "zip": lambda: _source().filter(_is_kept).zip(_source().filter(_is_kept)).batch(3),
    "repeat": lambda: _source().filter(_is_kept).shuffle(window=4).repeat(3),
    "repeat without end": lambda: _source().filter(_is_kept).shuffle(window=4).repeat().batch(3),
    "enumerate, shard_by_rank": lambda: _source().shuffle(window=4).shard_by_rank().enumerate().batch(3),
    "draws": lambda: _source().filter(_is_kept).map(lambda row, rng: row, rng=True).prefetch(2).batch(4),
}

JUNK: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 7, 10**6, 2**62, 2**63, 10**40, 1.0, 1e308, "", "x", "0", "\x00"),
    *([], {}, [[]], [None, 0, 0], [0, [None, 0, 0]], {"0": None}, [None] * 4),
)


class Hang(BaseException):
    """A load or a run takes too long."""


def main(count: int, seed: int = 0) -> str:
    """Changes `count` states.

    Returns:
        A line with how many of them were refused, and how many went on.

    Raises:
        AssertionError: one ended in another error, hung, or gave other rows; the message has the seed that repeats it.
    """
    ends: Counter[str] = Counter()
    for number in range(seed, seed + count):
        try:
            ends[_case(random.Random(number))] += 1
        except BaseException as error:
            text = "".join(traceback.format_exception(error))
            raise AssertionError(f"{text}\nrepeat it with: python -m tests.soak.state_mutations 1 {number}") from error
    return f"state mutations: {count} from seed {seed}: " + ", ".join(f"{n} {end}" for end, n in sorted(ends.items()))


def _case(rng: random.Random) -> str:
    name = rng.choice(sorted(CHAINS))
    ranks = rng.choice((1, 1, 2))
    arguments: dict[str, Any] = {"rank": rng.randrange(ranks), "world_size": ranks, "even": None}
    pipe = CHAINS[name]()
    if not pipe.indexed and rng.random() < 0.7:
        arguments["shards"] = ranks * rng.choice((1, 2, 3))
    if rng.random() < 0.2 or name == "repeat without end":
        arguments["steps"] = 5
    loader = fp.Loader(pipe, **arguments)
    for _ in range(rng.choice((0, 0, 1))):
        for _ in loader:
            pass
    for _ in islice(loader, rng.randrange(12)):
        pass
    state = json.loads(json.dumps(loader.state_dict()))
    changed = _changed(state, rng)
    resumed = fp.Loader(pipe, **arguments)
    with _limit(f"{name} {arguments} {changed}"):
        try:
            resumed.load_state_dict(changed, strict=rng.random() < 0.8)
        except StateError:
            return "refused"
        try:
            elements = list(islice(resumed, 10 * ROWS))
        except StateError:
            return "refused when they run"
    other = fp.Loader(pipe, **arguments)
    other.load_state_dict(state)
    assert elements == list(other), f"{name} {arguments}: {changed} gave {elements}"
    return "unchanged"


def _changed(state: dict[str, Any], rng: random.Random) -> Any:
    """`state` with one change in one of its entries, or in a value in its position."""
    kind = rng.random()
    entry = rng.choice(sorted(state))
    if kind < 0.1:
        return {name: value for name, value in state.items() if name != entry}
    if kind < 0.3:
        return {**state, entry: rng.choice(JUNK)}
    if kind < 0.4 and isinstance(state[entry], int):
        return {**state, entry: state[entry] + rng.choice((-1, 1, 10**6))}
    if kind < 0.5 and isinstance(state[entry], str):
        text = state[entry]
        at = rng.randrange(len(text) + 1)
        return {**state, entry: text[:at] + rng.choice(("", "0", "[", "}", "9" * 30, '"')) + text[at + 1 :]}
    name = rng.choice(("position", "position", "position", "pipe", "code"))
    return {**state, name: json.dumps(_with_one_change(json.loads(state[name]), rng))}


def _with_one_change(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.95:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {(rng.choice(("9", "-1", "x", "1000000")) if name == key else name): v for name, v in value.items()}
        return {**value, key: _with_one_change(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.95:
        at = rng.randrange(len(value))
        return [*value[:at], _with_one_change(value[at], rng), *value[at + 1 :]]
    if type(value) is int and rng.random() < 0.6:
        return value + rng.choice((-1, 1, 5, 100, 10**6))
    return rng.choice(JUNK)


@contextmanager
def _limit(case: str) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"{case} takes longer than {HANG_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANG_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of plans, and of differences that `strict=False` accepts
    sys.stdout.write(main(*map(int, sys.argv[1:])) + "\n")
