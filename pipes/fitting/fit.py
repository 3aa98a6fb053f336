"""`fit`: statistics of columns, in one run of a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..core.block import row_width
from ..core.graph import Node, node_code
from ..core.progress_bar import ProgressBar
from ..core.rows import Rows, column_names, select_columns
from ..engine.stage import resolve
from ..errors import (
    ArgumentTypeError,
    DataError,
    LimitError,
    PlanError,
    RowError,
    UnfitError,
    call_site,
)
from ..loader import Loader, PassLoader
from ..loading.ranks import RankSource
from ..ops._shared import as_rows, existing_columns
from ..ops.repeat import Repeat
from ..ops.slice import SliceBase, TakeWhile
from ..ops.zip import Zip
from ..pipe import Pipe, check_pipe
from ..plan.fingerprint import Fingerprint
from ..services.base import ReadingService
from ..stats.statistics import Statistic, Summary
from ..stats.stats import Stats

if TYPE_CHECKING:
    from ..torch.ranks import Group

T = TypeVar("T")

CHUNK_BYTES = 2**24
"""About the bytes of the rows of one summary."""
MAX_CHUNK_ROWS = 2**16
CHUNK_ROWS_OF_TEXT = 2**14
"""The rows of one summary, if their width is not known."""
CHUNK_ROWS_OF_DICTS = 2**11
MAX_BYTES = 2**30
"""The most memory for the summary of a column."""
PARTS = 16
"""The number of summaries that are joined at once."""


def fit(
    pipe: Pipe[Mapping[str, object]],
    statistics: Mapping[str, Statistic[Any]],
    *,
    service: ReadingService | None = None,
    workers: int = 0,
    group: Group | None = None,
    progress: bool = True,
) -> Stats:
    """Run a pipe once, and return statistics of its columns.

    A worker makes a summary of each few thousand rows, and only summaries leave it. Moments, extremes, vocabularies and
    counts are exact; quantiles are exact up to 4,096 rows, else their rank is right to about 0.001. Missing values
    (nulls, and NaN among floats) are counted and left out. If there is a process group, each rank reads its share, and
    all get the same result. Random draws and shuffles are those of epoch 0 with seed 0.

    Args:
        pipe: gives rows, of a table or as dicts.
        statistics: one of `fp.stats` by the name of the column; only these columns are read.
        service, workers: where the pipe runs, as for `Loader`.
        group: the ranks that read together, as for `Loader`.
        progress: on a terminal, shows the number of rows.

    Raises:
        ArgumentTypeError: `statistics` are no statistics by name.
        PlanError: there is no such column, or the pipe repeats its rows without end.
        DataError: a column has no value, an infinite number, or values of a type that does not have the statistic.
        LimitError: the distinct values of a column take more than 1 GiB.

    Example:
        >>> import feedpipe as fp
        >>> rows = fp.from_sequence([{"x": 1.0, "city": "Rome"}, {"x": None, "city": "Oslo"}, {"x": 4, "city": "Rome"}])
        >>> stats = fp.fit(rows, {"x": fp.stats.mean_std(), "city": fp.stats.vocabulary()})
        >>> stats["x"]
        MeanStd(rows=3, missing=1, mean=2.5, std=1.5)
        >>> stats["city"].values
        ('Rome', 'Oslo')
        >>> list(rows.fill_null({"x": stats["x"].mean}).standardize(stats).index_of("city", values=stats["city"]))[2]
        {'x': 1.0, 'city': 0}
    """
    check_pipe(pipe)
    _check_statistics(statistics)
    check_ends(pipe, "fit")
    ranks = RankSource(None, None, group)
    side = ranks.side_group()
    # Ranks that cannot exchange summaries each read everything.
    _, world_size = ranks.ask() if side is not None else (0, 1)
    chain = _chain(pipe, statistics)
    loader: Loader[Any] = (
        PassLoader(chain, service, workers=workers, rank=0, world_size=1, even=None)
        if world_size == 1
        else PassLoader(chain, service, workers=workers, group=group, even=None)
    )
    summaries = ColumnSummaries(statistics)
    with loader:
        shown = None if progress else False
        with ProgressBar("fit", pipe.length, fraction=lambda: loader.progress, shown=shown) as bar:
            for rows, parts in _with_fit_errors(loader):
                summaries.add(rows, parts)
                bar.update(rows)
    if side is not None and world_size > 1:
        texts = side.gather("fit", json.dumps(summaries.to_json()).encode())
        summaries = ColumnSummaries(statistics)
        for text in texts:
            summaries.add_json(json.loads(text))
    return Stats(summaries.results(), summaries.rows, Fingerprint(resolve(pipe)).pipe)


def check_ends(root: Node, function: str) -> None:
    """Raises a `PlanError` if a `repeat()` makes the rows of `root` endless."""
    repeat = _endless(root)
    if repeat is not None:
        raise PlanError(
            f"`{function}` must come to the end of the pipe, and `{node_code(repeat)}` has none; put it after "
            f"`{function}`, or `.take(n)` between them"
        )


def _endless(node: Node) -> Node | None:
    """The `repeat()` that makes the rows endless; None if they have an end."""
    if isinstance(node.op, Repeat) and node.op.times is None:
        return node
    if isinstance(node.op, TakeWhile) or (isinstance(node.op, SliceBase) and node.op.bounds()[1] is not None):
        return None
    repeats = [_endless(source) for source in node.inputs]
    if isinstance(node.op, Zip) and None in repeats:
        return None
    return next((repeat for repeat in repeats if repeat is not None), None)


def _check_statistics(statistics: object) -> None:
    entries = dict(cast("Mapping[object, object]", statistics)) if isinstance(statistics, Mapping) else {}
    wrong = [value for name, value in entries.items() if not (isinstance(name, str) and isinstance(value, Statistic))]
    if not entries or wrong:
        raise ArgumentTypeError(
            '`statistics` must map names of columns to statistics, such as {"x": fp.stats.mean_std()}, but got: '
            f"{(wrong or [statistics])[0]!r:.200}"
        )


def _chain(pipe: Pipe[Any], statistics: Mapping[str, Statistic[Any]]) -> Pipe[Any]:
    """A pipe of summaries, each of a few thousand rows; other columns are not read."""
    schema = pipe.schema
    rows = CHUNK_ROWS_OF_DICTS
    if schema is not None:
        try:
            existing_columns(statistics, schema.names)
        except UnfitError as error:
            raise PlanError(f"`fit`: {error}") from None
        pipe = pipe.select(*statistics)
        width = row_width(pipe.schema)
        rows = CHUNK_ROWS_OF_TEXT if width is None else max(1, min(MAX_CHUNK_ROWS, CHUNK_BYTES // max(width, 1)))
    return pipe.batch(rows).map(SummarizeRows(statistics))


def _with_fit_errors(parts: Iterable[T]) -> Iterator[T]:
    """The same; an error of rows without a statistic is that of `fit`."""
    try:
        yield from parts
    except RowError as error:
        if not isinstance(error.__cause__, UnfitError):
            raise
        origin = f"\n  in the rows from {error.origin} on" if error.origin else ""
        raise DataError(f"`fit`: {error.__cause__}{origin}", at=call_site()) from error.__cause__


class SummarizeRows:
    """The summaries of a batch of rows, by the name of the column."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = dict(statistics)

    def __call__(self, batch: Sequence[object]) -> tuple[int, dict[str, Summary]]:
        rows = single_rows(batch)
        columns = select_columns(rows, existing_columns(self._statistics, column_names(rows))).columns
        summaries: dict[str, Summary] = {}
        for name, statistic in self._statistics.items():
            try:
                summaries[name] = statistic.summary(columns[name])
            except UnfitError as error:
                raise UnfitError(f"column {name!r} {error}") from error
        return len(rows), summaries


def single_rows(batch: Sequence[object]) -> Rows:
    """The rows of a batch, which must not be batches themselves."""
    if batch and isinstance(batch[0], Rows):
        raise UnfitError("an element must be a row but is a batch of rows; `.unbatch()` gives its rows")
    return as_rows(batch)


class ColumnSummaries:
    """The summaries of all rows so far."""

    def __init__(self, statistics: Statistics) -> None:
        self.rows = 0
        self._statistics = dict(statistics)
        self._parts: dict[str, list[Summary]] = {name: [] for name in statistics}

    def add(self, rows: int, summaries: Mapping[str, Summary]) -> None:
        """Adds the summaries of more rows.

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
        """The statistics, after all rows.

        Raises:
            DataError: a column has no value.
        """
        results: dict[str, Any] = {}
        for name, statistic in self._statistics.items():
            if not self._parts[name]:
                raise DataError("`fit`: the pipe has no rows, so its columns have no statistics", at=call_site())
            try:
                results[name] = statistic.result(self._merge(name))
            except UnfitError as error:
                raise DataError(f"`fit`: column {name!r} {error}", at=call_site()) from error
        return results

    def to_json(self) -> dict[str, object]:
        """The summaries as plain values, for other ranks."""
        columns = {name: self._merge(name).to_json() if parts else None for name, parts in self._parts.items()}
        return {"rows": self.rows, "columns": columns}

    def add_json(self, values: Mapping[str, Any]) -> None:
        """Adds the summaries of other rows, which `to_json` made plain."""
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
            raise DataError(f"`fit`: column {name!r} {error}", at=call_site()) from error
        if merged.nbytes > MAX_BYTES:
            raise LimitError(
                f"`fit`: the distinct values of column {name!r} take more than {MAX_BYTES >> 20} MiB after "
                f"{self.rows} rows; a column that identifies rows has no vocabulary, and `.with_columns` can make "
                "fewer values of it, such as prefixes",
                at=call_site(),
            )
        self._parts[name] = [merged]
        return merged


Statistics = Mapping[str, Statistic[Any]]
