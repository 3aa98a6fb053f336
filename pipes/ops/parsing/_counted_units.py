"""Units that know their number of rows: row groups of Parquet files and record batches of Arrow files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from ...core.context import Context
from ...core.cursor import Json
from ...core.operator import Columns, Operator, StageView, Weights
from ...errors import Origin
from ...formats.tables.heads import FlatHead
from ...formats.tables.table_format import TableFormat
from ...storage.file import File
from ...storage.manifest import ManifestPlace
from ...storage.tasks import in_threads
from ._file_units import UNKNOWN, FileContents, FileUnits
from ._parse_units import ParseUnits
from ._unit_table import UnitTable
from ._units import Units
from .open_files import OpenFiles

if TYPE_CHECKING:
    import pyarrow as pa

F = TypeVar("F", bound=TableFormat)
U = TypeVar("U", bound="tuple[Any, ...]")


@dataclass(frozen=True, eq=False)
class CountedUnits(Units[F, U]):
    """The base: a unit has the number of its `rows`, and the number in the file of the `first` of them."""

    expands: ClassVar[bool] = True

    @abstractmethod
    def contents(self, file: File) -> FileContents:
        """What the footer of a file says. The format is fixed by then, and the columns of the file fit it."""

    @abstractmethod
    def kept_head(self, file: File, schema: pa.Schema) -> FlatHead:
        """The head of a file whose schema was kept."""

    def can_use(self, units: FileUnits) -> bool:
        """Whether the units that were kept say all that is needed of the files."""
        return True

    def find_units(self, files: Iterator[File]) -> UnitTable:
        return self._read_footers(files).unit_table(self.fields)

    def with_fixed_units(self, stage: StageView) -> Units[F, U]:
        manifest, kind = self._manifest(stage)
        if manifest is None:
            return super().with_fixed_units(stage)
        kept = FileUnits.read(manifest, kind, stage.input.length or 0)
        if kept is not None and not self.can_use(kept):
            return super().with_fixed_units(stage)
        if kept is not None:
            return replace(self._with_kept_format(stage, kept), table=kept.unit_table(self.fields))
        op = cast("CountedUnits[F, U]", self.with_fixed_format(stage))
        units = op._read_footers(self._files(stage))
        units.write(manifest, kind)
        return replace(op, table=units.unit_table(self.fields))

    def start(self, unit: U) -> Origin:
        return Origin(unit[0].path, unit[self.fields.index("first")] + 1)

    def total(self) -> int | None:
        """How many rows all units have; None if one of them does not know."""
        if self.table is None:
            return None
        rows = self.table.column("rows")
        return None if (rows == UNKNOWN).any() else int(rows.sum())

    def weights(self, stage: StageView, context: Context) -> Weights:
        return Weights(self.resolved_table.column("rows"), are_rows=True)

    def identity(self) -> Json:
        identity = cast("dict[str, Json] | None", super().identity())
        return identity and {**identity, "rows": self.total()}

    def _read_footers(self, files: Iterator[File]) -> FileUnits:
        return FileUnits.of(in_threads(self.contents, files))

    def _manifest(self, stage: StageView) -> tuple[ManifestPlace | None, str]:
        """Where the manifest of the files is, if it may keep their units; and what else these depend on."""
        op = stage.input.op
        if not isinstance(op, OpenFiles) or not self.has_fixed_order:
            return None, ""
        return op.listed_in, f"{self.kind}, compression {op.compression}"

    def _with_kept_format(self, stage: StageView, kept: FileUnits) -> CountedUnits[F, U]:
        """With names and types fixed by what was kept of the files, which must fit them."""
        firsts = [self._file(stage, value) for value in stage.input.rows(kept.first_files(), Context())]
        heads = [self.kept_head(file, schema) for file, schema in zip(firsts, kept.schemas, strict=True)]
        op = replace(self, format=self.fixed_format(stage, iter(heads)))
        fixed = op.format.require_fixed_schema(firsts[0].name)
        columns = [fixed.columns_in(head) for head in heads]
        if fixed.folder_types:
            for file, number in zip(self._files(stage), kept.schema_numbers.tolist(), strict=True):
                fixed.constants(file.path, columns[number])
        return op


@dataclass(frozen=True, eq=False)
class ParseCounted(ParseUnits[U], Generic[F, U]):
    """The base of parsers that read such units in order."""

    columns: ClassVar[Columns] = Columns.MAKES

    format: F = field(repr=False)

    def call(self) -> str | None:
        return self.format.call()

    def identity(self) -> Json:
        return self.format.identity()

    def resolve(self, stage: StageView) -> Operator:
        return replace(self, format=cast("CountedUnits[Any, Any]", stage.input.op).format)

    def schema(self, stage: StageView) -> pa.Schema | None:
        return self.format.row_schema()

    def length(self, stage: StageView) -> int | None:
        return cast("CountedUnits[Any, Any]", stage.input.op).total()
