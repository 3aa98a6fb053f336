"""`check_cursor`: whether a cursor of a state can be one of a stage, and those in its token ones of its inputs."""

from __future__ import annotations

from typing import cast

from ..core.cursor import Json, checked_cursor
from ..core.graph import node_code
from ..core.operator import Operator
from .stage import Stage

MAX_SKIPPED = 2**24
"""A cursor behind an endless `repeat()` skips at most so many rows: more than any block has."""


def check_cursor(stage: Stage, plain: Json) -> None:
    """Checks a cursor of `stage`. It reads nothing, and calls no function of the user.

    Raises:
        ValueError: no run of the stage makes such a cursor; the message names the operator.
    """
    try:
        at = checked_cursor(plain)
        if stage.indexed and at.token is not None:
            raise ValueError("has a token, and the position alone says where it is")
        if at.skip > MAX_SKIPPED and _has_short_skips(stage) and _is_repeated(stage):
            raise ValueError(f"skips {at.skip} rows of a `repeat()`, more than a block has")
        cursors = [] if stage.indexed else [*stage.op.input_cursors(stage, at)]
    except Exception as error:
        raise ValueError(f"no cursor of `{node_code(stage.node)}`: {error}") from error
    for source, cursor in cursors:
        check_cursor(cast("Stage", source), cursor)


def _has_short_skips(stage: Stage) -> bool:
    """Whether the operator makes a token for each of its blocks, so that its cursors skip no more rows than one has."""
    return not stage.op.expands and type(stage.op).input_cursors is not Operator.input_cursors


def _is_repeated(stage: Stage) -> bool:
    return not stage.indexed and (stage.op.repeats or any(map(_is_repeated, stage.inputs)))
