"""`video_info` and `frames`: frames of videos by their numbers, by PyAV."""

from __future__ import annotations

import io
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.checks import Package, check_int
from ..formats.streams import MAX_ROW_BYTES

PACKAGE = Package("av", "av", "video", "Videos are decoded")


class VideoInfo(NamedTuple):
    """The head of a video.

    Attributes:
        frames: their number.
        rate: frames per second, on average; 0 if the file does not tell.
        shape: height and width of a frame.
    """

    frames: int
    rate: float
    shape: tuple[int, int]


def video_info(data: bytes | str | os.PathLike[str]) -> VideoInfo:
    """Read the head of a video, and count its frames without decoding them.

    Args:
        data: the bytes of the file, or the path of a local one.

    Raises:
        ArgumentError: PyAV is not installed; `pip install 'feedpipe[video]'` installs it.
        ValueError: the bytes are no video, or are damaged.

    Example:
        >>> import av, feedpipe as fp, numpy as np
        >>> with av.open("a.mp4", "w") as file:
        ...     stream = file.add_stream("mpeg4", rate=25)
        ...     stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        ...     for k in range(10):
        ...         frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 20 * k, np.uint8))
        ...         file.mux(stream.encode(frame))
        ...     file.mux(stream.encode())
        >>> fp.media.video_info("a.mp4")
        VideoInfo(frames=10, rate=25.0, shape=(48, 64))
        >>> fp.media.frames("a.mp4", 4, 3).shape
        (3, 48, 64, 3)
    """
    with _opened(data) as (container, stream):
        shape = stream.codec_context.height, stream.codec_context.width
        return VideoInfo(len(_stamps(container, stream)), float(stream.average_rate or 0), shape)


def frame_times(data: bytes | str | os.PathLike[str]) -> npt.NDArray[np.float64]:
    """Return the time of each frame of a video in seconds, as it is shown, without decoding them.

    Frames are those of `frames`, by their numbers: the frame that is shown at 2 s has the number
    `np.searchsorted(times, 2.0, "right") - 1`, whether or not the frame rate varies.

    Args:
        data: the bytes of the file, or the path of a local one.

    Raises:
        ArgumentError: PyAV is not installed; `pip install 'feedpipe[video]'` installs it.
        ValueError: the bytes are no video, or are damaged.

    Of the video in the example of `video_info`, the times are 0, 0.04, 0.08 and so on.
    """
    with _opened(data) as (container, stream):
        return np.array(_stamps(container, stream), np.float64) * float(stream.time_base)


def frames(data: bytes | str | os.PathLike[str], start: int, count: int, *, step: int = 1) -> npt.NDArray[np.uint8]:
    """Decode frames of a video, as a uint8 array of `count` x height x width x 3.

    Frames are numbered by their time stamps, whatever their order in the file. The video is sought, and each frame
    checked by its stamp; if seeking missed, it is decoded from its beginning. A rotation in the file is not applied.

    Args:
        data: the bytes of the file, or the path of a local one.
        start: the number of the first frame.
        count: the number of frames.
        step: takes each frame (1), every second (2), and so on.

    Raises:
        ArgumentError: PyAV is not installed; `start` is below 0, `count` or `step` below 1.
        ValueError: the bytes are no video, or are damaged; the clip ends beyond the end of the video, or takes more
            than 2 GiB.

    The example of `video_info` takes frames.
    """
    start = check_int("start", start, least=0)
    count, step = check_int("count", count, least=1), check_int("step", step, least=1)
    with _opened(data) as (container, stream):
        stamps = _stamps(container, stream)
        last = start + (count - 1) * step
        if last >= len(stamps):
            raise ValueError(f"frames {start} to {last} were asked for, and there are {len(stamps)}")
        size = count * stream.codec_context.height * stream.codec_context.width * 3
        if size > MAX_ROW_BYTES:
            raise ValueError(f"{count} frames take {size} bytes, and {MAX_ROW_BYTES} are most")
        targets = stamps[start : last + 1 : step]
        if (pictures := _decoded(container, stream, targets, stamps[start])) is not None:
            return pictures
    with _opened(data) as (container, stream):
        if (pictures := _decoded(container, stream, targets, None)) is None:
            raise ValueError(f"it is damaged: frames {start} to {last} cannot all be decoded")
        return pictures


@contextmanager
def _opened(data: bytes | str | os.PathLike[str]) -> Generator[tuple[Any, Any]]:
    """Open a video, and its first stream of frames."""
    av = PACKAGE.load()
    try:
        with av.open(io.BytesIO(data) if isinstance(data, bytes) else os.fspath(data)) as container:
            if not container.streams.video:
                raise ValueError("it has no stream of video")
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1  # workers decode side by side
            yield container, stream
    except av.error.FFmpegError as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"it is no video, or is damaged: {error.strerror or error}") from error


def _stamps(container: Any, stream: Any) -> list[int]:
    """The time stamps of all frames, in order, from the heads of packets."""
    stamps: list[int] = []
    for packet in container.demux(stream):
        stamp = packet.dts if packet.pts is None else packet.pts
        if stamp is not None and packet.size and not packet.is_discard:
            stamps.append(stamp)
    return sorted(stamps)


def _decoded(container: Any, stream: Any, targets: Sequence[int], at: int | None) -> npt.NDArray[np.uint8] | None:
    """Decode the frames with these time stamps; None if one is missed.

    Args:
        container, stream: the video; without `at` not read yet.
        targets: rise.
        at: the time stamp to seek; None to decode from the beginning.
    """
    if at is not None:
        container.seek(at, stream=stream)
    height, width = stream.codec_context.height, stream.codec_context.width
    # Kept for all frames: a new one for each takes ten times as long for small frames, and starts threads.
    reformatter = PACKAGE.load().video.reformatter.VideoReformatter()
    pictures: list[npt.NDArray[np.uint8]] = []
    for frame in container.decode(stream):
        stamp = frame.dts if frame.pts is None else frame.pts
        if stamp == targets[len(pictures)]:
            pictures.append(reformatter.reformat(frame, width, height, "rgb24", threads=1).to_ndarray())
            if len(pictures) == len(targets):
                return np.stack(pictures)
        elif stamp is not None and stamp > targets[len(pictures)]:
            return None
    return None
