"""Shares of classes, and how often each row of a class has to come for other shares."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import cast

from ...errors import ArgumentError, ArgumentTypeError, with_call_site


def check_shares(argument: str, value: object) -> dict[Hashable, float]:
    """Shares by class that sum to 1; numbers in the same proportions, such as counts, are accepted."""
    shares = dict(cast("Mapping[Hashable, object]", value)) if isinstance(value, Mapping) else {}
    numbers = {name: share for name, share in shares.items() if _is_number(share)}
    if not shares or len(numbers) < len(shares):
        raise ArgumentTypeError(
            with_call_site(
                f'`{argument}` must map classes to shares, such as {{"a": 0.9, "b": 0.1}}, but got: {value!r}'
            )
        )
    floats = {name: float(cast("float", share)) for name, share in numbers.items()}
    total = math.fsum(floats.values())
    if any(not 0 <= share < math.inf for share in floats.values()) or not total:
        raise ArgumentError(
            with_call_site(f"the shares in `{argument}` must be finite, >= 0 and not all 0 but got: {value!r}")
        )
    return {name: share / total for name, share in floats.items()}


def copies_of_classes(
    target: Mapping[Hashable, float] | None, source: Mapping[Hashable, float], limit: float
) -> dict[Hashable, float]:
    """How often a row of each class comes on average, so that the shares become those of `target`.

    The number of rows stays the same on average.

    Args:
        target: the shares that come out; None for the same share of each class of `source`.
        source: the shares that go in.
        limit: how often a row may come.
    """
    present = {name for name, share in source.items() if share}
    if target is None:
        target = {name: float(name in present) / len(present) for name in source}
    if unlike := [name for name in {**source, **target} if (name in source) != (name in target)]:
        lacks = "source" if unlike[0] in target else "target"
        raise ArgumentError(
            with_call_site(
                f"`source` and `target` must name the same classes, but `{lacks}` lacks {unlike[0]!r}; a share of 0 in "
                "`target` leaves a class out"
            )
        )
    copies: dict[Hashable, float] = {}
    for name, share in target.items():
        if share and name not in present:
            raise ArgumentError(
                with_call_site(f"class {name!r} has a share in `target` but none in `source`, so no row of it comes")
            )
        copies[name] = share / source[name] if share else 0.0
        if copies[name] > limit:
            raise ArgumentError(
                with_call_site(
                    f"rows of class {name!r} would come {copies[name]:.4g} times on average, and `limit` is {limit:g}; "
                    "raise the limit, or lower its share in `target`"
                )
            )
    return copies


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
