"""Checks of arguments that name columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from ..errors import ArgumentTypeError, UnfitError, with_call_site
from ..formats.tables.columns import check_names, suggest_name


def existing_columns(names: Iterable[str], columns: Iterable[str]) -> dict[str, str]:
    """Each of `names`, as `select_columns` takes them; all must be among the names of the `columns`.

    Raises:
        UnfitError: one is not; the error has a similar one.
    """
    existing = set(columns)
    sources: dict[str, str] = {}
    for name in names:
        if name not in existing:
            raise UnfitError(f"there is no column {name!r}; {suggest_name(name, columns)}")
        sources[name] = name
    return sources


def check_columns(argument: str, value: tuple[object, ...]) -> tuple[str, ...]:
    """Names as the user gave them: one by one, or as one list."""
    (only,) = value if len(value) == 1 else (None,)
    return tuple(check_names(argument, list(value) if only is None or isinstance(only, str) else only) or ())


def check_renames(value: object) -> dict[str, str]:
    """New names by old ones."""
    names = dict(cast("Mapping[object, object]", value)) if isinstance(value, Mapping) else None
    if not names or not all(isinstance(name, str) for pair in names.items() for name in pair):
        raise ArgumentTypeError(with_call_site(f"`names` must map names of columns to new names but got: {value!r}"))
    return cast("dict[str, str]", names)
