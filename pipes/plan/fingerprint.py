"""What of a graph a state depends on."""

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

    Functions count by module and qualified name; their code does not, nor do storage roots, workers or prefetch.
    """
    found: list[Json] = []
    number: dict[Node, int] = {}
    for node in walk(root):
        if node.op.transparent:
            number[node] = number[node.inputs[0]]
            continue
        number[node] = len(found)
        entry: list[Json] = [_call(node.op), [number[child] for child in node.inputs], node.op.identity()]
        found.append(entry)
    return found


def code_digest(root: Node) -> str:
    """A digest of the code of the user's functions: a change is worth a warning."""
    digest = hashlib.blake2b(digest_size=8)
    for node in walk(root):
        for value in _arguments(node.op).values():
            code = getattr(_plain(value), "__code__", None)
            if isinstance(code, CodeType):
                _update(digest, code)
    return digest.hexdigest()


def differences(saved: list[Json], now: list[Json]) -> list[str]:
    """How two fingerprints differ, a line each."""
    lines: list[str] = []
    if len(saved) != len(now):
        lines.append(f"the pipe had {len(saved)} operators and now has {len(now)}")
    for was, entry in zip(saved, now, strict=False):
        if json.dumps(was) != json.dumps(entry):
            lines.append(f"{_words(was)} is now {_words(entry)}")
    return lines


def _words(entry: Json) -> str:
    call, _, identity = cast("tuple[str, Json, Json]", entry)
    return f"`{call}`" + (f" with {json.dumps(identity)}" if identity is not None else "")


def _call(op: Operator) -> str:
    named = [
        f"{name}={_name(value) if callable(value) else value_code(value)}" for name, value in _arguments(op).items()
    ]
    return f"{op.kind}({', '.join(named)})"


def _arguments(op: Operator) -> dict[str, object]:
    fields = dataclasses.fields(op)  # type: ignore[arg-type]
    return {f.name: getattr(op, f.name) for f in fields if f.init and f.repr}


def _plain(value: object) -> object:
    while isinstance(value, functools.partial):
        value = value.func
    return value


def _name(function: object) -> str:
    function = _plain(function)
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
