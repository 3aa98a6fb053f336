"""An error names the operator, its line and the attribute that cannot be pickled."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError

from ...support.services import write_graph_file


class Reader:
    __slots__ = ("lock", "name")

    def __init__(self) -> None:
        self.name = "x"
        self.lock = threading.Lock()


class Decoder:
    def __init__(self) -> None:
        self.reader = Reader()

    def __call__(self, row: object) -> object:
        return row

    def decode(self, row: object) -> object:
        return row


LOCK = threading.Lock()


def uses_a_global(row: object) -> object:
    with LOCK:
        return row


def calls_one(row: object) -> object:
    return [uses_a_global(r) for r in (row,)]


def closing(value: object) -> Any:
    def decode(row: object) -> object:
        return row, value

    return decode


def with_default(row: object, *, lock: Any = LOCK) -> object:
    return row, lock


class Refuses:
    def __reduce__(self) -> Any:
        raise ValueError("not today")


def refusal(pipe: Any, init: Any = None) -> str:
    with pytest.raises(ArgumentTypeError) as caught:
        write_graph_file((pipe, init), pipe)
    assert caught.value.__cause__ is not None
    return str(caught.value)


def mapped(function: Any) -> str:
    pipe = fp.from_sequence([1]).map(function)
    message = refusal(pipe)
    assert pipe.call_site is not None
    assert message.endswith(f"\n  at {pipe.call_site.file}:{pipe.call_site.line}")
    return message.partition("\n")[0]


def test_the_message_names_operator_line_and_attribute() -> None:
    assert mapped(closing(LOCK)) == (
        "`.map(closing.<locals>.decode)` cannot be sent to a worker process: `closing.<locals>.decode` uses `value`, "
        "and a _thread.lock cannot be pickled; make it inside the function, or keep it in a module"
    )
    assert "`Decoder` uses `self.reader.lock`, and a _thread.lock cannot" in mapped(Decoder())
    assert "`Decoder.decode` uses `self.reader.lock`, and a _thread.lock cannot" in mapped(Decoder().decode)
    assert "uses `value['a'][1].reader.lock`, and" in mapped(closing({"a": [0, Decoder()]}))


def test_functions_of_main_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (uses_a_global, calls_one, with_default):
        monkeypatch.setattr(function, "__module__", "__main__")
    assert "`uses_a_global` uses `LOCK`, and a _thread.lock" in mapped(uses_a_global)
    assert "`calls_one` uses `uses_a_global.LOCK`, and a _thread.lock" in mapped(calls_one)
    assert "`with_default` uses `lock`, and a _thread.lock" in mapped(with_default)


def test_each_kind_has_its_repair(tmp_path: Path) -> None:
    import sqlite3

    with open(tmp_path / "a", "wb+") as binary, open(tmp_path / "b", "w+") as text, socket.socket() as line:
        connection = sqlite3.connect(":memory:")
        assert "an _io.BufferedRandom cannot be pickled; open it inside the function" in mapped(closing(binary))
        assert "an _io.TextIOWrapper cannot be pickled; open it inside the function" in mapped(closing(text))
        assert "a socket.socket cannot be pickled; connect inside the function" in mapped(closing(line))
        assert "a sqlite3.Connection cannot be pickled; connect inside the function" in mapped(closing(connection))
        assert "a generator cannot be pickled; make it inside the function" in mapped(closing(i for i in "ab"))
        connection.close()
    assert "(ValueError: not today)" in mapped(closing([Refuses()]))


def test_one_bad_row_of_many_is_found() -> None:
    rows: list[object] = [str(i) for i in range(20_000)]
    rows[12_345] = (1, Decoder())
    assert "`sequence[12345][1].reader.lock` is a _thread.lock, and that cannot be pickled" in refusal(
        fp.from_sequence(rows)
    )


def test_an_error_says_that_a_value_is_nested_too_deeply() -> None:
    deep: list[object] = []
    for _ in range(200_000):
        deep = [deep]
    assert "`value` is nested too deeply to be pickled" in mapped(closing(deep)) or "nested too deeply" in refusal(
        fp.from_sequence(deep)
    )
    while deep:  # to free it at once, Python would recurse as deep
        deep = deep[0]  # type: ignore[assignment]


def test_init_is_named() -> None:
    message = refusal(fp.from_sequence([1]), closing(LOCK))
    assert message.startswith("`init` cannot be sent to a worker process: `closing.<locals>.decode` uses `value`, and")
