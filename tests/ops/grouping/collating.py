"""Runs `collate` in this process, and as a worker does."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import feedpipe as fp

from ...support.core import TensorData, sent
from ...support.engine import bind, elements, resolve


@dataclasses.dataclass
class Plain:
    x: int


def as_sent(pipe: Any) -> list[Any]:
    """The elements that a worker sends for `pipe`, with a tensor in place of each `TensorData`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            TensorData, "__deepcopy__", lambda self, memo: torch.from_numpy(np.array(self.array)), raising=False
        )
        return [copy.deepcopy(batch) for batch in elements(bind(resolve(sent(pipe))))]


here_and_sent = pytest.mark.parametrize("run", [list, as_sent])
"""Runs a pipe in this process, and as a worker does."""


Runs = Callable[[Any], list[Any]]


def collated(rows: Sequence[Any], run: Runs = list) -> Any:
    (batch,) = run(fp.from_sequence(rows).batch(len(rows)).collate())
    return batch


def table(columns: dict[str, Any], size: int | None = None) -> Any:
    data = pa.table(columns)
    return fp.from_table(data).batch(size or data.num_rows).collate()
