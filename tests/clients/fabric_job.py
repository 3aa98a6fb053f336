"""A training script for Fabric on two processes of torchrun: fabric_job.py FOLDER."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from lightning_job import indexed, streamed
from torch import distributed

import feedpipe as fp

TAKEN = 4


def loaders() -> dict[str, fp.Loader[Any]]:
    return {
        "indexed": fp.Loader(indexed(), seed=1),
        "streamed": fp.Loader(streamed(), seed=1, shards=4, even=None),
    }


LOADERS = [loaders(), loaders()]  # made before there is a process group


def main(folder: Path) -> None:
    """Train for a few steps, save, train to the end, load, and train to the end again."""
    torch.set_num_threads(1)
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    first, second = LOADERS
    report: dict[str, dict[str, list[int]]] = {}
    iterators = {name: map(fabric.to_device, loader) for name, loader in first.items()}
    for name, batches in iterators.items():
        report[name] = {"before": [x for batch in islice(batches, TAKEN) for x in batch.tolist()]}
    states = {name: fp.gather_state(loader) for name, loader in first.items()}
    fabric.save(folder / "state.ckpt", {"loaders": states})
    for name, batches in iterators.items():
        report[name]["after"] = [x for batch in batches for x in batch.tolist()]
    loaded = fabric.load(folder / "state.ckpt")["loaders"]
    for name, loader in second.items():
        loader.load_state_dict(loaded[name])
        report[name]["resumed"] = [x for batch in loader for x in batch.tolist()]
    (folder / f"rank.{fabric.global_rank}").write_text(json.dumps(report))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
