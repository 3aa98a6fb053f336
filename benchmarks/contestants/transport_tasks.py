"""What `transport-small` and `transport-large` bring from a worker to the consumer, and how it is timed.

The same function makes it for all contestants, in next to no time. A large one is a new tensor over memory that the
worker filled before: all of it must cross, and the time goes into that. Four such memories take turns, because a
transport may still read the last two. The first 8 bytes say which element it is.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch

ROWS = 2_000_000  # more than anybody reads
FIELDS = 10
BATCH = 256
SHAPE = (BATCH, 3, 224, 224)
_TURNS = 4


def tensors(i: int) -> dict[str, torch.Tensor]:
    return {f"field{k}": torch.full((256,), float(i + k)) for k in range(FIELDS)}


def arrays(i: int) -> dict[str, np.ndarray]:
    return {f"field{k}": np.full(256, i + k, np.float32) for k in range(FIELDS)}


@functools.cache
def memory() -> np.ndarray:
    made = np.empty((_TURNS, *SHAPE), np.uint8)
    for turn in range(_TURNS):
        made[turn] = ((np.arange(BATCH) + turn) % 256).reshape(BATCH, 1, 1, 1)
    return made


def batch(i: int) -> torch.Tensor:
    made = memory()[i % _TURNS]
    made.reshape(-1)[:8].view(np.int64)[0] = i
    return torch.from_numpy(made)


def sample(i: int) -> np.ndarray:
    """A 256th of a batch, for the loader to collate."""
    return memory()[i // BATCH % _TURNS, i % BATCH]


WORKS: dict[str, Callable[[int], Any]] = {"tensors": tensors, "arrays": arrays, "batch": batch, "sample": sample}


def paced(elements: Iterator[Any], seconds: float) -> dict[str, float]:
    """How long an element takes once all is under way: a quarter of `seconds` goes first and is not counted."""
    _for_seconds(elements, seconds / 4)
    count, taken = _for_seconds(elements, seconds)
    elements.close()  # type: ignore[attr-defined]
    return {"seconds_each": taken / count, "count": count}


def _for_seconds(elements: Iterator[Any], seconds: float) -> tuple[int, float]:
    count = 0
    start = now = time.perf_counter()
    for _ in elements:
        count += 1
        now = time.perf_counter()
        if now - start >= seconds:
            break
    return count, now - start


def described(elements: Iterator[Any], work: str, count: int = 40) -> dict[str, int]:
    """How many of the first elements are not the right ones, in their order."""
    wrong = sum(not _right(element, i, work) for i, element in enumerate(islice(elements, count)))
    elements.close()  # type: ignore[attr-defined]
    return {"wrong": wrong}


def _right(element: Any, i: int, work: str) -> bool:
    if work in ("tensors", "arrays"):
        kind = torch.Tensor if work == "tensors" else np.ndarray
        fields = [isinstance(each, kind) and bool((each == i + k).all()) for k, each in enumerate(element.values())]
        return fields == [True] * FIELDS
    expected = torch.from_numpy(memory()[i % _TURNS])
    same = element.shape == SHAPE and torch.equal(element[1:], expected[1:])
    return same and (work == "sample" or element.reshape(-1)[:8].view(torch.int64).item() == i)
