"""One of four ranks that wait for each other in each step. The data of rank 2 are slow. It saves two reports.

They wait at a barrier, or, if their pipe has no length, because the loader agrees with the others on the end.
"""

from __future__ import annotations

import sys
import time

import torch.distributed as distributed

import feedpipe as fp


def main(folder: str, rank: int, wait: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=4)

    def slow_on_rank_2(number: int) -> int:
        time.sleep(0.004 if rank == 2 else 0.0005)
        return number

    numbers = fp.from_sequence(range(2400))
    pipe = numbers if wait == "barrier" else numbers.filter(lambda number: number >= 0)
    even = None if wait == "barrier" else "drop"
    with fp.Loader(pipe.map(slow_on_rank_2).batch(10), even=even, shards=4) as loader:
        for _ in loader:
            time.sleep(0.004)
            if wait == "barrier":
                distributed.barrier()
        loader.report().save(f"{folder}/rank-{rank}.json")
        fp.gather_report(loader).save(f"{folder}/gathered-{rank}.json")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
