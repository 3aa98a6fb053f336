"""A cache of a stream of which rows were skipped: later epochs leave out, count and record the same rows."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import DataError, RowError
from feedpipe.testing import check_operator

from ...support.operators import _cached_rows

FILES, ROWS = 4, 75
Policy = Any


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cached_rows, "FILE_BYTES", 700)


class Parse:
    """Fails for some rows, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, row: Any) -> Any:
        self.calls += 1
        if row["x"] % 10 == 7:
            raise ValueError(f"{row['x']} is bad")
        return row


def csv_of(folder: Path) -> str:
    data = folder / "data"
    for i in range(0 if data.exists() else FILES):
        data.mkdir(exist_ok=True)
        lines = "".join(f"{1000 + i * ROWS + j},{j}\n" if j % 23 != 4 else "broken\n" for j in range(ROWS))
        (data / f"{i}.csv").write_text(f"x,y\n{lines}")
    return str(data)


def parsed_files(folder: Path, function: Callable[[Any], Any], policy: Policy) -> fp.Pipe[Any]:
    return fp.read_csv(csv_of(folder)).map(function).on_error(policy)


def filtered_files(folder: Path, function: Callable[[Any], Any], policy: Policy) -> fp.Pipe[Any]:
    return fp.read_csv(csv_of(folder), on_error=policy).filter(lambda row: row["x"] % 3)


def columns_of_files(folder: Path, function: Callable[[Any], Any], policy: Policy) -> fp.Pipe[Any]:
    return fp.read_csv(csv_of(folder)).on_error(policy)


def stream(folder: Path, function: Callable[[Any], Any], policy: Policy) -> fp.Pipe[Any]:
    rows = fp.from_iterable([{"x": x} for x in range(FILES * ROWS)]).filter(lambda row: row["x"] % 3)
    checked = rows.map(function, on_error=policy)
    return checked.map(lambda row: {"x": row["x"] // (row["x"] % 50)}, on_error=policy)


KINDS = pytest.mark.parametrize("kind", [parsed_files, filtered_files, columns_of_files, stream])
Kind = Callable[[Path, Callable[[Any], Any], Policy], "fp.Pipe[Any]"]


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def shown(folder: Path) -> Counter[str]:
    """What the records say of the rows, whatever ran."""
    fields = ("operator", "name", "file", "row", "unit", "epoch", "error", "repr")
    return Counter(json.dumps([record[name] for name in fields]) for record in records(folder))


@KINDS
class TestEachKind:
    def test_epochs_leave_out_count_and_record_the_same_rows(self, kind: Kind, tmp_path: Path) -> None:
        function = Parse()
        plain = fp.Loader(kind(tmp_path, function, fp.Quarantine(tmp_path / "plain")))
        cached = fp.Loader(kind(tmp_path, function, fp.Quarantine(tmp_path / "bad")).cache(tmp_path / "cache"))
        for epoch in range(2):
            expected = list(plain)
            function.calls = 0
            assert list(cached) == expected
            assert cached.skipped == plain.skipped and sum(plain.skipped.values()) > 10
            assert epoch == 0 or function.calls == 0
            assert shown(tmp_path / "bad") == shown(tmp_path / "plain")

    def test_a_resume_is_exact_whether_the_cache_is_there_or_not(self, kind: Kind, tmp_path: Path) -> None:
        def loader(folder: str) -> fp.Loader[Any]:
            return fp.Loader(kind(tmp_path, Parse(), "skip").cache(tmp_path / folder), shards=3)

        reference = loader("cache")
        expected = list(reference)
        skipped = dict(reference.skipped)
        for filling in (True, False):
            steps = sorted(random.Random(filling).sample(range(1, len(expected)), 3))
            interrupted = loader("other" if filling else "cache")
            states = {}
            for step, (_, info) in enumerate(interrupted.with_info(), 1):
                if step in steps:
                    states[step] = json.loads(json.dumps(info.state_dict()))
            for step, state in states.items():
                for folder in ("cache", f"gone-{filling}-{step}"):
                    resumed = loader(folder)
                    resumed.load_state_dict(state)
                    assert list(resumed) == expected[step:]
                    assert resumed.skipped == skipped

    def test_another_policy_never_makes_rows_vanish_in_silence(self, kind: Kind, tmp_path: Path) -> None:
        def loader(policy: Policy) -> fp.Loader[Any]:
            return fp.Loader(kind(tmp_path, function, policy).cache(tmp_path / "cache"))

        function = Parse()
        first = loader("skip")
        expected = list(first)
        with pytest.raises((RowError, DataError)):
            list(loader("raise"))
        for _ in range(2):  # pages without records are made again, once
            quarantined = loader(fp.Quarantine(tmp_path / "bad"))
            assert list(quarantined) == expected
        assert len(records(tmp_path / "bad")) == sum(quarantined.skipped.values()) == sum(first.skipped.values())
        function.calls = 0
        for policy in ("skip", fp.Quarantine(tmp_path / "elsewhere")):
            later = loader(policy)
            assert list(later) == expected and later.skipped == first.skipped
        assert function.calls == 0
        assert shown(tmp_path / "elsewhere") == shown(tmp_path / "bad")
        with pytest.raises((RowError, DataError)):
            list(loader("raise"))
        with pytest.raises(DataError, match="`budget` allows 3"):
            list(loader(fp.Quarantine(tmp_path / "few", budget=3)))

    def test_each_record_replays(self, kind: Kind, tmp_path: Path) -> None:
        pipe = kind(tmp_path, Parse(), fp.Quarantine(tmp_path / "bad")).cache(tmp_path / "cache").batch(8)
        loader = fp.Loader(pipe, shards=2)
        for _ in range(2):
            list(loader)
        for record in records(tmp_path / "bad")[::7]:
            with pytest.raises((RowError, DataError)) as caught:
                fp.replay(pipe, record["cursor"])
            assert record["error"].partition(": ")[2] in str(caught.value)

    def test_law(self, kind: Kind, tmp_path: Path) -> None:
        check_operator(kind(tmp_path, Parse(), "skip").cache(tmp_path / "cache"), samples=2)


def test_operators_with_one_call_keep_their_own_policies(tmp_path: Path) -> None:
    parse = Parse()
    source = fp.from_iterable([{"x": x} for x in range(30)]).map(lambda row: {"x": row["x"] + 1 - row["x"] // 20})
    bad = fp.Quarantine(tmp_path / "bad")

    def loader(first: Policy, second: Policy) -> fp.Loader[Any]:
        twice = source.map(parse, on_error=first).map(lambda row: {"x": row["x"] + 3}).map(parse, on_error=second)
        return fp.Loader(twice.cache(tmp_path / "cache"))

    rows = list(loader("skip", bad))
    (name,) = {record["name"] for record in records(tmp_path / "bad")}
    assert list(loader("skip", bad)) == rows and len(records(tmp_path / "bad")) == 3
    assert list(loader(bad, "skip")) == rows
    assert len({record["name"] for record in records(tmp_path / "bad")} - {name}) == 1
    with pytest.raises(RowError, match="ValueError: 7 is bad"):
        list(loader("raise", bad))


def test_a_row_stays_skipped_in_the_cache(tmp_path: Path) -> None:
    answers = tmp_path / "answers"

    def late(row: int) -> int:
        if row == 5 and not answers.exists():
            raise OSError("the server is busy")
        return row

    def loader(version: str = "") -> fp.Loader[Any]:
        pipe = fp.from_iterable(range(10)).map(late, on_error="skip").cache(tmp_path / "cache", version=version)
        return fp.Loader(pipe)

    for _ in range(2):
        again = loader()
        assert list(again) == [0, 1, 2, 3, 4, 6, 7, 8, 9] and sum(again.skipped.values()) == 1
        answers.touch()
    assert list(loader("2")) == list(range(10))
