"""The work of `mix`: documents of two corpora in the proportion of `WEIGHTS`, until the first corpus has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from .documents import TOKENS, WARM_UP, documents

WEIGHTS = (0.7, 0.3)

Build = Callable[[list[Any], list[Any]], Iterable[Any]]


def timed(build: Build, count: int) -> dict[str, Any]:
    """One pass, from `iter` to the end of the first corpus, after a small one that is not counted."""
    for _ in build(documents(WARM_UP), documents(WARM_UP, 1)):
        pass
    mixture = build(documents(count), documents(count, 1))
    start = time.perf_counter()
    rows = sum(1 for _ in mixture)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "seconds_each": seconds / rows, "rows": rows}


def described(build: Build, count: int) -> dict[str, Any]:
    """How many documents came of each corpus, and whether they kept their order."""
    corpora = documents(count), documents(count, 1)
    found: tuple[list[Any], list[Any]] = [], []
    for document in build(*corpora):
        found[int(document[0] > TOKENS)].append(document)
    kept = all((one == other).all() for k in (0, 1) for one, other in zip(found[k], corpora[k], strict=False))
    return {"first": len(found[0]), "share": len(found[0]) / (len(found[0]) + len(found[1])), "in_order": kept}
