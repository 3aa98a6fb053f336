# %% [markdown]
# # Images with captions in tar files
#
# Shards in WebDataset's layout, better captions from a second file, batches of captions of about one length, a model that
# writes captions, and a resume in the middle of a shard.
#
# **You need** torch, Pillow and Matplotlib. **It takes** about 7 seconds.

# %% [markdown]
# ## The data
#
# A photo shows one to six pieces of clothing side by side, so photos and captions have unequal lengths. The pieces are from
# Fashion-MNIST, in Debian's package `dataset-fashion-mnist`. If it is not installed, this draws shapes. As on the web, a
# third of the captions say nothing.

# %%
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import feedpipe as fp

NAMES = ["T-shirt", "trousers", "pullover", "dress", "coat"]
NAMES += ["sandal", "shirt", "sneaker", "bag", "boot"]
debian = Path("/usr/share/datasets/fashion-mnist")


def draw(number):
    label = number % 10
    image = Image.new("L", (28, 28))
    circle = (14, 14, 8 + number // 10 % 5)
    ImageDraw.Draw(image).regular_polygon(circle, label + 3, fill=90 + 16 * label)
    return {"image": np.asarray(image), "label": label}


if debian.is_dir():
    images = debian / "train-images-idx3-ubyte.gz"
    labels = debian / "train-labels-idx1-ubyte.gz"
    pieces = list(fp.read_idx({"image": images, "label": labels}).take(5000))
else:
    pieces = [draw(number) for number in range(5000)]


def photo(number):
    rng = np.random.default_rng(number)
    chosen = rng.integers(0, len(pieces), min(rng.geometric(0.4), 6))
    image = np.concatenate([pieces[k]["image"] for k in chosen], axis=1)
    text = ", ".join(NAMES[pieces[k]["label"]] for k in chosen)
    return {"__key__": f"{number:06}", "png": image, "txt": text}


def of_the_web(number):
    row = photo(number)
    return {**row, "txt": f"IMG_{number}"} if number % 3 == 0 else row


numbers = fp.from_sequence(range(3000))
fp.write_tar(numbers.map(of_the_web), "shards", rows_per_file=150)
better = numbers.filter(lambda number: number % 3 == 0).map(photo)
fp.write_parquet(better.rename({"txt": "better"}).drop("png"), "captions")

# %% [markdown]
# ## Read them
#
# Files of one name make a row: `000001.png` and `000001.txt`. Nothing is extracted, and nothing is decoded yet.

# %%
photos = fp.read_tar("shards")
for row in photos.head(2):
    print(row["__key__"], row["txt"], len(row["png"]), "bytes of PNG")

# %% [markdown]
# ## Join the better captions
#
# Another model has written captions for the photos that had none. The shards stay as they are: `join` adds the column by
# key, and `"left"` keeps the photos for which there is none. `shuffle` and `join` come before `decode`, so bytes wait in the
# window of the shuffle, not pixels.


# %%
WORDS = ["<pad>", "<begin>", "<end>", ",", *NAMES]


def example(row):
    caption = row["better"] or row["txt"]
    words = ["<begin>", *caption.replace(",", " ,").split(), "<end>"]
    columns = row["png"][..., 0].T.astype("float32") / 255
    return {"image": columns, "words": [WORDS.index(word) for word in words]}


captions = fp.read_parquet("captions")
joined = photos.shuffle(window=1000).join(captions, on="__key__", how="left")
examples = joined.decode(mode="L").map(example)

# %% [markdown]
# ## Batches of about one length
#
# A batch has at most 256 words, padding included: many short captions, or a few long ones. `window=` sorts 500 rows by
# length first. To compare: batches of 32 as they come. The pale area is padding.

# %%
import matplotlib.pyplot as plt

plain = examples.batch(32)
sized = examples.batch_by_size(256, "words", padded=True, window=500)
figure, axes = plt.subplots(1, 2, figsize=(9, 2.4), sharey=True)
padding = []
for axis, batches, title in zip(axes, (plain, sized), ("batch", "batch_by_size")):
    lengths = [[len(row["words"]) for row in batch] for batch in batches.head(12)]
    padded = [max(batch) for batch in lengths for _ in batch]
    real = [length for batch in lengths for length in batch]
    padding.append(1 - sum(real) / sum(padded))
    axis.fill_between(range(len(padded)), padded, step="mid", alpha=0.35)
    axis.fill_between(range(len(real)), real, step="mid")
    axis.set(title=f"{title}: {padding[-1]:.0%} padding", xlabel="photo")
axes[0].set_ylabel("words")


# %% [markdown]
# ## Train
#
# A small transformer writes the caption word by word and looks at the pieces of the photo.

# %%
import torch
import torch.nn.functional as F


class Writer(torch.nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.eye = torch.nn.Linear(28 * 28, width)
        self.word = torch.nn.Embedding(len(WORDS), width)
        self.place = torch.nn.Embedding(16, width)
        self.layer = torch.nn.TransformerDecoderLayer(
            width, 4, 2 * width, 0.0, batch_first=True, norm_first=True
        )
        self.scores = torch.nn.Linear(width, len(WORDS))

    def forward(self, image, words):
        parts = image.unflatten(1, (-1, 28)).flatten(2)
        seen = F.relu(self.eye(parts)) + self.place.weight[: parts.shape[1]]
        said = self.word(words) + self.place.weight[: words.shape[1]]
        later = torch.ones(words.shape[1], words.shape[1], dtype=torch.bool).triu(1)
        return self.scores(self.layer(said, seen, tgt_mask=later))


pipe = sized.pad_batch(columns=["image", "words"]).collate()
torch.manual_seed(0)
model = Writer()
optimizer = torch.optim.Adam(model.parameters(), 4e-3)
losses = []
for batch in fp.Loader(pipe.repeat(), seed=3, steps=300):
    words = batch["words"]
    scores = model(batch["image"], words[:, :-1])
    loss = F.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten(), ignore_index=0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss {losses[0]:.2f} at first, {np.mean(losses[-20:]):.2f} at the end")

# %% [markdown]
# ## What it writes
#
# Captions of four photos that are not in the shards.


# %%
def write(image):
    words = torch.tensor([[WORDS.index("<begin>")]])
    while words[0, -1] != WORDS.index("<end>") and words.shape[1] < 14:
        best = model(image[None], words)[:, -1:].argmax(2)
        words = torch.cat([words, best], 1)
    return " ".join(WORDS[k] for k in words[0, 1:-1]).replace(" ,", ",")


unseen = [photo(number) for number in (10_000, 10_006, 10_003, 10_004)]
figure, axes = plt.subplots(2, 2, figsize=(9, 2.6))
for axis, row in zip(axes.flat, unseen):
    caption = write(torch.from_numpy(row["png"].T / np.float32(255)))
    axis.imshow(row["png"], cmap="gray")
    axis.set_title(caption, fontsize=8)
    axis.set_axis_off()
right = sum(
    write(torch.from_numpy(row["png"].T / np.float32(255))) == row["txt"]
    for row in map(photo, range(20_000, 20_100))
)
print(f"{right} of 100 captions are right in every word")

# %% [markdown]
# ## Stop and resume
#
# The state holds, for each part of the data, the byte in a shard at which a row begins. A new loader seeks to it: the
# photos before it are neither read nor decoded again, but for those in the two windows.

# %%
stopped = fp.Loader(pipe, seed=4)
batches = iter(stopped)
for _ in range(20):
    next(batches)
state = stopped.state_dict()
expected = next(batches)

resumed = fp.Loader(pipe, seed=4)
resumed.load_state_dict(state)
again = next(iter(resumed))
assert all(torch.equal(again[name], expected[name]) for name in again)
assert padding[1] < padding[0] / 3 and right > 25

# %% [markdown]
# ## Next
#
# - Captions in packs of one length, for a language model: [`pack`](../reference/operators/pack.md).
# - A photo that cannot be decoded: `decode(on_error="skip")`, in [rows that fail](../guides/rows-that-fail.md).
# - Shards on S3, with copies on this machine: [files on a server](../guides/remote.md).
# - What WebDataset calls it: [coming from WebDataset](../guides/from-webdataset.md).
