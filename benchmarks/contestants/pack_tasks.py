"""The work of `pack`: documents are cut into packs of `LENGTH` tokens, with segment and position ids."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .documents import WARM_UP, documents

LENGTH = 2048

Build = Callable[[list[Any]], Iterable[Any]]


def timed(build: Build, count: int) -> dict[str, Any]:
    """One pass, from `iter` to the last pack, after a small one that is not counted."""
    for _ in build(documents(WARM_UP)):
        pass
    corpus = documents(count)
    packs = build(corpus)
    start = time.perf_counter()
    number = sum(1 for _ in packs)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "seconds_each": seconds / sum(map(len, corpus)), "packs": number}


def described(build: Build, count: int) -> dict[str, Any]:
    """What the packs hold; a library may put the name of the tokens before those of the ids."""
    packs = [
        {name.removeprefix("tokens_"): np.asarray(v) for name, v in pack.items()} for pack in build(documents(count))
    ]
    used = [pack["segment_ids"] > 0 for pack in packs]
    return {
        "packs": len(packs),
        "tokens": int(sum(mask.sum() for mask in used)),
        "sum": int(sum(pack["tokens"][mask].sum() for pack, mask in zip(packs, used, strict=True))),
        "segments": int(sum(pack["segment_ids"].max() for pack in packs)),
    }


def expected(count: int) -> dict[str, Any]:
    """What `described` must find."""
    corpus = documents(count)
    ends = np.cumsum(list(map(len, corpus)))
    total = int(ends[-1])
    edges = set(range(LENGTH, total, LENGTH))
    return {
        "packs": -(-total // LENGTH),
        "tokens": total,
        "sum": int(sum(document.sum() for document in corpus)),
        "segments": count + len(edges - set(ends.tolist())),
    }
