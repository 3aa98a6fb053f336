"""The numbers of rows that operators return: what they must be."""

from __future__ import annotations

import operator

from ..core.graph import Node, node_code
from ..errors import PlanError, with_call_site


def no_length(node: Node) -> PlanError:
    """The error of an indexed operator that knows no length."""
    return PlanError(
        with_call_site(
            f"`{node_code(node)}` gives rows by position and must know how many there are, because nothing else says "
            "where they end; define `length`, or let `indexed` give False",
            node.call_site,
        )
    )


def check_row_count(length: object, node: Node) -> int:
    """The length that the operator of `node` returned.

    Raises:
        PlanError: it is no number of rows.
    """
    try:
        count = operator.index(length)  # type: ignore[arg-type]
    except TypeError:
        count = -1
    if count < 0:
        raise PlanError(
            with_call_site(
                f"`length` of `{node_code(node)}` must be an int >= 0, or None, but is: {length!r}", node.call_site
            )
        )
    return count
