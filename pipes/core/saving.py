"""`write_text`: a whole file, or the one that was there."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import ArgumentError


def write_text(path: str | os.PathLike[str], text: str, *, endings: tuple[str, ...] = ()) -> None:
    """Write a text file whole, or leave the one that is there.

    Args:
        path: the file.
        text: its content.
        endings: those that its name may have, if there is a choice.

    Raises:
        ArgumentError: the name has another ending, or its folder does not exist.
    """
    target = Path(path)
    if endings and not target.name.endswith(endings):
        raise ArgumentError(f"`path` must end in {' or '.join(endings)} but got: {os.fspath(path)!r}")
    if not target.parent.is_dir():
        raise ArgumentError(f"`path` must be in a folder that exists, and there is no folder {target.parent}")
    part = target.with_name(f"{target.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(target)
