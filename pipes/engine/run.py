"""Runs a pipe in the calling thread, and checks cursors of saved states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from types import TracebackType
from typing import cast

from ..core.block import Block, close, row_count
from ..core.context import Context
from ..core.cursor import START, Cursor, Json, checked_cursor
from ..core.ending import Ending
from ..core.graph import node_code
from ..core.rows import BlockRows
from ..core.skips import Skipped
from ..errors import DataError, LoaderError, PlanError, RowError, UnknownLengthError, raise_interrupt, shown_traceback
from .skips import NONE_LOST, LostLog, parted_cursor
from .stage import Stage

ONE_THREAD = (
    "only one thread at a time may use an iterator, because it counts what one consumer took, and another thread waits "
    "for an element now; take elements in one thread and hand them on, or use a lock"
)


def elements(stage: Stage, context: Context | None = None, at: Cursor = START) -> Iterator[object]:
    """The elements of a stage. An iterator that has failed raises the same error at each later `next`."""
    run = _ElementsOfBlocks(stage, context or Context(), at)
    # From row to row it goes in C: a `__next__` in Python would take as long as most operators. An error ends the inner
    # chain that it meets, but not the outer one, which goes on with another.
    return chain.from_iterable(chain([chain.from_iterable(run)], iter(run.rest, None)))


class _ElementsOfBlocks(Iterator["Iterable[object]"]):
    """The elements of each block. A run that has failed raises the same error at each later `next`."""

    def __init__(self, stage: Stage, context: Context, at: Cursor) -> None:
        self._context = context
        self._blocks = blocks = stage.blocks(at, context)

        def stop() -> None:
            context.stop()
            close(blocks)

        self._ending = Ending(self, stop)
        self._skip_log = LostLog.of(stage.node) if stage.may_skip else None
        self._counts = NONE_LOST
        self._error: Exception | None = None
        self._trace: TracebackType | None = None
        self._has_ended = False

    def rest(self) -> Iterator[object] | None:
        """The elements that are left; None after the last one."""
        return None if self._has_ended else chain.from_iterable(self)

    def __next__(self) -> Iterable[object]:
        block = self._next()
        if block is None:
            if self._skip_log is not None:
                self._skip_log.report(self._counts, "this run")
                self._counts = NONE_LOST
            self._has_ended = True
            self._ending()
            raise StopIteration
        if self._skip_log is not None:
            return self._delivered(block.rows, self._skip_log)
        if not block.rows:
            raise empty_block()
        return block.rows

    def _next(self) -> Block | None:
        if self._error is not None:
            raise self._error.with_traceback(self._trace)  # its first traceback: each `raise` would add to it
        clock = self._context.pacing.clock
        clock.enter()
        try:
            if self._skip_log is not None:
                self._skip_log.open()
            return self._block_of_stage()
        except BaseException as error:
            self._error = error if isinstance(error, Exception) else interrupted(error)
            self._trace = shown_traceback(error)
            with suppress(Exception):  # the first error is the one to show
                self._ending()
            if isinstance(error, (RowError, KeyboardInterrupt)):
                raise error.with_traceback(self._trace) from error.__cause__
            raise
        finally:
            clock.leave()

    def _delivered(self, rows: BlockRows, lost_log: LostLog) -> Iterator[object]:
        """The rows that were not skipped; the others are counted in their turn."""
        for row in rows:
            if not isinstance(row, Skipped):
                value = row
            else:
                try:
                    self._counts = lost_log.add(row.skips, self._counts)
                except Exception as error:
                    self._error, self._trace = error, error.__traceback__
                    raise
                if row.is_row:
                    continue
                value = row.value
            if lost_log.counts_rows:
                self._counts = self._counts._replace(rows=self._counts.rows + row_count(value))
            yield value

    def _block_of_stage(self) -> Block | None:
        try:
            return next(self._blocks, None)
        except (ValueError, SystemError) as error:
            raise_interrupt(error)
            if is_executing(error):  # chains in C may now lose rows that another thread gets, so it ends the run
                raise LoaderError(ONE_THREAD) from None
            raise


def is_executing(error: Exception) -> bool:
    """Whether `send`, `next` or `close` itself raised it, because another thread runs the generator."""
    return isinstance(error, ValueError) and error.__traceback__ is not None and error.__traceback__.tb_next is None


def interrupted(error: BaseException) -> LoaderError:
    """The error of a run that an interrupt has ended, at each later `next`."""
    return LoaderError(f"{type(error).__name__} has ended this run before its end; begin a new one")


def empty_block() -> PlanError:
    """The error of a run that gets a block without rows: its operators break their contract."""
    return PlanError(
        "a block must have rows, but an operator of this pipe gave an empty one; `feedpipe.testing.check_operator` "
        "says which operator breaks its contract"
    )


def known_length(stage: Stage) -> int | None:
    """The number of elements; None if only a run can tell.

    If rows may be skipped, it is known only of an indexed pipe that regroups them: its groups become shorter.
    """
    if stage.may_skip and (not stage.indexed or stage.loses_elements):
        return None
    return stage.length


def length_of(stage: Stage) -> int:
    """The number of elements.

    Raises:
        UnknownLengthError: the length is not known before a run; the error names the operator.
    """
    if stage.length is not None and known_length(stage) is None:
        raise UnknownLengthError(
            "the length of this pipe is not known before a run, because rows that fail are skipped; count the elements "
            "of a run, or give a loader `steps=`"
        )
    return position_count(stage)


def position_count(stage: Stage) -> int:
    """As `length_of`, with the elements that are skipped because they fail."""
    if stage.length is not None:
        return stage.length
    raise UnknownLengthError(
        f"the length of this pipe is not known before a run{unknown_length_reason(stage)}; count the elements of a "
        "run, or give a loader `steps=`"
    )


def unknown_length_stage(stage: Stage) -> Stage | None:
    """The first stage on the way from the source whose length is not known; None if that of `stage` is known."""
    if stage.length is not None:
        return None
    while (source := next((s for s in stage.inputs if s.length is None), None)) is not None:
        stage = source
    return stage


def unknown_length_reason(stage: Stage) -> str:
    """The reason for an unknown length, as a part of an error message; empty if each stage knows its length."""
    unknown = unknown_length_stage(stage)
    if unknown is None and stage.may_skip:
        return ", because rows that fail are skipped"
    return "" if unknown is None else f", because of `{node_code(unknown.node)}`"


def at_index(stage: Stage, index: int) -> object:
    """Element `index` of an indexed stage; a negative index counts from the end."""
    if not stage.indexed:
        raise UnknownLengthError(
            f"only an indexed pipe gives rows by number, and `{node_code(stage.node)}` is streamed; "
            "`.load()` makes a pipe indexed"
        )
    length = position_count(stage)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range for a pipe of {length} elements")
    at = index % length
    context = Context()
    try:
        return present(next(iter(stage.rows(range(at, at + 1), context))))
    except RowError as error:
        raise error.with_traceback(shown_traceback(error)) from error.__cause__
    finally:
        context.process.resources.end_threads()


def present(row: object) -> object:
    """A row that was asked for by its number; a `DataError` if it was skipped."""
    if not isinstance(row, Skipped):
        return row
    if row.is_row:
        raise DataError(f"this element was skipped, because `{row.skips[-1].operator}` failed: {row.skips[-1].error}")
    return row.value


def check_cursor(stage: Stage, plain: Json) -> None:
    """Raise a `ValueError` if no run of `stage` makes this cursor. It reads nothing, and calls no user's function."""
    try:
        at = checked_cursor(plain)
        if stage.indexed and at.token is not None:
            raise ValueError("has a token, and the position alone says where it is")
        if stage.leaves_out:
            at, _ = parted_cursor(at, len(stage.inputs))
        cursors = [] if stage.indexed else [*stage.op.input_cursors(stage, at)]
    except Exception as error:
        raise ValueError(f"no cursor of `{node_code(stage.node)}`: {error}") from error
    for source, cursor in cursors:
        check_cursor(cast("Stage", source), cursor)
