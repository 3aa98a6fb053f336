"""Pipes of few numbers, and a state as a checkpoint keeps it."""

from __future__ import annotations

import json

import feedpipe as fp


def numbers(count: int = 12) -> fp.Pipe[int]:
    return fp.from_sequence(range(count))


def streamed(count: int = 12) -> fp.Pipe[int]:
    return numbers(count).filter(lambda x: True)


def saved(loader: fp.Loader[object]) -> dict[str, object]:
    return json.loads(json.dumps(loader.state_dict()))
