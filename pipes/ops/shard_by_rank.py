"""`shard_by_rank`: where the work is dealt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ..core.graph import walk
from ..core.operator import Boundary, Order
from ..errors import PlanError, with_call_site
from ._pass_through import PassThrough

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class ShardByRank(PassThrough):
    """Where nothing is dealt, it hands everything through; a plan puts `Deal` in its place."""

    kind: ClassVar[str] = "shard_by_rank"
    order: ClassVar[Order] = Order.ROW_LOCAL
    boundary: ClassVar[Boundary | None] = Boundary.SHARD


def shard_by_rank(pipe: Pipe[T], /) -> Pipe[T]:
    """Deal the rows to the virtual shards here; what follows works on one shard's rows.

    A loader deals by itself at the earliest place that does not change what the pipe means; this operator is your own
    word on it. `take(5)` behind it takes five rows of each shard. Where nothing is dealt (`for x in pipe`) it does
    nothing. Element and order are the input's.

    Raises:
        PlanError: the pipe is dealt twice on one path.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(8)).shard_by_rank().filter(lambda x: x % 2)
        >>> list(fp.Loader(pipe, rank=1, world_size=2, even=None))
        [1, 3, 5, 7]
    """
    if any(node.op.boundary is Boundary.SHARD for node in walk(pipe)):
        raise PlanError(
            with_call_site(
                "`shard_by_rank()` stands twice on this path, and rows can be dealt only once; remove one of them"
            )
        )
    return pipe.then(ShardByRank())
