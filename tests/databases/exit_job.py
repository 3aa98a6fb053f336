"""One of two ranks that train on a table: `exit_job.py RANK STORE URI HOW`; how it ends is a matter of chance."""

from __future__ import annotations

import faulthandler
import sys

import torch
import torch.distributed as distributed
from torch.nn.parallel import DistributedDataParallel

import feedpipe as fp

WORLD_SIZE = 2


def main(rank: int, store: str, uri: str, how: str) -> fp.Loader[dict[str, torch.Tensor]]:
    faulthandler.enable()
    distributed.init_process_group("gloo", store, rank=rank, world_size=WORLD_SIZE)
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    rows = fp.read_sql("SELECT * FROM exits", uri, partition_on="id", partitions=6)
    loader = fp.Loader(rows.map(lambda row: {"x": float(row["id"])}).batch(512).collate())
    for step, batch in enumerate(loader):
        model(batch["x"].float().reshape(-1, 1)).mean().backward()
        if "early" in how and step == 5:
            break
    distributed.barrier()  # a snapshot ends with the first rank
    if "destroy" in how:
        distributed.destroy_process_group()
    return loader


if __name__ == "__main__":
    kept = main(int(sys.argv[1]), *sys.argv[2:])  # the interpreter ends with it
