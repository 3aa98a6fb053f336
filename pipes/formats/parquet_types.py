"""Types of Parquet columns: which stand for others, and what may differ between files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

# pyarrow's stubs do not say what belongs to which type, hence `Any`.


def settled(kind: Any) -> Any:
    """The type that a column is given: of a dictionary its values', of a view of text the text's.

    Each file, even each row group, may have a dictionary of its own; and of views Arrow takes no rows.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return settled(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return kind


def fits(kind: Any, fixed: Any) -> bool:
    """Whether values of type `kind` become the type `fixed` without loss: what may differ between files.

    These are: the same type; no type, of a column of nothing but nulls; a narrower integer or float; text or bytes with
    longer or shorter offsets, as views or as a dictionary; lists and structs of such.
    """
    import pyarrow as pa

    types: Any = pa.types
    if kind == fixed or types.is_null(kind):
        return True
    if types.is_dictionary(kind):
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


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
