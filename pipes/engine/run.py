"""Runs a pipe in the calling thread: unsharded, with seed 0 and epoch 0."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import START, Cursor
from ..core.graph import node_code
from ..errors import LoaderError, PlanError, RowError, UnknownLengthError, shown_traceback
from .stage import Stage


class Run:
    """Iterates over the elements of a stage. A run that has failed raises the same error at each later `next`."""

    def __init__(self, stage: Stage, context: Context | None = None, at: Cursor = START) -> None:
        self._context = context or Context()
        self._blocks = stage.blocks(at, self._context)
        self._rows: Iterator[object] = iter(())
        self._error: Exception | None = None
        self._trace: TracebackType | None = None

    def __iter__(self) -> Run:
        return self

    def __next__(self) -> object:
        for row in self._rows:
            return row
        if self._error is not None:
            raise self._error.with_traceback(self._trace)  # its first traceback: each `raise` would add to it
        try:
            block = self._next_block()
        except RowError as error:
            raise error.with_traceback(shown_traceback(error)) from error.__cause__
        if block is None:
            raise StopIteration
        self._rows = iter(block.rows)
        for row in self._rows:
            return row
        raise empty_block()

    def _next_block(self) -> Block | None:
        clock = self._context.pacing.clock
        clock.enter()
        try:
            return next(self._blocks, None)
        except BaseException as error:
            self._error = error if isinstance(error, Exception) else interrupted(error)
            self._trace = shown_traceback(error)
            raise
        finally:
            clock.leave()


def interrupted(error: BaseException) -> LoaderError:
    """The error of a run that an interrupt has ended, at each later `next`."""
    return LoaderError(f"{type(error).__name__} has ended this run before its end; begin a new one")


def empty_block() -> PlanError:
    """The error of a run that gets a block without rows: its operators break their contract."""
    return PlanError(
        "a block must have rows, but an operator of this pipe gave an empty one; `feedpipe.testing.check_operator` "
        "says which operator breaks its contract"
    )


def length_of(stage: Stage) -> int:
    """How many elements come out.

    Raises:
        UnknownLengthError: the length is not known before a run; the error names the operator.
    """
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
    """The operator because of which a length is not known, for errors; no text if each stage knows its own."""
    unknown = unknown_length_stage(stage)
    return "" if unknown is None else f", because of `{node_code(unknown.node)}`"


def at_index(stage: Stage, index: int) -> object:
    """Element `index` of an indexed stage; a negative index counts from the end."""
    if not stage.indexed:
        raise UnknownLengthError(
            f"only an indexed pipe gives rows by number, and `{node_code(stage.node)}` is streamed; "
            "`.load()` makes a pipe indexed"
        )
    length = length_of(stage)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range for a pipe of {length} elements")
    at = index % length
    try:
        return next(iter(stage.rows(range(at, at + 1), Context())))
    except RowError as error:
        raise error.with_traceback(shown_traceback(error)) from error.__cause__
