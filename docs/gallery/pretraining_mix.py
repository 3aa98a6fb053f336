# %% [markdown]
# # Pretraining: mix corpora, pack tokens
#
# Three corpora in fixed proportions, documents packed into sequences of one length, a loss that does not cross from one
# document to the next, and an exact resume.
#
# **You need** torch and Matplotlib. **It takes** about 5 seconds.

# %% [markdown]
# ## The data
#
# Documents of made-up tokens: many web pages, some code, a few long books. In each corpus a token mostly decides the next
# one, so there is something to learn. Real corpora would be `fp.read_jsonl("web/*.jsonl")` with a tokenizer in `map`.

# %%
import numpy as np

import feedpipe as fp

SHARES = {"web": 0.6, "code": 0.3, "books": 0.1}
WORDS = 100  # of a corpus
LENGTH = 256


def corpus(name, documents, mean):
    first = list(SHARES).index(name) * WORDS + 1
    follower = np.random.default_rng(first).permutation(WORDS)

    def document(number):
        rng = np.random.default_rng((first, number))
        words = rng.integers(0, WORDS, int(rng.gamma(4, mean / 4)) + 2)
        for i in range(1, len(words)):
            if rng.random() < 0.9:
                words[i] = follower[words[i - 1]]
        return {"tokens": words + first}

    return fp.from_sequence(range(documents)).shuffle().map(document)


corpora = {
    "web": corpus("web", 3000, 60),
    "code": corpus("code", 1500, 80),
    "books": corpus("books", 300, 150),
}

# %% [markdown]
# ## Mix
#
# With `by="tokens"`, weights count tokens instead of documents. The proportions hold at every place of the epoch: the lines
# below are straight. After `.repeat()` a small corpus begins again, in a new order.

# %%
import matplotlib.pyplot as plt

endless = {name: corpus.repeat() for name, corpus in corpora.items()}
mixed = fp.mix(endless, weights=SHARES, by="tokens")
drawn = np.concatenate([(row["tokens"] - 1) // WORDS for row in mixed.head(400)])

figure, axis = plt.subplots(figsize=(7, 2.6))
for number, (name, share) in enumerate(SHARES.items()):
    print(f"{name:6} asked {share:.0%}, given {np.mean(drawn == number):.1%}")
    axis.plot(np.cumsum(drawn == number), label=name)
axis.set(title="Tokens of each corpus", xlabel="tokens in all")
axis.legend(frameon=False)

# %% [markdown]
# ## Pack
#
# `"cut"` fills each sequence and cuts the last document. `"fit"` keeps documents whole, and pads. A row of the picture is
# a sequence, a colour is a document, and gaps are padding.

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 2.6), sharey=True)
for axis, strategy in zip(axes, ("cut", "fit")):
    rows = mixed.pack(LENGTH, column="tokens", strategy=strategy, window=50).head(24)
    segments = np.stack([row["segment_ids"] for row in rows])
    inside = sum(int(row["position_ids"][0]) > 0 for row in rows)
    print(f"{strategy}: {np.mean(segments == 0):.1%} padding,", end=" ")
    print(f"{inside} of {len(rows)} sequences begin inside of a document")
    colours = np.where(segments, segments % 8, np.nan)
    axis.imshow(colours, aspect="auto", cmap="Set2", interpolation="nearest")
    axis.set(title=f'strategy="{strategy}"', xlabel="token")
axes[0].set_ylabel("sequence")

# %% [markdown]
# ## Train
#
# A bigram model: one vector of scores for each token. A target counts only if it is in the document of its token. An
# attention mask comes from the same comparison, `segments[:, :, None] == segments[:, None, :]`.

# %%
import torch
import torch.nn.functional as F

pipe = mixed.pack(LENGTH, column="tokens", strategy="fit").batch(8).collate()
loader = fp.Loader(pipe, seed=7, steps=60)

torch.manual_seed(0)
model = torch.nn.Embedding(3 * WORDS + 1, 3 * WORDS + 1)
optimizer = torch.optim.Adam(model.parameters(), 0.3)
losses = []
for batch in loader:
    tokens, segments = batch["tokens"], batch["segment_ids"]
    counts = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] > 0)
    loss = F.cross_entropy(model(tokens[:, :-1])[counts], tokens[:, 1:][counts])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(
    f"loss {losses[0]:.1f} before, {np.mean(losses[-5:]):.1f} after {len(losses)} steps"
)

figure, axis = plt.subplots(figsize=(6, 2.4))
axis.plot(losses)
axis.set(title="Loss", xlabel="step")

# %% [markdown]
# ## Stop and resume
#
# A job that was killed goes on with the very next sequence, inside of the document where it stopped.

# %%
stopped = fp.Loader(pipe, seed=8, steps=60)
batches = iter(stopped)
for _ in range(30):
    next(batches)
state = stopped.state_dict()
expected = next(batches)

resumed = fp.Loader(pipe, seed=8, steps=60)
resumed.load_state_dict(state)
assert torch.equal(next(iter(resumed))["tokens"], expected["tokens"])
assert losses[-1] < losses[0] / 2

# %% [markdown]
# ## Next
#
# - Weights and sizes of batches that change: [a curriculum](../guides/recipes.md#mix-and-curriculum).
# - `loader.ledger()` says how many rows came from each corpus: [mix](../reference/operators/mix.md).
# - Many machines: [ranks](../guides/ranks-and-resume.md).
