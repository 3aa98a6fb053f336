# %% [markdown]
# # A full shuffle of files that are sorted by class
#
# A window of a stream sees a few classes at a time. `load(path)` writes the rows into files, once for all processes of
# this machine, and then any order of all rows is as likely as another.
#
# **You need** Matplotlib. **It takes** about 3 seconds.

# %% [markdown]
# ## Data, sorted by class
#
# 32,000 rows of 32 classes, one class after the other.

# %%
import json
from pathlib import Path

import numpy as np

import feedpipe as fp

with Path("sorted.jsonl").open("w") as lines:
    for n in range(32_000):
        lines.write(json.dumps({"class": n // 1000, "n": n}) + "\n")


def bits(pipe):
    """The entropy of the classes in a batch, on average: of 32 classes at most 5 bits."""
    found = []
    for batch in fp.Loader(pipe.batch(256, drop_last=True), seed=1, shards=1):
        shares = np.bincount([row["class"] for row in batch], minlength=32) / len(batch)
        found.append(-sum(share * np.log2(share) for share in shares if share))
    return np.mean(found)


rows = fp.read_jsonl("sorted.jsonl")
window = bits(rows.shuffle(window=2000))
full = bits(rows.load("rows").shuffle())
print(f"a window: {window:.1f} bits of 5; a full shuffle: {full:.1f} bits")
assert window < 2 and full > 4.5

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(5, 1.6))
axis.barh(["window of 2,000", "load, shuffle"], [window, full], color="#123457")
axis.set_title("Classes in a batch of 256")
axis.set_xlabel("entropy in bits, at most 5")

# %% [markdown]
# ## The next run finds the rows
#
# The folder belongs to the pipe: with another reader, other arguments or other code, it would be written again.

# %%
loaded = fp.read_jsonl("sorted.jsonl").load("rows")
loaded.explain()
print(loaded[31_999], len(loaded.split(4)[0]))

# %% [markdown]
# ## A resume is one number
#
# A pipe with positions goes on anywhere at once.

# %%
batches = loaded.shuffle().batch(256)
loader = fp.Loader(batches, seed=1)
first = next(iter(loader))
resumed = fp.Loader(batches, seed=1)
resumed.load_state_dict(loader.state_dict())
rest = [row["n"] for batch in resumed for row in batch]
print(loader.state_dict()["position"])
assert sorted([row["n"] for row in first] + rest) == list(range(32_000))

# %% [markdown]
# ## Next
#
# [Work that is equal on all ranks](equal_work.md) needs positions too.
