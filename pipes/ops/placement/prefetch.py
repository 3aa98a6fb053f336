"""`prefetch`: a thread that makes elements before they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.checks import check_int
from ...core.operator import Order
from ._pass_through import PassThrough

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Prefetch(PassThrough):
    """Hands everything through; the engine makes its elements in a thread."""

    kind: ClassVar[str] = "prefetch"
    order: ClassVar[Order] = Order.ROW_LOCAL
    transparent: ClassVar[bool] = True

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", check_int("count", self.count, least=1))

    @property
    def buffer(self) -> int:  # type: ignore[override]
        return self.count


def prefetch(pipe: Pipe[T], /, count: int) -> Pipe[T]:
    """Let a thread make elements before they are asked for.

    Element, order and length are the input's. Indexed if the input is. State: the input's; after a resume the thread
    makes elements again that it had finished but nobody had taken. The thread ends when the iterator is closed or
    dropped.

    Args:
        count: the number of finished elements that the thread keeps ready, besides the block that it is making.

    Raises:
        ArgumentError: `count` is below 1.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(range(3)).prefetch(2))
        [0, 1, 2]
    """
    return pipe.then(Prefetch(count))
