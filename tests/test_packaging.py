"""The installed package has every folder of pipes/, shows its public names, and is cheap to import."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import feedpipe

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "pipes"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Modules that are imported when they are needed, not by `import feedpipe`.
HEAVY = {"torch", "pandas", "polars", "duckdb", "datasets", "ray", "pyarrow", "asyncio", "concurrent", "cloudpickle"}
HEAVY |= {"difflib", "email", "tarfile", "tempfile"}


def run(code: str, folder: Path) -> str:
    """Run `code` in a new Python process, in `folder`, and return its output."""
    completed = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_every_folder_is_listed() -> None:
    folders = {path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")}
    names = {".".join(("feedpipe", *folder.parts)) for folder in folders}
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(names)


def test_types_are_shipped() -> None:
    assert (PACKAGE / "py.typed").exists()
    assert PROJECT["tool"]["setuptools"]["package-data"] == {"feedpipe": ["py.typed"]}


def test_import_works_from_an_empty_folder(tmp_path: Path) -> None:
    printed = run("import feedpipe; print(feedpipe.__file__)", tmp_path)
    assert Path(printed.strip()).resolve() == PACKAGE / "__init__.py"


def test_import_loads_nothing_heavy(tmp_path: Path) -> None:
    printed = run("import feedpipe, sys; print(*sys.modules)", tmp_path)
    assert HEAVY & set(printed.split()) == set()


def test_every_public_name_exists(tmp_path: Path) -> None:
    run("from feedpipe import *", tmp_path)


def test_public_modules_are_reached_from_the_package(tmp_path: Path) -> None:
    run("import feedpipe as fp; fp.errors.StateError, fp.testing.check_operator, fp.extensions.Operator", tmp_path)
    with pytest.raises(AttributeError, match="module 'feedpipe' has no attribute 'batch'"):
        feedpipe.batch  # type: ignore[attr-defined]  # noqa: B018


def test_dir_shows_public_names_only() -> None:
    shown = {name for name in dir(feedpipe) if not name.startswith("__")}
    assert shown == {*feedpipe.__all__, "errors", "extensions", "media", "stats", "testing"}
    assert "__version__" in dir(feedpipe)


def test_what_the_package_imports_is_public() -> None:
    imported = {name for name, value in vars(feedpipe).items() if not inspect.ismodule(value) and name[0] != "_"}
    assert imported - {"TYPE_CHECKING"} <= set(feedpipe.__all__)  # others are loaded when they are used


def test_extensions_only_imports_names_again() -> None:
    tree = ast.parse((PACKAGE / "extensions.py").read_text(encoding="utf-8"))
    docstring, *imports = tree.body
    assert isinstance(docstring, ast.Expr)
    for statement in imports:
        assert isinstance(statement, ast.ImportFrom)
        assert all(name.asname == name.name for name in statement.names)
