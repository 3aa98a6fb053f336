# %% [markdown]
# # Rows from PostgreSQL, or another database
#
# Write a table, let the database select, and train on its rows in random order. Stop; the table grows; resume with exactly
# the rows that were left.
#
# **You need** torch and Matplotlib. **It takes** about 5 seconds.

# %% [markdown]
# ## The database
#
# This line is all that is said of it. Here it is SQLite, which comes with Python. For PostgreSQL write
# `{"uri": "postgresql://user:password@host/database"}`, after `pip install 'feedpipe[sql]'`; only `write` changes.

# %%
DATABASE = {"uri": "sqlite://rides.db", "driver": "dbapi"}

# %% [markdown]
# ## The data
#
# 20,000 rides on rented bicycles, made up, written by the driver.

# %%
import sqlite3
from contextlib import closing

import numpy as np

import feedpipe as fp


def rides(first, count):
    rng = np.random.default_rng(first)
    data = {
        "id": np.arange(first, first + count),
        "hour": rng.integers(0, 24, count),
        "km": rng.gamma(2, 1.5, count),
        "rain": rng.random(count) < 0.2,
    }
    rush = np.isin(data["hour"], [7, 8, 16, 17])
    pace = 4 + 2 * rush + 3 * data["rain"] + rng.normal(0, 0.5, count)
    columns = {**data, "minutes": pace * data["km"]}.values()
    return zip(*(column.tolist() for column in columns))


def write(rows):
    with closing(sqlite3.connect("rides.db")) as database, database:
        names = "id INTEGER PRIMARY KEY, hour, km, rain, minutes"
        database.execute(f"CREATE TABLE IF NOT EXISTS rides ({names})")
        database.executemany("INSERT INTO rides VALUES (?, ?, ?, ?, ?)", rows)


write(rides(0, 20_000))

# %% [markdown]
# ## Read them
#
# Any query will do. `partition_on` is a column that identifies the rows: ranges of it are what workers and ranks share,
# and where a resume begins.

# %%
QUERY = "SELECT id, hour, km, rain, minutes FROM rides WHERE km > 0.5"


def features(columns):
    hour = 2 * np.pi * columns["hour"] / 24
    waves = [f(n * hour) for n in (1, 2, 3, 4) for f in (np.sin, np.cos)]
    x = np.stack([*waves, columns["rain"], columns["km"] / 3], 1)
    pace = columns["minutes"] / columns["km"]
    return {"id": columns["id"], "x": x.astype("float32"), "y": pace.astype("float32")}


def training():
    rows = fp.read_sql(QUERY, **DATABASE, partition_on="id", partitions=16)
    return rows.shuffle(window=2000).batch(64).map_columns(features).collate()


pipe = training()
pipe.explain()

# %% [markdown]
# ## Train
#
# The model learns the minutes for a kilometre.

# %%
import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
)
optimizer = torch.optim.Adam(model.parameters(), 0.01)
loader = fp.Loader(pipe, seed=1)
losses = []
for _ in range(2):
    for batch in loader:
        loss = F.mse_loss(model(batch["x"])[:, 0], batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

# %%
import matplotlib.pyplot as plt

hours = np.arange(24)
figure, axes = plt.subplots(1, 2, figsize=(9, 2.6))
axes[0].plot(losses)
axes[0].set(title="Loss", xlabel="step", yscale="log")
for rain, label in ((0, "dry"), (1, "rain")):
    asked = {"id": hours, "hour": hours, "rain": np.full(24, rain)}
    asked |= {"km": np.full(24, 3.0), "minutes": np.zeros(24)}
    pace = model(torch.from_numpy(features(asked)["x"])).detach()[:, 0]
    axes[1].plot(hours, pace, label=label)
axes[1].set(title="Minutes for a kilometre, by the model", xlabel="hour")
axes[1].legend(frameon=False)

# %% [markdown]
# ## Stop and resume, after the table has grown
#
# A state holds the ranges of keys. Rows that come after the last key belong to jobs that begin later.

# %%
stopped = fp.Loader(pipe, seed=2)
batches = iter(stopped)
for _ in range(20):
    next(batches)
state = stopped.state_dict()
expected = [number for batch in batches for number in batch["id"].tolist()]

write(rides(20_000, 1000))
resumed = fp.Loader(training(), seed=2)
resumed.load_state_dict(state)
rest = [number for batch in resumed for number in batch["id"].tolist()]
print(f"{len(rest)} rows were left; steps of this epoch: {len(resumed)},", end=" ")
print(f"of one that begins now: {len(fp.Loader(training()))}")
assert rest == expected
assert np.mean(losses[-20:]) < 0.6

# %% [markdown]
# ## Next
#
# - Drivers, snapshots, several nodes, secrets: [databases](../guides/databases.md).
# - A table in Parquet, with nulls and outliers: [a table](parquet_table.md).
