"""`Stats`: the statistics of the columns of a pipe, made by `fit`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core.checks import similar_name
from ..core.saving import write_text
from ..errors import ArgumentError, ArgumentTypeError, DataError, MissingError, call_site
from .distinct_values import Counts, Vocabulary
from .statistics import Fitted, MeanStd, MinMax, Missing, Quantiles

VERSION = 1
FITTED: dict[str, type[Fitted]] = {
    kind.kind: kind for kind in (MeanStd, MinMax, Missing, Vocabulary, Counts, Quantiles)
}
"""The results for a column, by the function of `fp.stats` that asks for them."""


class Stats(Mapping[str, Any]):
    """The statistics of the columns of a pipe, by the name of the column; `fp.fit` makes them.

    Args:
        columns: the result for each column.
        rows: the number of rows.
        fitted_on: the fingerprint of the pipe, as the state of a loader has it.

    Example:
        >>> import feedpipe as fp
        >>> stats = fp.fit(fp.from_sequence([{"x": 1.0}, {"x": 3.0}]), {"x": fp.stats.mean_std()})
        >>> stats["x"].mean, stats["x"].std, stats.rows
        (2.0, 1.0, 2)
        >>> stats.save("stats.json")
        >>> fp.Stats.load("stats.json") == stats
        True
    """

    def __init__(self, columns: Mapping[str, Fitted], rows: int, fitted_on: str) -> None:
        self._columns = dict(columns)
        self.rows = rows
        self.fitted_on = fitted_on

    def __getitem__(self, name: str) -> Any:
        if name not in self._columns:
            near = similar_name(name, self._columns)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(map(repr, self._columns))}"
            raise KeyError(f"there are no statistics of a column {name!r}; {hint}")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stats) and self._to_json() == other._to_json()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Stats({', '.join(f'{name}: {fitted.kind}' for name, fitted in self._columns.items())})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to a file, as JSON.

        Raises:
            ArgumentError: the folder of the file does not exist.
        """
        write_text(path, json.dumps(self._to_json(), indent=1) + "\n")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Stats:
        """Return the statistics of a file that `save` has written.

        Raises:
            MissingError: there is no such file.
            DataError: the file is of another kind, or damaged.
        """
        try:
            return Stats.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise MissingError(f"there is no file {os.fspath(path)}", at=call_site()) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{os.fspath(path)} has no statistics that `save` wrote", at=call_site()) from error

    @staticmethod
    def from_json(values: Any) -> Stats:
        """The statistics as `save` writes them."""
        if values["feedpipe_stats"] != VERSION:
            raise ValueError(f"version {values['feedpipe_stats']!r}")
        columns = {name: FITTED[entry["kind"]].from_json(entry) for name, entry in values["columns"].items()}
        return Stats(columns, values["rows"], values["fitted_on"])

    def inverse(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns as they were before `standardize`, `scale` from 0 to 1, or `index_of`.

        Args:
            columns: arrays or tensors by the name of the column, such as a batch or predictions. Columns without
                statistics stay as they are.

        Raises:
            ArgumentError: the statistics of a column have no inverse.
        """
        if not isinstance(columns, Mapping):
            raise ArgumentTypeError(f"`columns` must map names of columns to arrays but got: {type(columns).__name__}")
        inverted: dict[str, Any] = {}
        for name, values in columns.items():
            fitted: Any = self._columns.get(name)
            if fitted is not None and not hasattr(fitted, "inverse"):
                raise ArgumentError(f"column {name!r} has the statistics `{fitted.kind}`, which have no inverse")
            inverted[name] = values if fitted is None else fitted.inverse(values)
        return inverted

    def _to_json(self) -> dict[str, object]:
        columns = {name: {"kind": fitted.kind, **fitted.to_json()} for name, fitted in self._columns.items()}
        return {"feedpipe_stats": VERSION, "rows": self.rows, "fitted_on": self.fitted_on, "columns": columns}
