"""A dataset of a pipe in a loader that Accelerate prepares, on each of two ranks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration

import feedpipe as fp

folder, divides, dispatches, workers = sys.argv[1:]
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatches == "1"))
pipe = fp.from_sequence(range(40)).shuffle()
ranks: dict[str, Any] = {"rank": 0, "world_size": 1} if divides == "accelerate" else {}
dataset = pipe.as_iterable_dataset(seed=1, **ranks)
report: dict[str, Any] = {}
rank = accelerator.process_index
if divides == "accelerate" or dispatches == "0" or rank == 0:  # the others would wait for the first, which has failed
    loader = accelerator.prepare(torch.utils.data.DataLoader(dataset, batch_size=2, num_workers=int(workers)))
    try:
        report["rows"] = [row for batch in loader for row in batch.tolist()]
    except (fp.FeedpipeError, RuntimeError) as error:
        report["error"] = str(error)
Path(folder, f"rank.{rank}").write_text(json.dumps(report))
if "rows" in report:
    accelerator.end_training()
os._exit(0)  # a rank that has failed leaves the group without the other
