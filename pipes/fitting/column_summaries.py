"""`ColumnSummaries`: what is known of all columns after some of the rows, on one rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.rows import Rows, column_names, select_columns
from ..errors import DataError, LimitError, UnfitError, with_call_site
from ..ops._column_arguments import existing_columns
from ..ops._columns import as_rows
from ..stats.statistic import Statistic, Summary

MAX_BYTES = 2**30
"""The memory that the summary of a column may take."""
PARTS = 16
"""So many summaries are joined at a time."""

Statistics = Mapping[str, Statistic[Any]]


class SummarizeRows:
    """Makes the summaries of a batch of rows, in the process that reads it.

    Args:
        statistics: by the name of the column.
    """

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = dict(statistics)

    def __call__(self, batch: Sequence[object]) -> tuple[int, dict[str, Summary]]:
        if batch and isinstance(batch[0], Rows):
            raise UnfitError("an element must be a row but is a batch of rows; `.unbatch()` gives its rows")
        rows = as_rows(batch)
        columns = select_columns(rows, existing_columns(self._statistics, column_names(rows))).columns
        summaries: dict[str, Summary] = {}
        for name, statistic in self._statistics.items():
            try:
                summaries[name] = statistic.summary(columns[name])
            except UnfitError as error:
                raise UnfitError(f"column {name!r} {error}") from error
        return len(rows), summaries


class ColumnSummaries:
    """The summaries of all rows so far.

    Attributes:
        rows: the number of rows.
    """

    def __init__(self, statistics: Statistics) -> None:
        self.rows = 0
        self._statistics = dict(statistics)
        self._parts: dict[str, list[Summary]] = {name: [] for name in statistics}

    def add(self, rows: int, summaries: Mapping[str, Summary]) -> None:
        """Add the summaries of more rows.

        Raises:
            LimitError: a column has too many distinct values.
            DataError: a column has values of several types.
        """
        self.rows += rows
        for name, summary in summaries.items():
            self._parts[name].append(summary)
            if len(self._parts[name]) > PARTS:
                self._merge(name)

    def results(self) -> dict[str, Any]:
        """What is known after all rows.

        Raises:
            DataError: a column has no value.
        """
        results: dict[str, Any] = {}
        for name, statistic in self._statistics.items():
            if not self._parts[name]:
                raise DataError(with_call_site("`fit`: the pipe has no rows, so its columns have no statistics"))
            try:
                results[name] = statistic.result(self._merge(name))
            except UnfitError as error:
                raise DataError(with_call_site(f"`fit`: column {name!r} {error}")) from error
        return results

    def to_json(self) -> dict[str, object]:
        """The summaries as plain values, for other ranks and for a later run."""
        columns = {name: self._merge(name).to_json() if parts else None for name, parts in self._parts.items()}
        return {"rows": self.rows, "columns": columns}

    def add_json(self, values: Mapping[str, Any]) -> None:
        """Add what `to_json` of other rows returned."""
        summaries: dict[str, Summary] = {
            name: self._statistics[name].summary_type.from_json(column)
            for name, column in values["columns"].items()
            if column is not None
        }
        self.add(values["rows"], summaries)

    def _merge(self, name: str) -> Summary:
        summary_type: Any = self._statistics[name].summary_type
        try:
            merged: Summary = summary_type.merged(self._parts[name])
        except UnfitError as error:
            raise DataError(with_call_site(f"`fit`: column {name!r} {error}")) from error
        if merged.nbytes > MAX_BYTES:
            raise LimitError(
                with_call_site(
                    f"`fit`: the distinct values of column {name!r} take more than {MAX_BYTES >> 20} MiB after "
                    f"{self.rows} rows; a column that identifies rows has no vocabulary, and `.with_columns` can make "
                    "fewer values of it, such as prefixes"
                )
            )
        self._parts[name] = [merged]
        return merged
