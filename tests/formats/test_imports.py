"""What formats may import, for types too: import-linter sees only the imports that run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import feedpipe.formats

ALLOWED = {
    "feedpipe.errors",
    "feedpipe.core.checks",
    "feedpipe.core.code",
    "feedpipe.core.lazy",
    "feedpipe.core.arrow",
    "feedpipe.core.rows",
    "feedpipe.core.cursor",
    "feedpipe.core.block",
}


def imports(path: Path, root: Path) -> Iterator[str]:
    """The modules that a file imports from, by their full names."""
    package = ".".join(["feedpipe.formats", *path.relative_to(root).parent.parts])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield resolve_name("." * node.level + (node.module or ""), package)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_formats_import_values_and_errors_only() -> None:
    root = Path(feedpipe.formats.__path__[0])
    modules = {name for path in root.rglob("*.py") for name in imports(path, root)}
    assert "feedpipe.formats.columns" in modules
    outside = {name for name in modules if name.startswith("feedpipe") and not name.startswith("feedpipe.formats")}
    assert outside <= ALLOWED
