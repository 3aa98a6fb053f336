# %% [markdown]
# # A curriculum: easy rows first, and rows that are still wrong more often
#
# Two ways to choose rows while a model learns: a schedule that was written before, and the losses of the epoch before.
# Both are exact: a resume in the middle draws the same rows.
#
# **You need** torch and Matplotlib. **It takes** about 3 seconds.

# %% [markdown]
# ## The data
#
# Points of two moons that nearly touch. Points near the border are hard: a column says so. A small model that was trained
# before can write such a column too.

# %%
import json
from pathlib import Path

import numpy as np

import feedpipe as fp

COUNT, BATCH = 4000, 50
rng = np.random.default_rng(0)
y = rng.integers(0, 2, COUNT)
angle = np.pi * (rng.random(COUNT) + y)
x = np.stack([np.cos(angle) + y, np.sin(angle) + y * 0.4], 1)
x += rng.normal(0, 0.18, x.shape)
apart = np.abs(x[:, 1] - 0.25 - 0.35 * np.sin(np.pi * x[:, 0]))
rows = fp.from_arrays(
    {
        "row": np.arange(COUNT),
        "x": x.astype("float32"),
        "y": y,
        "lesson": (apart < 0.35).astype("int64"),
    }
)

# %% [markdown]
# ## Easy rows first
#
# `split` would divide by chance; `filter` divides by a column. The weights of `mix` change by row: after 1,000 rows the hard
# ones begin to come, and from row 5,000 on they are two thirds.

# %%
import pyarrow.compute as pc

easy = rows.shuffle().filter(pc.field("lesson") == 0)
hard = rows.shuffle().filter(pc.field("lesson") == 1)
ramp = {0: [1, 0], **{1000 + 100 * k: [1, k / 20] for k in range(1, 41)}}
lessons = easy.repeat().mix(hard.repeat(), weights=ramp).batch(BATCH).collate()
loader = fp.Loader(lessons, seed=3, steps=160)
share = [batch["lesson"].float().mean().item() for batch in loader]
print("hard rows: " + ", ".join(f"{share[step]:.0%}" for step in (0, 30, 60, 90, 120)))

# %% [markdown]
# ## Train with it

# %%
import torch
import torch.nn.functional as F

everything = fp.Loader(rows.batch(COUNT).collate()).peek()


def new_model():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2)]
    model = torch.nn.Sequential(*layers)
    return model, torch.optim.Adam(model.parameters(), 1e-2)


def step(model, optimizer, batch):
    losses = F.cross_entropy(model(batch["x"]), batch["y"], reduction="none")
    optimizer.zero_grad()
    losses.mean().backward()
    optimizer.step()
    return losses.detach()


def accuracy(model):
    return (model(everything["x"]).argmax(1) == everything["y"]).float().mean().item()


curves = {}
plain = fp.Loader(rows.shuffle().repeat().batch(BATCH).collate(), seed=3, steps=160)
scheduled = fp.Loader(lessons, seed=3, steps=160)
for name, loader in {"at random": plain, "easy rows first": scheduled}.items():
    model, optimizer = new_model()
    curves[name] = []
    for batch in loader:
        step(model, optimizer, batch)
        curves[name].append(accuracy(model))
    print(f"{name}: {curves[name][-1]:.3f}")

# %% [markdown]
# ## By the losses of the epoch before
#
# The weights of `sample` may be a function of the epoch. It must return the same whenever it is called for one epoch, so
# the training writes a file for each: workers, other ranks and a resume read it.

# %%


def weights(epoch):
    path = Path(f"losses-{epoch}.npy")
    return np.load(path) + 0.02 if path.exists() else np.ones(COUNT)


sampled = rows.sample(2000, weights=weights).batch(BATCH).collate()
model, optimizer = new_model()
loader = fp.Loader(sampled, seed=3)
curves["by loss"], losses = [], np.ones(COUNT)
for epoch in range(4):
    for batch in loader:
        losses[batch["row"]] = step(model, optimizer, batch)
        curves["by loss"].append(accuracy(model))
    np.save(f"losses-{epoch + 1}.npy", losses)
print(f"by loss: {curves['by loss'][-1]:.3f}")

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(9, 2.8))
for name, curve in curves.items():
    axes[0].plot(curve, label=name)
axes[0].set(title="Accuracy", xlabel="step", ylim=(0.75, 1))
axes[0].legend(frameon=False, fontsize=8)
last = fp.Loader(sampled, seed=3)
last.set_epoch(4)
chosen = torch.cat([batch["row"] for batch in last])[:300].numpy()
axes[1].scatter(*x[::8].T, s=2, color="lightgrey")
axes[1].scatter(*x[chosen].T, s=5, c=y[chosen], cmap="coolwarm")
axes[1].set(title="Rows that epoch 4 would draw", aspect="equal")

# %% [markdown]
# ## Stop and resume
#
# In the middle of the ramp. The state is plain JSON, and has the place in each of the two inputs.

# %%
stopped = fp.Loader(lessons, seed=3, steps=160)
batches = iter(stopped)
for _ in range(45):
    next(batches)
state = json.dumps(stopped.state_dict())
expected = next(batches)

resumed = fp.Loader(lessons, seed=3, steps=160)
resumed.load_state_dict(json.loads(state))
assert torch.equal(next(iter(resumed))["row"], expected["row"])
assert share[0] == 0 and share[-1] > 0.5 and min(c[-1] for c in curves.values()) > 0.9

# %% [markdown]
# ## Next
#
# - Weights, and what is exact about them: [`mix`](../reference/operators/mix.md), [`sample`](../reference/operators/sample.md).
# - Negatives that are mined before each epoch: [recipes](../guides/recipes.md#negatives-and-losses-that-change).
