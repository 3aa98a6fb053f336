"""`TextTable`: what the formats of tables in text share: types of the user, and columns that the text does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, ClassVar

from ...core.rows import Rows, column_names
from ..text.chunks import Chunk, ParseChunk, ParsedPart
from .arrow_types import text_for
from .columns import Schema, check_schema
from .fixed_schema import FixedSchema
from .heads import TableHead
from .sampled_table import SampledTable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, kw_only=True)
class TextTable(SampledTable):
    """The base of CSV and JSON lines."""

    type_repair: ClassVar[str] = "`schema=` gives it a type, `columns=` leaves it out"

    schema: Schema | None = None

    def __post_init__(self) -> None:
        check_schema(self.schema)
        super().__post_init__()

    def as_utf8(self, stream: BinaryIO, name: str) -> BinaryIO:
        """The stream itself: the text is UTF-8."""
        return stream

    def replace_nulls(
        self, types: Mapping[str, pa.DataType], read: Sequence[str] | None, later: Iterable[TableHead]
    ) -> dict[str, pa.DataType]:
        """`types`, with text in place of what has only nulls in all heads."""
        return {name: text_for("null", kind) for name, kind in types.items()}

    def with_extra_columns(
        self,
        parse: Callable[[Chunk], Iterable[ParsedPart]],
        path: str,
        columns: Iterable[str],
        fixed: FixedSchema,
    ) -> ParseChunk:
        """Extend `parse` for the file at `path` by the columns that the file does not hold.

        Args:
            parse: parses a chunk.
            path: the path of the file.
            columns: the columns that the file holds.
            fixed: names and types for all files.
        """
        import pyarrow as pa

        constants = fixed.constants(path, columns)
        lineage = self.lineage
        extends = bool(constants or lineage.path_column or lineage.row_column)

        def parse_all(chunk: Chunk, before: int) -> Iterator[ParsedPart]:
            for part in parse(chunk):
                rows = part.rows
                count = len(rows) if part.error is None else 1
                if isinstance(rows, Rows) and (extends or column_names(rows) != list(fixed.names)):
                    arrays = {**rows.columns, **{name: pa.repeat(value, count) for name, value in constants.items()}}
                    arrays = {name: arrays[name] for name in fixed.names}
                    rows = Rows({**arrays, **lineage.columns_for(path, range(before, before + count))}, count)
                before += count
                yield part._replace(rows=rows)

        return parse_all
