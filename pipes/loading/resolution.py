"""Listings, types and units of files, from the rank that read them to the other ranks of its job."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from hashlib import blake2b
from typing import Any, cast

from ..core.graph import Node, walk
from ..core.operator import Operator

MAX_PICKLED = 2**28
"""An operator that takes more bytes than this, such as one with data in memory, is resolved by each rank itself."""


def files_digest(root: Node) -> bytes:
    """A digest of the operators whose listing, types or units one rank may fix for all.

    Ranks that have the same digest see the same files: paths and options are part of it. Functions of the user are not.
    """
    digest = blake2b(digest_size=16)
    for number, op in _operators(root):
        digest.update(f"{number} {op.kind} ".encode())
        digest.update(_pickled(op) or b"")
    return digest.digest()


def packed_fields(root: Node, resolved: Node) -> bytes:
    """The fields that `resolve` fixed in the operators of the graph `root`, for `resolved_operators`."""
    ops = [node.op for node in walk(resolved)]
    packed: dict[int, bytes] = {}
    for number, op in _operators(root):
        fixed = {f.name: getattr(ops[number], f.name) for f in fields(op) if f.init} if ops[number] is not op else {}
        changed = {name: value for name, value in fixed.items() if value is not getattr(op, name)}
        if changed and _pickled(op) is not None:
            try:
                packed[number] = pickle.dumps(changed)
            except Exception:  # such as a file system of the user; each rank then looks at the files itself
                continue
    return pickle.dumps(packed)


def resolved_operators(root: Node, packed: bytes) -> Mapping[Node, Operator]:
    """The operators of the graph `root` that another rank has resolved."""
    nodes = list(walk(root))
    contents: dict[int, bytes] = pickle.loads(packed)
    return {nodes[n]: _with_fields(nodes[n].op, pickle.loads(content)) for n, content in contents.items()}


def _with_fields(op: Any, changed: dict[str, object]) -> Operator:
    return cast("Operator", replace(op, **changed))


def _operators(root: Node) -> Iterator[tuple[int, Any]]:
    """The operators that `resolve` may change, with their numbers. All are dataclasses."""
    for number, node in enumerate(walk(root)):
        if type(node.op).resolve is not Operator.resolve:
            yield number, node.op


def _pickled(op: Operator) -> bytes | None:
    """The pickle of an operator; None if it has none, or holds data."""
    content = _Limited()
    try:
        pickle.Pickler(content, 5, buffer_callback=_refuse).dump(op)
    except Exception:  # whatever the user's classes raise
        return None
    return content.getvalue()


def _refuse(buffer: pickle.PickleBuffer) -> None:
    raise ValueError("an operator with arrays in it says more than which files it reads")


class _Limited(io.BytesIO):
    def write(self, content: Any) -> int:
        if self.tell() + len(content) > MAX_PICKLED:
            raise ValueError("the operator is too large")
        return super().write(content)
