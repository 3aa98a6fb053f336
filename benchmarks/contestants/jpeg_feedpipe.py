"""Ours: list, map, batch, collate."""

from __future__ import annotations

from typing import Any

import feedpipe as fp

from .jpeg_tasks import BATCH, described, load, timed


def loader(folder: str, images: int) -> fp.Loader[Any]:
    return fp.Loader(fp.list_files(f"{folder}/images").take(images).map(load).batch(BATCH).collate(), workers=2)


def measure(folder: str, images: int) -> dict[str, Any]:
    with loader(folder, images) as batches:
        return timed(batches, images)


def check(folder: str, images: int) -> dict[str, Any]:
    with loader(folder, images) as batches:
        return described(batches, folder, images)
