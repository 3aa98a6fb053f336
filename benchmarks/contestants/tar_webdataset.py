"""WebDataset in torch's DataLoader; whole tar files go to the workers in turn."""

from __future__ import annotations

from typing import Any

import webdataset as wds
from torch.utils.data import default_collate

from .tar_tasks import BATCH, WORKS, checked, tars, timed


def loader(folder: str, images: int, work: str) -> wds.WebLoader:
    dataset = wds.WebDataset(tars(folder, images), shardshuffle=False).map(WORKS[work])
    batches = dataset.batched(BATCH, collation_fn=default_collate)
    return wds.WebLoader(batches, batch_size=None, num_workers=2, persistent_workers=True)


def measure(folder: str, images: int, work: str) -> dict[str, Any]:
    return timed(loader(folder, images, work), images, work)


def check(folder: str, images: int, work: str) -> dict[str, Any]:
    return checked(loader(folder, images, work), folder, images, work)
