"""Tells exceptions of signal handlers, which may come at any line, from those of the line itself."""

from __future__ import annotations

from types import FrameType


def raised_by_signal_handler(error: BaseException) -> bool:
    """Whether a Python signal handler raised `error`: it was called with the frame that the signal interrupted."""
    interrupted: FrameType | None = None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if interrupted is not None and any(_is_or_holds(value, interrupted) for value in frame.f_locals.values()):
            return True
        interrupted, trace = frame, trace.tb_next
    return False


def _is_or_holds(value: object, frame: FrameType) -> bool:
    return value is frame or (isinstance(value, tuple) and any(item is frame for item in value))  # a handler's `*args`
