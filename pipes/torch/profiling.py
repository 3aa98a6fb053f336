"""The range by which profilers of torch know the part of a step that loads data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")

RANGE = "enumerate(DataLoader)#feedpipe.Loader.__next__"
"""TensorBoard's plugin and HTA take a name of this pattern for data loading."""


def in_range(make: Callable[[], T]) -> T:
    """The result of `make`, within a range of `torch.profiler`; under `emit_nvtx`, of NVTX."""
    with torch.profiler.record_function(RANGE):
        return make()
