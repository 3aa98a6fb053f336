"""`split`: the rows divided among several pipes, such as training and validation, once and for all."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...core.checks import check_int
from ...errors import ArgumentError, ArgumentTypeError, PlanError, with_call_site
from .._keys import Key, check_key
from ._split_parts import IndexedSplitPart, StreamedSplitPart
from ._split_place import Place, check_no_groups, moving_positions, place_before_shuffles

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def split(
    pipe: Pipe[T],
    /,
    parts: Mapping[K, float],
    *,
    key: Key | None = None,
    stratify: Key | None = None,
    seed: int = 0,
) -> dict[K, Pipe[T]]:
    """Divide the rows among parts, such as training and validation: a row is in the same part in each epoch and run.

    Element: the rows as they are; together the parts have each row once. Order: the input's. An indexed pipe is divided
    before its shuffles, so a row stays in its part although they change in each epoch; the parts are then indexed and
    know their lengths. State: a position.

    What decides on the part of a row is a digest of its `key`, which is the same on every machine: the digest lies in
    the interval of one part. So appending data moves no row, and the sizes are near the shares, not exact. Without
    `key`, it is the row's position in an indexed pipe, and in a streamed one its content, so equal rows stay together.
    `explain()` says which. A row that a policy skips when an indexed pipe is divided counts in one of the parts.

    Args:
        parts: the share of each part by its name, which sum to 1; or, for an indexed pipe, numbers of rows, which sum
            to the length.
        key: rows of one key are in one part, such as all images of a person: a column, several, or a function of the
            row. It must not depend on random draws. With a function the parts are streamed; a column of an indexed
            pipe is read once, before the first row.
        stratify: the key of a row's class, for indexed pipes: each class is divided in the same proportions, as nearly
            as whole rows allow, and each part has exactly its share of all rows.
        seed: another seed divides the rows in another way. The loader's seed does not matter.

    Raises:
        ArgumentError: shares that do not sum to 1; a `key` together with numbers of rows, or with `stratify`.
        PlanError: the pipe is streamed, and numbers of rows or `stratify` are given; groups such as those of `batch`
            would be divided; the pipe is shuffled before an operator such as `take`, so that positions change; numbers
            of rows do not sum to the length; there is no such column.
        DataError: a key, or a row without one, has no digest that is the same in each process.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(1000)).shuffle()
        >>> train, val = pipe.split({"train": 0.9, "val": 0.1}).values()
        >>> len(train), len(val), {*train} & {*val}
        (894, 106, set())
        >>> rows = fp.from_sequence([{"user": k % 5, "label": k % 2} for k in range(20)])
        >>> parts = rows.split({"train": 15, "val": 5}, stratify="label")
        >>> sum(row["label"] for row in parts["train"])
        8
    """
    sizes = _check_parts(parts)
    names, classes = check_key("key", key), check_key("stratify", stratify)
    seed = check_int("seed", seed, least=0)
    by_size = _needs_positions(sizes, classes is not None)
    if by_size and names is not None:
        raise ArgumentError(
            with_call_site(f"`key` must not be given with {by_size}, which divides rows by position; leave one out")
        )
    check_no_groups(pipe)
    place = place_before_shuffles(pipe, same_rows=not (names is None and classes is None))
    moving = moving_positions(place.source)
    indexed = place.source.indexed and not callable(names) and (names is None or moving is None)
    if by_size and not indexed:
        raise PlanError(
            with_call_site(
                f"`split` with {by_size} must follow an indexed pipe, because it must know all rows before the first, "
                "and this pipe is streamed; give shares alone, or put `.load()` before it"
            )
        )
    if indexed and moving is not None:
        raise PlanError(
            with_call_site(
                f"`split` must stand before `{moving}`, because it divides rows by their position, which changes "
                "there; swap the two, or give `key=`, by which rows keep their part anywhere"
            )
        )
    if not indexed:
        place = Place(pipe, [])
    cls = IndexedSplitPart if indexed else StreamedSplitPart
    source = cast("Pipe[T]", place.source)
    ends: dict[K, Pipe[T]] = {}
    for name in sizes:
        ends[name] = place.behind(source.then(cls(sizes, key=names, stratify=classes, seed=seed, part=name)))
    return ends


def _needs_positions(sizes: Mapping[Any, float], has_classes: bool) -> str | None:
    """What makes `split` count rows, in words."""
    if has_classes:
        return "`stratify`"
    return "numbers of rows" if all(isinstance(size, int) for size in sizes.values()) else None


def _check_parts(parts: Mapping[K, float]) -> dict[K, float]:
    """The sizes by name: all ints, or all floats that sum to 1."""
    sizes: dict[K, float] = dict(parts) if isinstance(cast("object", parts), Mapping) else {}
    values: list[object] = list(sizes.values())
    if not values or any(isinstance(size, bool) or not isinstance(size, (int, float)) for size in values):
        raise ArgumentTypeError(
            with_call_site(
                f'`parts` must map names to shares, such as {{"train": 0.9, "val": 0.1}}, but got: {parts!r}'
            )
        )
    if any(not 0 <= size < math.inf for size in sizes.values()):
        raise ArgumentError(with_call_site(f"each share in `parts` must be >= 0 but got: {parts!r}"))
    if all(isinstance(size, int) for size in sizes.values()):
        return sizes
    total = math.fsum(sizes.values())
    if abs(total - 1) > 1e-6:
        raise ArgumentError(
            with_call_site(
                f"the shares in `parts` must sum to 1, because each row is in one part, but sum to {total:.7g}: "
                f"{parts!r}"
            )
        )
    return {name: float(size) for name, size in sizes.items()}
