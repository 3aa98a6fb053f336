"""`pack`: rows of equal length made of the tokens of many documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from ..core.block import Block, group_origins, join_origins
from ..core.checks import check_choice, check_int
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.operator import Columns, Operator, Order, StageView
from ..errors import ArgumentError, ArgumentTypeError, with_call_site
from ._data_error import data_error
from ._documents import DocumentReader, Documents
from ._fill import Fill, check_fill
from ._packs import fitted_packs
from ._segments import Groups, segment_blocks
from ._token_stream import TokenStream

if TYPE_CHECKING:
    from ..core.column import Array
    from ..pipe import Pipe


@dataclass(frozen=True)
class Pack(Operator):
    kind: ClassVar[str] = "pack"
    order: ClassVar[Order] = Order.REGROUPS
    columns: ClassVar[Columns] = Columns.MAKES

    size: int  # the `length`, which is a method here
    column: str | None = None
    strategy: Literal["cut", "fit"] = "cut"
    window: int = 1_000
    pad: Fill = 0
    drop_last: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int("length", self.size, least=1))
        object.__setattr__(self, "window", check_int("window", self.window, least=1))
        if self.column is not None and not isinstance(self.column, str):
            raise ArgumentTypeError(with_call_site(f"`column` must be a name but got: {self.column!r}"))
        check_choice("strategy", self.strategy, ("cut", "fit"))
        for value in self.pad.values() if isinstance(self.pad, Mapping) else [self.pad]:
            check_fill("pad", value)
        if self.drop_last and self.strategy == "fit":
            raise ArgumentError(
                with_call_site('`drop_last` must be left out with `strategy="fit"`, because each pack may be padded')
            )

    def lookback(self) -> int:
        return 1 if self.strategy == "cut" else self.window

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        reader = DocumentReader(self.column, self.pad)
        if self.strategy == "fit":
            return segment_blocks(stage, at, context, self.window, partial(self._fitted, stage, context, reader))
        return self._cut(stage, at, context, reader)

    def _cut(self, stage: StageView, at: Cursor, context: Context, reader: DocumentReader) -> Iterator[Block]:
        # The token is the input's cursor at the document in which a pack begins, and how many of its tokens are packed.
        source, packed = cast("tuple[Json, int]", at.token or (None, 0))
        stream = TokenStream(packed, self.size, self.pad)
        row = at.row
        block_size = context.block_size()
        for block in stage.input.blocks(Cursor.of(source), context):
            documents, error = reader.read(block.rows)
            stream.add(documents, block)
            while stream.available >= self.size:
                output = [stream.take(min(stream.available // self.size, block_size.rows()), row)]
                row += len(output[0])
                block_size.produced(output[0].rows)
                yield output.pop()
            if error is not None:
                raise self._failed(error, stage, block.at.advance(len(documents)), context)
        if stream.available > 0 and not self.drop_last:
            yield stream.take(1, row)

    def _fitted(self, stage: StageView, context: Context, reader: DocumentReader, segment: list[Block]) -> Groups:
        parts: list[Documents] = []
        for block in segment:
            documents, error = reader.read(block.rows)
            if error is not None:
                raise self._failed(error, stage, block.at.advance(len(documents)), context)
            parts.append(documents)
        documents = Documents.joined(parts)
        if not documents.total:
            return [], None
        rows, owners = fitted_packs(documents, self.size, self.pad)
        return rows, group_origins(join_origins(segment), owners)

    def _failed(self, error: Exception, stage: StageView, at: Cursor, context: Context) -> Exception:
        return data_error(self, stage.failed(error, at, context))


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
