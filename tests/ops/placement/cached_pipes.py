"""Pipes of each kind that `cache` keeps in its own way, and a function that counts its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feedpipe as fp

ROWS = 250


def row_of(x: int) -> dict[str, object]:
    return {"x": x, "a": np.full(3, x), "text": str(x), "some": None if x % 3 else [x] * (x % 5)}


class Counted:
    """A function that notes each call in a file, whatever process makes it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, row: Any) -> Any:
        with open(self.path, "a") as file:
            file.write(".")
        return row

    def count(self) -> int:
        """The calls since the last time."""
        size = self.path.stat().st_size if self.path.exists() else 0
        self.path.unlink(missing_ok=True)
        return size


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.rows"))


def csv_of(folder: Path, count: int = 4) -> str:
    data = folder / "data"
    for i in range(0 if data.exists() else count):
        data.mkdir(exist_ok=True)
        lines = "".join(f"{i * ROWS + j},{j}.5,text {j}\n" for j in range(ROWS))
        (data / f"{i}.csv").write_text(f"x,y,z\n{lines}")
    return str(data)


Kind = Callable[[Path, Callable[[Any], Any]], "fp.Pipe[Any]"]


def indexed(folder: Path, function: Callable[[Any], Any]) -> fp.Pipe[Any]:
    return fp.from_sequence(range(4 * ROWS)).map(row_of).map(function)


def by_files(folder: Path, function: Callable[[Any], Any]) -> fp.Pipe[Any]:
    return fp.read_csv(csv_of(folder)).map(function)


def streamed(folder: Path, function: Callable[[Any], Any]) -> fp.Pipe[Any]:
    return fp.from_iterable(range(4 * ROWS)).map(row_of).filter(lambda row: row["x"] % 7).map(function)


KINDS = pytest.mark.parametrize("kind", [indexed, by_files, streamed])


def shown(rows: Sequence[Any]) -> list[str]:
    return [repr(row) for row in rows]


def same(row: Any) -> Any:
    return row
