# %% [markdown]
# # A click log: broken lines, categories, columns all the way
#
# Tab-separated logs as advertisers write them: no header, missing values, lines that are cut. Every good line reaches the
# model as columns, and the bad ones are counted and kept for a look.
#
# **You need** torch and Matplotlib. **It takes** about 4 seconds.

# %% [markdown]
# ## The data
#
# Three days of clicks, made up: a label, a price, a site and a device. One line in a hundred is broken.

# %%
import numpy as np

import feedpipe as fp

SITES, DEVICES, DAYS, LINES = 200, 4, 3, 8000
rng = np.random.default_rng(0)
appeal = rng.normal(-1, 1, SITES) + np.repeat([0.8, 0, 0, 0], SITES // 4)
for day in range(DAYS):
    site = np.minimum(rng.zipf(1.3, LINES) - 1, SITES - 1)
    device, price = rng.integers(0, DEVICES, LINES), rng.lognormal(1, 1, LINES)
    chance = 1 / (1 + np.exp(-appeal[site] - 0.4 * (device == 1) + 0.1 * price))
    click = rng.random(LINES) < chance
    with open(f"day_{day}.tsv", "w") as file:
        for line in zip(click, price, site, device, rng.random(LINES)):
            text = f"{line[0]:d}\t{line[1]:.2f}\tsite-{line[2]}\t{line[3]}"
            file.write((text[: len(text) // 2] if line[4] < 0.01 else text) + "\n")
with open("day_0.tsv") as file:
    print(file.readline().expandtabs(10).strip())

# %% [markdown]
# ## Read what is good
#
# `schema=` says what a line must be. A line that is not so is skipped and counted; with `fp.Quarantine(folder)` it is also
# written to a file, with its place and the reason.

# %%
TYPES = {"click": "int8", "price": "float32", "site": "string", "device": "int8"}
rows = fp.read_csv(
    "day_*.tsv",
    schema=TYPES,
    column_names=list(TYPES),
    delimiter="\t",
    on_error=fp.Quarantine("broken"),
)

# %% [markdown]
# ## Numbers for categories
#
# `fp.fit` runs the pipe once, and keeps what it has found: the sites that come at least five times, and the spread of the
# prices. Sites that are rare, or new, have the number of "all others".

# %%
import pyarrow.compute as pc

rows = rows.with_columns(price=pc.log1p(pc.field("price")))
stats = fp.fit(
    rows,
    {"site": fp.stats.vocabulary(min_count=5), "price": fp.stats.mean_std()},
    progress=False,
)
sites = stats["site"]
clean = rows.standardize(stats).cast({"price": "float32"})
clean = clean.index_of("site", values=sites, unknown=len(sites))
print(len(sites), "sites;", clean.head(1)[0])

# %% [markdown]
# ## Divide
#
# A digest of the content of a line decides where it belongs, so a fourth day moves no line of the first three.

# %%
train, val = clean.split({"train": 0.9, "val": 0.1}).values()
train = train.shuffle(window=4096).batch(256).collate()

# %% [markdown]
# ## Train

# %%
import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.site = torch.nn.Embedding(len(sites) + 1, 1)
        self.device = torch.nn.Embedding(DEVICES, 1)
        self.price = torch.nn.Linear(1, 1)

    def forward(self, batch):
        score = self.site(batch["site"].long()) + self.device(batch["device"].long())
        return (score + self.price(batch["price"][:, None]))[:, 0]


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 0.03)
loader = fp.Loader(train, seed=1)
losses = []
for _ in range(4):
    for batch in loader:
        loss = F.binary_cross_entropy_with_logits(model(batch), batch["click"].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
print("skipped lines:", loader.skipped)

check = fp.Loader(val.batch(10_000).collate()).peek()
click = check["click"].float()
score = model(check).detach()
share = click.mean().expand_as(click)
found = F.binary_cross_entropy_with_logits(score, click).item()
blind = F.binary_cross_entropy(share, click).item()
print(f"loss {found:.3f}; of a model that knows the share of clicks only {blind:.3f}")

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(9, 2.6))
axes[0].plot(np.convolve(losses, np.ones(20) / 20, "valid"))
axes[0].set(title="Loss, mean of 20 steps", xlabel="step")
order = score.argsort()
groups = np.array_split(click[order].numpy(), 10)
axes[1].bar(range(10), [group.mean() for group in groups])
axes[1].set(title="Clicks by score, in tenths of the lines", xlabel="tenth")

# %% [markdown]
# ## Stop and resume

# %%
stopped = fp.Loader(train, seed=2)
batches = iter(stopped)
for _ in range(20):
    next(batches)
state = stopped.state_dict()
expected = next(batches)

resumed = fp.Loader(train, seed=2)
resumed.load_state_dict(state)
assert torch.equal(next(iter(resumed))["price"], expected["price"])
assert found < blind

# %% [markdown]
# ## Next
#
# - What was wrong with the lines: [rows that fail](../guides/rows-that-fail.md).
# - Statistics of large data, and what they cost: [statistics](../guides/statistics.md).
