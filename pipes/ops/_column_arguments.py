"""Checks of arguments that name columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from ..errors import ArgumentTypeError, UnfitError, with_call_site
from ..formats.tables.columns import check_names, suggest_name


def check_column(name: str, names: Sequence[str]) -> str:
    """`name`, which must be one of `names`.

    Raises:
        UnfitError: it is none of them; the error has a similar one.
    """
    if name not in names:
        raise UnfitError(f"there is no column {name!r}; {suggest_name(name, names)}")
    return name


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
