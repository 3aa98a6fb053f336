"""Hugging Face datasets in torch's DataLoader, 2 workers: map-style and shuffled whole, or streamed with a buffer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before the import, which reads it
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

from datasets import load_dataset
from torch.utils.data import DataLoader

from .parquet_tasks import BATCH, BUFFER, described, paced, paths


def loader(folder: str, style: str) -> DataLoader[Any]:
    files = [str(Path(path).resolve()) for path in paths(folder)]
    if style == "map":
        cache = str(Path(folder, "datasets").resolve())
        rows: Any = load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
        return DataLoader(rows.with_format("torch"), batch_size=BATCH, shuffle=True, num_workers=2)
    rows = load_dataset("parquet", data_files=files, split="train", streaming=True)
    return DataLoader(rows.shuffle(seed=0, buffer_size=BUFFER).with_format("torch"), batch_size=BATCH, num_workers=2)


def measure(folder: str, rows: int, seconds: float, style: str) -> dict[str, Any]:
    return paced(loader(folder, style), seconds)


def check(folder: str, rows: int, seconds: float, style: str) -> dict[str, Any]:
    return described(loader(folder, style), 10 * BATCH)
