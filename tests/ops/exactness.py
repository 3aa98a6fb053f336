"""The same elements in the same order, wherever a pipe runs and however often it goes on from a state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

import feedpipe as fp
from feedpipe.extensions import Rows


def plain(element: Any) -> Any:
    """An element as JSON would have it."""
    if isinstance(element, dict):
        return {str(name): plain(value) for name, value in element.items()}
    if isinstance(element, (list, tuple, Rows)):
        return [plain(item) for item in element]
    return element.tolist() if isinstance(element, (np.ndarray, np.generic)) else element


def texts(elements: Any) -> list[str]:
    return [json.dumps(plain(element)) for element in elements]


def digest(elements: Any) -> str:
    return hashlib.blake2b("\n".join(texts(elements)).encode(), digest_size=16).hexdigest()


def through_json(state: Any) -> Any:
    return json.loads(json.dumps(state))


def check_resumes(pipe: fp.Pipe[Any], *, epochs: int = 1, every: int = 1, **arguments: Any) -> list[str]:
    """Go on from the state after each element; return the elements of all epochs."""
    loader = fp.Loader(pipe, seed=3, **arguments)
    elements, states = [], [through_json(loader.state_dict())]
    for _ in range(epochs):
        for element in loader:
            elements += texts([element])
            states.append(through_json(loader.state_dict()))
    for place in range(0, len(elements), every):
        other = fp.Loader(pipe, seed=3, **arguments)
        other.load_state_dict(states[place])
        rest: list[str] = []
        while len(rest) < min(12, len(elements) - place):
            rest += texts(islice(other, 12))
        assert rest[:12] == elements[place : place + 12], place
    return elements


def check_ranks(
    pipe: fp.Pipe[Any], *, shards: int | None = None, services: Sequence[int] = (0, 2), in_turn: bool = True
) -> None:
    """1, 2 and 4 ranks give all elements once, each rank the same ones in one order with 0 and with 2 workers.

    Args:
        in_turn: the elements of the ranks, taken in turn, are in the order of one rank.
    """
    expected = sorted(texts(pipe))
    for ranks in (1, 2, 4):
        found: list[list[list[str]]] = []
        for workers in services:
            of_ranks = []
            for rank in range(ranks):
                with fp.Loader(
                    pipe, seed=3, rank=rank, world_size=ranks, workers=workers, shards=shards, even=None
                ) as loader:
                    of_ranks.append(texts(loader))
            found.append(of_ranks)
        assert all(other == found[0] for other in found)
        assert sorted(sum(found[0], [])) == expected
        together = [text for row in zip(*found[0], strict=False) for text in row]
        if not pipe.indexed:
            together = together[: len(together) // 2]  # the order is the same until the first shard has ended
        if in_turn:
            assert together == texts(islice(fp.Loader(pipe, seed=3, shards=shards), len(together)))


def check_elastic(pipe: fp.Pipe[Any], taken: int, **arguments: Any) -> None:
    """One rank becomes three after `taken` elements of an epoch; together they have each element once."""
    loader = fp.Loader(pipe, seed=3, **arguments)
    elements = texts(islice(loader, taken))
    state = through_json(loader.state_dict())
    for rank in range(3):
        other = fp.Loader(pipe, seed=3, rank=rank, world_size=3, even=None, **arguments)
        other.load_state_dict([state])
        elements += texts(other)
    assert sorted(elements) == sorted(texts(fp.Loader(pipe, seed=3, **arguments)))
