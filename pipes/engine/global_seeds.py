"""Seeding the generators that a whole process shares, and setting them back."""

from __future__ import annotations

import importlib.util
import random
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

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


def seed_process(number: int) -> None:
    """Seeds the generators of Python, NumPy and torch, for the life of this process; `number` is below 2**32.

    torch is seeded at once where something has imported it, and otherwise as soon as something does.
    """
    random.seed(number)
    np.random.seed(number)
    _arrival.number = number
    if sys.modules.get("torch") is not None:
        # Not out of `sys.modules`: where another thread is in the midst of importing it, this waits for the end.
        importlib.import_module("torch").manual_seed(number)
    elif _arrival not in sys.meta_path:
        sys.meta_path.insert(0, _arrival)


class _Arrival:
    """Finds torch as the ordinary finders do, and seeds it once it is loaded.

    It stays for good: to take a finder away while another thread asks one after the other would make that skip one.
    """

    def __init__(self) -> None:
        self.number = 0
        self._asking = threading.local()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch" or getattr(self._asking, "now", False):
            return None
        self._asking.now = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.now = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)  # type: ignore[assignment]
        return spec


class _Loader:
    """A module's own loader, but for one thing that it does at the end."""

    def __init__(self, loader: Any, arrival: _Arrival) -> None:
        self._loader = loader
        self._arrival = arrival

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        module.manual_seed(self._arrival.number)


_arrival = _Arrival()
