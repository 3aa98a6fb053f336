"""`warn_in_torch_worker`: a warning if each worker of torch's DataLoader reads all rows."""

from __future__ import annotations

import sys
from typing import Any

from ..core.graph import Node, walk
from ..errors import PlanWarning, warn
from .selection.slice import Slice


def warn_in_torch_worker(pipe: Node, what: str, remedy: str) -> None:
    """Warns if each of several workers of torch's DataLoader iterates the whole pipe, or a loader of it."""
    data = sys.modules.get("torch.utils.data")
    info: Any = None if data is None else data.get_worker_info()
    if info is None or info.num_workers == 1:
        return
    if any(isinstance(node.op, Slice) and node.op.step == info.num_workers for node in walk(pipe)):
        return
    warn(
        f"each of the {info.num_workers} workers of torch's DataLoader iterates this {what}, so each row comes "
        f"{info.num_workers} times; use `feedpipe.Loader(pipe, workers={info.num_workers})` in place of the "
        f"DataLoader, or {remedy} of torch's `get_worker_info()`",
        PlanWarning,
    )
