"""Loaders in functions that `torch.compile` compiles."""

from __future__ import annotations

import functools

from torch._dynamo import trace_rules


@functools.lru_cache(maxsize=1)
def exclude_from_compilation() -> None:
    """Let compiled functions call this package as it is, as they call torch's own loader.

    Else the compiler would follow a loop over a loader into readers and decoders, whose code is no model.
    """
    trace_rules.add(__name__.partition(".")[0])
