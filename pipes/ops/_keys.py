"""Keys of rows: what `key=` names or computes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

from ..core.column import scalars
from ..core.operator import Input, Operator, StageView
from ..core.rows import BlockRows, Rows, column_names, select_columns
from ..engine.apply import map_until_error
from ..errors import ArgumentTypeError, UnfitError, with_call_site
from ..formats.tables.columns import check_names
from ._column_arguments import existing_columns
from ._unfit_rows import as_mapping, plan_error

Key: TypeAlias = str | Sequence[str] | Callable[[Any], Hashable]
"""The name of a column, several names, or a function of the row."""


def check_key(argument: str, key: object) -> tuple[str, ...] | Callable[[Any], Hashable] | None:
    """A key as names or as a function; None for the row itself."""
    if key is None or callable(key):
        return cast("Callable[[Any], Hashable] | None", key)
    if not isinstance(key, (str, Sequence)):
        raise ArgumentTypeError(
            with_call_site(
                f"`{argument}` must be the name of a column, names, or a function of the row but got: {key!r}"
            )
        )
    return tuple(check_names(argument, [key] if isinstance(key, str) else key) or ())


def check_named_key(op: Operator, stage: StageView, key: object, source: Input | None = None) -> None:
    """Raise a `PlanError` if `key` names a column that `source`, by default the only input, is known not to have."""
    schema = (source or stage.input).schema
    if schema is not None and isinstance(key, tuple):
        try:
            existing_columns(cast("tuple[str, ...]", key), schema.names)
        except UnfitError as error:
            raise plan_error(op, stage, error) from None


def keys_of(
    rows: BlockRows, key: tuple[str, ...] | Callable[[Any], Hashable] | None
) -> tuple[list[Hashable], Exception | None]:
    """The keys of the rows up to the first that has none, and its error. Equal rows have equal keys.

    A key may still be unhashable.
    """
    if callable(key):
        return map_until_error(key, rows)
    if not isinstance(rows, Rows):
        return map_until_error(_whole_row if key is None else partial(_named_values, key), rows)
    names = column_names(rows)
    try:
        columns = select_columns(rows, existing_columns(key or names, names)).columns
    except UnfitError as error:
        return [], error
    values = [scalars(column) for column in columns.values()]
    if key is None:
        return [_hashable(zip(names, row, strict=True)) for row in zip(*values, strict=True)], None
    return cast("list[Hashable]", values[0] if len(key) == 1 else [*zip(*values, strict=True)]), None


def check_hashable(key: object) -> UnfitError | None:
    """The error of a key that is not hashable; None if it is."""
    try:
        hash(key)
    except TypeError:
        return UnfitError(f"a key must be hashable but is: {key!r:.80}; give another `key`")
    return None


def _whole_row(row: object) -> Hashable:
    return _hashable(row.items()) if isinstance(row, Mapping) else row


def _hashable(items: Iterable[tuple[object, object]]) -> Hashable:
    """The items of a row in any order; if they are not hashable, as a list, which is not either."""
    listed = list(items)
    try:
        return frozenset(listed)
    except TypeError:
        return cast("Hashable", listed)


def _named_values(key: tuple[str, ...], row: object) -> Hashable:
    values = as_mapping(row)
    named = tuple(values[name] for name in existing_columns(key, values))
    return named[0] if len(key) == 1 else named
