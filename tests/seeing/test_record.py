"""Records of runs: `Loader(record=folder)`, `feedpipe report` and `feedpipe diff`."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, SourceError

from ..support.cli import main
from ..support.seeing import Record, compared, digest_of, record


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    for number in range(4):
        text = "".join(json.dumps({"n": 100 * number + n}) + "\n" for n in range(30))
        (tmp_path / f"{number}.jsonl").write_text(text)
    return tmp_path


def shuffled(lines: Path, scale: int = 1) -> fp.Pipe[Any]:
    rows = fp.read_jsonl(lines / "*.jsonl").filter(lambda row: row["n"] % 2 == 0).shuffle(window=10)
    return rows.map(lambda row: row["n"] * scale).batch(4)


def run(folder: Path, pipe: fp.Pipe[Any], **options: Any) -> None:
    with fp.Loader(pipe, record=folder, **options) as loader:
        for _ in loader:
            pass


def test_equal_runs(lines: Path) -> None:
    run(lines / "a", shuffled(lines), seed=1)
    run(lines / "b", shuffled(lines), seed=1)
    assert compared(lines / "a", lines / "b") == (True, ["both runs gave the same in 15 steps"])


@pytest.mark.slow
def test_workers_give_the_same(lines: Path) -> None:
    run(lines / "a", shuffled(lines))
    run(lines / "b", shuffled(lines), workers=2)
    assert compared(lines / "a", lines / "b").same


def test_another_seed(lines: Path) -> None:
    pipe = shuffled(lines)
    run(lines / "a", pipe, seed=1)
    run(lines / "b", pipe, seed=2)
    same, said = compared(lines / "a", lines / "b", pipe)
    assert not same
    assert said[0].startswith("the first step that differs is step 1 of epoch 0; ")
    assert "`seed` was 1 and is now 2" in said
    assert any(line.endswith("and 1 more") and "the pipe still gives this step, made of " in line for line in said)
    assert any(line.startswith("row 0 of the step is made of ") and ".jsonl, line " in line for line in said)


def test_another_function(lines: Path) -> None:
    run(lines / "a", shuffled(lines))
    run(lines / "b", shuffled(lines, scale=2))
    same, said = compared(lines / "a", lines / "b", shuffled(lines))
    assert not same
    assert any("`<lambda>.scale` in `map(shuffled.<locals>.<lambda>)` was 1 and is now 2" in line for line in said)
    assert f"{lines / 'b'}: the pipe gives another step now" in "\n".join(said)
    assert said[-1] == "both are made of the same rows, so an operator makes something else of them"


@pytest.mark.parametrize("source", ["stream", "indexed"])
def test_a_function_that_draws_without_a_key_is_named(tmp_path: Path, source: str) -> None:
    numbers: fp.Pipe[Any] = fp.from_sequence(range(20))
    if source == "stream":
        numbers = numbers.filter(lambda n: True)
    pipe = numbers.map(lambda n: n + 1).map(lambda n: n + random.random()).batch(4)
    run(tmp_path / "a", pipe)
    run(tmp_path / "b", pipe)
    same, said = compared(tmp_path / "a", tmp_path / "b", pipe)
    assert not same
    named = [line for line in said if "gives another step each time, because of `.map(" in line]
    assert len(named) == 2
    assert "test_record.py:" in named[0]


def test_one_element_differs(tmp_path: Path) -> None:
    values = list(range(20))
    run(tmp_path / "a", fp.from_sequence(values).batch(4))
    values[13] = 99
    run(tmp_path / "b", fp.from_sequence(values).batch(4))
    same, said = compared(tmp_path / "a", tmp_path / "b")
    assert not same
    assert said[0] == "the first step that differs is step 4 of epoch 0; 1 of 5 steps differ"


def test_the_same_rows_in_another_order(tmp_path: Path) -> None:
    run(tmp_path / "a", fp.from_sequence([1, 2, 3, 4]).batch(4))
    run(tmp_path / "b", fp.from_sequence([2, 1, 3, 4]).batch(4))
    assert "it has the same rows in another order" in compared(tmp_path / "a", tmp_path / "b").lines


def test_another_number_of_ranks_is_compared_by_epoch(lines: Path) -> None:
    pipe = shuffled(lines)
    run(lines / "one", pipe, shards=8)
    for rank in range(2):
        run(lines / "two", pipe, shards=8, rank=rank, world_size=2, even=None)
    same, said = compared(lines / "one", lines / "two")
    assert same
    assert said == ["epoch 0: all ranks together gave the same 60 rows", "`world_size` was 1 and is now 2"]
    (lines / "two" / "1.steps.jsonl").unlink()
    (lines / "two" / "0.steps.jsonl").rename(lines / "two" / "1.steps.jsonl")
    assert not compared(lines / "one", lines / "two").same


def test_a_resume_goes_on_in_the_folder(lines: Path) -> None:
    run(lines / "a", shuffled(lines))
    first = fp.Loader(shuffled(lines), record=lines / "b")
    taken = list(islice(first, 5))
    state = first.state_dict()
    first.close()
    resumed = fp.Loader(shuffled(lines), record=lines / "b")
    resumed.load_state_dict(state)
    assert len(taken) + len(list(resumed)) == 15
    assert compared(lines / "a", lines / "b") == (True, ["both runs gave the same in 15 steps"])


def test_a_line_of_a_killed_process_is_dropped(tmp_path: Path) -> None:
    pipe = fp.from_sequence(range(6))
    loader = fp.Loader(pipe, record=tmp_path / "a")
    elements = iter(loader)
    assert [next(elements) for _ in range(3)] == [0, 1, 2]
    state = loader.state_dict()
    loader.close()
    with (tmp_path / "a" / "0.steps.jsonl").open("a") as file:
        file.write('[0, 4, "12')
    assert len(Record(tmp_path / "a").steps(0)) == 3
    resumed = fp.Loader(pipe, record=tmp_path / "a")
    resumed.load_state_dict(state)
    assert list(resumed) == [3, 4, 5]
    assert len(Record(tmp_path / "a").steps(0)) == 6


def test_padding_has_no_cursor(tmp_path: Path) -> None:
    run(tmp_path, fp.from_sequence(range(3)), rank=1, world_size=2, even="pad")
    assert [step.cursor is None for step in Record(tmp_path).steps(1).values()] == [False, True]


def test_a_folder_of_another_run(tmp_path: Path) -> None:
    pipe = fp.from_sequence(range(4))
    run(tmp_path, pipe, seed=1)
    with pytest.raises(ArgumentError, match="has the record of another run: `seed` was 1 and is now 2; give another"):
        run(tmp_path, pipe, seed=2)
    with pytest.raises(ArgumentError, match="this one begins at the first step, which the record has"):
        run(tmp_path, pipe, seed=1)
    with pytest.raises(ArgumentError, match="another run: .*`from_sequence"):
        run(tmp_path, fp.from_sequence(range(5)), seed=1)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentError, match="`record` must be a folder, and .*file is a file"):
        fp.Loader(fp.from_sequence([1]), record=tmp_path / "file")
    with pytest.raises(SourceError, match="`record`: .*/file/below cannot be written: Not a directory"):
        next(iter(fp.Loader(fp.from_sequence([1]), record=tmp_path / "file" / "below")))
    with pytest.raises(ArgumentTypeError, match="`record` must be the path of a folder but got: 3"):
        fp.Loader(fp.from_sequence([1]), record=3)  # type: ignore[arg-type]


def test_a_full_disk_ends_the_record_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(record, "MAX_LINES", 2)
    loader = fp.Loader(fp.from_sequence(range(9)), record=tmp_path / "a")
    elements = iter(loader)
    assert [next(elements), next(elements)] == [0, 1]
    (tmp_path / "a" / "0.steps.jsonl").unlink()
    (tmp_path / "a" / "0.steps.jsonl").mkdir()
    assert list(elements) == list(range(2, 9))
    assert caplog.text.count("the run is recorded no more, because") == 1


def test_a_pickled_loader_begins_its_own(tmp_path: Path) -> None:
    loader = fp.Loader(fp.from_sequence(range(4)), record=tmp_path / "a")
    copy = pickle.loads(pickle.dumps(loader))
    assert list(copy) == [0, 1, 2, 3]
    assert len(Record(tmp_path / "a").steps(0)) == 4
    with pytest.raises(ArgumentError, match="another run"):
        list(loader)


def test_several_epochs(tmp_path: Path) -> None:
    loader = fp.Loader(fp.from_sequence(range(4)).shuffle(), record=tmp_path)
    for _ in range(3):
        assert len(list(loader)) == 4
    steps = Record(tmp_path).steps(0)
    assert [*steps] == [(epoch, step) for epoch in range(3) for step in range(1, 5)]
    replayed = [fp.replay(fp.from_sequence(range(4)).shuffle(), step.cursor) for step in steps.values() if step.cursor]
    assert [digest_of(one).element for one in replayed] == [int(step.element, 16) for step in steps.values()]


def test_no_record(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(DataError, match=r"has no record of a loader; `Loader\(..., record=folder\)` makes one"):
            Record(folder)
    (tmp_path / "0.steps.jsonl").write_text("what\n")
    with pytest.raises(DataError, match="is no record of a loader"):
        Record(tmp_path)
    (tmp_path / "0.steps.jsonl").unlink()
    run(tmp_path, fp.from_sequence(range(3)))
    text = (tmp_path / "0.steps.jsonl").read_text()
    (tmp_path / "0.steps.jsonl").write_text(text + "[1]\n")
    with pytest.raises(DataError, match=r"0.steps.jsonl:5: the record is damaged"):
        Record(tmp_path).steps(0)
    (tmp_path / "0.json").unlink()
    with pytest.raises(DataError, match="has no report yet"):
        Record(tmp_path).report()


def test_the_commands(lines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        run(lines / "a", shuffled(lines), rank=rank, world_size=2, even=None)
        run(lines / "b", shuffled(lines), rank=rank, world_size=2, even=None, seed=3)
    assert main(["report", str(lines / "a")]) == 0
    printed = capsys.readouterr().out
    assert ".shuffle(window=10)" in printed
    assert "rank 1, consumer" in printed
    assert main(["diff", str(lines / "a"), str(lines / "a")]) == 0
    assert "both runs gave the same in 16 steps of 2 ranks" in capsys.readouterr().out
    assert main(["diff", str(lines / "a"), str(lines / "b")]) == 1
    out, err = capsys.readouterr()
    assert "the first step that differs is step 1 of epoch 0" in out
    assert "the runs differ" in err
    assert main(["diff", str(lines / "a"), str(lines / "none")]) == 1
    assert "has no record of a loader" in capsys.readouterr().err


DIGESTS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "a value": (lambda: np.arange(12.0).reshape(4, 3), lambda: np.arange(12.0).reshape(4, 3) + np.eye(4, 3)),
    "a type": (lambda: np.arange(4, dtype=np.int64), lambda: np.arange(4, dtype=np.int32)),
    "a shape": (lambda: np.zeros((4, 2, 3)), lambda: np.zeros((4, 3, 2))),
    "a number of rows": (lambda: np.zeros(4), lambda: np.zeros(5)),
    "a name": (lambda: {"a": np.zeros(4)}, lambda: {"b": np.zeros(4)}),
    "a tensor": (lambda: torch.zeros(4, 2), lambda: torch.ones(4, 2)),
    "a text": (lambda: [{"s": "x"}, {"s": "y"}], lambda: [{"s": "x"}, {"s": "z"}]),
    "two columns that change places": (lambda: (np.zeros(3), np.ones(3)), lambda: (np.ones(3), np.zeros(3))),
    "rows of a table": (
        lambda: next(iter(fp.from_table(pa.table({"a": [1, 2], "s": ["x", None]})).batch(2))),
        lambda: next(iter(fp.from_table(pa.table({"a": [1, 2], "s": ["x", ""]})).batch(2))),
    ),
    "a nested row": (lambda: [{"a": {"b": [1, 2]}}], lambda: [{"a": {"b": [2, 1]}}]),
    "a scalar": (lambda: 3, lambda: 3.0),
    "bfloat16": (lambda: torch.zeros(3, dtype=torch.bfloat16), lambda: torch.ones(3, dtype=torch.bfloat16)),
}


@pytest.mark.parametrize("difference", DIGESTS)
def test_a_digest_depends_on(difference: str) -> None:
    one, other = DIGESTS[difference]
    assert digest_of(one()) == digest_of(one())
    assert digest_of(one()).element != digest_of(other()).element


def test_the_sum_of_rows_does_not_depend_on_their_division() -> None:
    images, labels = np.random.default_rng(0).random((10, 5, 7)), np.arange(10)
    whole = digest_of({"x": images, "y": labels})
    parts = [digest_of({"x": images[part], "y": labels[part]}) for part in (slice(0, 3), slice(3, 10))]
    assert sum(part.rows for part in parts) % 2**64 == whole.rows
    assert sum(part.size for part in parts) == whole.size == 10
    assert digest_of({"x": images[::-1], "y": labels[::-1]}).rows == whole.rows
    assert digest_of({"x": images[::-1], "y": labels[::-1]}).element != whole.element
