"""`prefetch`, `remote`, `dispatch`, `shard_by_rank`, `on_error`: where and how rows are made, not which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from ..core.block import Block
from ..core.checks import check_int
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.graph import Node, find_remote, walk
from ..core.operator import CursorOfInput, Operator, Order, StageView, Trait
from ..core.skips import OnError, check_on_error
from ..errors import PlanError
from ._shared import PassThrough, SameRows

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


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


@dataclass(frozen=True, eq=False, repr=False)
class Prefetch(PassThrough):
    """Passes all rows on. The engine makes its elements in a thread."""

    kind: ClassVar[str] = "prefetch"
    order: ClassVar[Order] = Order.ROW_LOCAL
    trait: ClassVar[Trait | None] = Trait.TRANSPARENT

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", check_int("count", self.count, least=1))

    @property
    def buffer(self) -> int:  # type: ignore[override]
        return self.count


def remote(pipe: Pipe[T], /) -> Pipe[T]:
    """Let workers run the pipe up to here, and the training process the rest.

    By default, workers run all of a pipe, and send its elements. With this operator, `MultiProcess` and `Ray` run only
    what comes before it. What comes after it stays in the training process: it may use a model, a lock or an open file
    there, and rows that are cheaper to make than to send need not be sent. `InProcess` and `Threads` run everything in
    one process anyway. All four give the same elements in the same order, and their states fit each other.

    Element, order, length and state are the input's; streamed.

    Raises:
        PlanError: it comes twice on one path.

    Example:
        >>> import feedpipe as fp
        >>> total = []
        >>> pipe = fp.from_sequence(range(4)).map(lambda x: x * x).remote().map(lambda x: total.append(x) or x)
        >>> with fp.Loader(pipe, workers=2, shards=1) as loader:
        ...     list(loader)
        [0, 1, 4, 9]
        >>> total
        [0, 1, 4, 9]
    """
    if find_remote(pipe) is not None:
        raise PlanError(
            "`remote()` must not come twice on one path, because what comes after the first one runs in the "
            "training process; remove one of the two"
        )
    return pipe.then(Remote())


@dataclass(frozen=True, eq=False, repr=False)
class Remote(PassThrough):
    """Passes all rows on. It is streamed, so that services ask workers for rows in order only."""

    kind: ClassVar[str] = "remote"
    order: ClassVar[Order] = Order.ROW_LOCAL
    trait: ClassVar[Trait | None] = Trait.WORKERS

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return False

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        remote = context.process.remote
        return stage.input.blocks(at, context) if remote is None else remote(stage, at, context)


def dispatch(pipe: Pipe[T], /) -> Pipe[T]:
    """Run everything before this operator in one process, which sends each worker its rows.

    It is meant for a source that cannot be split, such as one huge gzip file, a socket or a generator. Without it, each
    worker reads the whole source and keeps only its own rows. With it, `MultiProcess` starts one more process, which
    reads the source once for all workers of the rank; each rank still reads by itself. Without workers it does nothing.

    Element, order, length and state are the input's; streamed.

    Raises:
        PlanError: it comes after `remote()`.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_iterable(lambda: iter(range(6))).dispatch().map(lambda x: x * x).batch(2)
        >>> list(pipe)
        [[0, 1], [4, 9], [16, 25]]
    """
    if find_remote(pipe) is not None:
        raise PlanError(
            "`dispatch()` must come before `remote()`, because what comes after that runs in the training process "
            "alone; swap the two, or leave out `dispatch()`"
        )
    return pipe.then(Dispatch())


@dataclass(frozen=True, eq=False, repr=False)
class Dispatch(CursorOfInput, SameRows):
    """Passes all rows on. A plan shards only after it, and a service runs what comes before it in one process."""

    kind: ClassVar[str] = "dispatch"
    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True
    trait: ClassVar[Trait | None] = Trait.ONE_PROCESS
    moves_skipped: ClassVar[bool] = True

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        return stage.input.blocks(at, context)

    def remark(self, stage: StageView) -> str:
        return "runs in one process for all workers of a rank"


def shard_by_rank(pipe: Pipe[T], /) -> Pipe[T]:
    """Divide the rows among the virtual shards here; the operators after it see the rows of one shard.

    A loader finds the place by itself: the earliest that does not change what the pipe means. `shard_by_rank()` sets
    the place yourself: after it, `take(5)` takes five rows of each shard. In `for x in pipe`, which has no shards, it
    does nothing.

    Element and order are the input's. Length: in a loader, that of the shard. Indexed if the input is. State: the
    input's.

    Raises:
        PlanError: it comes twice on one path.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(8)).shard_by_rank().take(2)
        >>> list(fp.Loader(pipe, rank=1, world_size=2, even=None))
        [4, 5]
    """
    if any(node.op.trait is Trait.SHARD for node in walk(pipe)):
        raise PlanError(
            "`shard_by_rank()` must not come twice on one path, because rows can be sharded only once; remove one "
            "of the two"
        )
    return pipe.then(ShardByRank())


@dataclass(frozen=True, eq=False, repr=False)
class ShardByRank(PassThrough):
    """Passes all rows on. A plan with several shards puts the operator in its place that gives a shard its rows."""

    kind: ClassVar[str] = "shard_by_rank"
    order: ClassVar[Order] = Order.ROW_LOCAL
    trait: ClassVar[Trait | None] = Trait.SHARD


def on_error(pipe: Pipe[T], /, policy: OnError) -> Pipe[T]:
    """Give `policy` to each operator before this one that has an argument `on_error` and was given none.

    So an explicit `on_error="raise"` stays. It adds no operator: it returns the same chain with these arguments.

    Element and order: the input's, without the rows that fail. Length: unknown if elements may be skipped; batches of
    an indexed pipe only become shorter. Indexed if the input is. State: none; a state fits the pipe with any policy.

    Args:
        policy: "skip" leaves out a row whose function, decoder or parser fails; `Quarantine(folder)` also records it;
            "raise" ends the run.

    Raises:
        ArgumentError: `policy` is none of these.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(["1", "two", "3"]).map(int).map(lambda x: 6 // (x - 1)).on_error("skip")
        >>> list(pipe)
        [3]
    """
    check_on_error("None" if cast("object", policy) is None else policy)
    replaced: dict[Node, Node] = {}
    for node in walk(pipe):
        op = _with_policy(node.op, policy)
        inputs = tuple(replaced[source] for source in node.inputs)
        same = op is node.op and all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        replaced[node] = node if same else type(pipe)(op, inputs, node.call_site)
    return cast("Pipe[T]", replaced[pipe])


def _with_policy(op: Operator, policy: OnError) -> Operator:
    if op.on_error is not None or all(field.name != "on_error" for field in fields(cast("Any", op))):
        return op
    return cast("Operator", replace(cast("Any", op), on_error=policy))
