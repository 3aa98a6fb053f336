# %% [markdown]
# # Ranks with unequal data: drop, pad or join
#
# DDP waits for all ranks at each step, so a job hangs if one rank runs out of batches first. Four ways out, in real
# processes: which rows does each of them use, and which come twice?
#
# **You need** torch and Matplotlib, on Linux. **It takes** about 10 seconds.

# %% [markdown]
# ## The data
#
# Recordings of five machines, made up, in windows of 64 samples; a worn bearing clicks. The recordings differ in length,
# and the windows in which a machine stood still are left out, so the number of rows is not known before they are read.

# %%
import numpy as np
import pyarrow.compute as pc

import feedpipe as fp

COUNTS, RUNS = [1500, 900, 500, 300, 120], [1, 0.6, 0.3, 0.8, 0.1]
rng = np.random.default_rng(0)
first = 0
for machine, (count, share) in enumerate(zip(COUNTS, RUNS)):
    worn = rng.random(count) < 0.5
    clicks = (np.arange(64) + rng.integers(0, 8, (count, 1))) % 8 == 0
    signal = rng.normal(0, 1, (count, 64)) + 1.5 * clicks * worn[:, None]
    data = {
        "id": np.arange(first, first + count),
        "signal": signal.astype("float32"),
        "worn": worn.astype("float32"),
        "speed": np.where(rng.random(count) < share, 1500, 0),
    }
    table, folder = fp.from_arrays(data), f"machine_{machine}"
    fp.write_parquet(table, folder, row_group_rows=100, progress=False)
    first += count


def spectrum(columns):
    power = np.abs(np.fft.rfft(columns["signal"])[:, 1:]) / 8 - 1
    return {"id": columns["id"], "x": power.astype("float32"), "worn": columns["worn"]}


rows = fp.read_parquet("machine_*/*.parquet").filter(pc.field("speed") > 0)
pipe = rows.shuffle(window=100).batch(16).map_columns(spectrum).collate()
ids = sorted(row["id"] for row in rows)
print(f"{len(ids)} of {first} windows are left")

# %% [markdown]
# ## One rank
#
# A usual loop. `options` say how the loader makes ranks even. `model.join()` is torch's own way: a rank that has ended
# answers the others until they have ended too. Rows that are padding have no part in the loss.

# %%
import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


def train(join=False, **options):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(32, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    loader = fp.Loader(pipe, seed=1, **options)
    loader.set_epoch(0)  # each way has the same order
    used, losses = [], []
    with model.join() if join else contextlib.nullcontext():
        for batch in loader:
            valid = torch.from_numpy(loader.valid)
            score = model(batch["x"])[valid, 0]
            worn = batch["worn"][valid]
            loss = F.binary_cross_entropy_with_logits(score, worn, reduction="sum")
            optimizer.zero_grad()
            (loss / 16).backward()
            optimizer.step()
            used += batch["id"][valid].tolist()
            losses.append(loss.item() / max(1, len(worn)))
    return {"used": used, "losses": losses, "weights": model.module.state_dict()}


# %% [markdown]
# ## Three ranks, four ways
#
# Each rank is a process, with gloo between them. For a script, `torchrun` starts them.

# %%
import os
import warnings

WAYS = {
    'even="drop"': {"even": "drop"},
    'even="pad"': {"even": "pad"},
    "join()": {"even": None, "join": True},
    "steps=60": {"steps": 60},
}


def each_way():
    warnings.simplefilter("ignore", fp.errors.PlanWarning)  # "drop" says what it drops
    return {way: train(**options) for way, options in WAYS.items()}


def member(rank, ranks, job):
    store = f"file://{os.path.abspath(job.__name__)}"
    dist.init_process_group("gloo", store, rank=rank, world_size=ranks)
    torch.save(job(), f"{job.__name__}_{rank}.pt")
    dist.destroy_process_group()


def launch(ranks, job):
    torch.multiprocessing.start_processes(
        member, (ranks, job), ranks, start_method="fork"
    )
    return [torch.load(f"{job.__name__}_{rank}.pt") for rank in range(ranks)]


done = launch(3, each_way)
again, left_out = {}, {}
for way in WAYS:
    used = [number for rank in done for number in rank[way]["used"]]
    again[way] = len(used) - len(set(used))
    left_out[way] = len(ids) - len(set(used))
    steps = [len(rank[way]["losses"]) for rank in done]
    print(f"{way:12} steps {steps}, left out {left_out[way]:3}, twice {again[way]:3}")

# %% [markdown]
# Padding and joining use each window once, and come to the same weights: a batch that is padding adds nothing to the sum
# of the gradients, and neither does a rank that has ended. In the last steps, most of the work is waiting.

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(9, 2.6))
names = list(WAYS)[::-1]
counts = [len(ids) - left_out[way] for way in names]
axes[0].barh(names, counts, label="used")
axes[0].barh(names, [again[way] for way in names], left=counts, label="twice")
axes[0].set(title="Windows in an epoch")
axes[0].axvline(len(ids), linestyle=":", color="grey")
axes[0].set_xlim(0, 3800)
axes[0].legend(frameon=False, fontsize=7, loc="right")
for rank in range(3):
    axes[1].plot(done[rank]["join()"]["losses"], label=f"rank {rank}")
axes[1].set(title="Loss with join()", xlabel="step")
axes[1].legend(frameon=False, fontsize=7)

# %% [markdown]
# ## Stop and resume on two ranks
#
# The ranks of a stream stand at different places, so the state is that of all: `fp.gather_state`.

# %%


def stop():
    loader = fp.Loader(pipe, seed=1, even="pad")
    batches = iter(loader)
    used = [next(batches)["id"].tolist() for _ in range(20)]
    return {"used": used, "state": fp.gather_state(loader)}


def go_on():
    loader = fp.Loader(pipe, seed=1, even="pad")
    loader.load_state_dict(stopped[0]["state"])
    return {"used": [batch["id"][loader.valid].tolist() for batch in loader]}


stopped = launch(3, stop)
parts = stopped + launch(2, go_on)
used = [number for part in parts for batch in part["used"] for number in batch]
assert sorted(used) == ids
pad, join = (done[0][way]["weights"]["0.weight"] for way in ('even="pad"', "join()"))
assert torch.allclose(pad, join, atol=1e-5)

# %% [markdown]
# ## Next
#
# - What `even=` may be, and what ranks tell each other: [ranks](../guides/ranks.md#even-ranks).
# - An evaluation whose sum is that of one process: [cross-validation](k_fold.md).
# - Which rank reads which files: [files on several ranks](../guides/ranks-files.md).
