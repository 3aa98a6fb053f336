# %% [markdown]
# # Cross-validation, and an evaluation that counts every row once
#
# Five folds of patients, a model for each, and an evaluation on three ranks whose sum is that of one.
#
# **You need** torch and Matplotlib. **It takes** about 4 seconds.

# %% [markdown]
# ## The data
#
# 1,500 measurements of 150 patients, made up. Measurements of one patient are alike, so all of them belong into one fold:
# a model that has seen the patient would be judged too well.

# %%
import numpy as np

import feedpipe as fp

COUNT = 1500
rng = np.random.default_rng(0)
patient = rng.integers(0, 150, COUNT)
ill = rng.random(150) < 0.4
centre = rng.normal(0, 0.6, (150, 8)) + ill[:, None] * np.linspace(0.2, 0.9, 8)
rows = fp.from_arrays(
    {
        "patient": patient,
        "x": (centre[patient] + rng.normal(0, 1, (COUNT, 8))).astype("float32"),
        "y": ill[patient].astype("float32"),
    }
)

# %% [markdown]
# ## Folds
#
# `split` with `key=` puts the rows of a patient into one fold, and `stratify=` makes the shares of the ill patients alike.
# `others(k)` is the training part of fold k: all rows but its own.

# %%
folds = rows.split(5, key="patient", stratify="y")

for k in range(5):
    held = {row["patient"] for row in folds[k]}
    shared = held & {row["patient"] for row in folds.others(k)}
    share = np.mean([row["y"] for row in folds[k]])
    print(f"fold {k}: {len(folds[k])} rows of {len(held)} patients,", end=" ")
    print(f"{share:.0%} of them ill; {len(shared)} patients shared")

# %% [markdown]
# ## Train a model for each fold

# %%
import torch
import torch.nn.functional as F


def trained(k):
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    losses = []
    loader = fp.Loader(folds.others(k).shuffle().batch(50).collate(), seed=k)
    for _ in range(4):
        for batch in loader:
            loss = F.binary_cross_entropy_with_logits(
                model(batch["x"])[:, 0], batch["y"]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return model, losses


def right(model, batch):
    return (model(batch["x"])[:, 0] > 0) == batch["y"].bool()


models, curves, shares = {}, {}, []
for k, fold in folds.items():
    models[k], curves[k] = trained(k)
    batch = fp.Loader(fold.batch(COUNT).collate()).peek()
    shares.append(right(models[k], batch).float().mean().item())
print(f"accuracy {np.mean(shares):.2f}, from {min(shares):.2f} to {max(shares):.2f}")

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(9, 2.4))
for k, curve in curves.items():
    axes[0].plot(np.convolve(curve, np.ones(8) / 8, "valid"), label=f"fold {k}")
axes[0].set(title="Loss", xlabel="step")
axes[0].legend(frameon=False, fontsize=7)
axes[1].bar(range(5), shares)
axes[1].set(title="Accuracy on the fold", ylim=(0, 1))

# %% [markdown]
# ## Evaluate on three ranks
#
# Ranks take the same number of steps. `even="pad"` repeats elements on a rank that lacks one, and `loader.valid` says
# which rows count. So every row counts once, whatever the number of ranks. In a job each rank is a process of its own.

# %%
fold = folds[0].batch(16).collate()
total = count = 0
for rank in range(3):
    loader = fp.Loader(fold, rank=rank, world_size=3, even="pad")
    for batch in loader:
        valid = torch.from_numpy(loader.valid)
        total += int(right(models[0], batch)[valid].sum())
        count += int(valid.sum())
print(f"{total} of {count} rows are right")
assert count == len(folds[0]) and abs(total / count - shares[0]) < 1e-6

# %% [markdown]
# ## Stop and resume
#
# Save the number of the fold beside the state of the loader.

# %%
pipe = folds.others(3).shuffle().batch(50).collate()
stopped = fp.Loader(pipe, seed=3)
batches = iter(stopped)
next(batches)
saved = {"fold": 3, "loader": stopped.state_dict()}
expected = next(batches)

pipe = folds.others(saved["fold"]).shuffle().batch(50).collate()
resumed = fp.Loader(pipe, seed=3)
resumed.load_state_dict(saved["loader"])
assert torch.equal(next(iter(resumed))["x"], expected["x"])

# %% [markdown]
# ## Next
#
# - Parts by share instead of folds: [`split`](../reference/operators/split.md).
# - What `even=` may be: [even ranks](../guides/ranks.md#even-ranks).
