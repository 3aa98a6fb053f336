"""States of earlier steps, for frameworks that look ahead, and elements that are skipped."""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import Any

import pytest

import feedpipe as fp

from ..support.loader import at_end, state_before

INDEXED = fp.from_sequence(range(10)).shuffle().batch(2)
STREAMED = fp.from_sequence(range(10)).flat_map(lambda x: [x] * (x % 3)).batch(2)
KNOWN = fp.from_sequence(range(10)).shuffle(window=4).batch(2)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"steps": 12},
        {"steps": 7, "rank": 1, "world_size": 2},
        {"even": "pad", "rank": 1, "world_size": 2},
        {"even": None, "rank": 2, "world_size": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("pipe", [INDEXED, STREAMED, KNOWN], ids=["indexed", "streamed", "known"])
def test_each_step_can_be_saved_later(pipe: fp.Pipe[Any], options: dict[str, Any]) -> None:
    if pipe is STREAMED and options.get("even") == "pad":
        options = {**options, "even": None}

    def loader() -> fp.Loader[Any]:
        return fp.Loader(pipe, seed=3, shards=None if pipe is INDEXED else 6, **options)

    ahead = loader()
    for _ in range(2):  # epochs
        rows, states = [], []
        for row in ahead:
            rows.append(row)
            steps = range(ahead.step) if ahead.step else range(len(rows))
            states = [ahead.state_dict(step=step) for step in steps]
        assert len(states) == len(rows) - (ahead.step > 0)
        for step, state in enumerate(states):
            resumed = loader()
            resumed.load_state_dict(json.loads(json.dumps(state)))
            assert list(resumed) == rows[step:]


def test_the_last_64_steps_are_kept() -> None:
    loader = fp.Loader(fp.from_sequence(range(100)).filter(lambda x: True))
    elements = iter(loader)
    assert list(islice(elements, 70)) == list(range(70))
    loader.load_state_dict(loader.state_dict(step=6))
    assert list(loader) == list(range(6, 100))


@pytest.mark.parametrize("pipe", [INDEXED, STREAMED], ids=["indexed", "streamed"])
def test_after_the_end_the_steps_of_the_epoch_are_kept(pipe: fp.Pipe[Any]) -> None:
    loader = fp.Loader(pipe, seed=3)
    rows = list(loader)
    assert (loader.epoch, loader.step) == (1, 0)
    assert loader.state_dict(step=len(rows)) == loader.state_dict()
    loader.load_state_dict(loader.state_dict(step=len(rows) - 1))
    assert list(loader) == rows[-1:]


@pytest.mark.parametrize("steps", [None, 4])
@pytest.mark.parametrize("pipe", [INDEXED, STREAMED, KNOWN], ids=["indexed", "streamed", "known"])
def test_a_framework_may_look_ahead_into_the_next_epoch(pipe: fp.Pipe[Any], steps: int | None) -> None:
    def loader() -> fp.Loader[Any]:
        return fp.Loader(pipe, seed=3, steps=steps)

    ahead = loader()
    rows = list(ahead)
    rows += islice(ahead, 2)
    for count in range(len(rows) + 1):
        resumed = loader()
        resumed.load_state_dict(state_before(ahead, count))
        expected = rows[len(rows) - count :]
        assert [row for _, row in zip(range(count), chain(resumed, resumed), strict=False)] == expected


@pytest.mark.parametrize("steps", [None, 4])
@pytest.mark.parametrize("pipe", [INDEXED, STREAMED, KNOWN], ids=["indexed", "streamed", "known"])
def test_the_last_element_of_an_epoch_is_known(pipe: fp.Pipe[Any], steps: int | None) -> None:
    expected = list(fp.Loader(pipe, seed=3, steps=steps))
    loader = fp.Loader(pipe, seed=3, steps=steps)
    for number, row in enumerate(loader, 1):
        assert row == expected[number - 1]
        assert at_end(loader) == (number == len(expected))
        assert loader.state_dict()["step"] == (0 if number == len(expected) else number)


def test_skipping_reads_no_element_of_an_indexed_pipe() -> None:
    calls: list[int] = []
    loader = fp.Loader(fp.from_sequence(range(1000)).map(lambda x: calls.append(x) or x))
    loader.skip(900)
    assert (loader.step, calls) == (900, [])
    assert list(loader) == calls == list(range(900, 1000))


def test_skipping_with_workers() -> None:
    for pipe in (INDEXED, KNOWN, fp.from_sequence(range(40)).filter(bool).batch(2)):
        shards = None if pipe is INDEXED else 4
        reference = fp.Loader(pipe, seed=3, shards=shards)
        first, second = list(reference), list(reference)
        with fp.Loader(pipe, seed=3, shards=shards, workers=2) as loader:
            elements = iter(loader)
            assert list(islice(elements, 1)) == first[:1]
            loader.skip(2)
            assert list(elements) == first[3:]
            assert list(loader) == second
