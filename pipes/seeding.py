"""Seeding the generators that a whole process shares, and setting them back."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np


@contextmanager
def global_generators() -> Generator[Callable[[int], None]]:
    """Gives a function that seeds the generators of Python, NumPy and torch; sets them back as they were at the end.

    torch is seeded where something has imported it already.
    """
    torch = sys.modules.get("torch")
    python_state, numpy_state = random.getstate(), np.random.get_state()
    torch_state = torch.random.get_rng_state() if torch else None

    def seed(number: int) -> None:
        random.seed(number)
        np.random.seed(number)
        if torch:
            torch.random.default_generator.manual_seed(number)

    try:
        yield seed
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        if torch:
            torch.random.set_rng_state(torch_state)
