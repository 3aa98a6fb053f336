"""Types of columns: as what they are decoded, and which of them may differ between files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pyarrow as pa

# pyarrow's stubs do not say which attributes belong to which type, hence `Any`.


def decoded_type(kind: Any) -> Any:
    """The type in which a column is read: of dictionaries and run ends their values', of views the plain type.

    Each file, even each row group, may have its own dictionary, and Arrow cannot take rows of the others.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return decoded_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    # Other files may have nulls within.
    return _with_fields(kind, lambda field: field.with_type(decoded_type(field.type)).with_nullable(True))


def storage_type(kind: Any) -> Any:
    """The type without extensions of Python packages: a process that has not imported the package knows none."""
    import pyarrow as pa

    if isinstance(kind, pa.ExtensionType):
        return storage_type(kind.storage_type)
    return _with_fields(kind, lambda field: field.with_type(storage_type(field.type)))


def _with_fields(kind: Any, change: Callable[[Any], Any]) -> Any:
    """A struct or a list with other fields; any other type as it is."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([change(field) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(change(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(change(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(change(kind.value_field))
    return kind


def widens_to(kind: Any, fixed: Any) -> bool:
    """Whether all values of type `kind` become the type `fixed` without loss.

    They do if the types are the same; if a column has only nulls; from narrower to wider integers or floats; between
    text or bytes with short or long offsets, views and dictionaries; and for lists and structs of such.
    """
    import pyarrow as pa

    types: Any = pa.types
    if kind == fixed or types.is_null(kind):
        return True
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return widens_to(kind.value_type, fixed)
    for is_alike in (_is_text, _is_bytes):
        if is_alike(kind) and is_alike(fixed):
            return True
    if types.is_integer(kind) and types.is_integer(fixed):
        if types.is_signed_integer(kind) == types.is_signed_integer(fixed):
            return bool(kind.bit_width <= fixed.bit_width)
        return bool(types.is_signed_integer(fixed) and kind.bit_width < fixed.bit_width)
    if types.is_floating(kind) and types.is_floating(fixed):
        return bool(kind.bit_width <= fixed.bit_width)
    if _is_list(kind) and _is_list(fixed):
        return widens_to(kind.value_type, fixed.value_type)
    if types.is_struct(kind) and types.is_struct(fixed):
        names = [field.name for field in kind]
        return names == [field.name for field in fixed] and all(
            widens_to(kind.field(name).type, fixed.field(name).type) for name in names
        )
    return False


def common_type(one: Any, other: Any) -> Any:
    """The narrowest type for the values of both types; None if there is none. A value may still not fit."""
    import pyarrow as pa

    if widens_to(other, one):
        return one
    if widens_to(one, other):
        return other
    schemas = [pa.schema([("column", kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return None


def text_for(what: Literal["null", "timestamp"], kind: Any) -> Any:
    """The type with text in place of nulls or timestamps, also within lists and structs."""
    import pyarrow as pa

    if pa.types.is_null(kind) if what == "null" else pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(text_for(what, kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(text_for(what, field.type)) for field in kind])
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
