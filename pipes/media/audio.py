"""`audio_info` and `audio`: segments of audio files, by soundfile."""

from __future__ import annotations

import io
import os
from typing import IO, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..core.checks import Package, check_int

PACKAGE = Package("soundfile", "soundfile", "audio", "Audio is decoded")

_DECODED_WHOLE = ("MP3",)  # a segment that is sought differs from the same part of the whole


class AudioInfo(NamedTuple):
    """The head of an audio file.

    Attributes:
        frames: the number of samples of each channel.
        rate: samples per second.
        channels: their number.
    """

    frames: int
    rate: int
    channels: int


def audio_info(data: bytes | str | os.PathLike[str]) -> AudioInfo:
    """Read the head of an audio file: wav, flac, ogg, mp3, or what else libsndfile reads.

    Args:
        data: the bytes of the file, or the path of a local one.

    Raises:
        ArgumentError: soundfile is not installed; `pip install 'feedpipe[audio]'` installs it.
        ValueError: the bytes are no audio, or are damaged.

    Example:
        >>> import feedpipe as fp, numpy as np, soundfile
        >>> soundfile.write("a.wav", np.zeros((16_000, 2)), 8_000)
        >>> fp.media.audio_info("a.wav")
        AudioInfo(frames=16000, rate=8000, channels=2)
    """
    with _opened(data) as file, _sound(file) as sound:
        return AudioInfo(sound.frames, sound.samplerate, sound.channels)


def audio(data: bytes | str | os.PathLike[str], start: int = 0, count: int | None = None) -> npt.NDArray[np.float32]:
    """Decode a segment of an audio file, as a float32 array of `count` x channels.

    The segment is the same part of the whole, sample by sample. Of wav, flac and ogg only the segment is decoded; mp3
    is decoded whole.

    Args:
        data: the bytes of the file, or the path of a local one.
        start: the first sample.
        count: the number of samples; None for all up to the end.

    Raises:
        ArgumentError: soundfile is not installed; `start` is below 0, or `count` below 1.
        ValueError: the bytes are no audio, or are damaged; the segment ends beyond the end of the file.

    Example:
        >>> import feedpipe as fp, numpy as np, soundfile
        >>> soundfile.write("a.wav", np.linspace(0, 0.5, 8_000), 8_000)
        >>> def clip(row, rng):
        ...     start = int(rng.integers(fp.media.audio_info(row["bytes"]).frames - 4_000))
        ...     return {"clip": fp.media.audio(row["bytes"], start, 4_000)}
        >>> fp.read_bytes("a.wav").map(clip, rng=True)[0]["clip"].shape
        (4000, 1)
    """
    start = check_int("start", start, least=0)
    count = None if count is None else check_int("count", count, least=1)
    with _opened(data) as file, _sound(file) as sound:
        whole = sound.format in _DECODED_WHOLE
        end = sound.frames if count is None else start + count
        if start > sound.frames or end > sound.frames:
            raise ValueError(f"samples {start} to {end} were asked for, and there are {sound.frames}")
        try:
            if not whole:
                sound.seek(start)
            samples = sound.read(-1 if whole else end - start, dtype="float32", always_2d=True)
        except Exception as error:
            raise ValueError(f"it is damaged: {error}") from error
    samples = samples[start:end] if whole else samples
    if len(samples) < end - start:
        raise ValueError(f"it is cut short: samples {start} to {end} were asked for, and {len(samples)} came")
    return cast("npt.NDArray[np.float32]", samples)


def _opened(data: bytes | str | os.PathLike[str]) -> IO[bytes]:
    return io.BytesIO(data) if isinstance(data, bytes) else open(data, "rb")


def _sound(file: IO[bytes]) -> Any:
    try:
        return PACKAGE.load().SoundFile(file)
    except RuntimeError as error:  # that of libsndfile
        raise ValueError(f"it is no audio, or is damaged: {error}") from error
