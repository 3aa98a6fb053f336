"""A training script for Accelerate on two processes of torchrun: accelerate_job.py FOLDER."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

import feedpipe as fp
from feedpipe.accelerate import PreparedLoader

ROWS = 40
TAKEN = 4


def pipes() -> dict[str, fp.Pipe[Any]]:
    rows = fp.from_sequence(range(ROWS))
    stream = rows.filter(lambda x: x >= 0).shuffle(window=7)
    return {"indexed": rows.shuffle().batch(2).collate(), "streamed": stream.batch(2).collate()}


def loaders() -> dict[str, PreparedLoader[Any]]:
    streamed = {"shards": 4, "even": None}
    return {
        name: PreparedLoader(fp.Loader(pipe, seed=1, **(streamed if name == "streamed" else {})))
        for name, pipe in pipes().items()
    }


PADDED = 28

LOADERS = [loaders(), loaders()]  # made before there is a process group


def main(folder: Path) -> None:
    """Train for a few steps, save, train to the end, load, and train to the end again."""
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    first, second = LOADERS
    report: dict[str, dict[str, list[int]]] = {}
    accelerator.register_for_checkpointing(*first.values())
    iterators = {name: iter(loader) for name, loader in first.items()}
    for name, batches in iterators.items():
        report[name] = {"before": [x for batch in islice(batches, TAKEN) for x in batch.tolist()]}
    accelerator.save_state(str(folder / "state"))
    for name, batches in iterators.items():
        report[name]["after"] = [x for batch in batches for x in batch.tolist()]
    accelerator._custom_objects.clear()
    accelerator.register_for_checkpointing(*second.values())
    accelerator.load_state(str(folder / "state"))
    for name, loader in second.items():
        report[name]["resumed"] = [x for batch in loader for x in batch.tolist()]
    padded = PreparedLoader(fp.Loader(fp.from_sequence(range(PADDED)).shuffle().batch(4).collate(), even="pad"))
    report["gathered"] = {
        str(epoch): [x for batch in padded for x in accelerator.gather_for_metrics(batch).tolist()]
        for epoch in range(2)
    }
    (folder / f"rank.{accelerator.process_index}").write_text(json.dumps(report))
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
