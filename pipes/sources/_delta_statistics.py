"""`FileStatistics`: between which values those of a column lie in each data file, as the log of a table has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..formats.parquet.filter import ColumnBounds

if TYPE_CHECKING:
    import pyarrow as pa

# pyarrow's stubs do not say which types a function of `compute` takes, hence `Any`.


@dataclass(frozen=True, eq=False)
class FileStatistics:
    """The statistics of all data files.

    Attributes:
        actions: the log as deltalake gives it: a row for each file, with columns such as `min.x` and `null_count.x`.
    """

    actions: pa.Table

    @staticmethod
    def unknown(files: int) -> FileStatistics:
        """The statistics of files whose log has none."""
        import pyarrow as pa

        return FileStatistics(pa.table({"size_bytes": pa.nulls(files)}))

    def bounds(self, types: Mapping[str, pa.DataType]) -> Iterator[dict[str, ColumnBounds]]:
        """For each file, the bounds of these columns, as far as the log has any."""
        columns = {name: column for name, kind in types.items() if (column := self._column(name, kind)) is not None}
        for place in range(self.actions.num_rows):
            file = {name: column[place] for name, column in columns.items()}
            yield {name: bounds for name, bounds in file.items() if bounds is not None}

    def _column(self, name: str, kind: pa.DataType) -> list[ColumnBounds | None] | None:
        """The bounds of a column in each file; None if the log has none, or none that can be trusted."""
        import pyarrow as pa
        import pyarrow.compute as pc

        # A dot leads into a struct, or belongs to the name. Decimals have gone through binary floats.
        types: Any = pa.types
        kinds = (
            types.is_integer,
            types.is_floating,
            types.is_date32,
            types.is_timestamp,
            types.is_string,
            types.is_large_string,
        )
        if "." in name or f"min.{name}" not in self.actions.schema.names or not any(is_kind(kind) for is_kind in kinds):
            return None
        try:
            low, high = (cast("Any", self.actions[f"{end}.{name}"].cast(kind)) for end in ("min", "max"))
            if pa.types.is_timestamp(kind):  # the protocol cuts both ends down to milliseconds
                high = pc.add_checked(high, pa.scalar(1, pa.duration("ms")))
        except pa.ArrowInvalid:
            return None
        if pa.types.is_floating(kind):  # the log has decimal digits, which may be read as the number beside
            low, high = _next_float(low, -np.inf), _next_float(high, np.inf)
        nulls, rows = self.actions[f"null_count.{name}"].to_pylist(), self.actions["num_records"].to_pylist()
        return [_bounds(*file) for file in zip(low, high, nulls, rows, strict=True)]


def _bounds(low: Any, high: Any, nulls: int | None, rows: int | None) -> ColumnBounds | None:
    if nulls and nulls == rows:
        return ColumnBounds(None, None, True)
    return ColumnBounds(low, high, nulls != 0) if low.is_valid and high.is_valid else None


def _next_float(values: Any, toward: float) -> Any:
    import pyarrow as pa

    numbers = values.to_numpy(zero_copy_only=False)
    return pa.array(np.nextafter(numbers, numbers.dtype.type(toward)), values.type, mask=np.isnan(numbers))
