"""`noise`: a source of random numbers, the same in each run with the same seed and epoch."""

from __future__ import annotations

from dataclasses import dataclass

import feedpipe as fp
from feedpipe.extensions import BlockRows, Context, Indices, Operator, StageView, generator


@dataclass(frozen=True)
class Noise(Operator):
    """`count` normal numbers. It can give any of them, so it is indexed and must know its length."""

    kind = "noise"

    count: int
    scale: float = 1.0
    name: str | None = None

    def __post_init__(self) -> None:
        if self.count < 0:
            raise fp.errors.ArgumentError(f"`count` must be >= 0 but got: {self.count}")

    def length(self, stage: StageView) -> int:
        return self.count

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        key = context.key(stage.name)
        return [self.scale * float(generator(key, int(index)).standard_normal()) for index in indices]


def noise(count: int, *, scale: float = 1.0, name: str | None = None) -> fp.Pipe[float]:
    """Give `count` normal numbers of standard deviation `scale`, other ones in each epoch."""
    return fp.Pipe.source(Noise(count, scale, name))
