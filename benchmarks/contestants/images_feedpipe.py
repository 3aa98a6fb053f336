"""Ours: `read_images` with a crop: the pixels that Pillow makes, or as fast as possible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import feedpipe as fp

from .images_tasks import BATCH, SIDE, WORKERS, described, timed


class Batches:
    def __init__(self, folder: str, size: str, fast: bool) -> None:
        crop = fp.media.RandomResizedCrop(flip=0.5)
        images = fp.read_images(f"{folder}/{size}", resize=(SIDE, SIDE), crop=crop, fast=fast)
        self.loader = fp.Loader(images.shuffle().batch(BATCH).collate(), workers=WORKERS)

    def __iter__(self) -> Iterator[Any]:
        return (batch["image"] for batch in self.loader)


def measure(folder: str, size: str, fast: bool) -> dict[str, Any]:
    return timed(Batches(folder, size, fast))


def check(folder: str, size: str, fast: bool) -> dict[str, Any]:
    return described(Batches(folder, size, fast))
