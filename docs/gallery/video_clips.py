# %% [markdown]
# # Video: clips, and the cost of seeking
#
# A random clip of each video in each epoch, of which only the needed frames are decoded; what key frames have to do
# with it; a model that sees where things move, and an exact resume.
#
# **You need** torch, PyAV and Matplotlib. **It takes** about 6 seconds.

# %% [markdown]
# ## The data
#
# In each film a piece of clothing moves left, right, up or down. One frame does not tell where to. The pieces are from
# Fashion-MNIST, in Debian's package `dataset-fashion-mnist`. If it is not installed, they are random blocks.

# %%
import gzip
from pathlib import Path

import av
import numpy as np

import feedpipe as fp

WAYS = {"down": (1, 0), "left": (0, -1), "right": (0, 1), "up": (-1, 0)}
FRAMES, SIZE = 90, 48
debian = Path("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")
rng = np.random.default_rng(0)
if debian.is_file():
    pixels = gzip.decompress(debian.read_bytes())
    pieces = list(np.frombuffer(pixels, "u1", offset=16).reshape(-1, 28, 28)[:120])
else:
    pieces = list(np.kron(rng.integers(0, 256, (120, 7, 7)), np.ones((4, 4), int)))


def write_film(path, piece, way, key_every):
    Path(path).parent.mkdir(exist_ok=True)
    picture = np.pad(piece.astype(np.uint8), (0, SIZE - 28))
    picture = np.roll(picture, rng.integers(0, SIZE, 2), (0, 1))
    with av.open(path, "w") as file:
        stream = file.add_stream("mpeg4", rate=25, options={"qscale": "4"})
        stream.width = stream.height = SIZE
        stream.pix_fmt, stream.gop_size = "yuv420p", key_every
        for number in range(FRAMES):
            moved = np.roll(picture, (number * way[0], number * way[1]), (0, 1))
            frame = av.VideoFrame.from_ndarray(moved.repeat(3).reshape(SIZE, SIZE, 3))
            file.mux(stream.encode(frame))
        file.mux(stream.encode())


for number, piece in enumerate(pieces):
    name = list(WAYS)[number % 4]
    write_film(f"films/{name}-{number:03}.mp4", piece, WAYS[name], key_every=12)
print(fp.media.video_info("films/left-001.mp4"))

# %% [markdown]
# ## A clip
#
# A row is a film, as bytes. `frames` decodes eight frames, every second one, from a place that `rng` draws: the place
# belongs to the film and the epoch, so workers and a resume change nothing. A film is in one part, training or test.

# %%
import matplotlib.pyplot as plt

COUNT, STEP = 8, 2


def labelled(row):
    name = Path(row["path"]).name.partition("-")[0]
    return {"film": row["bytes"], "label": list(WAYS).index(name)}


def clip(row, rng):
    last = fp.media.video_info(row["film"]).frames - (COUNT - 1) * STEP
    start = int(rng.integers(last))
    pictures = fp.media.frames(row["film"], start, COUNT, step=STEP)
    return {"clip": pictures[..., 0].astype("float32") / 255, "label": row["label"]}


films = fp.read_bytes("films/*.mp4").map(labelled)
parts = films.split({"train": 0.75, "test": 0.25}, stratify="label")
train = parts["train"].shuffle().map(clip, rng=True).batch(15).collate()
train.explain()

figure, axes = plt.subplots(2, COUNT, figsize=(9, 2.6))
for shown, row in zip(axes, parts["train"].slice(0, 60, 30).map(clip, rng=True)):
    for axis, picture in zip(shown, row["clip"]):
        axis.imshow(picture, cmap="gray")
        axis.set_axis_off()
    shown[0].set_title(list(WAYS)[row["label"]], fontsize=9, loc="left")

# %% [markdown]
# ## The cost of seeking
#
# A frame is stored as what has changed since the frame before, but for key frames. So a clip is decoded from the key frame
# before it. With a key frame every 12 frames that is near; encoders put one every 250 if nobody asks for more.


# %%
def frames_to_decode(path):
    with av.open(path) as file:
        packets = [packet for packet in file.demux(video=0) if packet.size]
    keys = [number for number, packet in enumerate(packets) if packet.is_keyframe]
    starts = np.arange(FRAMES - (COUNT - 1) * STEP)
    before = np.array(keys)[np.searchsorted(keys, starts, "right") - 1]
    return starts - before + (COUNT - 1) * STEP + 1


write_film("rare.mp4", pieces[0], WAYS["down"], key_every=250)
figure, axis = plt.subplots(figsize=(6, 2.4))
costs = []
for path, every in (("films/left-001.mp4", 12), ("rare.mp4", 250)):
    decoded = frames_to_decode(path)
    costs.append(decoded.mean())
    axis.plot(decoded, label=f"a key frame every {every}")
    print(f"every {every:3}: {costs[-1]:.0f} frames on average for a clip of {COUNT}")
axis.set(title="Frames to decode for a clip", xlabel="first frame", ylim=(0, None))
axis.legend(frameon=False)

# %% [markdown]
# Where films have few key frames, decode a film once and take several clips of it: `flat_map` gives them one by one, and
# `shuffle` mixes those of many films.


# %%
def clips(row):
    pictures = fp.media.frames(row["film"], 0, FRAMES)[..., 0]
    for start in range(0, FRAMES - COUNT * STEP, COUNT * STEP):
        part = pictures[start : start + COUNT * STEP : STEP]
        yield {"clip": part.astype("float32") / 255, "label": row["label"]}


several = parts["train"].shuffle().flat_map(clips).shuffle(window=200)
several = several.batch(15).collate()

# %% [markdown]
# ## Train
#
# The same small network twice: once on clips, and once on their first frames alone, repeated.

# %%
import torch
import torch.nn.functional as F


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(COUNT, 32, 7, 3),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 32, 3),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 4),
    )


def still(clips):
    return clips[:, :1].expand_as(clips)


check = fp.Loader(parts["test"].map(clip, rng=True).batch(30).collate()).peek()
figure, axis = plt.subplots(figsize=(6, 2.4))
accuracy = {}
loader = fp.Loader(several, seed=3, steps=120)
for name, seen in {"clips": lambda clips: clips, "one frame": still}.items():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 4e-3)
    losses = []
    for batch in loader:
        loss = F.cross_entropy(model(seen(batch["clip"])), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    guess = model(seen(check["clip"])).argmax(1)
    accuracy[name] = (guess == check["label"]).float().mean().item()
    print(f"{name}: {accuracy[name]:.0%} of the films of the test are right")
    axis.plot(losses, label=name)
axis.set(title="Loss", xlabel="step")
axis.legend(frameon=False)

# %% [markdown]
# ## Stop and resume
#
# Of random clips, the state is a position: nothing is decoded again. Of several clips of a film, it is a position and the
# number of clips that were taken: one film is decoded again, and the very next clip comes.

# %%
for pipe in (train, several):
    stopped = fp.Loader(pipe, seed=4)
    batches = iter(stopped)
    for _ in range(4):
        next(batches)
    state = stopped.state_dict()
    expected = next(batches)

    resumed = fp.Loader(pipe, seed=4)
    resumed.load_state_dict(state)
    assert torch.equal(next(iter(resumed))["clip"], expected["clip"])
assert accuracy["clips"] > 0.7 and accuracy["one frame"] < 0.6
assert costs[1] > 2 * costs[0]

# %% [markdown]
# ## Next
#
# - Formats that cannot be sought, and how frames are numbered: [video and audio](../reference/formats.md#video-and-audio).
# - Films too large to be read whole: `fp.list_files("films/*.mp4")`, and the path of a local file for `frames`.
# - Decoding takes processors: [workers](../guides/workers.md), and [is my data loading slow?](../guides/slow.md)
