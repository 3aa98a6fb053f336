"""The readers of files: their options, what they are short for, and the files that they refuse.

`tests/readers` holds their rows, and `tests/ops/parsing` each format.
"""

from __future__ import annotations

import gzip
import inspect
from pathlib import Path
from typing import get_type_hints

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError, DataError, MissingError, SourceError
from feedpipe.testing import check_operator

from ..support.sources import read_files

READERS = sorted(name for name in vars(read_files) if name.startswith("read_"))


@pytest.mark.parametrize("name", READERS)
def test_types_and_signature_have_the_same_options(name: str) -> None:
    reader = getattr(fp, name)
    options = [*inspect.signature(reader).parameters][1:]
    declared = get_type_hints(reader, vars(read_files))["options"].__args__[0]
    assert sorted(options) == sorted(declared.__annotations__)
    assert all(f"{option}" in (reader.__doc__ or "") for option in options)


@pytest.mark.parametrize("name", READERS)
def test_an_unknown_option_is_refused(name: str) -> None:
    for option in ("fixed_schema", "nonsense"):
        with pytest.raises(ArgumentTypeError, match=f"`{name}` has no argument `{option}`"):
            getattr(fp, name)("a", **{option: None})
        with pytest.raises(ArgumentTypeError, match=f"`{name.replace('read', 'parse')}` has no argument `{option}`"):
            getattr(fp.list_files("a").open_files(), name.replace("read", "parse"))(**{option: None})


def test_the_words_of_other_libraries_are_known() -> None:
    with pytest.raises(ArgumentTypeError, match="`read_csv` has no argument `sep`; did you mean `delimiter`"):
        fp.read_csv("a", sep=";")  # type: ignore[call-arg]
    with pytest.raises(ArgumentTypeError, match="`read_parquet` has no argument `compression`"):
        fp.read_parquet("a", compression="gzip")  # type: ignore[call-arg]


@pytest.mark.parametrize("name", READERS)
def test_a_reader_is_shown_as_the_chain_that_it_is(name: str) -> None:
    pipe = getattr(fp, name)("data/*")
    assert f".open_files().{name.replace('read', 'parse')}(" in repr(pipe)
    assert repr(eval(repr(pipe), {"fp": fp})) == repr(pipe)


def test_options_of_csv_arrive(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.dat").write_bytes(gzip.compress(b"a;b;c\n'1;2';-;3\n"))
    (tmp_path / "deep" / "a.txt").write_bytes(b"not this")
    pipe = fp.read_csv(
        *(tmp_path,),
        pattern="*.dat",
        recursive=True,
        compression="gzip",
        schema={"z": "float32"},  # type: ignore[arg-type]
        columns=["z", "y", "x"],
        delimiter=";",
        header=True,
        column_names=["x", "y", "z"],  # type: ignore[arg-type]
        quote="'",
        null_values=["-"],
        newlines_in_values=False,
        path_column="path",
        row_column="row",  # type: ignore[arg-type]
    )
    assert check_operator(pipe) == [
        {"z": 3.0, "y": "-", "x": "1;2", "path": str(tmp_path / "deep" / "a.dat"), "row": 0}
    ]


def test_options_of_parquet_arrive(tmp_path: Path) -> None:
    (tmp_path / "part=3").mkdir()
    pq.write_table(pa.table({"x": [1, 2, 3], "y": [4, 5, 6]}), tmp_path / "part=3" / "a.dat")
    (tmp_path / "part=3" / "a.txt").write_bytes(b"not this")
    found = {"pattern": "*.dat", "recursive": True, "filter": pc.field("x") > 1}
    pipe = fp.read_parquet(tmp_path, columns=["part", "y"], path_column="path", row_column="row", **found)
    path = str(tmp_path / "part=3" / "a.dat")
    assert check_operator(pipe) == [{"part": 3, "y": y, "path": path, "row": y - 4} for y in (5, 6)]


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file_names_the_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"none is not there(.|\n)*test_readers\.py:"):
        list(getattr(fp, name)(tmp_path / "none"))


@pytest.mark.parametrize(("content", "message"), [(b"", "a is empty"), (b"x,y\n1,2\n" * 9, "a is no Parquet file")])
def test_another_format_is_an_error_that_names_the_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        list(fp.read_parquet(tmp_path / "a"))
    assert "test_readers.py" in str(error.value)


def write_units(folder: Path, rows: int) -> None:
    """Write two files of 30 rows in units of so many."""
    table = pa.table({"x": range(30), "y": [i / 2 for i in range(30)]})
    for file in "ab":
        pq.write_table(table, folder / file, row_group_size=rows)


def test_units_of_files_are_in_the_plan_and_in_a_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_units(tmp_path, 4)
    fp.read_parquet(tmp_path).shuffle(window=100).batch(8).collate().explain()
    message = capsys.readouterr().out
    assert "row_groups()" in message and "16 indexed" in message and "60 streamed" in message
    assert "Python rows" not in message
    loader = fp.Loader(fp.read_parquet(tmp_path).batch(2))
    next(iter(loader))
    state = loader.state_dict()
    write_units(tmp_path, 5)  # as many rows, in other units
    with pytest.raises(fp.FeedpipeError, match="row_groups"):
        fp.Loader(fp.read_parquet(tmp_path).batch(2)).load_state_dict(state)


@pytest.mark.parametrize("size", [10, 150_000, 200_000])
def test_a_file_that_is_cut_while_it_is_read_loses_no_rows_in_silence(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.txt"
    lines = [f"line {n:05d}".ljust(49) for n in range(5000)]
    path.write_text("".join(f"{line}\n" for line in lines))
    rows = iter(fp.read_lines(path))
    taken = [next(rows)]
    with path.open("r+b") as file:
        file.truncate(size)
    with pytest.raises(SourceError, match="has changed since it was listed or read: it ends before byte 250000"):
        taken.extend(rows)
    assert taken == lines[: len(taken)]
