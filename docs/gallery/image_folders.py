# %% [markdown]
# # Images in folders
#
# One folder for each class, as for torchvision's `ImageFolder`: divide the images into training and validation, augment
# them, look at a batch, train, stop, and resume.
#
# **You need** torch, Pillow and Matplotlib. **It takes** about 5 seconds.

# %% [markdown]
# ## The data
#
# 1,200 images of Fashion-MNIST, as PNG files in ten folders. Debian's package `dataset-fashion-mnist` has them. If it is
# not installed, this draws shapes.

# %%
import gzip
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import feedpipe as fp

CLASSES = ["T-shirt", "Trousers", "Pullover", "Dress", "Coat"]
CLASSES += ["Sandal", "Shirt", "Sneaker", "Bag", "Boot"]
debian = Path("/usr/share/datasets/fashion-mnist")


def draw(number):
    label = number % 10
    image = Image.new("L", (28, 28))
    circle = (14, 14, 8 + number // 10 % 5)
    ImageDraw.Draw(image).regular_polygon(circle, label + 3, fill=90 + 16 * label)
    return {"image": np.asarray(image), "label": label}


if debian.is_dir():
    pixels = gzip.decompress((debian / "train-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((debian / "train-labels-idx1-ubyte.gz").read_bytes())
    images = np.frombuffer(pixels, "u1", offset=16).reshape(-1, 28, 28)
    source = fp.from_arrays(
        {"image": images, "label": np.frombuffer(labels, "u1", offset=8)}
    )
    source = source.take(1200)
else:
    source = fp.from_sequence(range(1200)).map(draw)

for number, row in enumerate(source):
    folder = Path("clothes", CLASSES[row["label"]])
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(row["image"])).save(folder / f"{number:05}.png")

# %% [markdown]
# ## Read them
#
# A row is a dict. The label is the number of the folder among all folders in sorted order.

# %%
pipe = fp.read_images("clothes", mode="L")
row = pipe[0]
print(len(pipe), "images; the first is a", row["label_name"], row["image"].shape)

# %% [markdown]
# ## Training and validation
#
# `split` with `stratify=` gives each part its share of each class. An image stays in its part in each epoch and run.

# %%
parts = pipe.split({"train": 0.8, "val": 0.2}, stratify="label")
print({name: len(part) for name, part in parts.items()})

# %% [markdown]
# ## Augment and batch
#
# A function that draws takes `rng`. Its draws belong to the image and the epoch, so workers and a resume change nothing.
# `shuffle` comes before the function: only the images of the next batch are read.


# %%
def pixels(row):
    return {
        "image": row["image"][..., 0].astype("float32") / 255,
        "label": row["label"],
    }


def augment(row, rng):
    image = row["image"][:, ::-1] if rng.random() < 0.5 else row["image"]
    top, left = rng.integers(0, 5, 2)
    moved = np.pad(image, 2)[top : top + 28, left : left + 28]
    return {"image": moved.copy(), "label": row["label"]}


shuffled = parts["train"].shuffle().map(pixels).map(augment, rng=True)
train = shuffled.batch(64, drop_last=True).collate()
train.explain()

# %% [markdown]
# ## Look at a batch
#
# The same twelve images in two epochs. Look before you train: a wrong axis or a wrong label shows here.

# %%
import matplotlib.pyplot as plt

some = parts["train"].slice(0, 960, 80).map(pixels).map(augment, rng=True).batch(12)
loader = fp.Loader(some.collate(), seed=7)
figure, axes = plt.subplots(2, 12, figsize=(9, 1.9))
for epoch in range(2):
    batch = next(iter(loader))
    for axis, image, label in zip(axes[epoch], batch["image"].numpy(), batch["label"]):
        axis.imshow(image, cmap="gray")
        axis.set_axis_off()
        if epoch == 0:
            axis.set_title(sorted(CLASSES)[label], fontsize=7)
figure.suptitle("Twelve images: epoch 0 above, epoch 1 below", fontsize=9)

# %% [markdown]
# ## Train
#
# A linear model, for twelve epochs. The accuracy is that on the validation part.

# %%
import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
val = fp.Loader(parts["val"].map(pixels).batch(240).collate()).peek()
loader = fp.Loader(train, seed=7)
losses = []
for epoch in range(12):
    for batch in loader:
        loss = F.cross_entropy(model(batch["image"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    right = (model(val["image"]).argmax(1) == val["label"]).float().mean().item()
    print(f"epoch {epoch}: loss {np.mean(losses[-15:]):.1f}, accuracy {right:.1f}")

figure, axis = plt.subplots(figsize=(6, 2.4))
axis.plot(losses)
axis.set(title="Loss", xlabel="step")

# %% [markdown]
# ## Stop and resume
#
# The state is a small dict of plain JSON. A new loader goes on with the very next batch, augmented in the same way.

# %%
stopped = fp.Loader(train, seed=7)
batches = iter(stopped)
for _ in range(5):
    next(batches)
state = stopped.state_dict()
expected = next(batches)

resumed = fp.Loader(train, seed=7)
resumed.load_state_dict(state)
sixth = next(iter(resumed))
assert torch.equal(sixth["image"], expected["image"])
assert right > 0.5

# %% [markdown]
# ## Next
#
# - Many small files on a server: [copies on this machine](../guides/cache.md), or tar files, written with `fp.write_tar`.
# - Is the GPU waiting? `fp.Loader(train, workers=4)`: [workers](../guides/workers.md).
# - Several GPUs: [ranks](../guides/ranks-and-resume.md).
