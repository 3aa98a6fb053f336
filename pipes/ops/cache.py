"""`cache`: keeps rows in files, for later epochs and runs and other processes."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from ..core.block import Block, split_block
from ..core.checks import check_bytes
from ..core.context import Context
from ..core.cursor import START, Cursor, Json, check_numbers
from ..core.graph import Node, node_code, walk
from ..core.operator import READS_FOR_ALL_EPOCHS, Amount, Input, Operator, Order, StageView, Trait
from ..core.process import PerProcess, bytes_text
from ..core.rows import BlockRows, Indices
from ..engine.stage import Stage
from ..errors import ArgumentError, ArgumentTypeError, DataError, PlanError, SourceError
from ..files.open_files import at_call_site
from ..files.units import ParseUnits
from ..formats.row_buffers import StoredRows
from ..storage.row_files import TemporaryFolder, other_caches
from ._cached_rows import (
    CachedRows,
    Page,
    PendingPage,
    SkippingStep,
    UnfitRowsError,
    find_renumbering,
    skipped_in,
    steps_before,
)
from ._shared import SameRows

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")

LOG = logging.getLogger("feedpipe")


def cache(
    pipe: Pipe[T],
    /,
    path: str | os.PathLike[str] | None = None,
    *,
    version: str = "",
    limit: int | str = "10GiB",
    freeze: bool = False,
) -> Pipe[T]:
    """Keep the rows in files, so that what is before runs once for each row, and not in each epoch.

    Element, order and length are the input's; indexed if the input is. State: a position; it is the same whether the
    cache is full, partial or gone. Rows are written as they are made, and read in any later epoch or run, by all
    workers and ranks of the machine. A damaged file counts as missing. `explain()` says what the cache holds.

    Rows that a policy skips are counted and recorded in each epoch. A cache of a streamed pipe skips the same rows each
    time; before that of an indexed pipe they are tried again.

    Each row is kept if it consists of numbers, text, bytes, dates, NumPy arrays and tensors, columns of tables, and
    lists, tuples and dicts of these. Nothing that is read from a cache can run code.

    The folder has a cache for each pipe: a fingerprint of the operators before it, their arguments, listed files and
    functions' code. If these change, another cache begins beside the old one, with a warning. What the fingerprint does
    not see belongs into `version`: global variables, and the content of files that keep their names and sizes.

    Rows of files that are parsed (`parse_csv` and the like) are kept by parts of files, which shards divide among them.
    Any other streamed input, such as a `filter` of an iterable, is read by each process from its beginning.

    Args:
        path: a local folder. Without it, the rows are in shared memory, and removed with the pipe, at the latest at the
            end of the process; the workers of a loader share them.
        version: any text; another version is another cache.
        limit: the number of bytes that the rows may take, as an int or a string such as "500MB". Beyond it, or if the
            disk is full, rows that are not kept are made in each epoch, after one warning.
        freeze: allows random draws before it, and fixes them as they are with seed 0 in epoch 0.

    Raises:
        PlanError: operators before it draw at random, and `freeze` is not given; `shard_by_rank()` comes before it; or
            an operator of a streamed pipe, such as `filter` or `batch`, follows a function with a policy for errors.
        ArgumentError: `limit` is not a size in bytes, or `path` is empty or a URL.
        SourceError: the folder cannot be written to. It is raised at the first row.
        DataError: a row has a value that no file of a cache holds.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(3)).map(lambda x: x * x).cache("squares")
        >>> list(pipe), list(pipe)
        ([0, 1, 4], [0, 1, 4])
    """
    folder = check_place(path, version)
    check_bytes("limit", limit)
    if any(node.op.trait is Trait.SHARD for node in walk(pipe)):
        raise PlanError(
            "`cache()` must come before `shard_by_rank()`, because it keeps rows for all ranks and a shard has "
            "only its part of them; swap the two"
        )
    draw = find_draw(pipe)
    if draw is not None and not freeze:
        raise PlanError(
            f"`cache()` must not follow `{node_code(draw).lstrip('.')}`, which draws at random, because "
            "it would keep the rows of one seed and epoch; put it before, or give `freeze=True` to have the same "
            "draws in all epochs"
        )
    by_units = not pipe.indexed and draw is None and parses_files(pipe)
    return pipe.then(
        Cache(folder, version=version, limit=limit, freeze=freeze, by_units=by_units, by_position=pipe.indexed)
    )


@dataclass(frozen=True, eq=False, repr=False)
class Cache(SameRows):
    """Keeps the rows of its input in files.

    The key of a row is its position if the input is indexed. A streamed input that parses files is kept by units of
    files, so that any shard finds the units that another one has read; any other streamed input is one unit. A token is
    [number of the unit in the run, row in the unit, the input's cursor there].
    """

    kind: ClassVar[str] = "cache"
    moves_skipped: ClassVar[bool] = True

    # Rows do not depend on the place.
    path: str | None = field(default=None, compare=False)
    version: str = field(default="", kw_only=True, compare=False)
    limit: int | str = field(default="10GiB", kw_only=True, compare=False)
    freeze: bool = field(default=False, kw_only=True)
    by_units: bool = field(default=False, kw_only=True, repr=False)
    by_position: bool = field(default=False, kw_only=True, repr=False)
    folder: Path | None = field(default=None, kw_only=True, repr=False, compare=False)
    owned: TemporaryFolder | None = field(default=None, kw_only=True, repr=False, compare=False)
    steps: tuple[SkippingStep, ...] = field(default=(), kw_only=True, repr=False, compare=False)
    memory: PerProcess[CachedRows] = field(default_factory=PerProcess, kw_only=True, repr=False, compare=False)

    @property
    def order(self) -> Order:  # type: ignore[override]
        return Order.ROW_LOCAL if self.by_position or self.by_units else Order.GLOBAL

    @property
    def expands(self) -> bool:  # type: ignore[override]
        return self.by_units

    @property
    def trait(self) -> Trait | None:  # type: ignore[override]
        return Trait.WHOLE_UNITS if self.by_units else None

    def resolve(self, stage: StageView) -> Operator:
        source = cast("Stage", stage.input)
        renumbering = None if self.by_position else find_renumbering(source)
        if renumbering is not None:
            code = node_code(renumbering.node).lstrip(".")
            raise PlanError(
                f"`cache` must come before `{code}`, because it keeps rows of a stream by their number, which "
                f"`{renumbering.op.kind}` changes if a row fails at one time and not at another; swap the two",
                at=stage.call_site,
            )
        if self.folder is not None:
            return self
        steps = () if self.by_position else steps_before(source)
        if self.path is None:
            owned = TemporaryFolder()
            return replace(self, folder=owned.path / "rows", owned=owned, steps=steps, memory=PerProcess())
        base = Path(os.path.abspath(os.path.expanduser(self.path)))
        key = rows_key(source.node, self.version)
        others = other_caches(base, key)
        if others and not (base / key).exists():
            LOG.warning(
                "the cache in %s starts empty: the %d in it %s of another pipe, of other code or of another `version`; "
                "remove those that are no longer needed",
                base,
                others,
                "is" if others == 1 else "are",
            )
        return replace(self, folder=base / key, steps=steps, memory=PerProcess())

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def remark(self, stage: StageView) -> str | None:
        cached = self._cached(stage)
        files, limit = cached.files, bytes_text(check_bytes("limit", self.limit))
        folder = files.folder if self.path is None else Path(self.path, files.folder.name)
        return f"holds {cached.count} rows, {bytes_text(files.bytes)} of {limit}, in {folder}"

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        yield stage.input, index, context.epoch_independent()

    def reads(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        return iter(()) if self._cached(stage).has(index) else self.trace(stage, index, context)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        cached = self._cached(stage)
        context.process.resources.get(("cache", id(cached)), lambda: cached)
        clock = context.pacing.clock

        def make(missing: Indices) -> BlockRows:
            clock.count("misses", stage.name, len(missing))
            clock.count("hits", stage.name, -len(missing))
            return stage.input.rows(missing, context.epoch_independent())

        clock.count("hits", stage.name, len(indices))
        try:
            rows = cached.rows(indices, make)
        except UnfitRowsError as error:
            raise at_call_site(DataError(str(error)), stage) from error
        if context.process.resources.closed:  # while another thread made the rows
            cached.flush()
        return skipped_in(rows, context)

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        index, row, inner = cast("tuple[int, int, Json]", at.token or (0, 0, None))
        check_numbers(index, row)
        yield stage.input, inner

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        index, _, inner = cast("tuple[int, int, Json]", at.token or (0, 0, None))
        if self.by_units:
            return _units_of(cast("Stage", stage.input)).amount_before([None, index, 0], context)
        return stage.input.amount_before(inner, context.epoch_independent())

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        index, row, inner = cast("tuple[int, int, Json]", at.token or (0, 0, None))
        inner_context = context.epoch_independent()
        source = cast("Stage", stage.input)
        units = _units_of(source) if self.by_units else None
        position = at.row
        for number in range(index, 1 if units is None else units.length or 0):
            if units is None:
                unit, unit_source = 0, source
            else:
                (value,) = units.rows(range(number, number + 1), context)  # says that the unit is opened
                unit = _number_of(units, number, context)
                unit_source = _on_unit(source, units, _Unit(value, unit))
            run = _UnitRun(self._cached(stage), stage.name, unit_source, number, unit, inner_context)
            part = None if units is None else unit
            try:
                for block in context.running.add(run.blocks(row, inner, position)):
                    position = block.end.position
                    output = [Block(skipped_in(block.rows, context, part), block.at, block.end, block.origins)]
                    del block  # only the consumer holds it now
                    yield output.pop()
            except UnfitRowsError as error:
                raise at_call_site(DataError(str(error)), stage) from error
            row, inner = 0, None

    def _cached(self, stage: StageView) -> CachedRows:
        try:
            return self.memory.get(lambda: self._open(stage))
        except SourceError as error:
            raise at_call_site(error, stage) from error.__cause__

    def _open(self, stage: StageView) -> CachedRows:
        assert self.folder is not None, "a run begins with `resolve`"
        length = stage.input.length or 0 if self.by_position else None
        limit = check_bytes("limit", self.limit)
        return CachedRows(self.folder, limit, self.steps, length, outlives=self.path is not None)


class _UnitRun:
    """One unit: the rows that are in the cache, and the others from the input."""

    def __init__(self, cached: CachedRows, name: str, source: Stage, number: int, unit: int, context: Context) -> None:
        self._cached = cached
        self._name = name
        self._source = source
        self._number = number
        self._unit = unit
        self._context = context

    def blocks(self, row: int, inner: Json, position: int) -> Iterator[Block]:
        """Give the rows of the unit from `row` on, whose cursor in the input is `inner`; its position is `position`."""
        block_size = self._context.block_size()
        last = False
        while not last:
            stored = self._stored(row)
            if stored is None:
                row, inner, position, last = yield from self._make(row, inner, position)
                continue
            page, values = stored
            numbers = range(row, page.numbers.stop)
            if numbers:
                first = page.numbers.start
                at = Cursor([self._number, first, page.at], row - first, position - (row - first))
                row, inner, position = numbers.stop, page.end, position + len(numbers)
                self._context.pacing.clock.count("hits", self._name, len(numbers))
                end = Cursor([self._number, row, inner], 0, position)
                yield from split_block(Block(page.rows(values, numbers), at, end), block_size)
            last = page.last

    def _stored(self, row: int) -> tuple[Page, StoredRows] | None:
        tracing = self._context.tracing
        return None if tracing.origins or tracing.raises else self._cached.page(self._unit, row)

    def _make(self, row: int, inner: Json, position: int) -> Generator[Block, None, tuple[int, Json, int, bool]]:
        """Give the rows from a place on, up to the first that is in the cache; return its place, or that of the end."""
        at = START.advance(row) if inner is None else Cursor.of(inner)
        pending = PendingPage(self._unit, row, at.plain, at.plain)
        last = False
        try:
            for block in self._source.blocks(at, self._context):
                start, inner = Cursor([self._number, row, block.at.plain], 0, position), block.end.plain
                row, position = row + len(block), position + len(block)
                self._context.pacing.clock.count("misses", self._name, len(block))
                end = Cursor([self._number, row, inner], 0, position)
                output = [Block(block.rows, start, end, block.origins)]
                self._cached.keep(pending, block.rows, None, inner)
                del block  # only the consumer holds it now
                yield output.pop()
                if self._stored(row) is not None:
                    return row, inner, position, last
            last = True
            return row, inner, position, last
        finally:
            self._cached.write(pending, last=last)


@dataclass(frozen=True, eq=False, repr=False)
class _Unit(Operator):
    """One of the units."""

    kind: ClassVar[str] = "deal"

    value: object = field(repr=False, compare=False)
    number: int

    def length(self, stage: StageView) -> int:
        return 1

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return [self.value for _ in indices]


def check_place(path: object, version: object) -> str | None:
    """Return the local folder in which a user wants rows to be kept, if there is one."""
    if not isinstance(version, str):
        raise ArgumentTypeError(f"`version` must be a str but got: {version!r}")
    if path is None:
        return None
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(f"`path` must be the path of a folder but got: {path!r}")
    folder = os.fspath(cast("str", path))
    if not folder or "://" in folder:
        raise ArgumentError(f"`path` must be the path of a local folder but got: {folder!r}")
    return folder


def parses_files(root: Node) -> bool:
    """Return whether shards divide a streamed pipe by units of files, with row-local operators after these."""
    node, parses = root, False
    while not node.indexed:
        if len(node.inputs) != 1 or node.op.order is not Order.ROW_LOCAL:
            return False
        parses = isinstance(node.op, ParseUnits)
        node = node.inputs[0]
    return parses


def find_draw(root: Node) -> Node | None:
    """Return an operator that gives other rows, or another order, with another seed or epoch, if there is one."""
    stack = [root]
    while stack:
        node = stack.pop()
        op = node.op
        if op.trait in READS_FOR_ALL_EPOCHS or getattr(op, "freeze", False):
            continue  # the rows before it are always those of seed 0 and epoch 0
        if node.inputs and (op.order is Order.REORDERS or op.reshuffles() or getattr(op, "rng", False)):
            return node
        stack += node.inputs
    return None


def _units_of(source: Stage) -> Stage:
    while not source.indexed:
        source = source.input
    return source


def _number_of(units: Stage, number: int, context: Context) -> int:
    """Return the number of a unit among all units of the pipe."""
    if isinstance(units.op, _Unit):
        return units.op.number
    if units.op.trait is not Trait.DEALS_UNITS:
        return number
    _, index, _ = next(units.op.trace(units, number, context))
    return index


def _on_unit(source: Stage, units: Stage, unit: _Unit) -> Stage:
    """Return the path from the units to `source`, for one of the units."""
    path: list[Stage] = []
    while source is not units:
        path.append(source)
        source = source.input
    stage = Stage(Node(unit), units.name, ())
    for step in reversed(path):
        stage = Stage(Node(step.op, (stage.node,), step.call_site), step.name, (stage,))
    return stage


def rows_key(root: Node, version: str) -> str:
    """Return a digest of the operators up to `root`, their arguments, data and code, and the user's version."""
    from ..plan.fingerprint import Fingerprint

    fingerprint = Fingerprint(root)
    text = json.dumps([fingerprint.pipe, fingerprint.code, version])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
