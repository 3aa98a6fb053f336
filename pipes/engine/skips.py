"""Skipped rows: kept from operators that do not know of them, recorded, and counted."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Block, Parted, has_skipped, parted
from ..core.checks import digest
from ..core.code import step_code
from ..core.context import Context
from ..core.cursor import Cursor, Json, check_numbers
from ..core.graph import Node, node_code, walk
from ..core.operator import Input, Operator, StageView, Trait
from ..core.rows import BlockRows, Indices, index_array, take
from ..core.skips import Quarantine, Skipped, SkippedRow, skips
from ..errors import CallSite, DataError, Origin, PlanError, SourceError, redacted, text_of

T = TypeVar("T")


def rows_around(stage: _Around, indices: Indices, context: Context) -> BlockRows:
    """`rows` of an operator that gets only the rows that were not skipped; the skipped ones keep their places.

    Raises:
        PlanError: the operator makes a row of several rows of its input, some of which were skipped.
    """
    inputs = [_instead(source, rows=partial(_sound_rows, source)) for source in stage.inputs]
    try:
        return stage.op.rows(_view(stage, inputs), indices, context)
    except _MetSkippedError as met:
        rows = met.rows
    if not stage.one_for_one or len(rows) != len(indices):
        raise PlanError(
            f"`{node_code(stage.node)}` makes a row of several rows, and some of them were skipped, so it has no "
            "row at their place; put it before the operator that skips rows, or regroup them with `batch` first",
            at=stage.call_site,
        )
    parts = parted(rows)
    places = index_array(indices)[np.array(parts.places, np.int64)]
    if not len(places):
        return parts.merged([])
    at_hand = _instead(stage.input, rows=partial(_rows_at_hand, stage.input, places, parts.values))
    return parts.merged(stage.op.rows(_view(stage, [at_hand]), places, context))


def blocks_around(stage: _Around, at: Cursor, context: Context) -> Iterator[Block]:
    """`blocks` of an operator that gets only the rows that were not skipped.

    If it gives one row for each row, skipped rows keep their places. Else they end here, and count before the next row
    of the operator.
    """
    if stage.one_for_one:
        return _one_for_one(stage, at, context)
    return _left_out(stage, at, context)


def _one_for_one(stage: _Around, at: Cursor, context: Context) -> Iterator[Block]:
    waiting: deque[Block] = deque()  # of one `Skipped` each
    source = _instead(stage.input, blocks=partial(_sound_blocks, stage.input, waiting.append, False))
    for block in stage.op.blocks(_view(stage, [source]), at, context):
        while waiting and waiting[0].at.position < block.end.position:
            first = waiting.popleft()
            skipped = cast("Skipped", cast("list[object]", first.rows)[0])
            before = first.at.position - block.at.position
            if before > 0:
                yield block.slice(0, before)
                block = block.slice(before, len(block))
            if skipped.is_row:
                yield first
                continue
            row = block.slice(0, 1)
            yield _after(skipped, row)
            if len(block) == 1:
                break
            block = block.slice(1, len(block))
        else:
            yield block
    yield from waiting


def _left_out(stage: _Around, at: Cursor, context: Context) -> Iterator[Block]:
    """The rows of an operator; cursors hold the number of rows of each input up to the last skipped one.

    A run from a cursor reads some rows again, as a window does; the skipped ones of these have counted already.
    """
    start, looked_at = parted_cursor(at, len(stage.inputs))
    skips: list[SkippedRow] = []

    def leave_out(number: int, block: Block) -> None:
        if block.at.position >= looked_at[number]:
            looked_at[number] = block.at.position + 1
            skips.extend(cast("Skipped", cast("list[object]", block.rows)[0]).skips)

    # One row at a time: a resume then runs no row again whose function may fail this time, or not fail any more.
    inputs = [
        _instead(source, blocks=partial(_sound_blocks, source, partial(leave_out, number), True))
        for number, source in enumerate(stage.inputs)
    ]
    end = at
    for block in stage.op.blocks(_view(stage, inputs), start, context):
        begin, end = end, _joined_cursor(block.end, looked_at)
        block = Block(block.rows, _joined_cursor(block.at, looked_at), end, block.origins)
        if not skips:
            yield block
            continue
        skipped = Skipped(tuple(skips), is_row=False)
        skips.clear()
        row = _after(skipped, block.slice(0, 1))
        # A resume at its cursor comes to the skipped rows before it again.
        yield Block(row.rows, begin, row.end, row.origins)
        if len(block) > 1:
            yield block.slice(1, len(block))
    if not skips:
        return
    skipped = Skipped(tuple(skips))
    if (leftover := context.leftovers.get(stage.name)) is not None:
        context.leftovers[stage.name] = Block([*leftover.rows, skipped], leftover.at, leftover.end)
    else:
        yield Block([skipped], end, end.advance(1))


def _after(skipped: Skipped, row: Block) -> Block:
    """The block of one row, with a mark of the rows that were skipped before it; a row of a table stays one."""
    return row.with_rows(Parted(row.rows, range(1), {0: skipped}, 1).merged(row.rows))


def parted_cursor(at: Cursor, inputs: int) -> tuple[Cursor, list[int]]:
    """The operator's own cursor, and the number of rows of each input up to the last skipped one."""
    if not isinstance(at.token, dict):
        return at, [0] * inputs
    token, looked_at = at.token["token"], at.token["skips"]
    if not isinstance(looked_at, list) or len(looked_at) != inputs:
        raise ValueError(f"must have numbers of rows of {inputs} inputs")
    check_numbers(*looked_at)
    return at._replace(token=token), cast("list[int]", looked_at.copy())


def _joined_cursor(own: Cursor, looked_at: list[int]) -> Cursor:
    return own._replace(token={"token": own.token, "skips": looked_at.copy()}) if any(looked_at) else own


class _Around(StageView, Protocol):
    """The part of a stage that keeps its operator from skipped rows."""

    @property
    def one_for_one(self) -> bool: ...
    @property
    def node(self) -> Node: ...
    @property
    def op(self) -> Operator: ...


class _Instead:
    """Another object with some attributes of its own."""

    def __init__(self, other: object, own: dict[str, object]) -> None:
        self.__dict__.update(own, _other=other)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other, name)


def _instead(other: T, **own: object) -> T:
    return cast("T", _Instead(other, own))


def _view(stage: _Around, inputs: Sequence[Input]) -> StageView:
    """The stage with other inputs, for one run of its operator."""
    own = {"input": inputs[0]} if len(inputs) == 1 else {}
    return _instead(stage, inputs=inputs, name=stage.name, memo=stage.memo, **own)  # read for each block


class _MetSkippedError(Exception):
    """An operator that does not know of skipped rows has asked for rows, and some of them were skipped."""

    def __init__(self, rows: BlockRows) -> None:
        super().__init__("some rows were skipped")
        self.rows = rows


def _sound_rows(source: Input, indices: Indices, context: Context) -> BlockRows:
    rows = source.rows(indices, context)
    if has_skipped(rows):
        raise _MetSkippedError(rows)
    return rows


def _rows_at_hand(
    source: Input, places: npt.NDArray[np.int64], rows: BlockRows, indices: Indices, context: Context
) -> BlockRows:
    """`_sound_rows`, of which those at `places` are not read again."""
    at = index_array(indices)
    if np.array_equal(at, places):
        return rows
    if len(at) and np.isin(at, places).all():
        order = np.argsort(places)
        return take(rows, order[np.searchsorted(places[order], at)])
    return _sound_rows(source, indices, context)


def _sound_blocks(
    source: Input, note: Callable[[Block], object], one_by_one: bool, at: Cursor, context: Context
) -> Iterator[Block]:
    """The rows that remain; `note` gets each `Skipped` in a block of its own."""
    for block in source.blocks(at, context):
        singly = one_by_one and isinstance(block.rows, list)
        if not has_skipped(block.rows):
            yield from (block.slice(place, place + 1) for place in range(len(block))) if singly else (block,)
            continue
        parts = parted(block.rows)
        rows = dict(zip(parts.places, range(len(parts.places)), strict=True))
        cuts = {*range(0, parts.total, 1 if singly else parts.total), parts.total, *parts.skipped}
        cuts.update(place + 1 for place in parts.skipped)
        for start, stop in pairwise(sorted(cuts)):
            piece = block.slice(start, stop)
            if start in parts.skipped:
                note(Block([parts.skipped[start]], piece.at, piece.end, piece.origins))
            if start in rows:
                first = rows[start]
                yield Block(take(parts.values, range(first, first + stop - start)), piece.at, piece.end, piece.origins)


def remaining_blocks(blocks: Iterator[Block]) -> Iterator[Block]:
    """The rows of a run that were not skipped, for a consumer that needs no cursors."""
    for block in blocks:
        parts = parted(block.rows)
        if not parts.skipped:
            yield block
        elif parts.places:
            yield Block(parts.values, block.at, block.end)


# Records and counts


MAX_REPR = 200
"""The most characters of a row that are recorded."""
MAX_TRACEBACK = 4000
"""The most characters of a traceback that are recorded, from its end."""


def lost_of(
    policy: Quarantine | str | None,
    code: str,
    name: str,
    error: Exception,
    place: Cursor | int,
    row: object,
    context: Context,
    find_origin: Callable[[], Origin | None],
) -> Skipped:
    """The mark of a row that failed, with a record if the policy is a `Quarantine`; `code` is the operator's call."""
    text = redacted(f"{type(error).__name__}: {text_of(error)}")
    at = context.rounds, place.position if isinstance(place, Cursor) else place
    if not isinstance(policy, Quarantine):
        return Skipped((SkippedRow(code, text, name=name, place=at),))
    try:
        origin = find_origin()
    except Exception:  # the row cannot be read again
        origin = None
    trace = "".join(traceback.format_exception(error))
    record: dict[str, Json] = {
        "operator": code,
        "name": name,
        "file": None if origin is None else redacted(origin.source),
        "row": None if origin is None else origin.row,
        "unit": None if origin is None else origin.unit,
        "epoch": context.epoch,
        "rounds": list(context.rounds),
        "shard": context.shard,
        "position": at[1],
        "cursor": None,  # the consumer knows it
        "error": text,
        "traceback": redacted(trace[-MAX_TRACEBACK:]),
        "repr": redacted(_repr(row)),
    }
    return Skipped((SkippedRow(code, text, policy, record, name, at),))


def code_without_policy(node: Node) -> str:
    """The call of an operator without its policy for errors: `.map(parse)`."""
    op = cast("Any", node.op)
    defaults = {field.name: field.default for field in fields(op) if field.name in ("on_error", "retry")}
    return step_code(replace(op, **defaults) if defaults else op, source=not node.inputs)


def _repr(row: object) -> str:
    """The beginning of a row as text; its `repr` may be a user's, and fail."""
    try:
        text = row if isinstance(row, str) else repr(row)
    except Exception as failure:
        return f"<{type(row).__name__}, whose `repr` raises {type(failure).__name__}>"
    return text if len(text) <= MAX_REPR else f"{text[: MAX_REPR - 3]}..."


log = logging.getLogger("feedpipe")

MIN_ROWS_OF_RATE = 1000
"""The least number of rows of an epoch at which a `rate` is checked."""

_IDENTITY = ("pipe", "name", "epoch", "rounds", "shard", "part", "position", "file", "row", "repr")
"""What identifies a record: two cursors may mean one position, and two operators may have one call.

Pipes may share a folder. Before a `cache` of parsed files, each part of a file counts its own positions.
"""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object, in its `repr`: another one after a resume


class LostCounts(NamedTuple):
    """The numbers of rows of an epoch. It is replaced, never changed, so that states of earlier steps may keep it.

    Attributes:
        skipped: those that were skipped, by operator.
        rows: those that came out; they are counted only if a policy has a `rate`.
    """

    skipped: Mapping[str, int] = {}  # a `MappingProxyType` could not be pickled
    rows: int = 0

    @property
    def plain(self) -> Json:
        return [dict(self.skipped), self.rows]


NONE_LOST = LostCounts()


def share_of_lost(counts: Iterable[LostCounts], rank: int, world_size: int) -> LostCounts:
    """The share of one rank in `counts`; the shares of all ranks add up to their sum."""
    skipped: Counter[str] = Counter()
    rows = 0
    for one in counts:
        skipped.update(one.skipped)
        rows += one.rows
    parts = {operator: len(range(rank, count, world_size)) for operator, count in skipped.items()}
    return LostCounts({operator: part for operator, part in parts.items() if part}, len(range(rank, rows, world_size)))


class LostLog:
    """The policies of a graph, with the files that a process writes for them.

    Attributes:
        counts_rows: a policy needs the number of rows that come out.
    """

    def __init__(self, root: Node) -> None:
        self._pipe = digest(
            [code_without_policy(node) for node in walk(root) if node.op.trait is not Trait.TRANSPARENT]
        )
        self._policies: dict[str, Quarantine] = {}
        self._call_sites: dict[str, CallSite | None] = {}
        for node in walk(root):
            policy = node.op.on_error
            if isinstance(policy, Quarantine):
                self._policies[code_without_policy(node)] = policy
                self._call_sites[code_without_policy(node)] = node.call_site
        self.counts_rows = any(policy.rate is not None for policy in self._policies.values())
        self._files: dict[str, _RecordFile] = {}

    @staticmethod
    def of(root: Node) -> LostLog | None:
        """The log of a graph; None if none of its operators skips rows."""
        return LostLog(root) if any(skips(node.op.on_error) for node in walk(root)) else None

    def open(self) -> None:
        """Check that the folders of all policies can be written; raise a `SourceError` if one cannot."""
        for code, policy in self._policies.items():
            folder = str(policy.folder)
            if folder not in self._files:
                try:
                    self._files[folder] = _RecordFile(folder)
                except OSError as error:
                    raise SourceError(_unwritable(folder, error), at=self._call_sites[code]) from error

    def add(
        self, new: Iterable[SkippedRow], counts: LostCounts, cursor: Callable[[], dict[str, Json]] | None = None
    ) -> LostCounts:
        """Count and record rows that were skipped; raise a `DataError` if they are more than a policy allows.

        `cursor` gives the cursor of the element that they are a part of, or come before.
        """
        totals = dict(counts.skipped)
        for skip in new:
            totals[skip.operator] = totals.get(skip.operator, 0) + 1
            if skip.quarantine is not None and skip.record is not None:
                folder = str(skip.quarantine.folder)
                record = {"pipe": self._pipe, **skip.record}
                if cursor is not None:
                    place = cursor()
                    place["skipped"] = [record["name"], record["position"]]
                    record["cursor"] = place
                try:
                    self._files[folder].write(record)
                except OSError as error:
                    raise SourceError(_unwritable(folder, error)) from error
                self._check(skip, totals, counts.rows)
        return LostCounts(totals, counts.rows)

    def report(self, counts: LostCounts, what: str) -> None:
        """Log the numbers of skipped rows, if there are any."""
        if counts.skipped:
            operators = ", ".join(f"{count} by `{code}`" for code, count in counts.skipped.items())
            log.warning("%s: rows that failed were skipped: %s", what, operators)

    def _check(self, skip: SkippedRow, totals: dict[str, int], rows: int) -> None:
        policy = cast("Quarantine", skip.quarantine)
        skipped = sum(count for code, count in totals.items() if self._policies.get(code) == policy)
        where = f"the records are in {policy.folder}, and the last error is {skip.error}"
        call_site = self._call_sites.get(skip.operator)
        if policy.budget is not None and skipped > policy.budget:
            message = f"{skipped} rows failed in an epoch, and `budget` allows {policy.budget}; {where}"
            raise DataError(message, at=call_site)
        total = rows + skipped
        if policy.rate is not None and total >= MIN_ROWS_OF_RATE and skipped > policy.rate * total:
            message = f"{skipped} of {total} rows failed in an epoch, and `rate` allows {policy.rate:g}; {where}"
            raise DataError(message, at=call_site)


class _RecordFile:
    """The file in which this process records rows, beside those of others. It appears with its first record.

    It holds parts of rows, so only its owner may read it.
    """

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, 0o700, exist_ok=True)
        import tempfile

        with tempfile.TemporaryFile(dir=folder):
            pass
        self._path = Path(folder, f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}.jsonl")
        self._written = {_identity(record) for record in _records(folder)}

    def write(self, record: dict[str, Json]) -> None:
        """Appends a record, unless it is there already: a resume comes to some rows again."""
        identity = _identity(record)
        if identity in self._written:
            return
        opener = partial(os.open, mode=0o600)
        with open(self._path, "ab", buffering=0, opener=opener) as file:  # few rows fail, so no file stays open
            line = memoryview(json.dumps(record).encode() + b"\n")
            while line:
                line = line[file.write(line) :]
        self._written.add(identity)


def _identity(record: dict[str, Json]) -> str:
    return _ADDRESS.sub("", json.dumps([record.get(name) for name in _IDENTITY]))


def _records(folder: str) -> Iterator[dict[str, Json]]:
    """The records in a folder. A line that a killed process has left incomplete is none."""
    for path in sorted(Path(folder).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield cast("dict[str, Json]", record)


def _unwritable(folder: str, error: OSError) -> str:
    return (
        f"the folder {folder} of a `Quarantine` cannot be written ({error.strerror or text_of(error)}); give one that "
        "every rank can write, or make room"
    )
