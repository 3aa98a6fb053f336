"""Trains on two processes of torchrun, saves, and goes on from what it saved: saving_job.py CLIENT FOLDER."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from lightning.fabric import Fabric
from lightning_job import indexed, streamed
from torch import distributed

import feedpipe as fp
from feedpipe.accelerate import PreparedLoader

TAKEN = 4

Report = dict[str, dict[str, list[int]]]
Loaders = dict[str, fp.Loader[Any]]


def loaders() -> Loaders:
    return {
        "indexed": fp.Loader(indexed(), seed=1),
        "streamed": fp.Loader(streamed(), seed=1, shards=4, even=None),
    }


FIRST, SECOND = loaders(), loaders()  # made before there is a process group


def rows(batches: Iterator[Any]) -> list[int]:
    return [x for batch in batches for x in batch.tolist()]


def trained(first: Mapping[str, Iterable[Any]], save: Callable[[], object]) -> Report:
    """The rows of a few steps, and those after `save`."""
    iterators = {name: iter(loader) for name, loader in first.items()}
    report = {name: {"before": rows(islice(batches, TAKEN))} for name, batches in iterators.items()}
    save()
    for name, batches in iterators.items():
        report[name]["after"] = rows(batches)
    return report


def accelerate(folder: Path) -> Report:
    accelerator = Accelerator(cpu=True)
    first, second = ({name: PreparedLoader(one) for name, one in of_run.items()} for of_run in (FIRST, SECOND))
    accelerator.register_for_checkpointing(*first.values())
    report = trained(first, lambda: accelerator.save_state(str(folder / "state")))
    accelerator._custom_objects.clear()
    accelerator.register_for_checkpointing(*second.values())
    accelerator.load_state(str(folder / "state"))
    padded = PreparedLoader(fp.Loader(fp.from_sequence(range(28)).shuffle().batch(4).collate(), even="pad"))
    for name, loader in second.items():
        report[name]["resumed"] = rows(iter(loader))
    report["gathered"] = {str(epoch): rows(map(accelerator.gather_for_metrics, padded)) for epoch in range(2)}
    return report


def fabric(folder: Path) -> Report:
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()

    def save() -> None:
        states = {name: fp.gather_state(loader) for name, loader in FIRST.items()}
        fabric.save(folder / "state.ckpt", {"loaders": states})

    report = trained({name: map(fabric.to_device, loader) for name, loader in FIRST.items()}, save)
    loaded = fabric.load(folder / "state.ckpt")["loaders"]
    for name, loader in SECOND.items():
        loader.load_state_dict(loaded[name])
        report[name]["resumed"] = rows(map(fabric.to_device, loader))
    return report


def main(client: str, folder: Path) -> None:
    torch.set_num_threads(1)
    report = {"accelerate": accelerate, "fabric": fabric}[client](folder)
    (folder / f"rank.{distributed.get_rank()}").write_text(json.dumps(report))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
