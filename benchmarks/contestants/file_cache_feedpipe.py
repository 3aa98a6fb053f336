"""Lines of remote objects through a `FileCache`, and of the same files on the local disk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import feedpipe as fp

from .s3_tasks import content, name, timed


def measure(endpoint: str, slow: str, objects: int, place: str) -> dict[str, Any]:
    """An epoch from the remote objects, from their local copies, or from local files."""
    with tempfile.TemporaryDirectory() as folder:
        if place == "local":
            paths = [str(Path(folder, f"{number:03d}.txt")) for number in range(objects)]
            for number, path in enumerate(paths):
                Path(path).write_bytes(content(number))
            pipe = fp.read_lines(paths)
        else:
            options = f"?endpoint_override={slow}&scheme=http&region=us-east-1"
            paths = [f"s3://testing:testing@{name(number)}{options}" for number in range(objects)]
            pipe = fp.read_lines(paths, cache=fp.FileCache(Path(folder, "copies")))
        loader = fp.Loader(pipe.batch(1024))
        first = timed(lambda: loader)
        return first if place == "remote" else timed(lambda: loader)
