"""Keyed permutations, and the random generators that a whole process shares."""

from __future__ import annotations

import importlib.util
import random
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import numpy.typing as npt

from ..core.context import Key, generator, mixed
from ..core.rows import Indices, index_array

MAX_DRAWN_LENGTH = 2**20  # takes 20 ms; a longer draw takes each process longer than computing its part

_ROUNDS = 4


class Permutation:
    """A permutation of [0, `length`) that depends on nothing but `key`; `permutation[indices]` are its values."""

    def __init__(self, key: Key, length: int, max_drawn_length: int = MAX_DRAWN_LENGTH) -> None:
        self._length = length
        self._order: npt.NDArray[np.int32] | None = None
        if length <= max_drawn_length:
            self._order = generator(key).permutation(np.arange(length, dtype=np.int32))
        else:
            self._keys = generator(key).integers(2**64, size=_ROUNDS, dtype=np.uint64)
            bits = max(2, int(length - 1).bit_length())
            self._widths = bits - bits // 2, bits // 2  # of the left and the right half, in bits

    @property
    def nbytes(self) -> int:
        return 0 if self._order is None else self._order.nbytes

    def __getitem__(self, indices: Indices) -> npt.NDArray[np.int64]:
        if self._order is not None:
            places = slice(indices.start, indices.stop, indices.step) if isinstance(indices, range) else indices
            return self._order[places].astype(np.int64)
        values = index_array(indices).astype(np.uint64)
        values = self._encrypt(values)
        # Cycle walking: values outside [0, n) are encrypted again until they fall inside.
        outside = np.flatnonzero(values >= self._length)
        while len(outside):
            again = self._encrypt(values[outside])
            values[outside] = again
            outside = outside[again >= self._length]
        return values.astype(np.int64)

    def _encrypt(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        wide, narrow = self._widths
        left, right = values >> np.uint64(narrow), values & np.uint64((1 << narrow) - 1)
        for key in self._keys:
            left, right = right, left ^ (mixed(right + key) & np.uint64((1 << wide) - 1))
            wide, narrow = narrow, wide
        return (left << np.uint64(narrow)) | right


# Generators of the process


@contextmanager
def global_generators() -> Generator[Callable[[int], None]]:
    """Yields a function that seeds the generators of Python, NumPy and torch. At the end, restores their states.

    torch is seeded only if it is imported already.
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

    If torch is not imported yet, it is seeded right after its first import.
    """
    random.seed(number)
    np.random.seed(number)
    _torch_finder.number = number
    if sys.modules.get("torch") is not None:
        # The module in `sys.modules` may be incomplete: if another thread is importing it, this waits for the end.
        importlib.import_module("torch").manual_seed(number)
    elif _torch_finder not in sys.meta_path:
        sys.meta_path.insert(0, _torch_finder)


class _TorchFinder:
    """Finds torch as the ordinary finders do, and seeds it when it is loaded.

    It is never removed: another thread may iterate over `sys.meta_path`, and would skip a finder.
    """

    def __init__(self) -> None:
        self.number = 0
        self._searching = threading.local()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch" or getattr(self._searching, "active", False):
            return None
        self._searching.active = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching.active = False
        if spec is not None and spec.loader is not None:
            loader, load = spec.loader, spec.loader.exec_module

            def load_and_seed(module: ModuleType) -> None:
                del loader.exec_module  # that of its class follows
                load(module)
                module.manual_seed(self.number)

            loader.exec_module = load_and_seed  # type: ignore[method-assign]
        return spec


_torch_finder = _TorchFinder()
