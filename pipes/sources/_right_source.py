"""Points objects that another source takes to that source, without importing their libraries."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ArgumentTypeError, with_call_site


class _Way(NamedTuple):
    """How objects of a class become a pipe.

    Attributes:
        source: the function that takes them as they are, if there is one.
        repair: what to write.
    """

    source: str
    repair: str


_TABLE = _Way("from_table", "`from_table` takes it, and keeps its columns")
_SPLITS = _Way("", 'choose a split, such as `dataset["train"]`, and give it to `from_dataset`')
_WAYS = {  # by the name of the package and of the class
    "pandas.DataFrame": _TABLE,
    "polars.DataFrame": _TABLE,
    "pyarrow.Table": _TABLE,
    "pyarrow.RecordBatch": _TABLE,
    "pyarrow.RecordBatchReader": _TABLE,
    "duckdb.DuckDBPyRelation": _TABLE,
    "duckdb.DuckDBPyConnection": _Way("", 'give `from_table` a relation, such as `connection.sql("SELECT ...")`'),
    "polars.LazyFrame": _Way("", "give `from_table` its result, `frame.collect()`"),
    "pyarrow.Dataset": _Way(
        "", "`from_table(dataset.to_table())` reads it at once, and `read_parquet(dataset.files)` part by part"
    ),
    "datasets.DatasetDict": _SPLITS,
    "datasets.IterableDatasetDict": _SPLITS,
}


def check_right_source(source: str, value: object) -> None:
    """Raises an `ArgumentTypeError` if `value`, the argument of `source`, is an object for another source."""
    for kind in type(value).__mro__:
        name = f"{kind.__module__.partition('.')[0].lstrip('_')}.{kind.__name__}"
        way = _WAYS.get(name)
        if way is not None and way.source != source:
            raise ArgumentTypeError(with_call_site(f"`{source}` does not take a `{name}`; {way.repair}"))
