"""Ours: lines in batches, with what is set by default."""

from __future__ import annotations

from typing import Any

import feedpipe as fp

from .s3_tasks import name, timed


def measure(endpoint: str, slow: str, objects: int, latency: bool) -> dict[str, Any]:
    options = f"?endpoint_override={slow if latency else endpoint}&scheme=http&region=us-east-1"
    with_key = "s3://testing:testing@"
    paths = [f"{with_key}{name(number)}{options}" for number in range(objects)]
    return timed(lambda: fp.Loader(fp.read_lines(paths).batch(1024)))
