"""`sliding(key=)`: windows of series, of indexed and of streamed pipes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError, PlanError, PlanWarning, RowError
from feedpipe.testing import check_operator

from ...support.examples import examples
from ..exactness import check_elastic, check_ranks, check_resumes, digest
from ..tables import streamed


def rows_of(keys: list[Any]) -> list[dict[str, Any]]:
    return [{"n": n, "key": key} for n, key in enumerate(keys)]


def brute_force(keys: list[Any], size: int, step: int, *, together: bool) -> list[list[int]]:
    """The numbers of the rows in each window; a series ends where the key changes, if it lies together."""
    series: dict[Any, list[int]] = {}
    run = 0
    for n, key in enumerate(keys):
        run += n > 0 and key != keys[n - 1]
        series.setdefault(run if together else key, []).append(n)
    windows = [own[k : k + size] for own in series.values() for k in range(0, len(own) - size + 1, step)]
    return sorted(windows)


def numbers(windows: Any) -> list[list[int]]:
    return [[row["n"] for row in window] for window in windows]


runs = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=8)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(runs, st.integers(1, 5), st.integers(1, 7), st.booleans(), st.booleans())
def test_windows_are_those_of_each_series(
    runs: list[tuple[int, int]], size: int, step: int, by_function: bool, table: bool
) -> None:
    keys = [key for key, count in runs for _ in range(count)]
    schema = pa.schema([("n", pa.int64()), ("key", pa.int64())])
    source = fp.from_table(pa.Table.from_pylist(rows_of(keys), schema)) if table else fp.from_sequence(rows_of(keys))
    key: Any = (lambda row: row["key"]) if by_function else "key"
    pipe = source.sliding(size, step, key=key)
    expected = brute_force(keys, size, step, together=False)
    assert numbers(check_operator(pipe, samples=2)) == expected and len(pipe) == len(expected) and pipe.indexed
    in_order = check_operator(streamed(source).sliding(size, step, key=key), samples=4)
    assert numbers(in_order) == brute_force(keys, size, step, together=True)


def test_keys_of_several_columns_and_nan() -> None:
    keys = [(1, float("nan")), (1, float("nan")), (1, None), (1, None), (2, 0.5), (1, float("nan"))]
    rows = [{"n": n, "a": a, "b": b} for n, (a, b) in enumerate(keys)]
    for pipe in (fp.from_sequence(rows), fp.from_sequence(rows).filter(bool)):
        windows = numbers(check_operator(pipe.sliding(2, key=["a", "b"])))
        assert windows == [[0, 1], *([[1, 5]] if pipe.indexed else []), [2, 3]]


def test_changing_a_window_changes_no_other() -> None:
    rows = [{"n": n, "list": [n]} for n in range(6)]
    for pipe in (fp.from_sequence(rows), fp.from_sequence(rows).filter(bool)):
        for window in pipe.sliding(3, key=lambda row: 0):
            assert [row["list"] for row in window] == [[row["n"]] for row in window]
            for row in window:
                row["list"].append(9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")  # each shard reads all rows
@pytest.mark.parametrize("kind", ["indexed", "interleaved", "streamed"])
def test_resumes_ranks_and_workers(kind: str) -> None:
    keys = [n % 3 for n in range(90)] if kind == "interleaved" else [n // 13 for n in range(90)]
    source = fp.from_sequence(rows_of(keys))
    pipe = (streamed(source) if kind == "streamed" else source).sliding(4, 2, key="key")
    check_resumes(pipe)
    check_resumes(pipe.batch(4), epochs=2)
    check_ranks(pipe, shards=8 if kind == "streamed" else None)
    check_elastic(pipe, 11, **({"shards": 3} if kind == "streamed" else {}))


def golden(*, together: bool) -> fp.Pipe[Any]:
    source = fp.from_sequence(rows_of([(n * n) % 7 if not together else n // 11 for n in range(120)]))
    return (streamed(source) if together else source).sliding(3, 2, key="key")


def test_the_order_never_changes() -> None:
    assert digest(fp.Loader(golden(together=False).shuffle(), seed=5)) == "cdabed8582aa3837aaee3086c20e1626"
    assert digest(golden(together=True)) == "38ab2454f3d47885a5c5a0573b7ad70f"


def test_files_without_a_key(tmp_path: Path) -> None:
    for name, first, count in (("a", 0, 7), ("b", 100, 2), ("c", 200, 5)):
        rows = "".join(f"{n}\n" for n in range(first, first + count))
        (tmp_path / f"{name}.csv").write_text(f"n\n{rows}", encoding="utf-8")
    files = fp.from_sequence([str(tmp_path / f"{name}.csv") for name in "abc"])
    pipe = files.interleave(lambda path: fp.read_csv(path).sliding(4), cycle=1)
    assert [window[0] for window in numbers(pipe)] == [0, 1, 2, 3, 200, 201]


def test_a_stream_that_is_not_sorted() -> None:
    rows = fp.from_sequence(rows_of([n % 2 for n in range(10_400)]))
    with pytest.warns(
        PlanWarning, match=r"`sliding\(2, key=.*\)`: 10000 rows give no window, .* put `.load\(\)`"
    ) as caught:
        assert not list(streamed(rows).sliding(2, key="key"))
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(rows.sliding(2, key="key")) == 10_398
        assert list(streamed(fp.from_sequence(rows_of([0, 1, 2]))).sliding(2, key="key")) == []


def test_errors(capsys: pytest.CaptureFixture[str]) -> None:
    source = fp.from_sequence(rows_of([0, 0, 0, 1, 1, 1]))
    for pipe in (source, streamed(source)):
        with pytest.raises(DataError, match="there is no column 'kye'; did you mean 'key'(.|\n)*row 1"):
            list(pipe.sliding(2, key="kye"))
        with pytest.raises(DataError, match=r"a key must be hashable but is: \[0\](.|\n)*row 1"):
            list(pipe.sliding(2, key=lambda row: [row["key"]]))
        found: list[Any] = []
        with pytest.raises(RowError, match="ZeroDivisionError(.|\n)*row 5"):
            found.extend(pipe.sliding(2, key=lambda row: 1 / (row["n"] - 4)))
        assert numbers(found) == []
        assert list(pipe.sliding(4, key="key")) == []  # no series is as long
    with pytest.raises(PlanError, match="there is no column 'kye'"):
        fp.from_table(pa.table({"key": [1, 2]})).sliding(2, key="kye").explain()
    streamed(source).sliding(2, 5, key="key").explain()
    text = " ".join(capsys.readouterr().out.split())
    assert "a series ends where the key changes, so its rows must lie together" in text
    assert "runs again at most 5 rows of `sliding`" in text
