"""The fingerprint of a graph: the operators and arguments that a saved state depends on."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from types import CodeType
from typing import cast

from ..core.code import value_code
from ..core.cursor import Json
from ..core.graph import Node, walk
from ..core.operator import Operator


def fingerprint(root: Node) -> list[Json]:
    """One entry for each operator, inputs first: its call, its inputs, and its identity (lengths, types, digests).

    A function counts by its module and qualified name, not by its code. The root of a storage, workers and prefetch do
    not count.
    """
    entries: list[Json] = []
    number: dict[Node, int] = {}
    for node in walk(root):
        if node.op.transparent:
            number[node] = number[node.inputs[0]]
            continue
        number[node] = len(entries)
        entry: list[Json] = [_call(node.op), [number[child] for child in node.inputs], node.op.identity()]
        entries.append(entry)
    return entries


def code_digest(root: Node) -> str:
    """A digest of the code of the user's functions; `load_state_dict` warns if it has changed."""
    digest = hashlib.blake2b(digest_size=8)
    for node in walk(root):
        for value in _arguments(node.op).values():
            code = getattr(_unwrapped(value), "__code__", None)
            if isinstance(code, CodeType):
                _update(digest, code)
    return digest.hexdigest()


def differences(saved: list[Json], now: list[Json]) -> list[str]:
    """The differences between two fingerprints, a line each."""
    lines: list[str] = []
    if len(saved) != len(now):
        lines.append(f"the pipe had {len(saved)} operators and now has {len(now)}")
    for old, new in zip(saved, now, strict=False):
        if json.dumps(old) != json.dumps(new):
            lines.append(f"{_entry_text(old)} is now {_entry_text(new)}")
    return lines


def _entry_text(entry: Json) -> str:
    call, _, identity = cast("tuple[str, Json, Json]", entry)
    return f"`{call}`" + (f" with {json.dumps(identity)}" if identity is not None else "")


def _call(op: Operator) -> str:
    arguments = [
        f"{name}={_name(value) if callable(value) else value_code(value)}" for name, value in _arguments(op).items()
    ]
    return f"{op.kind}({', '.join(arguments)})"


def _arguments(op: Operator) -> dict[str, object]:
    fields = dataclasses.fields(op)  # type: ignore[arg-type]
    return {f.name: getattr(op, f.name) for f in fields if f.init and f.repr}


def _unwrapped(value: object) -> object:
    """The function in a `functools.partial`."""
    while isinstance(value, functools.partial):
        value = value.func
    return value


def _name(function: object) -> str:
    function = _unwrapped(function)
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _update(digest: hashlib.blake2b, code: CodeType) -> None:
    digest.update(code.co_code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _update(digest, constant)
        else:
            digest.update(repr(constant).encode())
    digest.update(repr(code.co_names).encode())
