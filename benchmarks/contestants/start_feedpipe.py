"""Ours: `rows` needs no torch in the workers, `tensors` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import feedpipe as fp

from .start_tasks import BATCH, ROWS, WORKERS, arrays, described, timed


def pipes(pipe: str) -> fp.Pipe[Any]:
    if pipe == "rows":
        return fp.from_sequence(range(ROWS)).batch(BATCH)
    return fp.from_arrays(arrays()).batch(BATCH).collate()


def elements(pipe: fp.Pipe[Any], method: str) -> Iterator[Any]:
    with fp.Loader(pipe, fp.MultiProcess(WORKERS, start_method=method)) as loader:
        yield from loader


def _start(pipe: str, method: str) -> Callable[[], Iterator[Any]]:
    return partial(elements, pipes(pipe), method)


def measure(pipe: str, method: str) -> dict[str, Any]:
    return timed(_start(pipe, method))


def check(pipe: str, method: str) -> dict[str, Any]:
    return described(_start(pipe, method))
