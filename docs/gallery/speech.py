# %% [markdown]
# # Speech: windows of recordings of any length
#
# Recordings of unequal lengths: training on windows of a second, of which only the samples are decoded, a test on whole
# recordings, padded, and a resume in the middle of a recording.
#
# **You need** torch, soundfile and Matplotlib. **It takes** about 6 seconds.

# %% [markdown]
# ## The data
#
# What telephones say, in English by Allison Smith and in French by June Wallack (CC BY-SA 3.0), from Debian's packages
# `asterisk-core-sounds-en-wav` and `asterisk-core-sounds-fr-wav`. If they are not installed, this makes vowels of two
# voices.

# %%
from pathlib import Path

import numpy as np
import soundfile

import feedpipe as fp

RATE = 8000  # samples per second
VOICES = ["en_US_f_Allison", "fr_CA_f_June"]
VOWELS = [(800, 1200), (500, 1900), (300, 2300), (500, 900), (350, 700)]
sounds = Path("/usr/share/asterisk/sounds")


def vowel(voice, rng):
    pitch = np.linspace(*rng.uniform(170, 230, 2), rng.integers(1000, 2500))
    tones = np.arange(1, 16)[:, None] * pitch * (1 + 0.2 * voice)
    formants = np.array(VOWELS[rng.integers(5)]) * (1 + 0.1 * voice)
    loud = sum(np.exp(-(((tones - formant) / 150) ** 2)) for formant in formants)
    wave = (loud * np.sin(2 * np.pi * tones.cumsum(1) / RATE)).sum(0)
    return np.concatenate([wave * np.hanning(wave.size), np.zeros(400)])


if not all((sounds / voice).is_dir() for voice in VOICES):
    sounds = Path("sounds")
    rng = np.random.default_rng(0)
    for number in range(400):
        voice = number % 2
        sound = [vowel(voice, rng) for _ in range(1 + rng.geometric(0.15))]
        file = sounds / VOICES[voice] / f"{number}.wav"
        file.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(file, 0.1 * np.concatenate(sound), RATE)

# %% [markdown]
# ## Recordings, by their heads
#
# `audio_info` reads the head of a file: no sample is decoded to learn how long it is. A recording is in one part, training
# or test, with all its windows.


# %%
def head(file):
    info = fp.media.audio_info(file)
    label = int(VOICES[1] in file)
    return {"file": file, "label": label, "samples": info.frames}


paths = [str(path) for voice in VOICES for path in (sounds / voice).rglob("*.wav")]
paths = [path for path in sorted(paths) if "/silence/" not in path]
recordings = fp.from_sequence(paths).map(head)
parts = recordings.split({"train": 0.8, "test": 0.2}, stratify="label")

# %%
import matplotlib.pyplot as plt

seconds = np.array([row["samples"] for row in recordings]) / RATE
print(len(seconds), f"recordings, {seconds.sum() / 60:.0f} minutes")
print(f"the shortest {seconds.min():.1f} s, the longest {seconds.max():.0f} s")
figure, axis = plt.subplots(figsize=(6, 2))
axis.hist(seconds, np.geomspace(0.2, 80, 40))
axis.set(title="Recordings", xlabel="seconds", xscale="log")

# %% [markdown]
# ## Windows
#
# `flat_map` makes of a recording the places of its windows: a long recording gives many. They are shuffled as places, a few
# bytes each. Then `audio` decodes one second of the file, not the rest.
#
# A spectrogram is made of a whole batch at once.

# %%
import torch


def windows(row):
    for start in range(0, row["samples"] - RATE + 1, RATE // 2):
        yield {"file": row["file"], "label": row["label"], "start": start}


def decoded(row, rng):
    sound = fp.media.audio(row["file"], row["start"], RATE)[:, 0]
    loudness = np.float32(rng.uniform(0.3, 1))
    return {"sound": loudness * sound, "label": row["label"]}


def spectrogram(batch):
    hann = torch.hann_window(256)
    waves = torch.stft(batch["sound"], 256, 80, window=hann, return_complex=True)
    return {**batch, "bands": torch.log(waves.abs() + 1e-3)}


places = parts["train"].shuffle().flat_map(windows).shuffle(window=1000)
batches = places.map(decoded, rng=True).batch(32).collate()
train = batches.map(spectrogram)
train.explain()

# %% [markdown]
# ## Whole recordings
#
# For the test, recordings of about one length make a batch of at most 80 seconds, padding included. `lengths=` keeps the
# number of samples of each.


# %%
def whole(row):
    return {"sound": fp.media.audio(row["file"])[:, 0], "label": row["label"]}


sized = (
    parts["test"].map(whole).batch_by_size(80 * RATE, "sound", padded=True, window=300)
)
test = sized.pad_batch(columns=["sound"], lengths="samples").collate().map(spectrogram)
for batch in test.head(3):
    print(tuple(batch["sound"].shape), "samples;", tuple(batch["bands"].shape), "bands")

# %% [markdown]
# ## Train
#
# A convolution over time gives a score for each hundredth of a second, and the mean of them is that of the recording. Each
# language has one voice here, so the model learns the voice as well.

# %%
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.BatchNorm1d(129),
    torch.nn.Conv1d(129, 32, 5, padding=2),
    torch.nn.ReLU(),
    torch.nn.Conv1d(32, 1, 5, padding=2),
)
optimizer = torch.optim.Adam(model.parameters(), 2e-3)
loader = fp.Loader(train, seed=3)
losses = []
for _ in range(2):
    for batch in loader:
        score = model(batch["bands"])[:, 0].mean(1)
        loss = F.binary_cross_entropy_with_logits(score, batch["label"].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
model.eval()
right = []
for batch in fp.Loader(test):
    scores = model(batch["bands"])[:, 0]
    inside = torch.arange(scores.shape[1]) <= batch["samples"][:, None] // 80
    mean = (scores * inside).sum(1) / inside.sum(1)
    right += ((mean > 0) == batch["label"]).tolist()
print(f"loss {losses[0]:.2f} at first, {np.mean(losses[-20:]):.2f} at the end")
print(f"{np.mean(right):.0%} of {len(right)} recordings of the test are right")

# %% [markdown]
# ## Look at what it hears

# %%
rows = list(parts["test"].filter(lambda row: 3 * RATE < row["samples"] < 4 * RATE))
figure, axes = plt.subplots(2, 2, figsize=(9, 3.4), sharex="col")
for above, below, label in zip(*axes, (0, 1)):
    row = next(row for row in rows if row["label"] == label)
    sound = torch.from_numpy(whole(row)["sound"])[None]
    bands = spectrogram({"sound": sound})["bands"]
    extent = (0, row["samples"] / RATE, 0, RATE / 2000)
    above.imshow(bands[0].numpy(), aspect="auto", origin="lower", extent=extent)
    above.set_title(VOICES[label])
    score = torch.sigmoid(model(bands))[0, 0].detach()
    below.plot(np.linspace(*extent[:2], len(score)), score, linewidth=1)
    below.set(ylim=(0, 1), xlabel="seconds")
axes[0, 0].set_ylabel("kHz")
axes[1, 0].set_ylabel("French")

# %% [markdown]
# ## Stop and resume
#
# The place is a recording and a window in it. A resume makes the places of the recordings in the window of the shuffle
# once more, which decodes nothing, and goes on with the very next second.

# %%
stopped = fp.Loader(train, seed=4)
batches = iter(stopped)
for _ in range(10):
    next(batches)
state = stopped.state_dict()
expected = next(batches)

resumed = fp.Loader(train, seed=4)
resumed.load_state_dict(state)
assert torch.equal(next(iter(resumed))["bands"], expected["bands"])
assert np.mean(right) > 0.85

# %% [markdown]
# ## Next
#
# - Recordings on a server: `fp.read_bytes(url)`, and `audio(row["bytes"], start, count)`: [files on a server](../guides/remote.md).
# - Recordings in tar files: `fp.read_tar(...).decode(audio="numpy")`, as in [images with captions](captions.md).
# - Formats, and what decodes them: [video and audio](../reference/formats.md#video-and-audio).
