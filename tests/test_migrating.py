"""Each row of the tables of names of other libraries: our expression runs, or the row says why there is none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp

GUIDES = Path(__file__).resolve().parent.parent / "docs" / "guides"
DATAPIPES = (GUIDES / "from-datapipes.md").read_text(encoding="utf-8")
LINES = (DATAPIPES + (GUIDES / "coming-from.md").read_text(encoding="utf-8")).splitlines()
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in LINES if line.startswith("| `")]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The variables of the page on DataPipes, in the folder with its files."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("migrating"))
    namespace: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", DATAPIPES, re.DOTALL):
        exec(code, namespace)
    yield namespace
    os.chdir(before)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_row(row: list[str], names: dict[str, Any]) -> None:
    _, expression, remark = row
    assert expression or remark
    value = eval(expression.strip("`"), names) if expression else None
    pipes = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
    for pipe in pipes:
        if isinstance(pipe, fp.Pipe):
            assert list(islice(pipe, 3))
