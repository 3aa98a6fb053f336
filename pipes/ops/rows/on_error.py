"""`on_error`: one policy for all operators before it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...core.graph import Node, walk
from ...core.operator import Operator
from ...core.policy import OnError, check_on_error

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


def on_error(pipe: Pipe[T], /, policy: OnError) -> Pipe[T]:
    """Give `policy` to each operator before this one that has an argument `on_error` and was given none.

    So an explicit `on_error="raise"` stays. It adds no operator: it returns the same chain with these arguments.
    Element and order: the input's, without the rows that fail. Length: unknown if elements may be skipped; batches of
    an indexed pipe only become shorter. Indexed if the input is. State: none; a state fits the pipe with any policy.

    Args:
        policy: "skip" leaves out a row whose function, decoder or parser fails; `Quarantine(folder)` also records it;
            "raise" ends the run.

    Raises:
        ArgumentError: `policy` is none of these.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(["1", "two", "3"]).map(int).map(lambda x: 6 // (x - 1)).on_error("skip")
        >>> list(pipe)
        [3]
    """
    check_on_error("None" if cast("object", policy) is None else policy)
    replaced: dict[Node, Node] = {}
    for node in walk(pipe):
        op = _with_policy(node.op, policy)
        inputs = tuple(replaced[source] for source in node.inputs)
        same = op is node.op and all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        replaced[node] = node if same else type(pipe)(op, inputs, node.call_site)
    return cast("Pipe[T]", replaced[pipe])


def _with_policy(op: Operator, policy: OnError) -> Operator:
    if op.on_error is not None or all(field.name != "on_error" for field in fields(cast("Any", op))):
        return op
    return cast("Operator", replace(cast("Any", op), on_error=policy))
