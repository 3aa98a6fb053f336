"""Collation of a batch: a table column by column, other rows as Python objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....core.column import Array, Column
from ....core.rows import Rows
from ....errors import UnfitError
from ..._columns import not_a_batch
from .arrow import column_arrays
from .rules import Rules, tensor_data, with_tensors
from .unfit import NoTensorError, column_repair
from .values import collate_values

PLAIN_TYPES = frozenset(map(np.dtype, "?bBhHiIlLqQefdFD"))
"""Numbers in the byte order of this machine. Most columns have one of these types, and need no further look."""


def collate_batch(batch: object, rules: Rules) -> object:
    """`batch`, a sequence of rows, as tensors whose first dimension counts the rows."""
    if isinstance(batch, Rows):
        # A worker copies each `TensorData` when it sends it, so that needs no copy here.
        columns = batch.columns if rules.to_tensor is tensor_data else batch.copies()
        return {name: _collate_column(columns, name, rules) for name in columns}
    if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
        raise not_a_batch(batch)
    if not batch:
        raise UnfitError("a batch is empty, and so has no shape; leave such batches out with `.filter(len)`")
    return collate_values(batch, "", rules)


def _collate_column(columns: Mapping[str, Column], name: str, rules: Rules) -> object:
    column = columns[name]
    if isinstance(column, np.ndarray) and column.dtype in PLAIN_TYPES:
        return rules.to_tensor(column)
    if not isinstance(column, np.ndarray):
        try:
            return with_tensors(column_arrays(column, name, rules), rules)
        except NoTensorError as error:
            raise UnfitError(f"{error}; {column_repair([*columns].index(name), name, column.type)}") from error
    if column.dtype.kind in "SU":
        return column.tolist()
    if column.dtype.kind == "O":
        return collate_values(column.tolist(), name, rules)
    if column.dtype.kind not in "biufc":
        raise UnfitError(f"{NoTensorError(name, column.dtype)}; turn it into numbers, or leave it out")
    return rules.to_tensor(_native(column))


def _native(array: Array) -> Array:
    """`array` in the byte order of this machine, the only one that torch supports."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
