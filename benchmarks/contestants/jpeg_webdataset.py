"""WebDataset, over tar files of the same images, in torch's DataLoader; whole tar files go to the workers in turn."""

from __future__ import annotations

import io
from typing import Any

import webdataset as wds
from torch.utils.data import default_collate

from .jpeg_tasks import BATCH, IN_TAR, decode, described, timed


def _image(row: dict[str, Any]) -> tuple[Any, int]:
    return decode(io.BytesIO(row["jpg"])), int(row["__key__"])


def loader(folder: str, images: int) -> wds.WebLoader:
    tars = [f"{folder}/{number:03d}.tar" for number in range(images // IN_TAR)]
    dataset = wds.WebDataset(tars, shardshuffle=False).map(_image).batched(BATCH, collation_fn=default_collate)
    return wds.WebLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)


def measure(folder: str, images: int) -> dict[str, Any]:
    return timed(loader(folder, images), images)


def check(folder: str, images: int) -> dict[str, Any]:
    return described(loader(folder, images), folder, images)
