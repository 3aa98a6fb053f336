"""torch's DataLoader over a Dataset of files, its workers kept for the second pass."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader, Dataset

from .jpeg_tasks import BATCH, described, load, paths, timed


class Images(Dataset[Any]):
    def __init__(self, folder: str, images: int) -> None:
        self.paths = paths(folder, images)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> Any:
        return load(self.paths[i])


def loader(folder: str, images: int) -> DataLoader[Any]:
    return DataLoader(Images(folder, images), batch_size=BATCH, num_workers=2, persistent_workers=True)


def measure(folder: str, images: int) -> dict[str, Any]:
    return timed(loader(folder, images), images)


def check(folder: str, images: int) -> dict[str, Any]:
    return described(loader(folder, images), folder, images)
