"""`Pack`, the operator of `pack`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, cast

from ...core.block import Block, group_origins, join_origins
from ...core.checks import check_choice, check_int
from ...core.context import Context
from ...core.cursor import Cursor, Json, check_numbers
from ...core.operator import Columns, Input, Operator, Order, StageView
from ...errors import ArgumentError, ArgumentTypeError, with_call_site
from .._data_error import data_error
from ._documents import DocumentReader, Documents
from ._fill import Fill, check_fill
from ._packs import fitted_packs
from ._segments import Groups, segment_blocks
from ._token_stream import TokenStream


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

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, packed = (at.token, 0) if self.strategy == "fit" else cast("tuple[Json, int]", at.token or (None, 0))
        check_numbers(packed)
        yield stage.input, source

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
