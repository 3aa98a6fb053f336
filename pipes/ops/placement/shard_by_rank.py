"""`shard_by_rank`: sets the place where the rows are divided among the shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.graph import walk
from ...core.operator import Boundary, Order
from ...errors import PlanError, with_call_site
from ._pass_through import PassThrough

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class ShardByRank(PassThrough):
    """Passes all rows on. A plan with several shards puts the operator in its place that gives a shard its rows."""

    kind: ClassVar[str] = "shard_by_rank"
    order: ClassVar[Order] = Order.ROW_LOCAL
    boundary: ClassVar[Boundary | None] = Boundary.SHARD


def shard_by_rank(pipe: Pipe[T], /) -> Pipe[T]:
    """Divide the rows among the virtual shards here; the operators after it see the rows of one shard.

    A loader finds the place by itself: the earliest that does not change what the pipe means. `shard_by_rank()` sets
    the place yourself: after it, `take(5)` takes five rows of each shard. In `for x in pipe`, which has no shards, it
    does nothing. Element and order are the input's. Length: in a loader, that of the shard. Indexed if the input is.
    State: the input's.

    Raises:
        PlanError: it stands twice on one path.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(8)).shard_by_rank().take(2)
        >>> list(fp.Loader(pipe, rank=1, world_size=2, even=None))
        [4, 5]
    """
    if any(node.op.boundary is Boundary.SHARD for node in walk(pipe)):
        raise PlanError(
            with_call_site(
                "`shard_by_rank()` must not stand twice on one path, because rows can be sharded only once; remove one "
                "of the two"
            )
        )
    return pipe.then(ShardByRank())
