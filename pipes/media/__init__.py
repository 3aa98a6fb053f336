"""Frames of videos and segments of audio files: pure functions for `map`, so that a clip depends on its row alone.

For images, the crops of `decode`.
"""

from .audio import AudioInfo as AudioInfo
from .audio import audio as audio
from .audio import audio_info as audio_info
from .images import CenterCrop as CenterCrop
from .images import RandomResizedCrop as RandomResizedCrop
from .video import VideoInfo as VideoInfo
from .video import frame_times as frame_times
from .video import frames as frames
from .video import video_info as video_info

__all__ = [
    "AudioInfo",
    "CenterCrop",
    "RandomResizedCrop",
    "VideoInfo",
    "audio",
    "audio_info",
    "frame_times",
    "frames",
    "video_info",
]
