# %% [markdown]
# # Files on S3, with copies on this machine
#
# Write Parquet files to a bucket and train from it. With a cache, the first epoch fetches what it reads, and no later one
# asks S3 for anything. Stop, lose the copies, and resume.
#
# **You need** torch, Matplotlib and `moto[server]`, a server for S3. **It takes** about 5 seconds.

# %% [markdown]
# ## A bucket
#
# moto is a server for tests, in a thread of this process. With a bucket of your own, leave out this cell and all that is
# said of `bucket`: `s3://name/train` is a path like any other. The handler counts the requests.

# %%
import logging

from moto.server import ThreadedMotoServer
from pyarrow.fs import S3FileSystem


class Counter(logging.Handler):
    count = 0

    def emit(self, record):
        self.count += 1


counter = Counter()
log = logging.getLogger("werkzeug")
log.setLevel("INFO")
log.addHandler(counter)
log.propagate = False
server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
bucket = S3FileSystem(
    access_key="key",
    secret_key="secret",
    region="us-east-1",
    scheme="http",
    endpoint_override=f"{host}:{port}",
    allow_bucket_creation=True,
)
bucket.create_dir("tiles")

# %% [markdown]
# ## The data
#
# 2,400 tiles of a map seen from above, made up, in eight Parquet files: water, forest, fields and towns.

# %%
import matplotlib.pyplot as plt
import numpy as np

import feedpipe as fp

KINDS = ["water", "forest", "field", "town"]
COLOURS = np.array([[60, 90, 130], [60, 100, 70], [130, 130, 80], [120, 110, 110]])
COUNT = 2400


def tiles(seed):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, COUNT)
    rough = np.array([10, 25, 15, 40])[kind, None, None, None]
    light = rng.normal(0, 30, (COUNT, 1, 1, 1))
    image = COLOURS[kind][:, None, None] + light
    image = image + rng.normal(0, 1, (COUNT, 16, 16, 3)) * rough
    return {"image": image.clip(0, 255).astype("uint8"), "kind": kind}


data = tiles(seed=0)
place = {"filesystem": bucket, "rows_per_file": 300, "progress": False}
fp.write_parquet(fp.from_arrays(data), "tiles/train", **place)
figure, axes = plt.subplots(1, 12, figsize=(9, 1.2))
for axis, image, kind in zip(axes, data["image"], data["kind"]):
    axis.imshow(image)
    axis.set_title(KINDS[kind], fontsize=7)
    axis.set_axis_off()

# %% [markdown]
# ## Read them
#
# `FileCache` keeps the blocks of 64 KiB that a reader asks for, up to a limit. Any number of processes, ranks and runs of
# a machine may use one folder.

# %%


def features(columns):
    pixels = columns["image"].astype("float32") / 255
    mean, spread = pixels.mean((1, 2)), pixels.std((1, 2))
    return {"x": np.concatenate([mean, spread], 1), "kind": columns["kind"]}


def training(cache):
    files = "tiles/train/*.parquet"
    rows = fp.read_parquet(files, filesystem=bucket, cache=cache)
    return rows.shuffle(window=500).batch(64).map_columns(features).collate()


# %% [markdown]
# ## Train, without and with a cache

# %%
import torch
import torch.nn.functional as F


def train(pipe):
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    loader = fp.Loader(pipe, seed=1)
    losses, requests = [], []
    for _ in range(4):
        before = counter.count
        for batch in loader:
            loss = F.cross_entropy(model(batch["x"]), batch["kind"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        requests.append(counter.count - before)
    return losses, requests


cache = fp.FileCache("copies", limit="1GiB")
losses, asked = train(training(cache=None))
same, asked_less = train(training(cache))
print("requests in each epoch:", asked, "and with a cache:", asked_less)

figure, axes = plt.subplots(1, 2, figsize=(9, 2.4))
axes[0].plot(losses)
axes[0].set(title="Loss", xlabel="step")
axes[1].bar(np.arange(4) - 0.2, asked, 0.4, label="no cache")
axes[1].bar(np.arange(4) + 0.2, asked_less, 0.4, label="cache")
axes[1].set(title="Requests to S3", xlabel="epoch", xticks=range(4))
axes[1].legend(frameon=False)

# %% [markdown]
# ## Stop, lose the copies, resume
#
# A spot instance comes back with an empty disk. States hold nothing of the copies, so the resume is exact.

# %%
import shutil

stopped = fp.Loader(training(cache), seed=2)
batches = iter(stopped)
for _ in range(20):
    next(batches)
state = stopped.state_dict()
expected = next(batches)
shutil.rmtree("copies")

resumed = fp.Loader(training(cache), seed=2)
resumed.load_state_dict(state)
assert torch.equal(next(iter(resumed))["x"], expected["x"])

# %% [markdown]
# ## A file changes
#
# A pipe looks up the versions of its files when it first opens them. A file that was replaced is fetched again.

# %%
data = tiles(seed=1)
fp.write_parquet(fp.from_arrays(data), "tiles/train", overwrite=True, **place)
files = "tiles/train/*.parquet"
rows = list(fp.read_parquet(files, filesystem=bucket, cache=cache))
assert [row["kind"] for row in rows] == data["kind"].tolist()
assert asked_less[1:] == [0, 0, 0] and same == losses and losses[-1] < 0.5
server.stop()

# %% [markdown]
# ## Next
#
# - What is kept, damage, a full disk: [copies of remote files](../guides/cache.md#copies-of-files).
# - Options, credentials, retries, HDFS: [files on a server](../guides/remote.md).
# - Rows that are slow to make: [`cache`](../reference/operators/cache.md).
