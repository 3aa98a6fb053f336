"""`read_arrow`: the rows of Arrow files, indexed; the tests of `parse_arrow` cover the formats."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pytest

import feedpipe as fp
from feedpipe.errors import DataError, MissingError
from feedpipe.testing import check_operator


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, start in (("b.arrow", 30), ("a.arrow", 0)):
        numbers = range(start, start + 30)
        table = pa.table({"x": numbers, "y": [i / 2 for i in numbers]})
        pyarrow.feather.write_feather(table, tmp_path / name, chunksize=4, compression="uncompressed")
    return tmp_path


def rows(count: int) -> list[dict[str, float]]:
    return [{"x": i, "y": i / 2} for i in range(count)]


def test_law(folder: Path) -> None:
    pipe = fp.read_arrow(folder / "*.arrow")
    assert check_operator(pipe) == rows(60)
    assert len(pipe) == 60
    assert pipe[-1] == rows(60)[-1]
    assert sorted(row["x"] for row in check_operator(pipe.shuffle())) == [*range(60)]  # type: ignore[index]
    check_operator(pipe.shuffle().batch(7).collate())


def test_every_argument_arrives(tmp_path: Path) -> None:
    deep = tmp_path / "part=3"
    deep.mkdir()
    pyarrow.feather.write_feather(pa.table({"x": [1, 2], "y": [4, 5]}), deep / "a.dat")
    (deep / "a.txt").write_bytes(b"not this")
    pipe = fp.read_arrow(
        tmp_path,
        pattern="*.dat",
        recursive=True,
        columns=["part", "y"],
        path_column="path",
        row_column="row",
    )
    path = str(deep / "a.dat")
    assert check_operator(pipe) == [{"part": 3, "y": y, "path": path, "row": y - 4} for y in (4, 5)]


def test_shown_as_the_chain_that_it_is() -> None:
    assert repr(fp.read_arrow("data/*.arrow", columns=["x"])) == (
        "fp.list_files('data/*.arrow').open_files().parse_arrow(columns=['x'], indexed=True)"
    )


def test_errors_name_the_line(folder: Path) -> None:
    with pytest.raises(DataError, match="did you mean 'x'") as caught:
        len(fp.read_arrow(folder, columns=["xx"]))
    assert __file__ in str(caught.value)
    with pytest.raises(MissingError, match="none.arrow is not there"):
        len(fp.read_arrow(folder / "none.arrow"))


def test_by_torch(folder: Path) -> None:
    (batch,) = fp.read_arrow(folder).batch(60).collate()
    assert batch["x"].tolist() == [*range(60)]
    assert str(batch["y"].dtype) == "torch.float64"
