# %% [markdown]
# # Prediction: answers in the order of the files
#
# A trained model predicts for each row of many files. The answers come in the order of the rows, with any number of
# workers, so they go straight into a file beside the input. A job that is stopped goes on where it was.
#
# **You need** torch and Matplotlib. **It takes** about 6 seconds.

# %% [markdown]
# ## The data
#
# Twelve files of JSON lines with points of two classes. Some rows are not finished, and the pipe leaves them out.

# %%
import json
from pathlib import Path

import numpy as np

import feedpipe as fp

FILES, ROWS = 12, 500
rng = np.random.default_rng(0)
for number in range(FILES):
    side = rng.integers(0, 2, ROWS)
    points = rng.normal(0, 0.7, (ROWS, 2)) + np.where(side, 1, -1)[:, None]
    with open(f"points-{number:02}.jsonl", "w") as file:
        for row in range(ROWS):
            x, y = points[row].round(3).tolist()
            ready = bool(rng.random() > 0.1)
            line = {"id": number * ROWS + row, "x": x, "y": y, "ready": ready}
            file.write(json.dumps(line) + "\n")

# %% [markdown]
# ## The pipe
#
# Nothing shuffles, so a loader gives exactly what `for batch in pipe` gives. `explain` says what its workers do.


# %%
def features(row):
    """A slow function of one row, as a tokenizer or a decoder is."""
    position = np.array([row["x"], row["y"]], "float32")
    return {"id": row["id"], "features": np.concatenate([position, position**2])}


rows = fp.read_jsonl("points-*.jsonl").filter(lambda row: row["ready"])
pipe = rows.map(features).batch(64).collate()
pipe.explain(workers=2)

# %% [markdown]
# ## Any number of workers, one order

# %%
expected = [row["id"] for row in rows]
for workers in (0, 1, 2, 3):
    with fp.Loader(pipe, workers=workers) as loader:
        ids = [i for batch in loader for i in batch["id"].tolist()]
    print(f"{workers} workers: {len(ids)} rows, in order: {ids == expected}")
    assert ids == expected

# %% [markdown]
# ## Predict, stop, go on
#
# The answers are appended batch by batch, and the state is saved with them. Here the job stops after 30 batches; the
# next one has another number of workers.

# %%
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
with torch.no_grad():
    model.weight.copy_(torch.tensor([[1.0, 1.0, 0.0, 0.0]]))
    model.bias.zero_()
answers, checkpoint = Path("answers.csv"), Path("state.json")


def predict(workers, most=None):
    with fp.Loader(pipe, workers=workers) as loader, answers.open("a") as file:
        if checkpoint.exists():
            loader.load_state_dict(json.loads(checkpoint.read_text()))
        for number, batch in enumerate(loader, 1):
            with torch.no_grad():
                scores = torch.sigmoid(model(batch["features"])).squeeze(1)
            for i, score in zip(batch["id"].tolist(), scores.tolist(), strict=True):
                file.write(f"{i},{score:.3f}\n")
            if number == most:
                checkpoint.write_text(json.dumps(loader.state_dict()))
                return


predict(workers=2, most=30)
print(len(answers.read_text().splitlines()), "answers before the stop")
predict(workers=3)
lines = answers.read_text().splitlines()
print(len(lines), "answers in all")
assert [int(line.split(",")[0]) for line in lines] == expected

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(5, 2.4))
axis.hist([float(line.split(",")[1]) for line in lines], bins=40, color="#123457")
axis.set_title("Scores of all rows")
axis.set_xlabel("score")
axis.set_ylabel("rows")
assert axis.get_title()

# %% [markdown]
# ## Next
#
# [Ranks and resume](../guides/ranks-and-resume.md) divides the files among several machines, and
# [writing](../guides/writing.md) turns answers into Parquet.
