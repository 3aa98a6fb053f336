"""Made-up documents for `pack` and `mix`: arrays of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

MEAN_TOKENS = 300
FIRST_TOKEN, TOKENS = 1, 50_000
WARM_UP = 2000


def documents(count: int, corpus: int = 0) -> list[Any]:
    """So many documents, of lengths as in text: many short ones and a few long. Each corpus has tokens of its own."""
    rng = np.random.default_rng(corpus)
    lengths = np.maximum(1, rng.lognormal(np.log(MEAN_TOKENS) - 0.5, 1.0, count)).astype(int)
    tokens = rng.integers(FIRST_TOKEN, TOKENS, int(lengths.sum()), dtype=np.int32) + corpus * TOKENS
    return np.split(tokens, np.cumsum(lengths)[:-1])
