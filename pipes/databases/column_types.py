"""The SQL types of Arrow columns, for tables that are created through DB-API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import DataError
from .dialect import SqlDialect

if TYPE_CHECKING:
    import pyarrow as pa

ANSI_TYPES = {
    "boolean": "BOOLEAN",
    "small": "SMALLINT",
    "integer": "INTEGER",
    "big": "BIGINT",
    "unsigned": "DECIMAL(20)",
    "float": "REAL",
    "double": "DOUBLE PRECISION",
    "text": "VARCHAR(4000)",
    "binary": "BLOB",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamp with zone": "TIMESTAMP WITH TIME ZONE",
}


def table_definition(dialect: SqlDialect, name: str, schema: pa.Schema) -> str:
    """The statement that creates a table.

    Raises:
        DataError: a column has a type that databases do not share.
    """
    columns = [f"{dialect.column(field.name)} {_sql_type(dialect, field.name, field.type)}" for field in schema]
    return f"CREATE TABLE {dialect.column(name)} ({', '.join(columns)})"


def _sql_type(dialect: SqlDialect, column: str, kind: Any) -> str:
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return dialect.types.get("decimal", f"DECIMAL({kind.precision}, {kind.scale})")
    name = _type_name(kind)
    if name is None:
        raise DataError(
            f"column {column!r} has values of type {kind}, for which a table is not created over DB-API; create the "
            "table, and write with `if_exists='append'`, or convert the values"
        )
    return dialect.types.get(name, ANSI_TYPES[name])


def _type_name(kind: Any) -> str | None:
    import pyarrow as pa

    types: Any = pa.types
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind):
        bits = kind.bit_width + (0 if types.is_signed_integer(kind) else 1)
        return "small" if bits <= 16 else "integer" if bits <= 32 else "big" if bits <= 64 else "unsigned"
    if types.is_floating(kind):
        return "double" if kind.bit_width == 64 else "float"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "binary"
    if types.is_date(kind):
        return "date"
    if types.is_time(kind):
        return "time"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamp with zone"
    return None
