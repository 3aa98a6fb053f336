"""The program `feedpipe`: what its commands print, their exit codes, and errors in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import feedpipe as fp

from ..support.cli import main

TRAIN = """
import feedpipe as fp

pipe = fp.from_sequence(range(10)).batch(4)

def make_for(seed):
    return pipe

class Data:
    train = pipe.skip(1)
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs the program in a folder with `train.py`, and returns its exit code and what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    before = set(sys.modules)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        return code, *capsys.readouterr()

    yield run
    for name in set(sys.modules) - before:
        if name.startswith("train"):
            del sys.modules[name]


def test_ops(run: Run) -> None:
    code, printed, errors = run("ops")
    assert (code, errors) == (0, "")
    assert printed.startswith("Rows\n  map          Replace each row with `function(row)`.\n")
    assert run("ops", "take")[1].startswith("pipe.take(count: int)\n\nGive only the first `count` rows")
    assert run("ops", "tale") == (2, "", "feedpipe: there is no operator or source `tale`; did you mean `take`?\n")


def test_explain(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    fp.from_sequence(range(10)).batch(4).explain(world_size=2, workers=1)
    plan = capsys.readouterr().out
    assert run("explain", "train:pipe", "--world-size", "2", "--workers", "1") == (0, plan, "")
    assert run("explain", "train:pipe", "--world-size=0") == (1, "", "feedpipe: `world_size` must be >= 1 but got: 0\n")


def test_verify(run: Run) -> None:
    manifest = fp.write_parquet(fp.from_sequence([{"id": 1}]), "rows")
    assert run("verify", str(manifest)) == (0, f"all files are as {manifest} says\n", "")
    with Path("rows/part-00000.parquet").open("ab") as file:
        file.write(b"x")
    code, printed, error = run("verify", str(manifest))
    assert (code, printed) == (1, "")
    assert error.startswith(f"feedpipe: 1 of 1 files are not as {manifest} says: rows/part-00000.parquet has ")
    assert error.count("\n") == 1 and __file__ not in error
    code, _, error = run("verify", "none.jsonl")
    assert code == 1 and error.startswith("feedpipe: none.jsonl is not there")


def test_tune(run: Run) -> None:
    code, printed, errors = run("tune", "train:pipe", "--step", "0.01", "--timeout", "0.1")
    assert (code, errors) == (0, "")
    assert printed.startswith("a step of the loop takes 10 ms, and its data ")
    assert printed.endswith("fp.Loader(pipe, fp.InProcess())\n")
    code, printed, errors = run("tune", "train:pipe", "--cpus", "0")
    assert (code, printed) == (1, "") and errors.startswith("feedpipe: `cpus` must be > 0 but got: 0.0")


CHECKED = """
import feedpipe as fp

fine = fp.from_sequence(range(20)).batch(5)
other = fp.from_sequence(range(20)).shuffle().take(4)
uneven = fp.from_sequence(range(20)).batch(15)
"""


def test_check(run: Run) -> None:
    Path("train_checked.py").write_text(CHECKED, encoding="utf-8")
    assert run("check", "train_checked:fine") == (0, "nothing found\n", "")
    code, printed, errors = run("check", "train_checked:other")
    assert (code, errors) == (0, "")
    assert printed.startswith("train_checked.py:5: warning: other-rows\n  `take(4)`: gives other rows in each epoch")
    assert printed.endswith("  repair:\n      .shuffle(each_epoch=False)\n")
    code, strict, errors = run("check", "train_checked:other", "--strict")
    assert (code, strict, errors) == (1, printed, "feedpipe: 1 of 1 findings must be repaired\n")
    code, printed, errors = run("check", "train_checked:uneven", "--world-size", "3")
    assert (code, errors) == (1, "feedpipe: 1 of 1 findings must be repaired\n")
    assert printed.startswith("error: uneven-ranks\n  a rank has no element at all")
    code, printed, errors = run("check", "train_checked:fine", "--workers", "-1")
    assert (code, printed) == (1, "") and errors.startswith("feedpipe: `workers` must be >= 0 but got: -1")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("train", "a pipe is given as `module:pipe`, such as `train:pipe`, but got: `train`"),
        ("./train.py:pipe", "a pipe is given as `module:pipe` but got a file; did you mean `train:pipe`?"),
        ("trian:pipe", "there is no module `trian` in this folder or among the installed ones"),
        ("train.inner:pipe", "there is no module `train.inner` in this folder or among the installed ones"),
        ("train:pip", "`train` has no `pip`; did you mean `pipe`?"),
        ("train:Data.valid", "`train` has no `Data.valid`"),
        ("train:make_for", "`train:make_for` must be a pipe, or a function without arguments, but it takes `seed`"),
        ("train:Data", "`train:Data` must be a pipe but got: <class 'train.Data'>"),
    ],
)
def test_a_wrong_target_is_an_error_in_one_line(run: Run, target: str, message: str) -> None:
    assert run("explain", target) == (2, "", f"feedpipe: {message}\n")


@pytest.mark.parametrize(
    ("code", "last"),
    [
        ("import nonesuch", "ModuleNotFoundError: No module named 'nonesuch'"),
        ("pipe = (", "SyntaxError: '(' was never closed"),
        ("def f(): 1 / 0\nf()", "ZeroDivisionError: division by zero"),
    ],
)
def test_an_error_of_the_users_module_has_its_traceback(run: Run, code: str, last: str) -> None:
    Path("train_broken.py").write_text(code, encoding="utf-8")
    exit_code, _, error = run("explain", "train_broken:pipe")
    assert exit_code == 1
    assert error.splitlines()[-1] == last
    assert "train_broken.py" in error


@pytest.mark.parametrize("arguments", [[], ["frob"], ["explain"], ["explain", "train:pipe", "--workers", "many"]])
def test_a_wrong_command_shows_the_usage(run: Run, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: feedpipe")


def test_a_reader_that_goes_away_is_no_error() -> None:
    """As in `feedpipe ops | head -1`: the pipe's reading end is closed before the program prints."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", "import sys; from feedpipe.cli.main import main; sys.exit(main(['ops']))"]
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_index(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("one")
    code, printed, errors = run("index", "data", "--into", "f.index")
    assert (code, printed, errors) == (0, "Index('f.index', version 1: 1 files, 3 bytes)\n", "")
    (tmp_path / "data" / "b.txt").write_text("three")
    assert run("index", "data", "--into", "f.index", "--pattern", "*.txt")[0] == 1  # another selection
    assert run("index", "data", "--into", "f.index")[1].startswith("Index('f.index', version 2: 2 files, 8 bytes)")
    code, printed, _ = run("index", "--into", "f.index", "--versions")
    assert code == 0 and len(printed.splitlines()) == 2 and "version 1: 1 files, 3 bytes), digest " in printed
    assert run("index", "--into", "f.index", "--check")[1].startswith("Index('f.index', version 2")
    code, printed, _ = run("index", "data", "--into", "f.index", "--keep", "1")
    assert code == 0 and printed.splitlines()[1] == "removed versions: 1"
    assert run("index", "--into", "f.index", "--keep", "1")[1] == "removed versions: none\n"
    assert run("index", "--into", "f.index", "--keep", "0")[0] == 2
    path = tmp_path / "f.index/v2.parquet"
    path.write_bytes(path.read_bytes()[:100])
    code, _, errors = run("index", "--into", "f.index", "--check")
    assert code == 1 and "version 2 of f.index is damaged: " in errors
    for arguments in (["index", "--into", "f.index"], ["index", "data", "--into", "f.index", "--check"]):
        code, _, errors = run(*arguments)
        assert code == 2 and errors.startswith("feedpipe: ")
