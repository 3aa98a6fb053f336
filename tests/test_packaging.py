"""What is installed is what stands in pipes/, and importing it is cheap."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "pipes"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# What a user who needs it pays for when it is needed, not at `import feedpipe`.
HEAVY = {"torch", "pandas", "polars", "duckdb", "datasets", "ray"}


def run(code: str, folder: Path) -> str:
    """Run `code` in a Python of its own, in `folder`, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_folder_is_listed() -> None:
    folders = {path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")}
    names = {".".join(("feedpipe", *folder.parts)) for folder in folders}
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(names)


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


def test_types_are_shipped() -> None:
    assert (PACKAGE / "py.typed").exists()
    assert PROJECT["tool"]["setuptools"]["package-data"] == {"feedpipe": ["py.typed"]}


def test_version_is_the_installed_one() -> None:
    assert importlib.metadata.version("feedpipe") == PROJECT["project"]["version"]


def test_import_works_from_an_empty_folder(tmp_path: Path) -> None:
    printed = run("import feedpipe; print(feedpipe.__file__)", tmp_path)
    assert Path(printed.strip()).resolve() == PACKAGE / "__init__.py"


def test_import_works_from_the_checkout() -> None:
    """The folder pipes/ and the standard library's module of that name get in nobody's way."""
    assert run("import feedpipe; print(feedpipe.__name__)", ROOT).strip() == "feedpipe"


def test_import_loads_nothing_heavy(tmp_path: Path) -> None:
    printed = run("import feedpipe, sys; print(*sys.modules)", tmp_path)
    assert HEAVY & set(printed.split()) == set()


def test_every_public_name_exists(tmp_path: Path) -> None:
    run("from feedpipe import *", tmp_path)
