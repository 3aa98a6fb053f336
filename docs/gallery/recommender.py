# %% [markdown]
# # A recommender: negatives in the batch, and mined ones
#
# Pairs of a user and an item that they liked. The other items of a batch serve as negatives, unless they are the
# same item; from the second epoch on, each pair gets an item that the model confuses with the right one.
#
# **You need** torch and Matplotlib. **It takes** about 5 seconds.

# %% [markdown]
# ## The data
#
# 400 users, 300 items, five tastes. A user mostly likes items of one taste, and popular items come often.

# %%
import numpy as np

import feedpipe as fp

USERS, ITEMS, TASTES, PAIRS = 400, 300, 5, 6000
rng = np.random.default_rng(0)
taste_of_user, taste_of_item = rng.integers(0, TASTES, USERS), np.arange(ITEMS) % TASTES
popularity = 1 / (1 + np.arange(ITEMS)) ** 0.25
user = rng.integers(0, USERS, PAIRS)
item = np.empty(PAIRS, np.int64)
for row in range(PAIRS):
    fits = np.where(taste_of_item == taste_of_user[user[row]], 1, 0.02)
    item[row] = rng.choice(ITEMS, p=popularity * fits / (popularity * fits).sum())
pairs = fp.from_arrays({"pair": np.arange(PAIRS), "user": user, "item": item})
print("the most popular item:", np.bincount(item).max(), "of", PAIRS, "pairs")

# %%
train, val = pairs.split({"train": 0.9, "val": 0.1}).values()

# %% [markdown]
# ## Mined negatives
#
# `join` takes a function of the epoch. The training writes a table for each epoch before it begins; the loader, its workers
# and a resume read it.

# %%
import pyarrow as pa
import pyarrow.parquet as pq


def write_negatives(epoch, confused):
    table = pa.table({"pair": np.arange(PAIRS), "negative": confused})
    pq.write_table(table, f"negatives-{epoch}.parquet")


def negatives(epoch):
    return pq.read_table(f"negatives-{epoch}.parquet")


pipe = train.shuffle().join(negatives, on="pair")
pipe = pipe.batch(64, drop_last=True).collate()

# %% [markdown]
# ## Train two towers
#
# Vectors of users and items. The score of a pair is their product, and the right item has to beat all others of the batch
# and the mined ones. A second pair with the same item is no negative, so the loss masks it.

# %%
import torch
import torch.nn.functional as F


class Towers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.users = torch.nn.Embedding(USERS, 16)
        self.items = torch.nn.Embedding(ITEMS, 16)

    def forward(self, users, items):
        return self.users(users) @ self.items(items).T


def confused_items(model):
    scores = model(torch.from_numpy(user), torch.arange(ITEMS)).detach()
    scores[torch.arange(PAIRS), torch.from_numpy(item)] = -torch.inf
    return scores.topk(20).indices[:, 10].numpy()  # the first ones may be right too


def recall(model):
    batch = fp.Loader(val.batch(PAIRS).collate()).peek()
    best = model(batch["user"], torch.arange(ITEMS)).topk(30).indices
    return (best == batch["item"][:, None]).any(1).float().mean().item()


torch.manual_seed(0)
model = Towers()
optimizer = torch.optim.Adam(model.parameters(), 0.02)
write_negatives(0, rng.integers(0, ITEMS, PAIRS))
loader = fp.Loader(pipe, seed=1)
losses, recalls = [], [recall(model)]
for epoch in range(6):
    for batch in loader:
        candidates = torch.cat([batch["item"], batch["negative"]])
        scores = model(batch["user"], candidates)
        same = batch["item"][:, None] == candidates
        scores = scores.masked_fill(
            same & ~torch.eye(*same.shape, dtype=torch.bool), -torch.inf
        )
        loss = F.cross_entropy(scores, torch.arange(len(scores)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    recalls.append(recall(model))
    write_negatives(epoch + 1, confused_items(model))
print("found among the first 30:", ", ".join(f"{share:.0%}" for share in recalls))

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(9, 2.6))
axes[0].plot(losses)
axes[0].set(title="Loss", xlabel="step")
axes[1].plot(recalls, marker="o")
axes[1].axhline(30 / ITEMS, linestyle=":", color="grey")
axes[1].set(title="Found among the first 30; chance is dotted", xlabel="epoch")

# %% [markdown]
# ## Stop and resume
#
# In the middle of epoch 3: the epoch of the negatives is part of the state.

# %%
stopped = fp.Loader(pipe, seed=1)
stopped.set_epoch(3)
batches = iter(stopped)
for _ in range(20):
    next(batches)
state = stopped.state_dict()
rest = [batch["pair"] for batch in batches]

resumed = fp.Loader(pipe, seed=1)
resumed.load_state_dict(state)
again = [batch["pair"] for batch in resumed]
assert len(rest) == len(again) and all(map(torch.equal, rest, again))
assert recalls[-1] > 0.3 > recalls[0]

# %% [markdown]
# ## Next
#
# - Tables of an epoch: [`join`](../reference/operators/join.md).
