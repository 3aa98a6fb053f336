"""Reading ahead: remote storage is asked for the next items while the current one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeVar, cast

from ..core.block import Block
from ..core.context import Context, StartedKey, Work
from ..core.operator import Input, Operator, StageView

FIRST_ITEMS_AHEAD, MAX_ITEMS_AHEAD = 8, 16
"""Items whose work is started before their turn: at first, and at most; the number doubles with each item."""

_runs: set[object] = set()  # of `read_ahead`: they share the threads and the memory budget of this process

K = TypeVar("K")
T = TypeVar("T")
W = TypeVar("W", bound=Work)


class WorkGroup(dict[K, W]):
    """Several pieces of work as one."""

    def start(self) -> None:
        for work in self.values():
            work.start()

    def cancel(self) -> None:
        for work in self.values():
            work.cancel()


@contextmanager
def read_ahead(
    items: Generator[T, None, None], make_work: Callable[[T, bool], W], is_remote: Callable[[T], bool]
) -> Generator[Iterator[tuple[T, W]], None, None]:
    """The items in order, each with its work, which is started early if it is remote.

    Args:
        items: taken from no further ahead than work is started. Errors of items and of work are raised in their turn.
        make_work: makes the work of an item; the flag says whether a thread starts it before its turn.
        is_remote: whether the work of an item takes long.
    """
    run = object()
    _runs.add(run)
    try:
        with closing(items), closing(_read_ahead(items, make_work, is_remote)) as reading:
            yield reading
    finally:
        _runs.discard(run)


def _read_ahead(
    items: Iterator[T], make_work: Callable[[T, bool], W], is_remote: Callable[[T], bool]
) -> Generator[tuple[T, W], None, None]:
    waiting: deque[tuple[T, W, bool]] = deque()  # the flag: whether it was started early
    remote = True  # the last item
    ended = False
    failure: BaseException | None = None
    limit = FIRST_ITEMS_AHEAD
    try:
        while True:
            for _, work, early in waiting:
                if early:
                    work.start()
            while not ended and len(waiting) <= limit and (remote or not waiting):
                try:
                    item = next(items)
                except StopIteration:
                    ended = True
                    break
                except BaseException as error:
                    ended, failure = True, error
                    break
                remote = is_remote(item)
                early = remote and bool(waiting)
                waiting.append((item, make_work(item, early), early))
                if early:
                    waiting[-1][1].start()
            if waiting:
                limit = max(1, min(2 * limit, MAX_ITEMS_AHEAD // len(_runs)))
                yield waiting.popleft()[:2]
            elif failure is None:
                return
            else:
                raise failure
    finally:
        failure = None  # its traceback refers to this frame, and so to it
        for _, work, _ in waiting:
            work.cancel()


class _Readable(Input, StageView, Protocol):
    """A stage, as far as reading ahead needs it."""

    @property
    def reads_ahead(self) -> bool: ...

    def block(self, start: int, stop: int, context: Context) -> Block: ...


class _RowWork(NamedTuple):
    """What a row waits for.

    Attributes:
        row: its position.
        some_local: whether some stages read the row from local storage.
    """

    row: int
    works: WorkGroup[StartedKey, Work]
    some_local: bool


def rows_ahead(stage: _Readable, indices: range, context: Context) -> Generator[Block, None, tuple[int, bool]]:
    """Rows at `indices`, a block each, up to the first row that waits for nothing; the work of the next is started.

    Returns the position of that row, and whether later rows may have to wait.
    """
    context = replace(context, started={})
    items = (_row_work(stage, index, context) for index in indices)
    with read_ahead(items, lambda item, early: item.works, lambda item: bool(item.works)) as rows:
        for (index, works, some_local), _ in rows:
            if not works:
                return index, not some_local
            context.started.update(works)
            del works, _
            block = [stage.block(index, index + 1, context)]
            context.started.clear()
            yield block.pop()
    return indices.stop, False


def _row_work(stage: _Readable, index: int, context: Context) -> _RowWork:
    works: dict[StartedKey, Work | None] = {}
    with suppress(Exception):  # `rows` raises it in its turn
        _start_reading(stage, index, context, works)
    remote = WorkGroup({place: work for place, work in works.items() if work is not None})
    return _RowWork(index, remote, None in works.values())


def _start_reading(stage: _Readable, index: int, context: Context, works: dict[StartedKey, Work | None]) -> None:
    if type(stage.op).start_reading is not Operator.start_reading:
        works[context.started_key(stage, index)] = stage.op.start_reading(stage, index, context)
    elif stage.reads_ahead and type(stage.op).origin is Operator.origin:
        for source, row, inner in stage.op.reads(stage, index, context):
            _start_reading(cast("_Readable", source), row, inner, works)
