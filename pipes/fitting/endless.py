"""Pipes without an end, which a run over all rows refuses."""

from __future__ import annotations

from ..core.graph import Node, node_code
from ..errors import PlanError, with_call_site
from ..ops.merging.zip import Zip
from ..ops.selection._slicing import SliceBase
from ..ops.selection.repeat import Repeat
from ..ops.selection.take_while import TakeWhile


def check_ends(root: Node, function: str) -> None:
    """Raises a `PlanError` if a `repeat()` makes the rows of `root` endless."""
    repeat = _endless(root)
    if repeat is not None:
        raise PlanError(
            with_call_site(
                f"`{function}` must come to the end of the pipe, and `{node_code(repeat)}` has none; put it behind "
                f"`{function}`, or `.take(n)` between them"
            )
        )


def _endless(node: Node) -> Node | None:
    """The `repeat()` that makes the rows endless; None if they have an end."""
    if isinstance(node.op, Repeat) and node.op.times is None:
        return node
    if isinstance(node.op, TakeWhile) or (isinstance(node.op, SliceBase) and node.op.bounds()[1] is not None):
        return None
    repeats = [_endless(source) for source in node.inputs]
    if isinstance(node.op, Zip) and None in repeats:
        return None
    return next((repeat for repeat in repeats if repeat is not None), None)
