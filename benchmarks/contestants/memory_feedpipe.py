"""Ours: the first elements of the list shuffled, or in order: shuffling a long list has a cost of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import feedpipe as fp

from .memory_tasks import WORKERS, compared


def shuffled(strings: list[str], sample: int) -> Iterator[int]:
    return elements(fp.from_sequence(strings).shuffle())


def in_order(strings: list[str], sample: int) -> Iterator[int]:
    return elements(fp.from_sequence(strings))


def elements(strings: fp.Pipe[str]) -> Iterator[int]:
    with fp.Loader(strings.map(len), workers=WORKERS) as loader:
        yield from loader


_WAYS = {"shuffled": shuffled, "in_order": in_order}


def measure(paths: int, sample: int, way: str) -> dict[str, Any]:
    return compared(_WAYS[way], paths, sample)
