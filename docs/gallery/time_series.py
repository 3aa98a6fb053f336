# %% [markdown]
# # Time series: windows for each series
#
# Readings of several machines in one table: windows that do not cross from one machine to the next, a forecast, and a
# picture of it.
#
# **You need** torch and Matplotlib. **It takes** about 4 seconds.

# %% [markdown]
# ## The data
#
# Twenty machines, each with 300 hourly temperatures: a daily rhythm of its own, and noise. The table is sorted by machine
# and hour, as `ORDER BY machine, hour` gives it; by hour alone would do as well.

# %%
import numpy as np

import feedpipe as fp

MACHINES, HOURS = 20, 300
PAST, AHEAD = 48, 12

rng = np.random.default_rng(0)
hour = np.tile(np.arange(HOURS), MACHINES)
machine = np.repeat(np.arange(MACHINES), HOURS)
phase, height = rng.uniform(0, 24, MACHINES), rng.uniform(1, 4, MACHINES)
rhythm = height[machine] * np.sin(2 * np.pi * (hour - phase[machine]) / 24)
temperature = (20 + rhythm + rng.normal(0, 0.3, hour.size)).astype("float32")
table = fp.from_arrays({"machine": machine, "hour": hour, "temperature": temperature})
print(len(table), "readings; the first is", table[0])

# %% [markdown]
# ## Windows
#
# `sliding` with `key=` gives windows of the rows of one machine, even if those of several machines come in turn. The rows
# of a window stay columns, so none of them becomes a dict.

# %%
windows = table.sliding(PAST + AHEAD, step=4, key="machine")
print(len(windows), "windows of", PAST + AHEAD, "hours")

# %% [markdown]
# ## Divide by time
#
# A forecast is judged on hours that the training has not seen: no window of the training reaches into the last 60 hours.


# %%
def ends_before(limit):
    return lambda window: window["hour"][-1] < limit


def starts_at(limit):
    return lambda window: window["hour"][0] >= limit


def past_and_future(batch):
    values = batch["temperature"]
    return {"past": values[:, :PAST], "future": values[:, PAST:]}


train = windows.filter(ends_before(HOURS - 60)).shuffle(window=512)
train = train.batch(32).collate().map(past_and_future)
val = windows.filter(starts_at(HOURS - 60)).batch(64).collate().map(past_and_future)
train.explain()

# %% [markdown]
# ## Train
#
# A linear forecast of twelve hours from 48. To compare: "in twelve hours as it was a day before that".

# %%
import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Linear(PAST, AHEAD)
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
loader = fp.Loader(train, seed=1)
losses = []
for _ in range(12):
    for batch in loader:
        mean = batch["past"].mean(1, keepdim=True)
        loss = F.mse_loss(model(batch["past"] - mean) + mean, batch["future"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

check = fp.Loader(val).peek()
mean = check["past"].mean(1, keepdim=True)
forecast = (model(check["past"] - mean) + mean).detach()
error = F.l1_loss(forecast, check["future"]).item()
naive = F.l1_loss(
    check["past"][:, PAST - 24 : PAST - 24 + AHEAD], check["future"]
).item()
print(f"mean error {error:.2f} degrees; of the day before {naive:.2f}")

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(9, 2.4), sharey=True)
for axis, k in zip(axes, (0, 5, 10)):
    axis.plot(range(PAST), check["past"][k], label="past")
    axis.plot(range(PAST, PAST + AHEAD), check["future"][k], label="future")
    axis.plot(range(PAST, PAST + AHEAD), forecast[k], label="forecast")
    axis.set_xlabel("hour")
axes[0].legend(frameon=False, fontsize=7)
figure.suptitle("Three windows of the last 60 hours", fontsize=9)

# %% [markdown]
# ## Stop and resume
#
# A state holds the place in the table and in the window of the shuffle. No reading is used twice or left out.

# %%
stopped = fp.Loader(train, seed=1)
batches = iter(stopped)
for _ in range(7):
    next(batches)
state = stopped.state_dict()
rest = [batch["past"] for batch in batches]

resumed = fp.Loader(train, seed=1)
resumed.load_state_dict(state)
again = [batch["past"] for batch in resumed]
assert len(rest) == len(again) and all(map(torch.equal, rest, again))
assert error < naive

# %% [markdown]
# ## Next
#
# - Readings in a database that grows: [databases](../guides/databases.md).
# - One file for each series: `files.interleave(lambda file: fp.read_csv(file).sliding(60), cycle=1)`.
# - [`sliding`](../reference/operators/sliding.md) and [`filter`](../reference/operators/filter.md) in full.
