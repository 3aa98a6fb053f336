"""`with_later_choice`: tells Parquet files of a `select` that follows, so that they read no other columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from ...core.graph import Node
from ...formats.parquet.options import LaterChoice
from ..parsing._row_groups import RowGroups
from ..parsing.parquet import ParseParquet
from ..rows._filter_rows import ExpressionFilter
from ..selection._slicing import SliceBase
from ..selection.shuffle import Shuffle

N = TypeVar("N", bound=Node)


def with_later_choice(node: N, columns: tuple[str, ...], filters: tuple[Any, ...] = ()) -> N:
    """The graph before a `select` of `columns`. If it reads Parquet files, these read what is used of them.

    The operators between give rows as they are, and use no columns but those in `filters`, their expressions.
    """
    op = node.op
    if isinstance(op, RowGroups):
        op = replace(op, format=op.format.with_later_choice(LaterChoice(columns, filters)))
        return type(node)(op, node.inputs, node.call_site)
    if isinstance(op, ExpressionFilter):
        filters = (*filters, op.expression)
    elif not (op.transparent or isinstance(op, (ParseParquet, Shuffle, SliceBase))):
        return node
    if len(node.inputs) != 1:
        return node
    source = with_later_choice(node.inputs[0], columns, filters)
    return node if source is node.inputs[0] else type(node)(op, (source,), node.call_site)
