"""Makes batches of blocks whose rows may have been skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...core.block import Block, group_origins, join_blocks, join_origins
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import StageView
from ...core.rows import BlockRows, concat
from ...core.skipped import Skipped, Skips
from ...core.skipped_rows import has_skipped, parted
from ...errors import DataError, Origin, with_call_site


def full_batches(blocks: list[Block], size: int) -> tuple[list[object], list[Origin | None] | None]:
    """The rows in full batches, and the origin of each batch.

    Each batch is joined by itself: whether it has columns must not depend on its neighbours in a block.
    """
    batches: list[object] = []
    parts: list[BlockRows] = []
    missing = size
    for block in blocks:
        start = 0
        while start < len(block):
            stop = min(len(block), start + missing)
            parts.append(block.rows[start:stop])  # a list is copied: its consumer may change an element
            missing -= stop - start
            start = stop
            if not missing:
                batches.append(concat(parts))
                parts, missing = [], size
    origins = join_origins(blocks)
    spans = (range(start, start + size) for start in range(0, len(batches) * size, size))
    return batches, group_origins(origins, spans)


def shorter_batch(stage: StageView, rows: BlockRows) -> object:
    """The rows of a batch that were not skipped.

    Raises:
        DataError: all of them were.
    """
    if not has_skipped(rows):
        return rows
    parts = parted(rows)
    if not parts.skipped:  # those of the block are in other batches
        return parts.values[:]
    skips = _skips_of(parts.skipped.values())
    if not parts.places:
        raise DataError(
            with_call_site(
                f"all {parts.total} rows of a batch were skipped, the last one because of {skips[-1].error}; larger "
                "batches hide fewer good rows, and if every row fails, the function is wrong",
                stage.call_site,
            )
        )
    return Skipped(skips, parts.values[:], is_row=False)


def _skips_of(skipped: Iterable[Skipped]) -> Skips:
    return tuple(skip for each in skipped for skip in each.skips)


def filled_batches(stage: StageView, size: int, at: Cursor, context: Context, *, drop_last: bool) -> Iterator[Block]:
    """The batches of a stream. Each has `size` rows that were not skipped, and is a block of its own.

    So a resume begins right behind a batch, however many rows failed before it.
    """
    row = at.row
    pieces: list[Block] = []
    good = 0
    for block in stage.input.blocks(Cursor.of(at.token), context):
        rest: Block | None = block
        while rest is not None:
            places = parted(rest.rows).places
            missing = size - good
            stop = places[missing - 1] + 1 if len(places) >= missing else len(rest)
            pieces.append(rest.slice(0, stop))
            good += min(missing, len(places))
            rest = rest.slice(stop, len(rest)) if stop < len(rest) else None
            if good == size:
                yield _batch(pieces, row)
                pieces, good, row = [], 0, row + 1
    if pieces and drop_last:
        rows, origins = join_blocks(pieces)
        context.leftovers[stage.name] = Block(rows, pieces[0].at, pieces[-1].end, origins)
    elif pieces:
        yield _batch(pieces, row)


def _batch(pieces: list[Block], row: int) -> Block:
    parts = [parted(piece.rows) for piece in pieces]
    values = [part.values for part in parts if part.places]  # without marks, for which tables would need a column
    batch: object = concat(values)[:]
    if skips := _skips_of(mark for part in parts for mark in part.skipped.values()):
        batch = Skipped(skips, batch, is_row=not values)
    origins = [
        piece.origins[place]
        for piece, part in zip(pieces, parts, strict=True)
        if piece.origins
        for place in part.places
    ]
    groups = group_origins(origins or None, [range(len(origins))])
    start, end = pieces[0].at, pieces[-1].end
    return Block([batch], Cursor(start.plain, 0, row), Cursor(end.plain, 0, row + 1), groups)
