"""`feedpipe.media`: segments of audio files are the same parts of the whole; `decode(audio=)`."""

from __future__ import annotations

import io
import random
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import feedpipe as fp
from feedpipe import media
from feedpipe.errors import ArgumentError, RowError

FRAMES = 40_000


@lru_cache
def sound(form: str) -> bytes:
    import soundfile

    times = np.arange(FRAMES) / 8_000
    samples = np.stack([np.sin(440 * times), np.sin(660 * times) / 2], axis=1)
    sink = io.BytesIO()
    soundfile.write(sink, samples, 8_000, format=form)
    return sink.getvalue()


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "MP3"])
def test_segments_are_parts_of_the_whole(form: str, tmp_path: Path) -> None:
    data, rng = sound(form), random.Random(1)
    info = media.audio_info(data)
    assert info.rate == 8_000 and info.channels == 2 and info.frames >= FRAMES
    whole = media.audio(data)
    assert whole.dtype == np.float32 and whole.shape == (info.frames, 2)
    for _ in range(10):
        start, count = rng.randrange(info.frames - 3_000), rng.randrange(1, 3_000)
        assert np.array_equal(media.audio(data, start, count), whole[start : start + count])
    assert np.array_equal(media.audio(data, 1_000), whole[1_000:])
    assert media.audio(data, info.frames).shape == (0, 2)
    path = tmp_path / "a"
    path.write_bytes(data)
    assert media.audio_info(path) == info and np.array_equal(media.audio(str(path), 7, 9), whole[7:16])


def test_wrong_arguments_and_files(tmp_path: Path) -> None:
    data = sound("WAV")
    for start, count in ((FRAMES + 1, None), (FRAMES, 1), (0, FRAMES + 1)):
        with pytest.raises(ValueError, match=f"were asked for, and there are {FRAMES}"):
            media.audio(data, start, count)
    for start, count in ((-1, None), (0, 0)):
        with pytest.raises(ArgumentError, match="must be >="):
            media.audio(data, start, count)
    for broken in (b"", b"hello" * 100):
        with pytest.raises(ValueError, match="it is no audio, or is damaged: "):
            media.audio(broken)
    with pytest.raises(FileNotFoundError):
        media.audio(tmp_path / "none.wav")


def test_decode(tmp_path: Path) -> None:
    rows = fp.from_sequence([{"wav": sound("WAV"), "x.flac": sound("FLAC"), "cls": b"3", "mp4": b"film"}])
    assert rows.decode()[0]["wav"] == sound("WAV")
    row = rows.decode(audio="numpy")[0]
    assert np.array_equal(row["wav"], media.audio(sound("WAV"))) and np.array_equal(
        row["x.flac"], media.audio(sound("FLAC"))
    )
    assert (row["cls"], row["mp4"]) == (3, b"film")
    assert repr(rows.decode(audio="numpy")).endswith(".decode(audio='numpy')")
    (tmp_path / "a.ogg").write_bytes(sound("OGG"))
    assert fp.read_bytes(tmp_path).decode(audio="numpy")[0]["bytes"].shape == (FRAMES, 2)
    with pytest.raises(RowError, match="`wav` cannot be decoded: ValueError: it is no audio, or is damaged"):
        list(fp.from_sequence([{"wav": b"hello"}]).decode(audio="numpy"))
    with pytest.raises(ArgumentError, match="`audio` must be"):
        rows.decode(audio="torch")  # type: ignore[arg-type]
