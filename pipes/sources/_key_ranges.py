"""`KeyRanges` and `ReadRanges`, the operators of `read_sql`: the ranges of a query, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..core.block import Block
from ..core.block_size import BlockSize
from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.operator import Columns, Operator, StageView, Weights
from ..core.plain_values import digest
from ..core.rows import BlockRows, Indices, index_array
from ..databases.database import Database
from ..databases.driver import SqlQuery
from ..databases.keys import check_key_type
from ..databases.query_plan import QueryPlan, RangeUnit
from ..databases.snapshot import Snapshot, exported_snapshot
from ..engine.prefetch import in_thread
from ..errors import ArgumentError, DataError, Origin, SourceError
from ..formats.tables.columns import first_duplicate, suggest_name
from ..ops.parsing._open_files import at_call_site
from ..ops.parsing._parse_units import ParseUnits
from ._range_reader import RangeReader, plain_schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class KeyRanges(Operator):
    """A handle for each range of a query. `resolve` finds all ranges, once per job."""

    kind: ClassVar[str] = "read_sql"
    columns: ClassVar[Columns] = Columns.LOSES
    expands: ClassVar[bool] = True

    query: str
    partition_on: str | None = None
    partitions: int | None = None
    parameters: tuple[object, ...] = field(default=(), repr=False)
    database: Database = field(default=Database(()), repr=False)
    snapshot: str | None = field(default="auto", repr=False)
    plan: QueryPlan | None = field(default=None, repr=False)
    exported: Snapshot | None = field(default=None, repr=False)
    is_resolved: bool = field(default=False, repr=False)

    @property
    def checked(self) -> bool:
        """Whether a range must have the rows that were counted."""
        return self.snapshot is not None

    def one_view_repair(self) -> str | None:
        return "give `snapshot=None` if nobody changes the rows" if self.checked else None

    @property
    def sql_query(self) -> SqlQuery:
        schema = None if self.plan is None else self.plan.schema
        return SqlQuery(self.query, self.partition_on, self.parameters, schema)

    def resolve(self, stage: StageView) -> Operator:
        try:
            return self._resolved()
        except (SourceError, DataError, ArgumentError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def length(self, stage: StageView) -> int:
        return len(self.resolved_plan.units)

    def weights(self, stage: StageView, context: Context) -> Weights:
        rows = np.array([unit.rows for unit in self.resolved_plan.units], np.int64)
        return Weights(rows, are_rows=self.checked)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        units = self.resolved_plan.units
        return [units[place] for place in index_array(indices).tolist()]

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin(repr(self.database), index + 1, "range")

    def identity(self) -> Json:
        facts: dict[str, Json] = {"parameters": digest(list(map(repr, self.parameters)))} if self.parameters else {}
        if self.plan is not None:
            facts |= {"ranges": len(self.plan.units), "rows": self.plan.rows}
            schema = plain_schema(self.plan.schema)
            facts["columns"] = {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)}
        return facts

    def saved(self) -> str | None:
        return None if self.plan is None else self.plan.text()

    def restored(self, saved: str) -> Operator:
        return replace(self, plan=QueryPlan.of_text(saved))

    def call(self) -> str:
        arguments = [value_code(self.query), repr(self.database)]
        arguments += [f"partition_on={self.partition_on!r}"] if self.partition_on is not None else []
        arguments += [f"partitions={self.partitions}"] if self.partitions is not None else []
        arguments += [f"parameters=<{len(self.parameters)}>"] if self.parameters else []
        arguments += [f"snapshot={self.snapshot!r}"] if self.snapshot != "auto" else []
        return f"read_sql({', '.join(arguments)})"

    @property
    def resolved_plan(self) -> QueryPlan:
        assert self.plan is not None, "a run begins with `resolve`"
        return self.plan

    def row_schema(self) -> pa.Schema | None:
        """Names and types of the columns of the rows; None before they are known."""
        return None if self.plan is None else plain_schema(self.plan.schema)

    def _resolved(self) -> KeyRanges:
        wants_snapshot = self.snapshot is not None and len(self.database.addresses) == 1
        if self.snapshot == "require" and not wants_snapshot:
            raise SourceError(
                "`snapshot` cannot be 'require' with several URIs, because a snapshot belongs to one server; give one "
                "URI, or `snapshot='auto'`"
            )
        if self.is_resolved or (self.plan is not None and not wants_snapshot):
            return self
        connected = self.database.connect_any()
        exported = exported_snapshot(connected) if wants_snapshot else None
        if exported is not None:
            connected = self.database.connect(0)  # the exporter reads nothing, so it locks no table
        with closing(connected):
            if self.snapshot == "require" and exported is None:
                raise SourceError(
                    f"`snapshot` is 'require', but {connected.shown} gives no snapshots; `snapshot='auto'` checks that "
                    "the rows stay the same instead"
                )
            if self.plan is not None:
                return replace(self, exported=exported, is_resolved=True)
            connected.begin(None if exported is None else exported.name)
            plan = QueryPlan.of(*connected.plan(self.sql_query, self.partitions, self._check))
            return replace(self, plan=plan, exported=exported, is_resolved=True)

    def _check(self, schema: pa.Schema) -> None:
        """Checks the columns of the query."""
        if (name := first_duplicate(schema.names)) is not None:
            raise DataError(
                f"two columns of the query have the name {name!r}, and a row can hold only one of them; rename one of "
                "them in the query, with AS"
            )
        plain_schema(schema)
        key = self.partition_on
        if key is None:
            return
        if key not in schema.names:
            raise ArgumentError(
                f"`partition_on` must name a column of the query but got: {key!r}; {suggest_name(key, schema.names)}"
            )
        check_key_type(key, schema.field(key).type)


@dataclass(frozen=True, eq=False)
class ReadRanges(ParseUnits[RangeUnit]):
    """The rows of each range, in the order of the key."""

    kind: ClassVar[str] = "sql_rows"
    columns: ClassVar[Columns] = Columns.MAKES

    source: KeyRanges | None = field(default=None, repr=False)

    def call(self) -> None:
        return None

    def resolve(self, stage: StageView) -> Operator:
        source = stage.input.op
        assert isinstance(source, KeyRanges)
        return replace(self, source=source)

    def length(self, stage: StageView) -> int | None:
        source = self._source
        return source.resolved_plan.rows if source.checked else None

    def schema(self, stage: StageView) -> pa.Schema | None:
        return None if self.source is None else self.source.row_schema()

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        # The next range is asked for while the last block of this one is used. A loader waits for its threads at the
        # end; a run without a loader would not.
        blocks_ahead = 1 if context.process.shards else 0
        return in_thread(lambda inner: super(ReadRanges, self).blocks(stage, at, inner), blocks_ahead, context)

    def reader(self, context: Context, block_size: BlockSize) -> RangeReader:
        source = self._source
        name = source.exported.name if source.exported is not None else None
        return RangeReader(source.database, source.sql_query, name, context, is_checked=source.checked)

    @property
    def _source(self) -> KeyRanges:
        assert self.source is not None, "a run begins with `resolve`"
        return self.source
