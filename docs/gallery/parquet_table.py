# %% [markdown]
# # A table from Parquet: clean, fit, train
#
# A table with nulls, outliers and spellings: look at it, divide it, fit what cleans it on the training part alone, and
# train on balanced batches.
#
# **You need** torch and Matplotlib. **It takes** about 4 seconds.

# %% [markdown]
# ## The data
#
# 6,000 customers, made up and dirty, in four Parquet files. One in seven leaves.

# %%
import numpy as np
import pyarrow as pa

import feedpipe as fp

rng = np.random.default_rng(0)
COUNT = 6000
city = rng.choice(["Oslo", "Rome", "Kyiv"], COUNT)
age, spent = rng.normal(45, 12, COUNT), rng.lognormal(4, 0.7, COUNT)
calls = rng.poisson(2, COUNT)
score = 0.9 * calls - 0.05 * (age - 45) - 0.8 * (city == "Rome") - 4.3
leaves = rng.random(COUNT) < 1 / (1 + np.exp(-score))

spelled = [c.upper() if rng.random() < 0.1 else f" {c}" for c in city]
spent[rng.random(COUNT) < 0.01] *= 1000  # typed in another unit
table = pa.table(
    {
        "city": spelled,
        "age": pa.array(age, mask=rng.random(COUNT) < 0.08),
        "spent": spent,
        "calls": calls,
        "leaves": leaves.astype("int64"),
    }
)
fp.write_parquet(fp.from_table(table), "customers", rows_per_file=1500, progress=False)

# %% [markdown]
# ## Look at it
#
# pandas describes the numbers; a count below 6,000 shows the nulls.

# %%
rows = fp.read_parquet("customers")
print(rows.to_table().to_pandas().describe().round(2))

# %% [markdown]
# ## Divide and clean
#
# A stream is divided by the content of its rows, so a customer is in the same part in each run. What cleans the numbers
# is fitted on the training part: a median of all rows would tell the model about the others.

# %%
NUMBERS = ["age", "spent", "calls"]
tidy = rows.normalize_text("city", lower=True)
parts = tidy.split({"train": 0.75, "val": 0.25})
asked = {name: fp.stats.quantiles((0.01, 0.5, 0.98)) for name in NUMBERS}
asked |= {"city": fp.stats.vocabulary(), "leaves": fp.stats.counts()}
first = fp.fit(parts["train"], asked, progress=False)


def bounded(pipe):
    for name in NUMBERS:
        pipe = pipe.clip(name, low=first[name][0.01], high=first[name][0.98])
    return pipe.fill_null({name: first[name][0.5] for name in NUMBERS})


means = {name: fp.stats.mean_std() for name in NUMBERS}
moments = fp.fit(bounded(parts["train"]), means, progress=False)


def ready(pipe):
    return bounded(pipe).standardize(moments).one_hot("city", values=first["city"])


print("cities", list(first["city"]), "; classes", dict(first["leaves"]))

# %%
import matplotlib.pyplot as plt

before = [row["spent"] for row in parts["train"].select("spent")]
after = [row["spent"] for row in ready(parts["train"]).select("spent")]
figure, axes = plt.subplots(1, 2, figsize=(9, 2.4))
for axis, values, title in zip(axes, (before, after), ("before", "after")):
    axis.hist(values, bins=60)
    axis.set(title=f"spent, {title}", yscale="log")

# %% [markdown]
# ## Train
#
# `resample` gives both classes as many rows. The columns of a batch become one matrix, without a dict for any row.

# %%
import torch
import torch.nn.functional as F


def matrix(columns):
    features = [columns[name] for name in NUMBERS]
    features = np.column_stack([*features, columns["city"]]).astype("float32")
    return {"x": features, "y": columns["leaves"].astype("float32")}


even = ready(parts["train"]).resample(
    "leaves", target="uniform", source=first["leaves"]
)
train = even.shuffle(window=1000).batch(64).map_columns(matrix).collate()
val = fp.Loader(ready(parts["val"]).batch(2000).map_columns(matrix).collate()).peek()

torch.manual_seed(0)
model = torch.nn.Linear(val["x"].shape[1], 1)
optimizer = torch.optim.Adam(model.parameters(), 0.05)
loader = fp.Loader(train, seed=3)
losses = []
for _ in range(3):
    for batch in loader:
        loss = F.binary_cross_entropy_with_logits(model(batch["x"])[:, 0], batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
found = (model(val["x"])[:, 0] > 0).float()
recall = (found * val["y"]).sum() / val["y"].sum()
kept = ((1 - found) * (1 - val["y"])).sum() / (1 - val["y"]).sum()
print(f"of those who leave {recall:.1f} are found, of the others {kept:.1f} are kept")

# %% [markdown]
# ## Stop and resume
#
# In the middle of an epoch, of a row group and of the window of the shuffle.

# %%
stopped = fp.Loader(train, seed=3)
batches = iter(stopped)
for _ in range(9):
    next(batches)
state = stopped.state_dict()
expected = next(batches)

resumed = fp.Loader(train, seed=3)
resumed.load_state_dict(state)
assert torch.equal(next(iter(resumed))["x"], expected["x"])
assert recall > 0.6 and kept > 0.6

# %% [markdown]
# ## Next
#
# - All statistics, and how to save them with the model: [statistics](../guides/statistics.md).
# - The same from a database: [databases](../guides/databases.md).
# - More files than one machine reads: [how files are divided](../guides/ranks-and-resume.md#how-a-stream-is-divided).
