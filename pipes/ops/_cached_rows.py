"""The rows of a cache: pages of them in files, one index of these, and the records of rows that were skipped."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Parted, has_skipped, nbytes, parted
from ..core.context import Context
from ..core.cursor import Json
from ..core.ending import Ending
from ..core.graph import walk
from ..core.operator import Order, Trait
from ..core.rows import Array, BlockRows, Indices, concat, index_array, take
from ..core.skips import Quarantine, Skipped, SkippedRow, skips
from ..engine.skips import code_without_policy
from ..engine.stage import Stage
from ..errors import UnfitError
from ..files.units import ParseUnits
from ..formats.row_buffers import Buffers, Node, StoredRows, snapshot
from ..storage.mapping import room_for_mappings
from ..storage.row_files import NoRoomError, RowFile, RowFiles

LOG = logging.getLogger("feedpipe")

Numbers = npt.NDArray[np.int64]

Marks: TypeAlias = Mapping[int, Skipped]
"""Skipped rows by their place."""

FILE_BYTES = 2**24
"""The size of a page, about."""
_MISSING, _PENDING = -1, -2
_NO_KEYS = np.zeros(0, np.uint8)
_MAX_OPEN = 4096


class Page(NamedTuple):
    """Rows of a unit in the order in which one process made them, in a file of their own.

    Attributes:
        file: those that were not skipped.
        numbers: of the rows in the unit, if these are adjacent; else empty.
        at, end: the plain cursors of a streamed input at the first of them and after the last.
        last: whether the unit ends after them.
        skipped: those that were skipped, by their place in the page.
    """

    file: RowFile
    numbers: range
    at: Json
    end: Json
    last: bool
    skipped: Marks

    def rows(self, stored: StoredRows, numbers: range) -> BlockRows:
        """Return the rows with these adjacent numbers."""
        first, count = numbers.start - self.numbers.start, len(numbers)
        if not self.skipped:
            return stored.rows(range(first, first + count))
        skipped = {place - first: mark for place, mark in self.skipped.items() if first <= place < first + count}
        places = [place for place in range(count) if place not in skipped or not skipped[place].is_row]
        before = first - sum(place < first and mark.is_row for place, mark in self.skipped.items())
        values = stored.rows(range(before, before + len(places)))
        return Parted(values, places, skipped, count).merged(values)


@dataclass
class PendingPage:
    """Rows of a unit that this process has made and not written yet.

    Attributes:
        start: the number of the first of them in the unit.
        at, end, skipped: as in `Page`.
        positions: theirs, if the input is indexed; they need not be adjacent.
        rows: those that were not skipped.
        count, bytes: of all rows.
    """

    unit: int = 0
    start: int = 0
    at: Json = None
    end: Json = None
    positions: list[Numbers] = field(default_factory=list)
    rows: list[BlockRows] = field(default_factory=list)
    skipped: dict[int, Skipped] = field(default_factory=dict)
    count: int = 0
    bytes: int = 0

    def add(self, parts: Parted, positions: Numbers | None, end: Json) -> None:
        if positions is not None:
            self.positions.append(positions)
        if len(parts.values):
            self.rows.append(parts.values)
        for place, mark in parts.skipped.items():
            self.skipped[self.count + place] = mark
            self.bytes += len(repr(mark.skips))
        self.end = end
        self.count += parts.total
        self.bytes += nbytes(parts.values)

    def taken(self) -> PendingPage:
        """Return these rows; this is then the page after them."""
        page = PendingPage(**vars(self))
        vars(self).update(vars(PendingPage(self.unit, self.start + self.count, self.end, self.end)))
        return page


class CachedRows:
    """The rows of a pipe, which several processes write and read, for all threads of one of them.

    An indexed pipe is one unit. Its rows have positions, and any page may have any of them. Pages of other units have
    adjacent rows; those of several processes may overlap. A page with skipped rows counts as missing if the policies of
    `steps` ask for more than it has.

    Args:
        folder, limit: see `RowFiles`.
        steps: the operators that may have skipped rows of a streamed pipe.
        length: of an indexed pipe; None if it is streamed.
        outlives: whether the folder is there after this process.
    """

    def __init__(
        self, folder: Path, limit: int, steps: tuple[SkippingStep, ...], length: int | None, *, outlives: bool
    ) -> None:
        self.files = RowFiles(folder, limit)
        self._steps = steps
        self._length = length
        self._lock = threading.RLock()
        self._is_checked = False
        self._opened: OrderedDict[str, StoredRows] = OrderedDict()
        self._pages: dict[int, list[Page]] = {0: []}
        """By unit; those of a streamed pipe in the order of their rows."""
        self._page_of = np.full(length or 0, _MISSING, np.int32)  # of each position
        self._place_of = np.zeros(length or 0, np.int32)
        self._pending = PendingPage()
        if outlives:
            self._ending = Ending(self, partial(_write_at_end, self.files, self._pending))
        self._scan()

    @property
    def count(self) -> int:
        """The number of rows in files; those of overlapping pages of a streamed pipe count several times."""
        self._scan()
        if self._length is not None:
            return int((self._page_of >= 0).sum())
        pages = [page for pages in self._pages.values() for page in pages]
        return sum(len(page.numbers) - sum(mark.is_row for mark in page.skipped.values()) for page in pages)

    def keep(self, pending: PendingPage, rows: BlockRows, positions: Numbers | None, end: Json) -> None:
        """Add rows to a page as they are now, whatever the consumer does to them; write it if it is large enough."""
        if not self.files.usable:
            return
        parts = parted(rows)
        if not self._is_checked and len(parts.values):
            packed_rows(take(parts.values, range(1)), Buffers())
            self._is_checked = True
        if positions is not None:
            self._page_of[positions] = _PENDING
        pending.add(parts._replace(values=snapshot(parts.values)), positions, end)
        if pending.bytes >= FILE_BYTES:
            self.write(pending)

    def write(self, pending: PendingPage, *, last: bool = False) -> None:
        """Write a page, if it has rows or is the last of its unit, and begin the one after it."""
        page = pending.taken()
        if self.files.usable and (page.count or last):
            self._scan()  # what other processes have written counts against the limit
            file = _write(self.files, page, self._steps, last)
            with self._lock:
                if file is not None:
                    self._enter(file)

    def flush(self) -> None:
        """Write the rows of an indexed pipe that this process has made."""
        with self._lock:
            self.write(self._pending)

    close = flush  # at the end of a run, which another one may follow

    def page(self, unit: int, row: int) -> tuple[Page, StoredRows] | None:
        """Return the page with a row of a unit, or the last page if the unit has no such row; None if there is none."""
        with self._lock:
            pages = self._pages.get(unit, [])
            while (index := bisect_right(pages, row, key=_first_number)) > 0:
                page = pages[index - 1]
                if row >= page.numbers.stop and not page.last:
                    return None
                stored = self._stored(page)
                if stored is not None:
                    return page, stored
                del pages[index - 1]
            return None

    def has(self, position: int) -> bool:
        """Return whether the row is in a file, or will be as soon as it is asked for."""
        number = int(self._page_of[position])
        return number >= 0 or (number == _PENDING and self.files.usable)

    def rows(self, indices: Indices, make: Callable[[Indices], BlockRows]) -> BlockRows:
        """Return the rows at these positions; `make` makes those that are in no file."""
        if not len(indices):
            return make(indices)
        if (adjacent := self._adjacent(indices)) is not None:
            return adjacent
        positions = index_array(indices)
        with self._lock:
            owners, stored = self._owners(positions)
            order = np.argsort(owners, kind="stable")  # rows of one page side by side, and those of no page first
            groups = np.split(order, np.flatnonzero(np.diff(owners[order])) + 1)
            missing = groups.pop(0) if owners[order[0]] < 0 else order[:0]
            parts = [self._rows_of(stored[int(owners[group[0]])], positions[group]) for group in groups]
        if len(missing):
            rows = make(indices if not parts else positions[missing])
            self._keep_good(positions[missing], rows)
            parts.insert(0, rows)
        joined = concat(parts)
        if len(parts) == 1 or (np.diff(order) == 1).all():
            return joined
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return take(joined, places)

    def _adjacent(self, indices: Indices) -> BlockRows | None:
        """Return the rows at `indices` if one page has all of them, side by side."""
        if not isinstance(indices, range) or indices.step != 1:
            return None
        owner = int(self._page_of[indices.start])
        if owner < 0 or indices.stop > (page := self._pages[0][owner]).numbers.stop:
            return None
        with self._lock:
            stored = self._stored(page)
        return None if stored is None else page.rows(stored, indices)

    def _owners(self, positions: Numbers) -> tuple[npt.NDArray[np.integer[Any]], dict[int, StoredRows]]:
        """Return the number of the page of each row, `_MISSING` if it is in none, and the rows of these pages."""
        owners = self._page_of[positions]
        if (owners == _PENDING).any():
            self.flush()
        if (owners < 0).any():
            self._scan()
            owners = self._page_of[positions]
        opened: dict[int, StoredRows] = {}
        for number in np.flatnonzero(np.bincount(owners[owners >= 0])).tolist():
            rows = self._stored(self._pages[0][number])
            if rows is not None:
                opened[number] = rows
            else:
                self._page_of[self._page_of == number] = owners[owners == number] = _MISSING
        owners = np.maximum(owners, _MISSING)  # a row whose page could not be written is still pending
        # NumPy sorts numbers of 16 bits in linear time.
        return (owners.astype(np.int16) if len(self._pages[0]) < 2**15 else owners), opened

    def _rows_of(self, stored: StoredRows, positions: Numbers) -> BlockRows:
        at = self._place_of[positions].astype(np.int64)
        adjacent = len(at) == 1 or bool((np.diff(at) == 1).all())
        return stored.rows(range(int(at[0]), int(at[-1]) + 1) if adjacent else at)

    def _keep_good(self, positions: Numbers, rows: BlockRows) -> None:
        if has_skipped(rows):  # a row that failed is tried again in each epoch
            parts = parted(rows)
            good = [k for k, place in enumerate(parts.places) if place not in parts.skipped]
            positions = positions[np.array(parts.places, np.int64)[good]]
            rows = take(parts.values, np.array(good, np.int64))
        with self._lock:
            fresh = np.flatnonzero(self._page_of[positions] == _MISSING)
            if self.files.usable and len(fresh):
                rows = rows if len(fresh) == len(positions) else take(rows, fresh)
                self.keep(self._pending, rows, positions[fresh], None)

    def _stored(self, page: Page) -> StoredRows | None:
        """Return the rows in the file of a page; None if it is gone or damaged."""
        file = page.file
        opened = self._opened.get(file.name)
        if opened is None:
            parts = self.files.parts(file.name)
            if parts is None:
                return None
            opened = StoredRows(file.head["rows"], parts, make_tensor)
            while len(self._opened) >= _MAX_OPEN or (self._opened and room_for_mappings() < 0):
                self._opened.popitem(last=False)
            self._opened[file.name] = opened
        return opened

    def _scan(self) -> None:
        """Look for pages of other processes."""
        with self._lock:
            for file in self.files.new():
                self._enter(file)

    def _enter(self, file: RowFile) -> None:
        head = file.head
        skipped = restored(head.get("skipped", []), self._steps)
        if skipped is None:
            return
        numbers = range(head.get("start", 0), head.get("stop", 0))
        page = Page(file, numbers, head.get("at"), head.get("end"), head.get("last", False), skipped)
        if self._length is None:
            insort(self._pages.setdefault(head["unit"], []), page, key=_first_number)
            return
        positions = file.keys.view(np.int64) if len(file.keys) else index_array(numbers)
        if len(positions) and positions.min() >= 0 and positions.max() < self._length:
            self._page_of[positions] = len(self._pages[0])
            self._place_of[positions] = np.arange(len(positions))
            self._pages[0].append(page)


def _first_number(page: Page) -> int:
    return page.numbers.start


def _write_at_end(files: RowFiles, pending: PendingPage) -> None:
    if pending.count:
        with suppress(UnfitRowsError):  # nobody could catch it
            _write(files, pending, (), False)


def _write(files: RowFiles, page: PendingPage, steps: tuple[SkippingStep, ...], last: bool) -> RowFile | None:
    skipped = kept_form(page.skipped, steps)
    if restored(skipped, steps) is None:
        return None  # it could not be read again
    numbers, keys = range(page.start, page.start + page.count), _NO_KEYS
    if page.positions:
        positions = np.concatenate(page.positions)
        if (np.diff(positions) == 1).all():
            numbers = range(int(positions[0]), int(positions[-1]) + 1)
        else:
            numbers, keys = range(0), positions.view(np.uint8)
    buffers = Buffers()
    head: dict[str, Json] = {
        "unit": page.unit,
        "start": numbers.start,
        "stop": numbers.stop,
        "skipped": skipped,
        "at": page.at,
        "end": page.end,
        "last": last,
        "rows": packed_rows(concat(page.rows) if page.rows else [], buffers),
    }
    try:
        return files.write(head, keys, buffers.parts)
    except NoRoomError as error:
        LOG.warning("the cache in %s takes no more rows: %s; other rows are made in each epoch", files.folder, error)
        return None


def make_tensor(array: Array) -> object:
    """The tensor of an array of a file."""
    from ..torch.tensors import tensor_at

    return tensor_at(array.shape, array.dtype, array)


def packed_rows(rows: BlockRows, buffers: Buffers, operator: str = "cache") -> Node:
    """Add rows to memory that will be written; an `UnfitRowsError` names a value that no file holds."""
    try:
        return buffers.rows(rows)
    except (UnfitError, RecursionError) as error:
        raise UnfitRowsError(
            f"`{operator}` cannot hold these rows: {error}; it holds numbers, text, bytes, dates, NumPy arrays, "
            "tensors, and lists, tuples and dicts of these, because reading them back must run no code; `map` the rows "
            f"to such values before `{operator}()`, and back after it"
        ) from error


class UnfitRowsError(UnfitError):
    """Rows that no file holds; the operator adds its line and makes it a `DataError`."""


# Records of rows that were skipped.


class SkippingStep(NamedTuple):
    """An operator before a cache: its call without policies, its name in the pipe, and its policy for errors."""

    code: str
    name: str
    policy: Quarantine | str | None


def steps_before(source: Stage) -> tuple[SkippingStep, ...]:
    """Return the operators up to `source`. All pipes with the same cache have the same, in this order."""
    return tuple(
        SkippingStep(code_without_policy(stage.node), stage.name, stage.op.on_error)
        for stage in walk(source)
        if stage.op.trait is not Trait.TRANSPARENT
    )


def find_renumbering(source: Stage) -> Stage | None:
    """Return an operator that renumbers the rows after one that fails, if there is one.

    A record that a parser skips is malformed each time, but a function that fails may work the next time.
    """
    may_pass: set[Stage] = set()
    for stage in walk(source):
        is_behind = any(before in may_pass for before in stage.inputs)
        may_fail = skips(stage.op.on_error) and not isinstance(stage.op, ParseUnits)
        regroups = not stage.op.moves_skipped or stage.op.order is Order.REGROUPS
        if stage.inputs and not stage.indexed and not stage.one_for_one and (may_fail or (is_behind and regroups)):
            return stage
        if may_fail or is_behind:
            may_pass.add(stage)
    return None


def kept_form(marks: Marks, steps: Iterable[SkippingStep]) -> Json:
    """Return the marks as JSON, with the number of the step that skipped each row; -1 for other steps."""
    numbers = {step.name: number for number, step in enumerate(steps)}
    return [
        [place, mark.is_row, [[numbers.get(row.name, -1), row.error, row.record, row.place[1]] for row in mark.skips]]
        for place, mark in marks.items()
    ]


def restored(kept: Json, steps: tuple[SkippingStep, ...]) -> dict[int, Skipped] | None:
    """Return the marks as these steps make them now; None if a policy asks for more than was kept."""
    marks: dict[int, Skipped] = {}
    for place, is_row, rows in cast("list[tuple[int, bool, list[tuple[int, str, dict[str, Json] | None, int]]]]", kept):
        skipped: list[SkippedRow] = []
        for number, error, record, position in rows:
            if not 0 <= number < len(steps) or not skips(steps[number].policy):
                return None
            code, name, policy = steps[number]
            if not isinstance(policy, Quarantine):
                skipped.append(SkippedRow(code, error, name=name, place=((), position)))
            elif record is None:
                return None
            else:
                record = {**record, "operator": code, "name": name}
                skipped.append(SkippedRow(code, error, policy, record, name, ((), position)))
        marks[place] = Skipped(tuple(skipped), None, is_row)
    return marks


def skipped_in(rows: BlockRows, context: Context, part: int | None = None) -> BlockRows:
    """Return the rows, with this run in the records of those that an earlier run skipped.

    `part` is the unit in which positions begin at 0.
    """
    parts = parted(rows)
    if not parts.skipped:
        return rows
    run: dict[str, Json] = {"epoch": context.epoch, "rounds": list(context.rounds), "shard": context.shard}
    if part is not None:
        run["part"] = part
    marks = {place: Skipped(_in_run(mark, run), mark.value, mark.is_row) for place, mark in parts.skipped.items()}
    return parts._replace(skipped=marks).merged(parts.values)


def _in_run(mark: Skipped, run: dict[str, Json]) -> tuple[SkippedRow, ...]:
    return tuple(row if row.record is None else row._replace(record={**row.record, **run}) for row in mark.skips)
