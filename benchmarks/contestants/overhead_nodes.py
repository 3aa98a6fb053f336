"""torchdata.nodes 0.11, through its Loader.

This release has neither a filter nor a shuffle buffer, so both are written here as the documentation
asks: a `BaseNode` with `reset`, `next` and `get_state`. Their state is left as small as it can be (a
buffer in the state would cost far more).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from torchdata.nodes import BaseNode, Batcher, IterableWrapper, Loader, Mapper

from .tasks import BATCH, BUFFER, described, keep, plus_one, timed


class Filter(BaseNode[int]):
    def __init__(self, source: BaseNode[int], predicate: Callable[[int], bool]) -> None:
        super().__init__()
        self.source = source
        self.predicate = predicate

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        self.source.reset(initial_state["source"] if initial_state else None)

    def next(self) -> int:
        while True:
            item = next(self.source)
            if self.predicate(item):
                return item

    def get_state(self) -> dict[str, Any]:
        return {"source": self.source.state_dict()}


class Shuffle(BaseNode[int]):
    def __init__(self, source: BaseNode[int], window: int, seed: int) -> None:
        super().__init__()
        self.source = source
        self.window = window
        self.seed = seed

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        self.source.reset(initial_state["source"] if initial_state else None)
        self.generator = random.Random(self.seed)
        self.draw = self.generator.random
        self.buffer: list[int] = []
        self.filled = False

    def next(self) -> int:
        buffer = self.buffer
        if not self.filled:
            self._fill()
        try:
            item = next(self.source)
        except StopIteration:
            if not buffer:
                raise
            at = int(self.draw() * len(buffer))
            buffer[at], buffer[-1] = buffer[-1], buffer[at]
            return buffer.pop()
        at = int(self.draw() * len(buffer))
        taken = buffer[at]
        buffer[at] = item
        return taken

    def _fill(self) -> None:
        self.filled = True
        for item in self.source:
            self.buffer.append(item)
            if len(self.buffer) == self.window:
                return

    def get_state(self) -> dict[str, Any]:
        return {"source": self.source.state_dict()}


def build(rows: int, seed: int) -> Iterable[list[int]]:
    source = Mapper(IterableWrapper(range(rows)), plus_one)
    shuffled = Shuffle(Filter(source, keep), BUFFER, seed)
    loader: Iterable[list[int]] = Loader(Batcher(shuffled, BATCH, drop_last=False))
    return loader


def measure(rows: int, seed: int) -> dict[str, Any]:
    return timed(build, rows, seed)


def check(rows: int, seed: int) -> dict[str, Any]:
    return described(build, rows, seed)
