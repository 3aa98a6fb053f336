# %% [markdown]
# # One reader for the ranks of tensor parallelism
#
# Ranks that hold parts of one model need the same batches. With `replicas=` one of them reads and decodes, and the
# others map its elements out of shared memory.
#
# **You need** torch and Matplotlib. **It takes** about 20 seconds.

# %% [markdown]
# ## Four processes: two ranks of data parallelism, each of two of tensor parallelism

# %%
import subprocess
import sys
from pathlib import Path

Path("job.py").write_text("""
import sys

from torch import distributed
from torch.distributed.device_mesh import init_device_mesh

import feedpipe as fp

folder, rank = sys.argv[1], int(sys.argv[2])
distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=4)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

decoded = 0


def decode(row):
    global decoded
    decoded += 1
    return {"n": row}


pipe = fp.from_sequence(range(16)).shuffle().map(decode).batch(4).collate()
with fp.Loader(pipe, seed=1, group=mesh["dp"], replicas=mesh["tp"]) as loader:
    rows = [batch["n"].tolist() for batch in loader]
    state = loader.state_dict()  # the same on the ranks that share a reader
print(f"rank {rank} has decoded {decoded} rows, and got {rows}")
with fp.Loader(pipe, seed=1, group=mesh["dp"], replicas=mesh["tp"]) as loader:
    loader.load_state_dict(state)
    assert len(list(loader)) == len(rows)  # the second epoch
distributed.barrier()
""")
ranks = [
    subprocess.Popen(
        [sys.executable, "job.py", ".", str(rank)], stdout=subprocess.PIPE, text=True
    )
    for rank in range(4)
]
printed = [rank.communicate()[0] for rank in ranks]
print(*printed, sep="")
counts = [int(text.split()[4]) for text in printed]

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(4, 2))
axis.bar([f"rank {rank}" for rank in range(4)], counts, color="#123457")
axis.set_title("Rows that each rank has decoded")
axis.set_ylabel("rows")
assert counts == [8, 0, 8, 0]

# %% [markdown]
# ## Next
#
# [Ranks and resume](../guides/ranks-and-resume.md) says what else ranks have in common.
