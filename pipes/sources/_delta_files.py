"""`DeltaFiles` and what follows it, the operators of `read_delta`: data files, their row groups, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, cast

from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Columns, Operator, StageView, Weights
from ..core.rows import BlockRows, Indices, index_array
from ..errors import DataError, Origin, SourceError, redacted
from ..formats.parquet.declared import DeclaredParquet
from ..formats.parquet.filter import ColumnBounds
from ..formats.tables.heads import FlatHead
from ..ops.parsing._file_units import FileContents, FileUnits
from ..ops.parsing._open_files import at_call_site
from ..ops.parsing._row_groups import RowGroups
from ..ops.parsing.parquet import ParseParquet
from ..storage.file import File
from ..storage.table_file import TableFile
from ..storage.tasks import in_threads
from ._delta_log import DeltaVersion, open_delta
from ._delta_statistics import FileStatistics

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, kw_only=True)
class DeltaFormat(DeclaredParquet):
    """The arguments of `read_delta` that say what to read of the files."""

    kind: ClassVar[str] = "read_delta"


@dataclass(frozen=True, eq=False)
class DeltaFiles(Operator):
    """A handle for each data file. `resolve` reads the log of the table, and fixes the version."""

    kind: ClassVar[str] = "read_delta"
    columns: ClassVar[Columns] = Columns.LOSES

    # The table may be in another place tomorrow; `saved` has the version.
    uri: str = field(repr=False)
    format: DeltaFormat = field(repr=False)
    version: int | None = field(default=None, repr=False)
    saved_version: int | None = field(default=None, repr=False)
    """That of a state."""
    resolved: DeltaVersion | None = field(default=None, repr=False)

    def call(self) -> str:
        arguments = [value_code(redacted(self.uri))]
        arguments += filter(None, [self.format.call().removeprefix("read_delta(").removesuffix(")")])
        arguments += [f"version={self.version}"] if self.version is not None else []
        return f"read_delta({', '.join(arguments)})"

    def one_view_repair(self) -> str | None:
        return "give all ranks the same `version`" if self.version is None else None

    def resolve(self, stage: StageView) -> Operator:
        if self.resolved is not None:
            return self
        version = self.saved_version if self.version is None else self.version
        try:
            return replace(self, resolved=open_delta(self.uri, version))
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def length(self, stage: StageView) -> int:
        return len(self._resolved_version().paths)

    def weights(self, stage: StageView, context: Context) -> Weights:
        return Weights(self._resolved_version().sizes.to_numpy())

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        version = self._resolved_version()
        return [self._file(version, place) for place in index_array(indices).tolist()]

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin(redacted(str(self._resolved_version().paths[index])), index + 1, "file")

    def identity(self) -> Json:
        version = self.resolved
        return {} if version is None else {"version": version.number, "files": len(version.paths)}

    def saved(self) -> str | None:
        return None if self.resolved is None else str(self.resolved.number)

    def restored(self, saved: str) -> Operator:
        return replace(self, saved_version=int(saved), resolved=None)

    def head(self) -> FlatHead:
        """Names and types of the columns."""
        return FlatHead(self._name(), self._resolved_version().schema)

    def bounds(self, types: Mapping[str, pa.DataType]) -> Iterator[Mapping[str, ColumnBounds]]:
        """What the log says about the values of columns, for each file."""
        version = self._resolved_version()
        return version.statistics.get(lambda: FileStatistics.unknown(len(version.paths))).bounds(types)

    def _file(self, version: DeltaVersion, place: int) -> TableFile:
        values = {name: version.values[name][place] for name in version.values.column_names}
        return TableFile(str(version.paths[place]), compression=None, values=values, table=self._name())

    def _name(self) -> str:
        return f"version {self._resolved_version().number} of {redacted(self.uri)}"

    def _resolved_version(self) -> DeltaVersion:
        assert self.resolved is not None, "a run begins with `resolve`"
        return self.resolved


@dataclass(frozen=True, eq=False)
class DeltaRowGroups(RowGroups):
    """Their row groups. A file is not opened if it has no row for the filters, as far as the log says."""

    def with_fixed_format(self, stage: StageView) -> DeltaRowGroups:
        head = cast("DeltaFiles", stage.input.op).head()
        return replace(self, format=self.format.fix([head], ()))

    def with_fixed_units(self, stage: StageView) -> DeltaRowGroups:
        op = self.with_fixed_format(stage)
        types = dict(item for _, columns in op.format.filters() for item in columns.items())
        files = zip(self._files(stage), cast("DeltaFiles", stage.input.op).bounds(types), strict=True)
        contents = in_threads(lambda item: op._contents(*item), files)
        return replace(op, table=FileUnits.of(contents).unit_table(self.fields))

    def _contents(self, file: File, bounds: Mapping[str, ColumnBounds]) -> FileContents:
        import pyarrow as pa

        if cast("DeltaFormat", self.format).may_match(cast("TableFile", file).values, bounds):
            return self.contents(file)
        return FileContents(pa.schema([]), 0, [], [])


@dataclass(frozen=True, eq=False)
class DeltaRows(ParseParquet):
    """The rows of the row groups."""

    kind: ClassVar[str] = "delta_rows"

    def call(self) -> None:
        return None
