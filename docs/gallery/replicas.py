# %% [markdown]
# # One reader for the ranks of tensor parallelism
#
# Ranks that hold parts of one model need the same batches. With `replicas=` one of them reads and decodes, and the
# others map its elements out of shared memory.
#
# **You need** torch. **It takes** about 20 seconds.

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
print(f"rank {rank} has decoded {decoded} rows, and got {rows}")
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
assert [text.split()[4] for text in printed] == ["8", "0", "8", "0"]
