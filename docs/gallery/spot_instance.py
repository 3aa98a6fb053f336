# %% [markdown]
# # A spot instance: stop, resume on other ranks
#
# A job on four ranks is taken away in the middle of an epoch. It goes on with two, from a checkpoint of one file: no row
# is lost, and none comes twice.
#
# **You need** torch and Matplotlib. **It takes** about 4 seconds.

# %% [markdown]
# ## The data and the pipe
#
# Points on two spirals. The ranks together take each point once in an epoch, in an order that depends on the seed and the
# epoch, not on the number of ranks.

# %%
import json
from pathlib import Path

import numpy as np

import feedpipe as fp

COUNT, BATCH = 4096, 32
rng = np.random.default_rng(0)
turn, side = rng.uniform(0.5, 3, COUNT), rng.integers(0, 2, COUNT)
angle = np.pi * (turn + side) + rng.normal(0, 0.08, COUNT)
points = turn[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
data = {"id": np.arange(COUNT), "x": points.astype("float32"), "y": side}
pipe = fp.from_arrays(data).shuffle().batch(BATCH).collate()

# %% [markdown]
# ## A job
#
# In a real job each rank is a process, and gradients are averaged by DDP; `RANK` and `WORLD_SIZE` tell the loader which
# part is its own. Here the ranks take turns in one process: a step takes one batch of each, and trains on all of them.

# %%
import torch
import torch.nn.functional as F

torch.manual_seed(0)
layers = [
    torch.nn.Linear(2, 64),
    torch.nn.Tanh(),
    torch.nn.Linear(64, 64),
    torch.nn.Tanh(),
]
model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
losses, used = [], []


def job(world_size, state=None):
    loaders = [
        fp.Loader(pipe, seed=5, rank=r, world_size=world_size)
        for r in range(world_size)
    ]
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
    return loaders


def step(batches):
    x = torch.cat([batch["x"] for batch in batches])
    y = torch.cat([batch["y"] for batch in batches])
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    used.extend(int(number) for batch in batches for number in batch["id"])


# %% [markdown]
# ## Four ranks, until the machine is taken away
#
# The checkpoint is written whole before it gets its name. The ranks of such a pipe have taken as many batches each, so the
# state of one is that of all. It is plain JSON, and small.

# %%
ranks = job(world_size=4)
for number, batches in enumerate(zip(*ranks), start=1):
    step(batches)
    if number % 5 == 0:
        part = Path("checkpoint.part")
        saved = {"loader": ranks[0].state_dict(), "losses": losses, "used": used}
        part.write_text(json.dumps(saved))
        torch.save([model.state_dict(), optimizer.state_dict()], "model.pt")
        part.rename("checkpoint.json")
    if number == 17:
        break  # the machine is taken away here, two steps behind the checkpoint

size = len(json.dumps(ranks[0].state_dict()))
print(f"step {number}: {len(used)} of {COUNT} points used; a state has {size} bytes")

# %% [markdown]
# ## Two ranks, from the checkpoint
#
# What was done after the checkpoint is done again. The epoch goes on with exactly the points that were left.

# %%
checkpoint = json.loads(Path("checkpoint.json").read_text())
losses, used = checkpoint["losses"], checkpoint["used"]
weights, moments = torch.load("model.pt", weights_only=True)
model.load_state_dict(weights)
optimizer.load_state_dict(moments)

ranks = job(world_size=2, state=checkpoint["loader"])
print("epoch", ranks[0].epoch, "step", ranks[0].step, "of", len(ranks[0]))
for batches in zip(*ranks):
    step(batches)
stopped_at = 15
print(f"{len(used)} points used, {len(set(used))} different ones")
assert sorted(used) == list(range(COUNT))

# %% [markdown]
# ## Go on

# %%
import matplotlib.pyplot as plt

for _ in range(8):
    for batches in zip(*ranks):
        step(batches)
figure, axes = plt.subplots(1, 2, figsize=(9, 2.8))
axes[0].plot(losses)
axes[0].axvline(stopped_at, linestyle=":", color="grey")
axes[0].set(title="Loss; the job stopped at the line", xlabel="step")
seen = torch.from_numpy(data["x"])
label = model(seen).argmax(1).numpy()
axes[1].scatter(*data["x"].T, c=label, s=2, cmap="coolwarm")
axes[1].set(title="What the model says", aspect="equal")
accuracy = float(np.mean(label == data["y"]))
print(f"accuracy {accuracy:.2f}")
assert accuracy > 0.9

# %% [markdown]
# ## Next
#
# - Streams, such as files of text, save the states of all ranks: [resume on other ranks](../guides/ranks-and-resume.md#resume-on-another-number-of-ranks).
# - Checkpoints in rotation: [a recipe](../guides/recipes.md#checkpoints-in-rotation).
# - What a state refuses, and why: [which states are refused](../guides/ranks-and-resume.md#which-states-are-refused).
