"""Keys of rows: from an Arrow column to plain values, and what is checked of them."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from ..core.cursor import Json
from ..errors import DataError
from .driver import Key

if TYPE_CHECKING:
    import pyarrow as pa


def check_key_type(name: str, kind: pa.DataType) -> None:
    """Checks that values of this type identify rows.

    Raises:
        DataError: they do not.
    """
    import pyarrow as pa

    types: Any = pa.types
    storage: Any = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    # A column without values may have no type.
    is_exact = types.is_integer(storage) or types.is_decimal(storage) or types.is_null(storage)
    is_text = types.is_string(storage) or types.is_large_string(storage) or types.is_string_view(storage)
    is_time = types.is_date(storage) or types.is_time(storage) or types.is_timestamp(storage)
    if not (is_exact or is_text or is_time or _is_bytes(storage)):
        raise DataError(
            f"`partition_on` must name a column of integers, decimals, text, bytes, times or UUIDs, because a state "
            f"keeps its values exactly, but {name!r} is of type {kind}; name another column, or convert it in the query"
        )


def key_values(column: Any) -> list[Key]:
    """The values of an Arrow column without nulls as keys."""
    import pyarrow as pa

    if isinstance(column.type, pa.UuidType):
        return [str(value) for value in column.to_pylist()]
    column = getattr(column, "storage", column)
    types: Any = pa.types
    if types.is_integer(column.type) or types.is_decimal(column.type) or _is_bytes(column.type):
        return cast("list[Key]", column.to_pylist())
    return cast("list[Key]", column.cast(pa.string()).to_pylist())


def plain_key(key: Key | None) -> Json:
    """A key as JSON."""
    if isinstance(key, bytes):
        return {"bytes": key.hex()}
    return {"decimal": str(key)} if isinstance(key, Decimal) else key


def key_of(plain: Json) -> Key | None:
    """The key that `plain` was made of."""
    if isinstance(plain, dict):
        ((kind, text),) = plain.items()
        return bytes.fromhex(str(text)) if kind == "bytes" else Decimal(str(text))
    return cast("Key | None", plain)


def check_keys(column: Any, name: str, before: Key | None) -> tuple[Key, Key]:
    """Checks the keys of rows that are ordered by the database.

    Args:
        column: the keys of one Arrow batch, which has rows.
        name: of the column.
        before: the key of the row before them.

    Returns:
        the first key and the last.

    Raises:
        DataError: a key is null, or two rows have the same key.
    """
    import pyarrow.compute as pc

    if column.null_count:
        raise nulls_error(name, column.null_count)
    storage = getattr(column, "storage", column)
    if len(storage) > 1:
        equal: Any = pc.equal(storage[1:], storage[:-1])
        if pc.any(equal).as_py():
            raise duplicate_error(name, key_values(column.slice(pc.index(equal, True).as_py(), 1))[0])
    first, last = key_values(column.slice(0, 1))[0], key_values(column.slice(len(column) - 1))[0]
    if first == before:
        raise duplicate_error(name, first)
    return first, last


def duplicate_error(name: str, key: Key) -> DataError:
    return DataError(
        f"`partition_on` must name a column whose values are unique, because a resume goes on behind the last of them, "
        f"but several rows have {name} = {key!r}; name the primary key, or leave `partition_on` out"
    )


def nulls_error(name: str, count: int) -> DataError:
    return DataError(
        f"`partition_on` must name a column without nulls, because rows are read in the order of its values, but "
        f"{count} {'row has' if count == 1 else 'rows have'} no {name}; name the primary key, or leave such rows out "
        "in the query"
    )


def _is_bytes(kind: Any) -> bool:
    import pyarrow as pa

    types: Any = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))
