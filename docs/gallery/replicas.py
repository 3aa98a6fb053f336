# %% [markdown]
# # One reader for the ranks of tensor parallelism
#
# Ranks that hold parts of one model need the same batches. With `replicas=` one of them reads and decodes, and the
# others map its elements out of shared memory.
#
# **You need** torch and Matplotlib. **It takes** about 10 seconds.

# %% [markdown]
# ## Two ranks of data parallelism, each of two of tensor parallelism
#
# The job leaves an epoch in the middle, goes on from the state in a new loader, and counts the rows that each rank
# decodes. `torchrun` would start the ranks of a real job.

# %%
import json
import os
from datetime import timedelta
from pathlib import Path

from torch import distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh

import feedpipe as fp


def job(rank, folder):
    store = f"file://{folder}/store"  # an absolute path in a new folder: ranks of another job must not find it
    distributed.init_process_group(
        "gloo", store, timedelta(seconds=60), world_size=4, rank=rank
    )
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

    def decode(row):
        with open(f"decoded-{rank}", "a") as rows:
            rows.write(f"{row} ")
        return {"n": row}

    pipe = fp.from_sequence(range(16)).shuffle().map(decode).batch(4).collate()
    with fp.Loader(pipe, seed=1, group=mesh["dp"], replicas=mesh["tp"]) as loader:
        batches = [next(iter(loader))["n"].tolist()]
        state = loader.state_dict()  # the same on the ranks that share a reader
    with fp.Loader(pipe, seed=1, group=mesh["dp"], replicas=mesh["tp"]) as loader:
        loader.load_state_dict(state)
        batches += [batch["n"].tolist() for batch in loader]
    Path(f"batches-{rank}").write_text(json.dumps(batches))
    distributed.barrier()
    distributed.destroy_process_group()


multiprocessing.start_processes(job, (os.getcwd(),), nprocs=4, start_method="fork")
batches = [json.loads(Path(f"batches-{rank}").read_text()) for rank in range(4)]
counts = []
for rank in range(4):
    log = Path(f"decoded-{rank}")
    counts.append(len(log.read_text().split()) if log.exists() else 0)
    print(f"rank {rank} has decoded {counts[rank]} rows, and got {batches[rank]}")

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(4, 2))
axis.bar([f"rank {rank}" for rank in range(4)], counts, color="#123457")
axis.set_title("Rows that each rank has decoded")
axis.set_ylabel("rows")
assert batches[0] == batches[1] and batches[2] == batches[3]
assert sorted(row for batch in batches[0] + batches[2] for row in batch) == list(
    range(16)
)
assert counts[1] == counts[3] == 0

# %% [markdown]
# ## Next
#
# [Ranks and resume](../guides/ranks-and-resume.md) says what else ranks have in common.
