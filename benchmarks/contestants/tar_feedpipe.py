"""Ours: read, map, batch, collate."""

from __future__ import annotations

from typing import Any

import feedpipe as fp

from .tar_tasks import BATCH, WORKS, checked, tars, timed


def loader(folder: str, images: int, work: str) -> fp.Loader[Any]:
    return fp.Loader(fp.read_tar(tars(folder, images)).map(WORKS[work]).batch(BATCH).collate(), workers=2)


def measure(folder: str, images: int, work: str) -> dict[str, Any]:
    with loader(folder, images, work) as batches:
        return timed(batches, images, work)


def check(folder: str, images: int, work: str) -> dict[str, Any]:
    with loader(folder, images, work) as batches:
        return checked(batches, folder, images, work)
