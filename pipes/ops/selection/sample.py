"""`sample`: rows drawn at random, with weights or without, once or repeatedly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import PlanError, with_call_site
from ._sample_rows import DrawRows

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


def sample(
    pipe: Pipe[T],
    /,
    size: int | None = None,
    *,
    weights: Any = None,
    replacement: bool = False,
    seed: int | None = None,
    each_epoch: bool = True,
    name: str | None = None,
) -> Pipe[T]:
    """Draw rows at random, others in each epoch.

    Element: the rows as they are. Order: that of the draws. Length: `size`. The pipe must be indexed, and so is the
    sample. State: a position; a resume runs nothing again. Memory: with weights 16 bytes for each row.

    Args:
        size: the number of draws; None draws as many as there are rows, or, without replacement, all with a weight.
        weights: how likely each row is, a number >= 0 for each; one over the size of the row's class makes all classes
            equally likely.
        replacement: whether a row may be drawn repeatedly.
        seed: used in place of the loader's seed.
        each_epoch: False draws the same rows in each epoch, and in each round of a `repeat`.
        name: identifies the operator in the key of its draws, in place of its kind and count.

    Raises:
        PlanError: the pipe is streamed; weights of another number than the rows; `size` is above the number of rows,
            without replacement.
        ArgumentError: a weight is below 0 or no number, or all are 0; `size` or `seed` is below 0.

    Source: weighted draws without replacement by Efraimidis and Spirakis, "Weighted random sampling with a reservoir"
    (2006).

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(100))
        >>> len({*pipe.sample(10)}), len(pipe.sample(500, replacement=True))
        (10, 500)
        >>> sorted(fp.from_sequence("abc").sample(weights=[1, 0, 5]))
        ['a', 'c']
    """
    if not pipe.indexed:
        raise PlanError(
            with_call_site(
                "`sample` must follow an indexed pipe, because it reads rows in any order, and this pipe is streamed; "
                "put `.load()` before it, or use `resample`"
            )
        )
    return pipe.then(
        DrawRows(size, row_weights=weights, replacement=replacement, seed=seed, each_epoch=each_epoch, name=name)
    )
