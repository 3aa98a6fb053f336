"""Units that know their number of rows: row groups of Parquet files and record batches of Arrow files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

from ...core.cursor import Json
from ...core.operator import Columns, Operator, StageView
from ...errors import Origin
from ...formats.tables.table_format import TableFormat
from ._parse_units import ParseUnits
from ._units import Units

if TYPE_CHECKING:
    import pyarrow as pa

F = TypeVar("F", bound=TableFormat)
U = TypeVar("U", bound="tuple[Any, ...]")

UNKNOWN = -1
"""The number of rows of a unit that does not know it, such as a stream."""


class _Counted(Protocol):
    rows: int


@dataclass(frozen=True, eq=False)
class CountedUnits(Units[F, U]):
    """The base: a unit has the number of its `rows`, and the number in the file of the `first` of them."""

    expands: ClassVar[bool] = True

    def start(self, unit: U) -> Origin:
        return Origin(unit[0].path, unit[self.fields.index("first")] + 1)

    def total(self) -> int | None:
        """How many rows all units have; None if one of them does not know."""
        if self.table is None:
            return None
        rows = self.table.column("rows")
        return None if (rows == UNKNOWN).any() else int(rows.sum())

    def identity(self) -> Json:
        identity = cast("dict[str, Json] | None", super().identity())
        return identity and {**identity, "rows": self.total()}


@dataclass(frozen=True, eq=False)
class ParseCounted(ParseUnits[U], Generic[F, U]):
    """The base of parsers that read such units in order."""

    columns: ClassVar[Columns] = Columns.MAKES

    format: F = field(repr=False)

    def call(self) -> str:
        return self.format.call()

    def identity(self) -> Json:
        return self.format.identity()

    def resolve(self, stage: StageView) -> Operator:
        return replace(self, format=cast("CountedUnits[Any, Any]", stage.input.op).format)

    def schema(self, stage: StageView) -> pa.Schema | None:
        return self.format.row_schema()

    def length(self, stage: StageView) -> int | None:
        units = stage.input.length
        if units is None:
            return None
        if isinstance(stage.input.op, CountedUnits):
            return stage.input.op.total()
        handles = cast("list[_Counted]", stage.input.rows(range(units), stage.length_context) if units else [])
        return None if any(unit.rows == UNKNOWN for unit in handles) else sum(unit.rows for unit in handles)
