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


def closing(value: object) -> Any:
    def decode(row: object) -> object:
        return row, value

    return decode


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


def test_init_is_named() -> None:
    message = refusal(fp.from_sequence([1]), closing(LOCK))
    assert message.startswith("`init` cannot be sent to a worker process: `closing.<locals>.decode` uses `value`, and")
