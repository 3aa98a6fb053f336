"""`pack`: rows of equal length made of the tokens of many documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from ._pack_operator import Pack

if TYPE_CHECKING:
    from ...core.column import Array
    from ...pipe import Pipe


def pack(
    pipe: Pipe[object],
    /,
    length: int,
    *,
    column: str | None = None,
    strategy: Literal["cut", "fit"] = "cut",
    window: int = 1_000,
    pad: float | Mapping[str, float] = 0,
    drop_last: bool = False,
) -> Pipe[dict[str, Array]]:
    """Put the tokens of documents into packs of `length` tokens, so that little of a batch is padding.

        [a a a] [b b] [c c c c]   ->   "cut": [a a a b] [b c c c] [c - - -]   "fit": [a a a -] [b b - -] [c c c c]

    Element: a dict of arrays of `length` items: the tokens, under the name of their column, or "tokens" if a row is an
    array; "segment_ids", int32, which counts the documents of a pack from 1 and is 0 for padding; "position_ids",
    int32, which counts the tokens of a document from 0. Other columns, such as labels and masks, are packed along.
    Order: the input's; with "fit" packs come in the order of their first documents. Length: unknown; streamed; columns.
    State: a position in the input, and in a document; with "fit" a resume packs at most `window` rows again. Each
    virtual shard pads its own last pack.

    Args:
        length: tokens of a pack.
        column: the column of the tokens; may be left out if rows are arrays, or have one column.
        strategy: "cut" fills each pack and cuts the document at its end: the rest begins the next pack, where
            positions go on. "fit" keeps documents whole, puts those of `window` rows into as few packs as it can, and
            pads each pack; it cuts only documents above `length`.
        window: with "fit", the number of rows to choose from.
        pad: the value of padding in all columns, or a dict with that of each column by name; others get 0.
        drop_last: with "cut", leave out the last pack of a virtual shard if it is not full.

    Raises:
        DataError: a row is no one-dimensional array or list of numbers, dtypes differ between rows, or columns of a row
            differ in length; or `pad` names a column that rows do not have.
        ArgumentError: `length` or `window` is below 1, or `drop_last` is given with "fit".

    Source: best-fit decreasing, as in Ding et al., "Fewer Truncations Improve Language Modeling" (2024).

    Example:
        >>> import feedpipe as fp, numpy as np
        >>> documents = fp.from_sequence([[1, 2, 3], [4, 5], [6, 7, 8, 9]])
        >>> for pack in documents.pack(4):
        ...     print(*pack.values())
        [1 2 3 4] [1 1 1 2] [0 1 2 0]
        [5 6 7 8] [1 2 2 2] [1 0 1 2]
        [9 0 0 0] [1 0 0 0] [3 0 0 0]
        >>> [pack["tokens"].tolist() for pack in documents.pack(5, strategy="fit")]
        [[1, 2, 3, 4, 5], [6, 7, 8, 9, 0]]
    """
    return pipe.then(Pack(length, column, strategy, window, pad, drop_last))
