"""One of two ranks that read a table while half of it is deleted: `snapshot_job.py RANK FOLDER URI`."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import torch.distributed as distributed

import feedpipe as fp

WORLD_SIZE = 2


def main(rank: int, folder: Path, uri: str) -> None:
    distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=WORLD_SIZE)
    loader = fp.Loader(fp.read_sql("SELECT * FROM shared", uri, partition_on="id", partitions=6), even=None)
    rows = iter(loader)
    ids = [next(rows)["id"]]
    distributed.barrier()
    if rank == 1:  # not the one that has exported the snapshot
        with closing(psycopg.connect(uri, autocommit=True)) as connection:
            connection.execute("DELETE FROM shared WHERE id % 2 = 0")
    distributed.barrier()
    ids += [row["id"] for row in rows]
    (folder / f"{rank}.json").write_text(json.dumps(ids))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
