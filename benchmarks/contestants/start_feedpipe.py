"""Ours: `rows` needs no torch in the workers, `tensors` and `function` do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import feedpipe as fp

from .start_tasks import BATCH, ROWS, WORKERS, arrays, described, timed


def _with_torch(row: Any) -> Any:
    return {name: torch.as_tensor(value) for name, value in row.items()}


def _pipe(pipe: str) -> fp.Pipe[Any]:
    if pipe == "rows":
        return fp.from_sequence(range(ROWS)).batch(BATCH)
    tables = fp.from_arrays(arrays())
    return (tables.map(_with_torch) if pipe == "function" else tables).batch(BATCH).collate()


def _start(pipe: str) -> Callable[[], Any]:
    return partial(fp.Loader, _pipe(pipe), fp.MultiProcess(WORKERS))


def measure(pipe: str, work: float = 0.0) -> dict[str, Any]:
    return timed(_start(pipe), work)


def check(pipe: str, work: float = 0.0) -> dict[str, Any]:
    return described(_start(pipe))
