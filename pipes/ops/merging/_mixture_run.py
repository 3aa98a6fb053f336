"""`MixtureRun`: takes rows of several streamed inputs in turn."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence
from typing import ClassVar, Protocol, cast

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import START, Cursor, Json, check_numbers
from ...core.operator import Input, StageView
from ...core.rows import BlockRows
from ...core.take_joined import take_joined
from ...errors import DataError, Origin, with_call_site
from ._turn_windows import TurnWindow
from ._turns import FixedTurns, Turns

log = logging.getLogger("feedpipe")


class MixedRows(Protocol):
    """What a run needs of its operator."""

    kind: ClassVar[str]

    @property
    def stop(self) -> str: ...
    @property
    def columnar(self) -> bool: ...
    @property
    def leaves_out(self) -> bool: ...
    @property
    def repeats_inputs(self) -> bool: ...
    def sources(self, stage: StageView, rounds: Sequence[int], first: int, epoch: int) -> list[int]: ...
    def turns(self, stage: StageView, sources: Sequence[int], epoch: int) -> FixedTurns: ...
    def random_turns(self, stage: StageView, turns: Turns, context: Context, end: int | None = None) -> Turns: ...
    def empty_input(self, number: int) -> str: ...


class MixtureRun:
    """One run.

    A token is [position among the turns, input from which their order begins, how often each input has ended, cursors].
    A block of an input is read when the input has a turn and no rows are left of its last block. What comes out is as
    many rows as the blocks at hand give.
    """

    def __init__(self, op: MixedRows, stage: StageView, at: Cursor, context: Context) -> None:
        count = len(stage.inputs)
        self._position, self._first, rounds, cursors = _read_token(at.token, count)
        self._op = op
        self._stage = stage
        self._context = context
        self._row = at.row
        self._rounds = list(rounds)
        self._cursors = list(cursors)
        self._readers = [self._reader(source) for source in range(count)]
        self._rows_given = [0] * count
        self._block_size = context.block_size()

    def blocks(self) -> Iterator[Block]:
        op, stage, epoch = self._op, self._stage, self._context.epoch
        try:
            while sources := op.sources(stage, self._rounds, self._first, epoch):
                turns = op.random_turns(stage, op.turns(stage, sources, epoch), self._context)
                ended = yield from self._until_an_end(sources, turns)
                if not self._goes_on_after(ended, sources):
                    return
        finally:
            self._report()

    def _goes_on_after(self, ended: int, sources: Sequence[int]) -> bool:
        """Whether there are rows after the end of an input."""
        self._rounds[ended] += 1
        if self._op.leaves_out:
            self._cursors[ended] = None
            self._position, self._first = 0, ended + 1
            return True
        if not self._op.repeats_inputs or all(self._rounds[source] for source in sources):
            return False
        if self._readers[ended].is_empty:
            raise DataError(with_call_site(self._op.empty_input(ended), self._stage.call_site))
        self._cursors[ended] = None
        self._readers[ended] = self._reader(ended)
        return True

    def _reader(self, source: int) -> _MixedInput:
        context = self._context.round(self._rounds[source]) if self._op.repeats_inputs else self._context
        at = Cursor.of(self._cursors[source])
        return _MixedInput(self._stage.inputs[source].blocks(at, context), at)

    def _until_an_end(self, sources: Sequence[int], turns: Turns) -> Generator[Block, None, int]:
        """The rows up to the turn of an input that has ended. Returns the number of that input."""
        window = TurnWindow(turns, len(sources), self._position)
        while True:
            if self._position == window.stop:
                window = TurnWindow(turns, len(sources), self._position)
            source = sources[window.source(self._position)]
            reader = self._readers[source]
            if not reader.rows_left and not reader.read():
                return source
            output = [self._mixed(sources, window)]
            self._block_size.produced(output[0].rows)
            yield output.pop()

    def _mixed(self, sources: Sequence[int], window: TurnWindow) -> Block:
        """The rows of the turns from here on, as far as the rows at hand and the window go."""
        at = Cursor(self._token(), 0, self._row)
        stop = min(self._position + self._block_size.rows(), window.stop)
        stretch = window.stretch(self._position, stop, [self._readers[source].rows_left for source in sources])
        parts: list[BlockRows] = []
        origins: list[Origin | None] = []
        for number, _, count in stretch.parts():
            source = sources[number]
            part = self._readers[source].take(count)
            parts.append(part.rows if self._op.columnar or isinstance(part.rows, list) else list(part.rows))
            origins += part.origins or ()
            self._cursors[source] = self._readers[source].cursor.plain
            self._rows_given[source] += count
        places = stretch.places
        self._position += len(places)
        self._row += len(places)
        rows = parts[0] if len(parts) == 1 else take_joined(parts, places)[0]
        return Block(
            rows, at, Cursor(self._token(), 0, self._row), [origins[place] for place in places] if origins else None
        )

    def _token(self) -> Json:
        return [self._position, self._first, list(self._rounds), list(self._cursors)]

    def _report(self) -> None:
        """Adds the rows that were taken of each input to those of the other shards of this process."""
        key = "mixture", self._stage.name, self._context.epoch
        resources = self._context.process.resources
        rows = resources.get(key, lambda: RowsTaken(self._op.kind, self._context.epoch, len(self._rows_given)))
        rows.add(self._rows_given)


def mixture_cursors(stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
    """The cursor of each input in a token."""
    position, first, rounds, cursors = _read_token(at.token, len(stage.inputs))
    check_numbers(position, first, *rounds)
    for source, _, cursor in zip(stage.inputs, rounds, cursors, strict=True):
        yield source, cursor


def _read_token(token: Json, inputs: int) -> tuple[int, int, list[int], list[Json]]:
    start = [0, 0, [0] * inputs, [None] * inputs]
    return cast("tuple[int, int, list[int], list[Json]]", token or start)


class _MixedInput:
    """Reads one input.

    Attributes:
        cursor: of the next row.
        rows_left: how many rows are left of the block that was read last.
        is_empty: whether it was read from the start and gave no rows.
    """

    def __init__(self, blocks: Iterator[Block], at: Cursor) -> None:
        self.cursor = at
        self.rows_left = 0
        self.is_empty = at == START
        self._blocks = blocks
        self._block: Block | None = None

    def read(self) -> bool:
        """Reads the next block; False if there is none."""
        self._block = next(self._blocks, None)
        if self._block is None:
            return False
        self.rows_left = len(self._block)
        self.is_empty = False
        return True

    def take(self, count: int) -> Block:
        """The next `count` rows, which are in one block."""
        block = self._block
        assert block is not None, "only rows at hand are taken"
        start = len(block) - self.rows_left
        part = block.slice(start, start + count)
        self.cursor = part.end
        self.rows_left -= count
        if not self.rows_left:
            self._block = None
        return part


class RowsTaken:
    """The rows that the shards of one process have taken of each input in one epoch; logged at its end."""

    def __init__(self, kind: str, epoch: int, inputs: int) -> None:
        self._kind = kind
        self._epoch = epoch
        self._rows = [0] * inputs

    def add(self, rows: Sequence[int]) -> None:
        self._rows = [total + more for total, more in zip(self._rows, rows, strict=True)]

    def close(self) -> None:
        rows = ", ".join(map(str, self._rows))
        log.info("epoch %d: `%s` has taken %s rows of its inputs", self._epoch, self._kind, rows)
