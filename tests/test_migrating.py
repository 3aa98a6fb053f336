"""Each row of docs/guides/from-*.md: our expression runs, and each name of theirs has one or a reason for none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import feedpipe as fp

GUIDES = Path(__file__).resolve().parent.parent / "docs" / "guides"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(GUIDES.glob("from-*.md"))}


class Row(NamedTuple):
    """A row of one of the tables."""

    library: str
    name: str
    expression: str
    remark: str


def rows() -> Iterator[Row]:
    for library, page in PAGES.items():
        for line in page.splitlines():
            if line.startswith("| `"):
                _, name, expression, remark, _ = (cell.strip() for cell in line.split("|"))
                yield Row(library, name.strip("`"), expression.strip("`"), remark)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The variables of the first page, in the folder with its files."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("migrating"))
    namespace: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGES["from-datapipes"], re.DOTALL):
        exec(code, namespace)
    yield namespace
    os.chdir(before)


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.library}-{row.name}") for row in rows()])
def test_row(row, names):
    if not row.expression:
        assert row.remark
        return
    value = eval(row.expression, names)
    pipes = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
    for pipe in pipes:
        if isinstance(pipe, fp.Pipe):
            assert list(islice(pipe, 3))
