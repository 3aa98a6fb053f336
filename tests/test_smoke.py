"""One program in places where a user may run it: optimised, isolated, without torch, below odd or closed folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json

import feedpipe as fp

pipe = fp.read_lines("numbers.txt").map(int).shuffle(window=10).batch(4)
with fp.Loader(pipe, workers=1, seed=1) as loader:
    batches = iter(loader)
    rows = [list(next(batches))]
    state = json.loads(json.dumps(loader.state_dict()))

resumed = fp.Loader(pipe, seed=1)
resumed.load_state_dict(state)
rows += map(list, resumed)

try:
    fp.from_sequence([1, 0]).map(lambda x: 1 // x).batch(0)
except fp.errors.ArgumentError as error:
    message = str(error)
try:
    list(fp.from_sequence([1, 0]).map(lambda x: 1 // x))
except fp.RowError as error:
    message += str(error)

fp.write_parquet(fp.from_sequence([{"x": 1}]), "out", progress=False)
print(json.dumps([rows, message, list(fp.read_parquet("out"))]))
"""


FORMATS = """
import numpy as np
import pyarrow as pa

import feedpipe as fp

numbers = ("int8", "uint64", "float", "double", "bool", "string")
table = pa.table({name: pa.array([0, 1, 1]).cast(name) for name in numbers})
rows = list(fp.from_table(table))
fp.write_parquet(fp.from_table(table), "parquet", progress=False)
fp.write_arrow(fp.from_table(table), "arrow", progress=False)
indexed = fp.list_files("arrow").open_files().parse_arrow(indexed=True)
for pipe in (fp.read_parquet("parquet"), fp.read_arrow("arrow"), indexed):
    assert list(pipe) == rows, pipe
    assert pipe.batch(2).map(lambda batch: batch).unbatch().to_table() == table, pipe

tensors = fp.from_sequence([{"x": np.full((2, 2), number, np.float32)} for number in range(3)])
fp.write_parquet(tensors, "tensors", progress=False)
assert [row["x"].sum() for row in fp.read_parquet("tensors")] == [0, 4, 8]
assert fp.from_table(table).cast({"int8": "int64"}).with_columns(y=pa.compute.field("int8") + 1)[2]["y"] == 2
"""


def run(folder: Path, *options: str, python: Path | None = None, **variables: str) -> None:
    """Run the program in `folder`, and check what it prints."""
    script = folder / "train.py"
    script.write_text(PROGRAM)
    (folder / "numbers.txt").write_text("".join(f"{number}\n" for number in range(40)))
    completed = subprocess.run(
        [python or sys.executable, *options, script],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0 and completed.stderr == "", completed.stderr
    batches, message, written = json.loads(completed.stdout)
    assert sorted(sum(batches, [])) == list(range(40))
    assert written == [{"x": 1}]
    assert "`size` must be >= 1 but got: 0" in message and f"at {script}:" in message
    assert "ZeroDivisionError" in message and "row 2" in message


@pytest.mark.slow
@pytest.mark.parametrize("option", ["-OO", "-I"])
def test_an_option_of_python(tmp_path: Path, option: str) -> None:
    """-OO leaves out `assert` and docstrings; -I has no folder of the script to import from."""
    run(tmp_path, option)


@pytest.mark.slow
def test_a_home_that_cannot_be_written_to(tmp_path: Path) -> None:
    """Nobody can make a folder below a file, root neither."""
    (tmp_path / "file").touch()
    run(tmp_path, HOME=str(tmp_path / "file" / "home"), XDG_CACHE_HOME=str(tmp_path / "file" / "cache"))


@pytest.mark.parametrize("package", ["torch", "pandas"])
def test_without(package: str, tmp_path: Path) -> None:
    """Only what makes tensors needs torch, and nothing needs pandas."""
    run(tmp_path, PYTHONPATH=str(hide(package, tmp_path)))


def test_no_format_of_tables_needs_pandas(tmp_path: Path) -> None:
    """In many versions, pyarrow imports pandas for some conversions."""
    subprocess.run(
        [sys.executable, "-c", FORMATS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(hide("pandas", tmp_path))},
        check=True,
    )


def hide(package: str, folder: Path) -> Path:
    """A folder for `PYTHONPATH` with which importing the package fails as if it were not installed."""
    packages = folder / "packages"
    packages.mkdir()
    (packages / f"{package}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{package}'\", name='{package}')"
    )
    return packages


CHAINS = """
import sys

sys.modules["torch"] = None  # as if it were not installed

import feedpipe as fp

pipe = fp.from_sequence(range(4)).batch(2)
for write in (
    lambda: pipe.collate(),
    lambda: pipe.map_columns(dict, format="torch"),
    lambda: pipe.map_batches(dict, size=2, format="torch"),
    lambda: fp.Loader(pipe, device="cpu"),
    lambda: fp.Loader(pipe, pin_memory=True),
    lambda: pipe.as_map_dataset(),
    lambda: pipe.as_iterable_dataset(),
):
    try:
        write()
    except fp.errors.ArgumentError as error:
        print(error.args[0].splitlines()[0])
print(list(pipe.collate(sum)))
print(pipe.collate(format="numpy")[0].tolist())
"""


def test_chains_that_need_torch_say_what_to_install() -> None:
    completed = subprocess.run([sys.executable, "-c", CHAINS], capture_output=True, text=True, check=False)
    needs = ["`map_columns` makes tensors", "`map_batches` makes tensors"]
    needs += ["`device` moves tensors", "`pin_memory` moves tensors"]
    needs += ["`as_map_dataset` makes a dataset", "`as_iterable_dataset` makes a dataset"]
    rest = "with the package torch, which is not installed; `pip install 'feedpipe[torch]'` installs it"
    lines = [
        f'`collate` makes tensors {rest}, and `format="numpy"` needs no torch',
        *(f"{need} {rest}" for need in needs),
    ]
    assert completed.stdout.splitlines() == [*lines, "[1, 5]", "[0, 1]"], completed.stderr
