"""`JoinSource`: what the user gives `join` as its other side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from ...core.context import Context
from ...core.cursor import START, Json
from ...core.graph import Node, chain_code
from ...core.operator import Operator, StageView
from ...core.plain_values import digest
from ...core.rows import BlockRows
from ...engine.stage import bind, resolve
from ...errors import ArgumentTypeError, DataError, LimitError, UnfitError, with_call_site
from ...formats.tables.arrow import to_rows
from .._column_arguments import existing_columns
from .._keys import keys_of
from ._other_side import OtherSide, index_dicts, index_rows, read_rows

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS_IN_DIGEST = 16


@dataclass(frozen=True, eq=False)
class JoinSource:
    """The other side of a join, before it is read.

    Attributes:
        source: a pipe, a table, or a dict of rows by key.
        key: the columns of the key; a dict has none.
    """

    source: Node | pa.Table | Mapping[Any, Any]
    key: tuple[str, ...]

    @property
    def code(self) -> str:
        if isinstance(self.source, Node):
            return chain_code(self.source)
        rows = len(self.source) if isinstance(self.source, Mapping) else self.source.num_rows
        return f"<{'dict' if isinstance(self.source, Mapping) else 'Table'} of {rows}>"

    def identity(self) -> Json:
        """What identifies it in a state: the chain of a pipe, or some rows."""
        if isinstance(self.source, Node):
            return chain_code(self.source)
        if isinstance(self.source, Mapping):
            return [len(self.source), digest(list(self.source.items())[:MAX_ROWS_IN_DIGEST])]
        rows = self.source.num_rows
        step = max(1, rows // MAX_ROWS_IN_DIGEST)
        return [rows, str(self.source.schema), digest(self.source.take([*range(0, rows, step)]).to_pylist())]

    def resolved(self) -> JoinSource:
        return replace(self, source=resolve(self.source)) if isinstance(self.source, Node) else self

    def schema(self) -> pa.Schema | None:
        """Names and types of the columns, if they are known without a run."""
        if isinstance(self.source, Node):
            return bind(self.source).schema
        return None if isinstance(self.source, Mapping) else self.source.schema

    def check_key(self, key: tuple[str, ...], schema: pa.Schema, other: pa.Schema | None) -> None:
        """Raises an `UnfitError` if a column of the key is missing, or no two values can be equal."""
        import pyarrow as pa

        existing_columns(key, schema.names)
        if other is None:
            return
        existing_columns(self.key, other.names)
        for name, other_name in zip(key, self.key, strict=True):
            own, others = schema.field(name).type, other.field(other_name).type
            kinds = _comparable(pa, own), _comparable(pa, others)
            if None not in kinds and kinds[0] != kinds[1]:
                raise UnfitError(
                    f"column {name!r} is of type {own} and {other_name!r} of the other side of type {others}, so no "
                    "key would be found; `.cast` one of them"
                )

    def no_match(self, row: BlockRows, key: tuple[str, ...]) -> UnfitError:
        """The error of a row whose key the other side does not have."""
        ((value, *_), _) = keys_of(row, key)
        name = key[0] if len(key) == 1 else list(key)
        return UnfitError(
            f'no row of the other side has the key {value!r:.80} of {name!r}; `how="inner"` leaves out such rows, and '
            '`how="left"` gives them nulls'
        )

    def read(self, op: Operator, stage: StageView, *, nulls: bool, one_row: bool) -> OtherSide:
        """Reads all of it.

        Args:
            op: the join, for errors.
            nulls: whether columns must be held in Arrow, where they can be null.
            one_row: whether no two rows may have one key.
        """
        try:
            side = self._read(nulls=nulls)
            if one_row:
                side.check_one_row_each()
        except (UnfitError, LimitError) as error:
            kind = DataError if isinstance(error, UnfitError) else LimitError
            raise kind(with_call_site(f"the other side of `{op.kind}`: {error}", stage.call_site)) from None
        return side

    def _read(self, *, nulls: bool) -> OtherSide:
        if isinstance(self.source, Node):
            return index_rows(read_rows(bind(self.source).blocks(START, Context())), self.key, nulls=nulls)
        if isinstance(self.source, Mapping):
            return index_dicts(list(self.source), list(self.source.values()))
        return index_rows(to_rows(self.source), self.key, nulls=nulls)


def join_source(other: object, key: tuple[str, ...]) -> JoinSource:
    """The other side that the user gave, checked.

    Args:
        other: a pipe, a table, or a dict of rows by key.
        key: the columns of the key; empty for a dict.
    """
    if isinstance(other, (Node, Mapping)):
        return JoinSource(other, key)
    if not hasattr(other, "__arrow_c_stream__") or isinstance(other, type):
        raise ArgumentTypeError(
            with_call_site(
                "`other` must be a pipe, a data frame or Arrow table, or a dict of rows by key, but got: "
                f"{type(other).__name__}"
            )
        )
    import pyarrow as pa

    from ...formats.tables.takeable_types import with_takeable_types

    return JoinSource(with_takeable_types(pa.table(cast("Any", other))), key)


def _comparable(pa: Any, kind: Any) -> str | None:
    """A word for the types whose values may be equal; None if that cannot be told."""
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return "bytes" if types.is_binary(kind) or types.is_large_binary(kind) else None
