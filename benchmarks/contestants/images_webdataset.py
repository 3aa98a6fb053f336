"""WebDataset over tar files of the same images, with Pillow, in torch's DataLoader."""

from __future__ import annotations

from typing import Any

import webdataset as wds
from torch.utils.data import default_collate

from .images_tasks import BATCH, WORKERS, by_pillow, described, generator, tars, timed


def _image(row: dict[str, Any]) -> Any:
    return by_pillow(row["jpg"], generator())


def _loader(folder: str, size: str) -> wds.WebLoader:
    dataset = wds.WebDataset(tars(folder, size), shardshuffle=100).shuffle(1000).map(_image)
    dataset = dataset.batched(BATCH, collation_fn=default_collate)
    return wds.WebLoader(dataset, batch_size=None, num_workers=WORKERS, persistent_workers=True)


def measure(folder: str, size: str) -> dict[str, Any]:
    return timed(_loader(folder, size))


def check(folder: str, size: str) -> dict[str, Any]:
    return described(_loader(folder, size))
