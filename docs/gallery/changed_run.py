# %% [markdown]
# # A run that changes under way
#
# A pretraining run in one pass over its data: the mixture and the batch size change twice, a corpus joins, and a machine is
# lost. Every document is counted: none is lost, none comes twice.
#
# **You need** Matplotlib. **It takes** about 2 seconds.

# %% [markdown]
# ## The plan of the run
#
# Three phases. `pipe` is all that differs between them; the corpora are the same.

# %%
import json
from collections import Counter

import feedpipe as fp

SIZES = {"web": 6000, "code": 3000, "books": 900, "math": 1500}


def corpus(name):
    return fp.from_sequence([(name, number) for number in range(SIZES[name])]).shuffle()


def pipe(weights, batch):
    first, *others = (corpus(name) for name in weights)
    return first.mix(*others, weights=list(weights.values())).batch(batch)


phases = [
    {
        "steps": 20,
        "ranks": 4,
        "weights": {"web": 0.7, "code": 0.2, "books": 0.1},
        "batch": 16,
    },
    {
        "steps": 20,
        "ranks": 4,
        "weights": {"web": 0.5, "code": 0.4, "books": 0.1},
        "batch": 32,
    },
    {
        "steps": None,
        "ranks": 3,
        "weights": {"web": 0.5, "code": 0.2, "books": 0.1, "math": 0.2},
        "batch": 64,
    },
]

# %% [markdown]
# ## The run
#
# Each phase begins with the state that the phase before has saved. `edits="order"` says that other weights and new inputs are
# meant; a new batch size alone would need no argument. The loader warns, and says where each corpus goes on.

# %%
import warnings


def job(phase, state):
    mixed = pipe(phase["weights"], phase["batch"])
    ranks = [
        fp.Loader(mixed, rank=rank, world_size=phase["ranks"], seed=1, even=None)
        for rank in range(phase["ranks"])
    ]
    for loader in ranks if state is not None else []:
        loader.load_state_dict(state, edits="order")
    return ranks


seen, state = [], None
with warnings.catch_warnings():
    warnings.simplefilter("ignore", fp.errors.StateWarning)
    for phase in phases:
        ranks = job(phase, state)
        if ranks[0].resumed is not None:
            print(ranks[0].resumed, "\n")
        epochs = [iter(loader) for loader in ranks]
        step = 0
        while step != phase["steps"] and (
            batches := [batch for epoch in epochs if (batch := next(epoch, None))]
        ):
            seen += [document for batch in batches for document in batch]  # train here
            step += 1
        state = json.loads(
            json.dumps(ranks[0].state_dict())
        )  # an indexed pipe has one state for all ranks
        print(f"{len(seen)} documents after {step} steps on {phase['ranks']} ranks\n")

# %% [markdown]
# ## What the model has seen
#
# In each phase the corpora have their new proportions at once, until one of them ends.

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 2.8))
window = 400
for name in SIZES:
    shares = [
        sum(of == name for of, _ in seen[at : at + window]) / window
        for at in range(0, len(seen) - window, 100)
    ]
    axis.plot([100 * at for at in range(len(shares))], shares, label=name)
for at in (4 * 20 * 16, 4 * 20 * 16 + 4 * 20 * 32):
    axis.axvline(at, linestyle=":", color="grey")
axis.set(title="Share of each corpus; the run changes at the lines", xlabel="documents")
axis.legend(frameon=False, ncols=4)

counts = Counter(name for name, _ in seen)
print(dict(counts))
assert counts == SIZES
assert len(set(seen)) == len(seen)

# %% [markdown]
# ## Next
#
# - What goes on, and what is refused: [change a run that is under way](../guides/change-a-run.md).
# - Weights that change by a plan need no edit: a schedule, as in [pretraining](pretraining_mix.md).
