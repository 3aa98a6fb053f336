"""Runs `collate` in this process, and as a worker does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

import feedpipe as fp

from ...support.core import sent
from ...support.engine import bind, elements, resolve
from ...support.services import Packer, unpack_body


@dataclasses.dataclass
class Plain:
    x: int


def as_sent(pipe: Any) -> list[Any]:
    """The elements that arrive from a worker."""
    packer = Packer()
    packed = (packer.pack(batch) for batch in elements(bind(resolve(sent(pipe)))))
    return [unpack_body(b"".join(each.body()), each.sizes) for each in packed]


here_and_sent = pytest.mark.parametrize("run", [list, as_sent])
"""Runs a pipe in this process, and as a worker does."""


Runs = Callable[[Any], list[Any]]


def collated(rows: Sequence[Any], run: Runs = list, **options: Any) -> Any:
    (batch,) = run(fp.from_sequence(rows).batch(len(rows)).collate(**options))
    return batch


def table(columns: dict[str, Any], size: int | None = None, **options: Any) -> Any:
    data = pa.table(columns)
    return fp.from_table(data).batch(size or data.num_rows).collate(**options)
