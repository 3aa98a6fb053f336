"""s3fs by hand: one object after another."""

from __future__ import annotations

from typing import Any

import s3fs

from .s3_tasks import KEY, lines, name, timed


def measure(endpoint: str, slow: str, objects: int, latency: bool) -> dict[str, Any]:
    storage = s3fs.S3FileSystem(
        key=KEY["access_key"],
        secret=KEY["secret_key"],
        endpoint_url=f"http://{slow if latency else endpoint}",
        client_kwargs={"region_name": KEY["region"]},
    )
    return timed(lambda: (lines(storage.cat_file(name(number))) for number in range(objects)))
