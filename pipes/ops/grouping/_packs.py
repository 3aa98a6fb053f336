"""Packs: rows of equal length made of pieces of documents, with the number and the positions of each piece."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ...core.column import Array, read_only
from ...core.rows import Rows
from ._documents import Documents
from ._fill import Fill, fill_of, filled

Ints = npt.NDArray[np.int64]


def packs_of(tokens: Mapping[str, Array], starts: Ints, positions: Ints, segments: Ints, length: int) -> Rows:
    """Packs as rows of columns.

    Args:
        tokens: the tokens of all packs with their padding, by column.
        starts: where each piece begins in `tokens`; the first one begins at 0.
        positions: for each piece the number of its first token in its document.
        segments: the number of each piece in its pack; 0 for padding.
        length: tokens of a pack.
    """
    total = len(next(iter(tokens.values())))
    lengths = np.append(starts[1:], total) - starts
    segment_ids = np.repeat(segments.astype(np.int32), lengths)
    position_ids = np.arange(total, dtype=np.int32)
    position_ids -= np.repeat((starts - positions).astype(np.int32), lengths)
    if not segments.all():
        position_ids[segment_ids == 0] = 0
    columns = {**tokens, "segment_ids": segment_ids, "position_ids": position_ids}
    packs = total // length
    return Rows({name: read_only(values.reshape(packs, length)) for name, values in columns.items()}, packs)


def fitted_packs(documents: Documents, length: int, pad: Fill) -> tuple[Rows, list[Ints]]:
    """Packs of whole documents, and the documents of each. Documents above `length` are cut first."""
    sizes = np.diff(documents.starts)
    counts = -(-sizes // length)  # of pieces
    owners = np.repeat(np.arange(len(sizes)), counts)
    positions = length * (np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts))
    lengths = np.minimum(length, sizes[owners] - positions)
    bins = best_fit(lengths, length)
    order = np.argsort(bins, kind="stable")
    owners, positions, lengths, bins = owners[order], positions[order], lengths[order], bins[order]
    firsts = np.flatnonzero(np.diff(bins, prepend=-1))  # the first piece of each pack
    packs = len(firsts)
    segments = np.arange(1, len(bins) + 1) - firsts[bins]
    ends = np.cumsum(lengths)
    before = (ends - lengths)[firsts]  # tokens in the packs before each pack
    places = bins * length + ends - lengths - before[bins]
    copies = list(zip(places.tolist(), (documents.starts[owners] + positions).tolist(), lengths.tolist(), strict=True))
    tokens: dict[str, Array] = {}
    for name, values in documents.columns.items():
        tokens[name] = target = filled(packs * length, fill_of(pad, name), values.dtype, name)
        for place, source, size in copies:
            target[place : place + size] = values[source : source + size]
    used = np.diff(before, append=ends[-1:])
    padding = np.flatnonzero(used < length)
    after = firsts[padding] + np.bincount(bins)[padding]  # the padding follows the last piece of its pack
    places = np.insert(places, after, padding * length + used[padding])
    rows = packs_of(tokens, places, np.insert(positions, after, 0), np.insert(segments, after, 0), length)
    return rows, np.split(owners, firsts[1:])


def best_fit(lengths: Ints, capacity: int) -> Ints:
    """The bin of each piece: the longest piece goes first, each into the fullest bin that has room for it.

    Bins are numbered by their first pieces. Best-fit decreasing needs at most 11/9 of the least possible number of bins
    (Johnson et al., 1974); packing by it keeps documents whole (Ding et al., "Fewer Truncations Improve Language
    Modeling", 2024).
    """
    order = np.argsort(-lengths, kind="stable")
    room: list[tuple[int, int]] = []  # the room left in each bin that is not full, and its number; sorted
    bins = np.empty(len(lengths), np.int64)
    count = 0
    for piece, size in zip(order.tolist(), lengths[order].tolist(), strict=True):
        place = bisect_left(room, (size,))
        if place < len(room):
            left, number = room.pop(place)
        else:
            left, number, count = capacity, count, count + 1
        bins[piece] = number
        if left > size:
            insort(room, (left - size, number))
    _, firsts, numbers = np.unique(bins, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(firsts))[numbers]
