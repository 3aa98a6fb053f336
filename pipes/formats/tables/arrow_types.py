"""Types of columns: which stand for others, and what may differ between files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pyarrow as pa

# pyarrow's stubs do not say what belongs to which type, hence `Any`.


def settled(kind: Any) -> Any:
    """The type that a column is given: of a dictionary or run ends their values', of a view of text the text's.

    Each file, even each row group, may have a dictionary of its own; and of the others Arrow takes no rows.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return settled(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([_settled_field(part) for part in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_settled_field(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_settled_field(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(_settled_field(kind.value_field))
    return kind


def _settled_field(part: Any) -> Any:
    return part.with_type(settled(part.type)).with_nullable(True)  # where one file has no nulls, another may


def fits(kind: Any, fixed: Any) -> bool:
    """Whether values of type `kind` become the type `fixed` without loss: what may differ between files.

    These are: the same type; no type, of a column of nothing but nulls; a narrower integer or float; text or bytes with
    longer or shorter offsets, as views or as a dictionary; lists and structs of such.
    """
    import pyarrow as pa

    types: Any = pa.types
    if kind == fixed or types.is_null(kind):
        return True
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return fits(kind.value_type, fixed)
    for alike in (_is_text, _is_bytes):
        if alike(kind) and alike(fixed):
            return True
    if types.is_integer(kind) and types.is_integer(fixed):
        signed, wanted = types.is_signed_integer(kind), types.is_signed_integer(fixed)
        return bool(
            kind.bit_width <= fixed.bit_width if signed == wanted else wanted and kind.bit_width < fixed.bit_width
        )
    if types.is_floating(kind) and types.is_floating(fixed):
        return bool(kind.bit_width <= fixed.bit_width)
    if _is_list(kind) and _is_list(fixed):
        return fits(kind.value_type, fixed.value_type)
    if types.is_struct(kind) and types.is_struct(fixed):
        names = [part.name for part in kind]
        return names == [part.name for part in fixed] and all(
            fits(kind.field(n).type, fixed.field(n).type) for n in names
        )
    return False


def common(one: Any, other: Any) -> Any:
    """The narrowest type for the values of both; None where there is none. A value may turn out not to fit."""
    import pyarrow as pa

    if fits(other, one):
        return one
    if fits(one, other):
        return other
    schemas = [pa.schema([("column", kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return None


def text_for(what: Literal["null", "timestamp"], kind: Any) -> Any:
    """The type with text in place of what is null or a timestamp, also within lists and structs."""
    import pyarrow as pa

    if pa.types.is_null(kind) if what == "null" else pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(text_for(what, kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(text_for(what, part.type)) for part in kind])
    return kind


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
