"""tf.data's `map(num_parallel_calls=n)`, which calls Python by `numpy_function`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .concurrency_tasks import timed, wait


def measure(rows: int, threads: int) -> dict[str, Any]:
    def call(number: Any) -> Any:
        return tf.numpy_function(wait, [number], tf.int64)

    dataset = tf.data.Dataset.range(rows).map(call, num_parallel_calls=threads, deterministic=True)
    return timed(dataset.as_numpy_iterator, rows, threads)
