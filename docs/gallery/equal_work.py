# %% [markdown]
# # Equal work on all ranks
#
# In a step of data-parallel training all ranks wait for the one with the longest batch. `batch(balance=)` makes batches
# of equal sums.
#
# **You need** Matplotlib. **It takes** about 2 seconds.

# %% [markdown]
# ## Texts of log-normal length, and eight ranks
#
# A rank's share of a step is the number of tokens in its batch.

# %%
import numpy as np

import feedpipe as fp

RANKS = 8
lengths = np.random.default_rng(0).lognormal(5, 0.5, 8 * 64 * 20).astype(int)
texts = fp.from_arrays({"text": np.arange(len(lengths)), "length": lengths}).shuffle()


def tokens_of_steps(pipe):
    ranks = [
        fp.Loader(pipe, seed=1, rank=rank, world_size=RANKS) for rank in range(RANKS)
    ]
    return np.array([[batch["length"].sum() for batch in loader] for loader in ranks])


def lost(tokens):
    return (
        1 - tokens.mean() / tokens.max(0).mean()
    )  # the part of the time that ranks wait


plain = tokens_of_steps(texts.batch(8))
balanced = tokens_of_steps(texts.batch(8, balance="length", among=64))
print(
    f"ranks wait {lost(plain):.0%} of the time, and {lost(balanced):.1%} with balance"
)
assert lost(balanced) < 0.02 < lost(plain)

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(5, 2.4))
axis.plot(plain.max(0)[:40] / plain.mean(), color="#999", label="batch(8)")
axis.plot(balanced.max(0)[:40] / balanced.mean(), color="#123457", label="balance")
axis.set_title("The slowest rank of each step")
axis.set_xlabel("step")
axis.set_ylabel("tokens, mean = 1")
axis.legend()

# %% [markdown]
# ## What it will do
#
# `explain()` says how much the batches of a group differ.

# %%
texts.batch(8, balance="length", among=64).explain()

# %% [markdown]
# ## A resume on other ranks
#
# The order does not depend on the ranks, so four of them go on where the eight were, and still do equal work.

# %%
pipe = texts.batch(8, balance="length", among=64)
first = [fp.Loader(pipe, seed=1, rank=rank, world_size=8) for rank in range(8)]
for loader in first:
    for _, _batch in zip(range(10), loader, strict=False):
        pass
states = [loader.state_dict() for loader in first]
rest = [fp.Loader(pipe, seed=1, rank=rank, world_size=4) for rank in range(4)]
for loader in rest:
    loader.load_state_dict(states)
tokens = np.array([[batch["length"].sum() for batch in loader] for loader in rest])
print(
    f"{tokens.shape[1]} steps are left, and ranks wait {lost(tokens):.1%} of the time"
)
assert lost(tokens) < 0.02

# %% [markdown]
# ## Next
#
# [A mixture for pretraining](pretraining_mix.md) packs texts instead, so that each batch has as many tokens.
