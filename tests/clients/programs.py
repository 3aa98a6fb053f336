"""The page of trainers, and the programs on it."""

from __future__ import annotations

from pathlib import Path

from ..test_documentation import python_blocks

GUIDE = Path(__file__).parents[2].joinpath("docs", "guides", "trainers.md").read_text(encoding="utf-8")


def program(section: str) -> str:
    """The first program of a section."""
    (text,) = [part for part in GUIDE.split("\n## ") if part.startswith(f"{section}\n")]
    return next(python_blocks(text)).code
