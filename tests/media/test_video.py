"""`feedpipe.media`: the right frames of videos, whatever the container does when it seeks."""

from __future__ import annotations

import io
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feedpipe as fp
from feedpipe import media
from feedpipe.errors import ArgumentError

COUNT = 120
FORMS = {
    "mp4": ("mp4", "libx264", False),
    "mp4 without B-frames": ("mp4", "mpeg4", False),
    "mkv of a variable rate": ("matroska", "libx264", True),
    "webm": ("webm", "libvpx", False),
    "avi": ("avi", "mpeg4", False),
    "MPEG-TS": ("mpegts", "libx264", False),
    "MPEG-TS of MPEG-2": ("mpegts", "mpeg2video", False),
}


@lru_cache
def video(form: str, codec: str, varies: bool) -> bytes:
    """A video whose frame k shows the bits of k as bars."""
    import av

    sink, rng, stamp = io.BytesIO(), random.Random(0), 0
    with av.open(sink, "w", format=form) as file:
        stream: Any = file.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.codec_context.gop_size = 128, 64, "yuv420p", 12
        for number in range(COUNT):
            bits = (number >> np.arange(8)) & 1
            picture = np.broadcast_to(np.repeat(bits * 255, 8)[:, None, None], (64, 128, 3)).astype(np.uint8)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture))
            frame.pts = stamp if varies else number
            stamp += rng.choice([1, 2, 3])
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return sink.getvalue()


def numbers(frames: Any) -> list[int]:
    bars = frames[:, 4::8, 64].mean(axis=2) > 128
    return [int(number) for number in bars @ (1 << np.arange(8))]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_clips_are_those_of_the_whole(form: tuple[str, str, bool]) -> None:
    data, rng = video(*form), random.Random(1)
    assert media.video_info(data) == (COUNT, pytest.approx(media.video_info(data).rate), (64, 128))
    assert numbers(media.frames(data, 0, COUNT)) == [*range(COUNT)]
    for _ in range(12):
        step = rng.choice([1, 2, 5])
        start = rng.randrange(COUNT - 7 * step)
        clip = media.frames(data, start, 8, step=step)
        assert (clip.dtype, clip.shape) == (np.uint8, (8, 64, 128, 3))
        assert numbers(clip) == [*range(start, start + 8 * step, step)]


def test_a_path_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(video(*FORMS["mp4"]))
    assert numbers(media.frames(path, 100, 2)) == numbers(media.frames(str(path), 100, 2)) == [100, 101]
    assert media.video_info(path).rate == 25
    with pytest.raises(FileNotFoundError):
        media.video_info(tmp_path / "none.mp4")


def test_a_clip_depends_on_its_row_alone(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.mp4").write_bytes(video(*FORMS["mp4"]))

    def clip(row: Any, rng: np.random.Generator) -> list[int]:
        return numbers(media.frames(row["bytes"], int(rng.integers(COUNT - 3)), 3))

    pipe = fp.read_bytes(tmp_path).map(clip, rng=True)
    with fp.Loader(pipe, seed=5) as here, fp.Loader(pipe, seed=5, workers=2) as loader:
        expected = list(here)
        assert list(loader) == expected and len({tuple(some) for some in expected}) == 3


def test_wrong_arguments_and_files() -> None:
    data = video(*FORMS["mp4"])
    for start, count, step, message in (
        (0, COUNT + 1, 1, f"frames 0 to {COUNT} were asked for, and there are {COUNT}"),
        (COUNT, 1, 1, "there are"),
        (COUNT - 9, 5, 3, "there are"),
    ):
        with pytest.raises(ValueError, match=message):
            media.frames(data, start, count, step=step)
    for start, count, step in ((-1, 1, 1), (0, 0, 1), (0, 1, 0)):
        with pytest.raises(ArgumentError, match="must be >="):
            media.frames(data, start, count, step=step)
    for broken in (b"", b"hello" * 100, data[:100]):
        with pytest.raises(ValueError, match="it is no video, or is damaged: "):
            media.video_info(broken)


def test_a_file_without_frames() -> None:
    import soundfile

    sink = io.BytesIO()
    soundfile.write(sink, np.zeros(800), 8_000, format="WAV")
    with pytest.raises(ValueError, match="it has no stream of video"):
        media.video_info(sink.getvalue())


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_times_tell_the_frame_that_is_shown(form: tuple[str, str, bool]) -> None:
    import av

    data = video(*form)
    times = media.frame_times(data)
    with av.open(io.BytesIO(data)) as file:
        assert times.tolist() == pytest.approx([frame.time for frame in file.decode(video=0)])
    for seconds in (times[0], times[40] + 1e-6, times[-1] + 1):
        number = int(np.searchsorted(times, seconds, "right")) - 1
        assert times[number] <= seconds and numbers(media.frames(data, number, 1)) == [number]
