"""`TokenStream`: the tokens of documents, one after the other, cut into packs."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from ...core.block import Block, group_origins
from ...core.column import Array
from ...core.cursor import START, Cursor
from ...core.rows import Rows
from ...errors import Origin
from ._documents import Documents, joined_columns
from ._fill import Fill, fill_of, filled
from ._packs import Ints, packs_of


class _Run(NamedTuple):
    """The documents of one block, the cursors of the first and of the one after the last, and their origins."""

    documents: Documents
    at: Cursor
    end: Cursor
    origins: list[Origin | None] | None


class TokenStream:
    """Documents that are not packed yet.

    Attributes:
        available: how many tokens there are.
    """

    def __init__(self, packed: int, length: int, pad: Fill) -> None:
        self.available = -packed
        self._length = length
        self._pad = pad
        self._packed = packed  # tokens of the first run that are packed
        self._runs: deque[_Run] = deque()
        self._end = START

    def add(self, documents: Documents, block: Block) -> None:
        """Appends documents, the first rows of `block`."""
        if documents.total:
            end = block.end if len(documents) == len(block) else block.at.advance(len(documents))
            self._runs.append(_Run(documents, block.at, end, block.origins))
            self.available += documents.total

    def take(self, count: int, row: int) -> Block:
        """Takes the next `count` packs; the first of them is row `row`. What the last one lacks is padding."""
        at = self._cursor(row)
        size = min(count * self._length, self.available)
        tokens: list[dict[str, Array]] = []
        starts: list[Ints] = []  # of documents, counted from the first token taken
        origins: list[Origin | None] = []
        offset = -self._packed
        while offset < size:
            run = self._runs[0]
            start, stop = max(0, -offset), min(run.documents.total, size - offset)
            first = np.searchsorted(run.documents.starts, start, "right") - 1
            last = np.searchsorted(run.documents.starts, stop)
            starts.append(run.documents.starts[first:last] + offset)
            origins += run.origins[first:last] if run.origins else ()
            tokens.append({name: values[start:stop] for name, values in run.documents.columns.items()})
            offset += run.documents.total
            self._packed = stop
            if stop == run.documents.total:
                self._packed, self._end = 0, run.end
                self._runs.popleft()
        self.available -= size
        documents = np.concatenate(starts)
        edges = np.arange(0, size, self._length)
        packs = _cut(tokens, documents, edges, self._length, self._pad)
        owners = np.searchsorted(documents, edges, "right") - 1
        ends = np.searchsorted(documents, edges + self._length)
        spans = map(range, owners.tolist(), ends.tolist())
        return Block(packs, at, self._cursor(row + count), group_origins(origins or None, spans))

    def _cursor(self, row: int) -> Cursor:
        if not self._runs:
            return Cursor([self._end.plain, 0], 0, row)
        run = self._runs[0]
        document = int(np.searchsorted(run.documents.starts, self._packed, "right")) - 1
        packed = self._packed - int(run.documents.starts[document])
        return Cursor([run.at.advance(document).plain, packed], 0, row)


def _cut(parts: list[dict[str, Array]], documents: Ints, edges: Ints, length: int, pad: Fill) -> Rows:
    """Packs of all tokens of all parts.

    Args:
        parts: the tokens.
        documents: where each document begins; the first one may begin before the tokens.
        edges: where each pack begins.
        length: tokens of a pack.
        pad: fills the last pack.
    """
    size = sum(len(next(iter(part.values()))) for part in parts)
    missing = -size % length
    if missing:
        parts.append(
            {name: filled(missing, fill_of(pad, name), values.dtype, name) for name, values in parts[0].items()}
        )
    tokens = joined_columns(parts)
    starts = np.sort(np.concatenate([np.maximum(documents, 0), edges]))  # of pieces; some twice
    starts = starts[np.flatnonzero(np.append(starts[1:], size) > starts)]
    positions = starts - documents[np.searchsorted(documents, starts, "right") - 1]
    firsts = np.searchsorted(starts, edges)  # the first piece of each pack
    segments = np.arange(1, len(starts) + 1) - firsts[starts // length]
    if missing:
        starts, positions, segments = np.append(starts, size), np.append(positions, 0), np.append(segments, 0)
    return packs_of(tokens, starts, positions, segments, length)
