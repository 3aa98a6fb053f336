"""`split_by_folder`: divides a table by the columns that become folders, as in `year=2024/city=K%C3%B6ln`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from ..errors import ArgumentError, DataError, with_call_site
from ..formats.tables.arrow_types import decoded_type
from ..formats.tables.columns import suggest_name
from ..formats.tables.hive import NULL

if TYPE_CHECKING:
    import pyarrow as pa


def check_folder_columns(schema: pa.Schema, keys: Sequence[str]) -> None:
    """Checks that columns can become folders.

    Raises:
        ArgumentError: one does not exist, has no plain text for its values, or no other column is left.
    """
    import pyarrow as pa

    types: Any = pa.types
    plain = (types.is_string, types.is_large_string, types.is_integer, types.is_boolean, types.is_date, types.is_null)
    for name in keys:
        if name not in schema.names:
            raise ArgumentError(
                with_call_site(
                    f"`partition_by` names a column {name!r} that the rows do not have; "
                    f"{suggest_name(name, schema.names)}"
                )
            )
        kind: Any = schema.field(name).type
        if not any(is_plain(kind.value_type if types.is_dictionary(kind) else kind) for is_plain in plain):
            raise ArgumentError(
                with_call_site(
                    f"`partition_by` names {name!r}, a column of type {kind}, and names of folders can be text, "
                    "integers, booleans and dates; make such a column of it"
                )
            )
    if len(keys) == len(schema):
        raise ArgumentError(with_call_site("`partition_by` names all columns, so files would have none; leave one out"))


def split_by_folder(table: pa.Table, keys: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The folders of a table with their rows, in the order of the table and without the columns `keys`."""
    group = np.zeros(len(table), np.int64)
    for name in keys:
        column: Any = table[name].cast(decoded_type(table[name].type)).combine_chunks()
        codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
        _, group = np.unique(group * len(table) + codes, return_inverse=True)
    order = np.argsort(group, kind="stable")
    firsts = np.flatnonzero(np.diff(group[order], prepend=-1))
    rest = table.drop_columns(list(keys)).combine_chunks()  # `take` is slow if there are many chunks
    for rows in np.split(order, firsts[1:]):
        values = (table[name][int(rows[0])].as_py() for name in keys)
        folder = "/".join(
            f"{quote(name, safe='')}={_text(value, name)}" for name, value in zip(keys, values, strict=True)
        )
        # A copy: a slice would keep the whole table in memory.
        yield folder, rest.take(rows)


def _text(value: object, name: str) -> str:
    if value is None:
        return NULL
    if value == NULL:
        raise DataError(f"column {name!r} has the text {NULL!r}, which stands for null in the names of folders")
    return quote(str(value).lower() if isinstance(value, bool) else str(value), safe="")
