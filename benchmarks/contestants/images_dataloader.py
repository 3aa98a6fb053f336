"""A DataLoader over a Dataset of files with Pillow: torch's, and the look-alike of feedpipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, Dataset

from .images_tasks import BATCH, WORKERS, by_pillow, described, generator, paths, timed


class Images(Dataset[Any]):
    def __init__(self, folder: str, size: str) -> None:
        self.paths = paths(folder, size)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> Any:
        return by_pillow(Path(self.paths[i]).read_bytes(), generator())


def _loader(folder: str, size: str, is_compat: bool) -> Any:
    kind: Any = DataLoader
    if is_compat:
        from feedpipe import compat

        kind = compat.DataLoader
    return kind(Images(folder, size), batch_size=BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True)


def measure(folder: str, size: str, is_compat: bool = False) -> dict[str, Any]:
    return timed(_loader(folder, size, is_compat))


def check(folder: str, size: str, is_compat: bool = False) -> dict[str, Any]:
    return described(_loader(folder, size, is_compat))
