"""`from_sequence`: anything with a length and an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar, cast

from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Operator, StageView
from ..core.rows import BlockRows, Indices
from ..engine.apply import map_until_error
from ..errors import ArgumentTypeError, Origin, with_call_site
from ..pipe import Pipe
from ._packed import PackedList, pack_list
from ._right_source import check_right_source

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class FromSequence(Operator):
    kind: ClassVar[str] = "from_sequence"

    sequence: Sequence[object]

    def __post_init__(self) -> None:
        if not (hasattr(self.sequence, "__len__") and hasattr(self.sequence, "__getitem__")):
            raise ArgumentTypeError(
                with_call_site(
                    f"`sequence` must have a length and an index but got: {self.sequence!r}; "
                    "`from_iterable` takes anything that can only be iterated"
                )
            )

    def length(self, stage: StageView) -> int:
        return len(self.sequence)

    def identity(self) -> Json:
        return {"length": len(self.sequence)}

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin("from_sequence", index + 1)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        sequence = self.sequence
        if isinstance(sequence, PackedList):
            return sequence.rows(indices)
        if isinstance(indices, range) and isinstance(sequence, (list, tuple, range, str)):
            part = sequence[indices.start : indices.stop : indices.step]
            return part if isinstance(part, list) else list(part)
        numbers = list(indices) if isinstance(indices, range) else indices.tolist()
        rows, error = map_until_error(sequence.__getitem__, numbers)
        if error is not None:
            number = numbers[len(rows)]
            raise stage.failed_on(error, Origin("from_sequence", number + 1))
        return rows

    def reduce_for_worker(self) -> tuple[object, ...]:
        return FromSequence, (pack_list(self.sequence),)


def from_sequence(sequence: Sequence[T]) -> Pipe[T]:
    """Begin a pipe with the items of a sequence.

    Element: an item. Order: the sequence's. Length: the sequence's; indexed. State: a position. The sequence is not
    copied: do not change it while the pipe is in use.

    Args:
        sequence: a list, a tuple, a range, or any object with `__len__` and `__getitem__`.

    Raises:
        ArgumentTypeError: `sequence` has no length or no index, or is an object for another source, such as a data
            frame.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(["a", "b"]))
        ['a', 'b']
    """
    check_right_source("from_sequence", sequence)
    return cast("Pipe[T]", Pipe.source(FromSequence(sequence)))
