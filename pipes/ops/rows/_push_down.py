"""`with_later_filter`: tells Parquet files of a filter that follows, so that they leave out row groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from ...core.graph import Node
from ..columns.select import Drop, Select
from ..parsing._row_groups import RowGroups
from ..parsing.parquet import ParseParquet
from ._filter_rows import ExpressionFilter

N = TypeVar("N", bound=Node)


def with_later_filter(node: N, expression: Any) -> N:
    """The graph before a filter. If it reads Parquet files, row groups without rows for the filter are left out.

    The operators between keep all names of columns, and treat each row by itself, so the same rows pass the filter.
    """
    op = node.op
    if isinstance(op, RowGroups):
        op = replace(op, format=op.format.with_later_filter(expression))
        return type(node)(op, node.inputs, node.call_site)
    if len(node.inputs) != 1 or not (op.transparent or isinstance(op, (ParseParquet, ExpressionFilter, Select, Drop))):
        return node
    source = with_later_filter(node.inputs[0], expression)
    return node if source is node.inputs[0] else type(node)(op, (source,), node.call_site)
