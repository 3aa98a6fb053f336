"""The checks of blocks, cursors and look-back for `check_operator`: types and numbers of rows."""

from __future__ import annotations

import json
from typing import cast

from ..core.block import Block, close
from ..core.context import Context
from ..core.cursor import START, Cursor
from ..core.graph import Node, node_code
from ..core.rows import Rows
from ..engine.stage import Stage


def check_lookback(node: Node) -> None:
    lookback = cast("object", node.op.lookback())
    assert isinstance(lookback, int) and lookback >= 0, (
        f"`lookback` of `{node_code(node)}` must return an int >= 0 but returned: {lookback!r}"
    )


def check_first_block(stage: Stage, context: Context) -> None:
    """Checks the first rows as the operator returns them, before any code of the engine uses them."""
    if stage.indexed:
        if stage.length:
            _check_rows(node_code(stage.node), stage.rows(range(1), context))
        return
    blocks = stage.blocks(START, context)
    block = next(blocks, None)
    close(blocks)
    if block is not None:
        check_block(stage, block, 0)


def _check_rows(name: str, rows: object) -> None:
    assert isinstance(rows, (list, Rows)), (
        f"`{name}` must produce its rows as a list or as `Rows` but produced a value of type {type(rows).__name__}"
    )
    if isinstance(rows, Rows):
        lengths = {column: len(values) for column, values in rows.columns.items()}
        assert set(lengths.values()) <= {len(rows)}, (
            f"`{name}` must produce columns of {len(rows)} rows each but produced: {lengths}"
        )


def check_block(stage: Stage, block: object, position: int) -> None:
    """Checks a block of `stage` that should begin at `position` of its output."""
    name = node_code(stage.node)
    assert isinstance(block, Block), f"`{name}` must produce blocks but produced a value of type {type(block).__name__}"
    _check_rows(name, block.rows)
    for cursor in cast("tuple[object, ...]", (block.at, block.end)):
        assert isinstance(cursor, Cursor), f"`{name}` must produce blocks with cursors but produced: {cursor!r}"
    if stage.indexed:  # the engine made the cursors
        indices = block.end.position - block.at.position
        assert len(block) == indices, (
            f"`rows` of `{name}` must return one row for each index but returned {len(block)} rows for {indices} "
            "indices"
        )
    assert len(block) > 0, f"`{name}` produced an empty block; a block must have rows, so leave this one out"
    rule = "`row` of a cursor counts this operator's rows from the start of its output, also in a resumed run"
    assert block.at.position == position, (
        f"`{name}` produced a block whose cursor is at {block.at.position} and whose first row is number {position}; "
        f"{rule}"
    )
    assert block.end.position == position + len(block), (
        f"`{name}` produced a block of {len(block)} rows at {position} whose end is at {block.end.position}; {rule}"
    )


def through_json(name: str, cursor: Cursor) -> Cursor:
    """The cursor as it comes back from a saved state."""
    try:
        decoded = Cursor.of(json.loads(json.dumps(cursor.plain)))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"`{name}` produced a cursor that is no plain JSON: {cursor} ({error})") from error
    assert decoded == cursor, (
        f"`{name}` produced a cursor that JSON changes from {cursor} to {decoded}; make tokens of `cursor.plain`, of "
        "lists and of other plain values"
    )
    return decoded
