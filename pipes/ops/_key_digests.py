"""Digests of the keys of rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.digests import (
    Digests,
    digest_of,
    digests_of_column,
    digests_of_records,
    digests_of_tuples,
    digests_of_values,
)
from ..core.rows import BlockRows, Rows, column_names, select_columns
from ..engine.apply import map_until_error
from ..errors import UnfitError
from ._column_arguments import existing_columns
from ._keys import keys_of
from ._unfit_rows import convert_until_error

RowKey = tuple[str, ...] | Callable[[Any], Hashable] | None
"""Names of columns, a function of the row, or None for the whole row."""


def key_digests(rows: BlockRows, key: RowKey) -> tuple[Digests, Exception | None]:
    """The digests of the keys of the rows, up to the first row that has none, and its error."""
    if isinstance(rows, Rows) and not callable(key):
        digests, error = convert_until_error(partial(_of_table, key), rows)
        return np.zeros(0, np.uint64) if digests is None else digests, error
    if key is None:
        return _of_values(rows, None)
    return _of_values(*keys_of(rows, key))


def _of_values(values: Sequence[object], error: Exception | None) -> tuple[Digests, Exception | None]:
    try:
        return digests_of_values(values), error
    except UnfitError:
        digests, unfit = map_until_error(digest_of, values)
        return np.array(digests, np.uint64), unfit


def _of_table(key: tuple[str, ...] | None, rows: Rows) -> Digests:
    names = column_names(rows)
    columns = select_columns(rows, existing_columns(names if key is None else key, names)).columns
    digests = {name: digests_of_column(column) for name, column in columns.items()}
    if key is None:
        return digests_of_records(digests, len(rows))
    return digests[key[0]] if len(key) == 1 else digests_of_tuples(list(digests.values()))
