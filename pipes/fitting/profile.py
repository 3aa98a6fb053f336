"""`profile`: the contents of the columns of a pipe, and what looks wrong."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.checks import check_bool, check_int
from ..core.lazy import pa
from ..core.progress_bar import ProgressBar
from ..core.rows import Rows
from ..errors import DataError, RowError, UnfitError, call_site
from ..loader import Loader
from ..ops._shared import as_rows
from ..pipe import Pipe, check_pipe
from .column_profile import ColumnOutline, ColumnProfile, copies_of
from .fit import PARTS, check_ends

CHUNK_ROWS = 2**13
CELL_WIDTH = 24


def profile(pipe: Pipe[Mapping[str, object]], *, rows: int | None = None, progress: bool = True) -> Profile:
    """Run a pipe once in this process, and return a profile of its columns.

    Printed, a profile is a table: for each column its type, missing values, the extremes, the median and the most
    frequent values. Below is what looks wrong: columns that are constant or copies, ids that repeat, text that is
    numbers or dates, empty text, rare labels, spellings that differ in case or white space, outliers. A notebook shows
    it with pictures, and `to_html` writes them to a page.

    More than 100,000 distinct values of a column are estimated by HyperLogLog, within about 2%; the number then has a
    "~". The page has quantiles and histograms from a t-digest.

    Args:
        pipe: gives rows, of a table or as dicts; batches of them, whose rows are counted; or other values, such as
            images, which are one column, `element`.
        rows: look only at the first elements, of this number.
        progress: on a terminal, shows the number of rows.

    Raises:
        PlanError: the pipe repeats its rows without end, and `rows` is None.

    Example:
        >>> import feedpipe as fp
        >>> people = [{"age": "34", "city": "Rome"}, {"age": "n/a", "city": " rome"}, {"age": "51", "city": None}]
        >>> fp.profile(fp.from_sequence(people))
        3 rows
        column  type    missing  distinct  min  median  max  most frequent
        age     string  0        3                           '34', '51', 'n/a'
        city    string  1        2                           ' rome', 'Rome'
        what looks wrong
          age: 66.7% of the text is numbers, and others are such as 'n/a'
          city: some values differ in case or white space alone: ' rome', 'Rome'
    """
    check_pipe(pipe)
    check_bool("progress", progress)
    if rows is not None:
        pipe = pipe.take(check_int("rows", rows, least=1))
    check_ends(pipe, "profile")
    outlines: defaultdict[str, list[ColumnOutline]] = defaultdict(list)
    count = 0
    for number, columns in _outlines(pipe, progress=progress):
        for name, outline in columns.items():
            parts = outlines[name]
            if count and not parts:  # rows that are dicts: those before it lack the column
                parts.append(_nothing(count))
            parts.append(outline)
        count += number
        for name, parts in outlines.items():
            if name not in columns:
                parts.append(_nothing(number))
            if len(parts) > PARTS:
                parts[:] = [ColumnOutline.merged(parts)]
    whole = {name: ColumnOutline.merged(parts) for name, parts in outlines.items()}
    profiles = {name: ColumnProfile.of(name, outline) for name, outline in whole.items()}
    for name, first in copies_of(whole).items():
        profiles[name].remarks.append(f"it has the values of the column {first!r}")
    return Profile(profiles, count)


def _outlines(pipe: Pipe[Any], *, progress: bool) -> Iterator[tuple[int, dict[str, ColumnOutline]]]:
    chain = pipe.batch(CHUNK_ROWS).map(OutlineRows())
    with (
        Loader(chain, rank=0, world_size=1, even=None) as loader,
        ProgressBar("profile", pipe.length, fraction=lambda: loader.progress, shown=None if progress else False) as bar,
    ):
        try:
            for part in loader:
                bar.update(part[0])
                yield part
        except RowError as error:
            if isinstance(error.__cause__, UnfitError):
                raise DataError(f"`profile`: {error.__cause__}", at=call_site()) from error.__cause__
            raise


def _nothing(rows: int) -> ColumnOutline:
    return ColumnOutline.of(pa.nulls(rows))


class Profile(Mapping[str, ColumnProfile]):
    """The profiles of the columns of a pipe, by the name of the column. Printed, it is a table.

    Attributes:
        rows: the number of rows.
    """

    def __init__(self, columns: Mapping[str, ColumnProfile], rows: int) -> None:
        self._columns = dict(columns)
        self.rows = rows

    def __getitem__(self, name: str) -> ColumnProfile:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def table(self) -> pa.Table:
        """A row for each column, with its remarks; values of several types are text."""
        entries = self._columns.values()
        floats = {"mean": pa.float64(), "std": pa.float64()}
        counts = {"rows": pa.int64(), "missing": pa.int64(), "distinct": pa.int64()}
        columns: dict[str, Any] = {"column": pa.array([entry.name for entry in entries], pa.string())}
        columns["type"] = pa.array([entry.type for entry in entries], pa.string())
        for name, kind in {**counts, **floats}.items():
            columns[name] = pa.array([getattr(entry, name) for entry in entries], kind)
        for name in ("min", "max"):
            columns[name] = pa.array([_text(getattr(entry, name)) for entry in entries], pa.string())
        columns["median"] = pa.array([entry.quantiles.get(0.5) for entry in entries], pa.float64())
        frequent = [[_text(value) for value, _ in entry.frequent] for entry in entries]
        columns["frequent"] = pa.array(frequent, pa.list_(pa.string()))
        columns["remarks"] = pa.array([entry.remarks for entry in entries], pa.list_(pa.string()))
        return pa.table(columns)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the profile as a page for a browser, in one file that loads nothing.

        Each column has a histogram of its numbers or of the lengths of its texts and lists, bars of its most frequent
        values, thumbnails of its images, and remarks. A notebook shows the same.
        """
        from .profile_page import profile_page

        Path(path).write_text(profile_page(list(self._columns.values()), self.rows), encoding="utf-8")

    def _repr_html_(self) -> str:
        from .profile_page import profile_fragment

        return profile_fragment(list(self._columns.values()), self.rows)

    def __repr__(self) -> str:
        header = ["column", "type", "missing", "distinct", "min", "median", "max", "most frequent"]
        lines = [header, *(_cells(entry) for entry in self._columns.values())]
        widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
        rows = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        remarks = [f"  {name}: {remark}" for name, entry in self._columns.items() for remark in entry.remarks]
        return "\n".join([f"{self.rows} rows", *rows, *(["what looks wrong", *remarks] if remarks else [])])


def _cells(entry: ColumnProfile) -> list[str]:
    frequent = ", ".join(f"{value!r:.12}" for value, _ in entry.frequent[:3])
    numbers = [_text(value) or "" for value in (entry.min, entry.quantiles.get(0.5), entry.max)]
    cells = [entry.name, entry.type, str(entry.missing), _distinct(entry), *numbers, frequent]
    return [cell if len(cell) <= 2 * CELL_WIDTH else f"{cell[: 2 * CELL_WIDTH - 3]}..." for cell in cells]


def _distinct(entry: ColumnProfile) -> str:
    about = "~" if entry.too_many else ""
    return "" if entry.distinct is None else about + format(entry.distinct, "," if entry.too_many else "d")


def _text(value: object) -> str | None:
    if value is None:
        return None
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# Rows of any elements


class OutlineRows:
    """The outlines of all columns of a batch of rows."""

    def __call__(self, batch: Sequence[object]) -> tuple[int, dict[str, ColumnOutline]]:
        rows = _rows_of(batch)
        return len(rows), {name: ColumnOutline.of(column) for name, column in rows.columns.items()}


def _rows_of(elements: Sequence[Any]) -> Rows:
    """The rows of some elements: rows, batches of rows, batches of columns, or values that are one column."""
    if isinstance(elements, Rows):
        return elements
    first = elements[0]
    if isinstance(first, Rows) or (isinstance(first, list) and first and isinstance(first[0], Mapping)):
        return as_rows([row for batch in elements for row in batch])
    if isinstance(first, Mapping):
        if first and all(_is_batched(value) for value in first.values()):
            return as_rows([dict(zip(batch, row, strict=True)) for batch in elements for row in _rows_of_batch(batch)])
        if not all(isinstance(row, Mapping) for row in elements):
            return as_rows(list(elements))  # raises an error
        return as_rows([{name: _plain(value) for name, value in row.items()} for row in elements])
    if isinstance(first, tuple):
        return as_rows([{str(place): _plain(value) for place, value in enumerate(row)} for row in elements])
    return as_rows([{"element": _plain(value)} for value in elements])


def _is_batched(value: Any) -> bool:
    """Whether a value looks like a column of a batch: a tensor, as `collate` makes of a batch."""
    return type(value).__module__.partition(".")[0] == "torch" and getattr(value, "ndim", 0) > 0


def _rows_of_batch(batch: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*(map(_plain, value) for value in batch.values()), strict=False)


def _plain(value: Any) -> Any:
    """An image or a tensor as an array."""
    package = type(value).__module__.partition(".")[0]
    if package == "PIL":
        return np.asarray(value)
    if package == "torch" and hasattr(value, "detach"):
        array = value.detach().cpu().numpy()
        return array if array.ndim else array.item()
    return value
