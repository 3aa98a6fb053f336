"""`join`: columns of another table, by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ...core.checks import check_choice
from ...core.graph import Node, find_remote
from ...errors import ArgumentError, ArgumentTypeError, PlanError, with_call_site
from ...formats.tables.columns import check_names
from ._join_operator import Join
from ._join_source import join_source

if TYPE_CHECKING:
    from ...pipe import Pipe


class ArrowTable(Protocol):
    """A data frame, an Arrow table, or anything else with Arrow's stream protocol."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def join(
    pipe: Pipe[Any],
    /,
    other: Mapping[Any, Mapping[str, object]] | Pipe[Any] | ArrowTable,
    *,
    on: str | Sequence[str],
    other_on: str | Sequence[str] | None = None,
    how: Literal["inner", "left", "error"] = "inner",
    multiple: Literal["error", "first", "all"] = "error",
    suffix: str = "_right",
) -> Pipe[dict[str, object]]:
    """Add the columns of that row of another table that has the same key.

    Element: a row with the columns of the input, then those of the other side without its key. If both are tables, it
    stays columns; else it is a dict. Order is the input's. Length: with `how="left"` or "error", and one row for each
    key, the input's; then indexed if the input is. Else unknown; streamed. State: a position. Memory: each process that
    runs it reads the other side once, up to 1 GiB, with random draws of seed 0 and epoch 0.

    Args:
        other: a pipe whose rows are those of a table or dicts, a data frame or Arrow table, or a dict of rows by key.
        on: the name of the key's column, or several names. A null is never found.
        other_on: the names in `other` if they differ.
        how: "inner" leaves out a row whose key is not found, "left" gives it nulls (None), "error" raises.
        multiple: what to do if several rows of `other` have one key: "error" raises, "first" takes the first, "all"
            gives a row for each.
        suffix: added to the name of a column of `other` that the input has as well.

    Raises:
        PlanError: a column of the key is missing, its types differ, or two columns would have one name. If only a run
            can tell, a `DataError`. Or `remote()` stands in the other side.
        DataError: a key is not found, or found several times; it names the row.
        LimitError: the other side takes more than 1 GiB.

    Example:
        >>> import feedpipe as fp
        >>> names = {0: {"name": "cat"}, 1: {"name": "dog"}}
        >>> list(fp.from_sequence([{"label": 1}, {"label": 0}]).join(names, on="label"))
        [{'label': 1, 'name': 'dog'}, {'label': 0, 'name': 'cat'}]
    """
    check_choice("how", how, ("inner", "left", "error"))
    check_choice("multiple", multiple, ("error", "first", "all"))
    if not isinstance(suffix, str):
        raise ArgumentTypeError(with_call_site(f"`suffix` must be a string but got: {suffix!r}"))
    own = check_names("on", [on] if isinstance(on, str) else on) or []
    others = own if other_on is None else check_names("other_on", [other_on] if isinstance(other_on, str) else other_on)
    if not own or len(own) != len(others or ()):
        raise ArgumentError(
            with_call_site(f"`on` and `other_on` must name as many columns but got: {on!r}, {other_on!r}")
        )
    if isinstance(other, Node) and find_remote(other) is not None:
        raise PlanError(
            with_call_site(
                "`remote()` must not stand in the other side of `join()`, because each process that runs `join()` "
                "reads that side by itself; leave it out"
            )
        )
    is_dict = isinstance(other, Mapping)
    if is_dict and other_on is not None:
        raise ArgumentError(with_call_site("`other_on` names columns of a table, and the keys of a dict have no name"))
    source = join_source(other, () if is_dict else tuple(others or ()))
    return pipe.then(Join(source, on=tuple(own), how=how, multiple=multiple, suffix=suffix))
