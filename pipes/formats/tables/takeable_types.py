"""Replaces the types of columns whose rows Arrow cannot take: views of text and run-end encoded values."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

# pyarrow's stubs do not say which attributes belong to which type, hence `Any`.


def with_takeable_types(table: pa.Table) -> pa.Table:
    """The table, with copies of the columns whose rows Arrow cannot take."""
    for place, field in enumerate(table.schema):
        kind = _takeable_type(field.type)
        if kind != field.type:
            chunks = [_convert(chunk, kind) for chunk in table.column(place).chunks]
            table = table.set_column(place, field.name, pa.chunked_array(cast("Any", chunks), kind))
    return table


def _takeable_type(kind: Any) -> Any:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_run_end_encoded(kind):
        return _takeable_type(kind.value_type)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _takeable_type(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_takeable_type(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_takeable_type(kind.value_type)), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_takeable_type(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_takeable_type(kind.value_type)))
    return kind


def _convert(chunk: Any, kind: Any) -> Any:
    if isinstance(chunk, pa.RunEndEncodedArray):
        return pc.call_function("run_end_decode", [chunk]).cast(kind)
    if isinstance(chunk, pa.DictionaryArray):
        values = chunk.dictionary.cast(kind.value_type)
        return pa.DictionaryArray.from_arrays(chunk.indices, values, ordered=kind.ordered)
    return chunk.cast(kind)
