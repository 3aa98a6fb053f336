"""Columns whose rows Arrow cannot take: views of text, and run-end encoded ones."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc


def takeable(table: pa.Table) -> pa.Table:
    """The table with those columns copied whose rows Arrow cannot take."""
    for place, field in enumerate(table.schema):
        kind = _plain(field.type)
        if kind != field.type:
            chunks = [_copied(chunk, kind) for chunk in table.column(place).chunks]
            table = table.set_column(place, field.name, pa.chunked_array(cast("Any", chunks), kind))
    return table


# pyarrow's stubs do not say what belongs to which type, hence `Any`.


def _plain(kind: Any) -> Any:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_run_end_encoded(kind):
        return _plain(kind.value_type)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _plain(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def _copied(chunk: Any, kind: Any) -> Any:
    if isinstance(chunk, pa.RunEndEncodedArray):
        return pc.call_function("run_end_decode", [chunk]).cast(kind)
    if isinstance(chunk, pa.DictionaryArray):
        words = chunk.dictionary.cast(kind.value_type)
        return pa.DictionaryArray.from_arrays(chunk.indices, words, ordered=kind.ordered)
    return chunk.cast(kind)
