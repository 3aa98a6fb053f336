"""Puts the columns of two rows side by side, under different names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...core.rows import BlockRows, Rows, pick, take
from ...errors import UnfitError
from .._unfit_rows import as_mapping
from ._other_side import Matches, OtherSide

if TYPE_CHECKING:
    import pyarrow as pa


def join_rows(rows: BlockRows, side: OtherSide, matches: Matches, suffix: str, *, nulls: bool) -> BlockRows:
    """The pairs of `matches`: columns if both sides are, else dicts.

    Args:
        nulls: whether some rows have no partner; the columns of the other side are then null.

    Raises:
        UnfitError: a row is no dict, or two columns have one name.
    """
    if isinstance(rows, Rows) and isinstance(side.rows, Rows):
        left = take(rows, range(len(rows)) if len(matches.left) == len(rows) and _is_whole(matches) else matches.left)
        assert isinstance(left, Rows)
        names = new_names(left.columns, side.names, suffix)
        right = side.take_columns(matches.right, nulls=nulls)
        return Rows({**left.columns, **{names[name]: column for name, column in right.items()}}, len(left))
    nothing = dict.fromkeys(side.names)
    joined: list[object] = []
    pairs = zip(pick(list(rows), matches.left.tolist()), side.take_dicts(matches.right), strict=True)
    for row, other in pairs:
        own = as_mapping(row)
        added: Mapping[str, object] = nothing if other is None else other
        names = new_names(own, added, suffix)
        joined.append({**own, **{names[name]: value for name, value in added.items()}})
    return joined


def join_schemas(schema: pa.Schema, other: pa.Schema, key: Iterable[str], suffix: str) -> pa.Schema:
    """The columns of both, without the key of the other side."""
    import pyarrow as pa

    keys = set(key)
    fields = [field for field in other if field.name not in keys]
    names = new_names(schema.names, [field.name for field in fields], suffix)
    return pa.schema([*schema, *(field.with_name(names[field.name]) for field in fields)])


def new_names(names: Iterable[str], others: Iterable[str], suffix: str) -> dict[str, str]:
    """The names of the other columns beside `names`; those that both have get the suffix."""
    own = set(names)
    renamed = {name: name + suffix if name in own else name for name in others}
    for name, new in renamed.items():
        if new in own:
            raise UnfitError(f"both sides have a column {name!r}, and {new!r} is taken; give another `suffix`")
    return renamed


def _is_whole(matches: Matches) -> bool:
    return bool((matches.left[1:] > matches.left[:-1]).all())
