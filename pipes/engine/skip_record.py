"""`skip_of`: what is noted of a row that failed and is left out."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, cast

from ..core.code import step_code
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.graph import Node
from ..core.policy import Quarantine
from ..core.skipped import Skipped, SkippedRow
from ..errors import Origin, redacted, text_of

MAX_REPR = 200
"""So much of a row is recorded."""
MAX_TRACEBACK = 4000
"""Of a longer traceback the end is recorded."""


def skip_of(
    policy: Quarantine | str | None,
    code: str,
    name: str,
    error: Exception,
    place: Cursor | int,
    row: object,
    context: Context,
    find_origin: Callable[[], Origin | None],
) -> Skipped:
    """The mark of a row that failed; what a `Quarantine` records is found out only for one.

    `code` is the call of the operator, `name` its name.
    """
    text = redacted(f"{type(error).__name__}: {text_of(error)}")
    if not isinstance(policy, Quarantine):
        return Skipped((SkippedRow(code, text, name=name),))
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
        "position": place.position if isinstance(place, Cursor) else place,
        "cursor": None,  # the consumer knows it
        "error": text,
        "traceback": redacted(trace[-MAX_TRACEBACK:]),
        "repr": redacted(_repr(row)),
    }
    return Skipped((SkippedRow(code, text, policy, record, name),))


def code_without_policy(node: Node) -> str:
    """The call of an operator, without what it says of errors: `.map(parse)`."""
    op = cast("Any", node.op)
    defaults = {field.name: field.default for field in fields(op) if field.name in ("on_error", "retry")}
    return step_code(replace(op, **defaults) if defaults else op, source=not node.inputs)


def _repr(row: object) -> str:
    """How a row begins; the class may be a user's."""
    try:
        text = row if isinstance(row, str) else repr(row)
    except Exception as failure:
        return f"<{type(row).__name__}, whose `repr` raises {type(failure).__name__}>"
    return text if len(text) <= MAX_REPR else f"{text[: MAX_REPR - 3]}..."
