# %% [markdown]
# # Instruction tuning: conversations in packs, a loss on the answers only
#
# Conversations as JSON lines, made into tokens, packed without a cut, with a mask that keeps the loss on what the assistant
# says. A line that is no conversation is skipped and counted.
#
# **You need** torch and Matplotlib. **It takes** about 5 seconds.

# %% [markdown]
# ## The data
#
# Made-up lessons in adding: a question, an answer, and sometimes a second round. One in fifty lines is broken.

# %%
import json

import numpy as np

import feedpipe as fp

rng = np.random.default_rng(0)
with open("lessons.jsonl", "w") as file:
    for number in range(4000):
        messages = []
        for _ in range(rng.integers(1, 4)):
            a, b = rng.integers(0, 10, 2)
            messages += [
                {"role": "user", "content": f"{a}+{b}?"},
                {"role": "assistant", "content": f"{a + b}"},
            ]
        line = json.dumps({"messages": messages})
        file.write((line if number % 50 else line[:30]) + "\n")
with open("lessons.jsonl") as file:
    print(file.readlines()[1].strip())

# %% [markdown]
# ## Tokens and masks
#
# A real tokenizer goes where `encode` is. The mask is 1 for the tokens that the model has to learn: those of the answers,
# and the end of each.

# %%
SIGNS = ["<pad>", "<user>", "<assistant>", "<end>", *"0123456789+?"]
NUMBERS = {sign: number for number, sign in enumerate(SIGNS)}
LENGTH = 64


def encode(text):
    return [NUMBERS[sign] for sign in text]


def tokens(row):
    tokens, learns = [], []
    for message in row["messages"]:
        words = [*encode(message["content"]), NUMBERS["<end>"]]
        tokens += [NUMBERS[f"<{message['role']}>"], *words]
        learns += [0, *[int(message["role"] == "assistant")] * len(words)]
    return {"tokens": np.array(tokens), "learns": np.array(learns, np.int8)}


lessons = fp.read_jsonl("lessons.jsonl", on_error="skip")
documents = lessons.shuffle(window=1000).map(tokens)

# %% [markdown]
# ## Pack
#
# `"fit"` keeps each conversation whole. All columns are packed along, `segment_ids` counts the conversations of a pack, and
# `position_ids` the tokens of each.

# %%
packs = documents.pack(LENGTH, column="tokens", strategy="fit", window=500)
first = packs.head(1)[0]
print({name: values.dtype for name, values in first.items()})
print(" ".join(SIGNS[token] for token in first["tokens"][:24]))
print(" ".join(map(str, first["learns"][:24])))

# %%
import matplotlib.pyplot as plt

rows = packs.head(20)
segments = np.stack([row["segment_ids"] for row in rows])
learns = np.stack([row["learns"] for row in rows])
figure, axes = plt.subplots(1, 2, figsize=(9, 2.4), sharey=True)
colours = np.where(segments, segments % 8, np.nan)
axes[0].imshow(colours, aspect="auto", cmap="Set2", interpolation="nearest")
axes[0].set(title="Conversations; gaps are padding", xlabel="token", ylabel="pack")
axes[1].imshow(learns, aspect="auto", cmap="Greens", interpolation="nearest")
axes[1].set(title="Tokens with a loss", xlabel="token")

# %% [markdown]
# ## Train
#
# A small transformer. Its attention looks at earlier tokens of the same conversation only.

# %%
import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.token = torch.nn.Embedding(len(SIGNS), width)
        self.place = torch.nn.Embedding(LENGTH, width)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(
                width, 4, 2 * width, 0.0, batch_first=True, norm_first=True
            )
            for _ in range(2)
        )
        self.scores = torch.nn.Linear(width, len(SIGNS))

    def forward(self, batch):
        segments = batch["segment_ids"]
        hidden = segments[:, :, None] != segments[:, None, :]
        hidden |= torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        x = self.token(batch["tokens"]) + self.place(batch["position_ids"])
        for layer in self.layers:
            x = layer(x, src_mask=hidden.repeat_interleave(4, 0))
        return self.scores(x)


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 4e-3)
loader = fp.Loader(packs.batch(16).collate(), seed=1, steps=150)
losses = []
for batch in loader:
    counts = batch["learns"][:, 1:].bool()
    scores = model(batch)[:, :-1][counts]
    loss = F.cross_entropy(scores, batch["tokens"][:, 1:][counts])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print("broken lines:", sum(loader.skipped.values()))
print(f"loss {losses[0]:.2f} at first, {np.mean(losses[-10:]):.2f} at the end")

figure, axis = plt.subplots(figsize=(6, 2.2))
axis.plot(losses)
axis.set(title="Loss on the answers", xlabel="step")

# %% [markdown]
# ## Stop and resume

# %%
pipe = packs.batch(16).collate()
stopped = fp.Loader(pipe, seed=2, steps=150)
batches = iter(stopped)
for _ in range(9):
    next(batches)
state = stopped.state_dict()
expected = next(batches)

resumed = fp.Loader(pipe, seed=2, steps=150)
resumed.load_state_dict(state)
assert torch.equal(next(iter(resumed))["tokens"], expected["tokens"])
assert np.mean(losses[-10:]) < losses[0] / 3

# %% [markdown]
# ## Next
#
# - Inputs and targets of different lengths: `pack({"inputs": 1024, "targets": 256})`, in [`pack`](../reference/operators/pack.md).
# - Lines that fail, and what is kept of them: [rows that fail](../guides/rows-that-fail.md).
