"""Graphs travel to other processes; in each test, the reader is an interpreter of its own."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import sys
from typing import Any

import numpy as np
import pytest

import feedpipe as fp

from ...support.core import MAX_DEPTH
from ...support.services import early_imports, imports_of, write_graph_file
from .graph_reader import other_process


def test_a_long_chain_fits() -> None:
    pipe: Any = fp.from_sequence([0])
    for _ in range(MAX_DEPTH - 1):
        pipe = pipe.map(abs)
    code = "from feedpipe.core.graph import walk\nprint(sum(1 for _ in walk(content)), type(content).__name__)"
    assert other_process(pipe, code) == f"{MAX_DEPTH} Pipe"


def imports(function):
    """The modules that a worker with a function imports, as the file of its graph tells them."""
    pipe = fp.from_sequence([0]).map(function)
    fd = write_graph_file((pipe, None), pipe)
    try:
        return {
            name for name in imports_of(fd) if name.partition(".")[0] not in ("builtins", "feedpipe", "cloudpickle")
        }
    finally:
        os.close(fd)


def of_a_script(code, **names):
    """A value of a module that other processes cannot import."""
    return eval(code, {"__name__": "script", **names})


def test_the_file_tells_which_modules_its_functions_need(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "user_module.py").write_text("import csv, numpy\ndef function(row): pass\n")
    module = importlib.import_module("user_module")
    try:
        assert imports(module.function) == {"user_module"}
        assert imports(of_a_script("lambda row: module.function(row)", module=module)) == {"user_module"}
    finally:
        del sys.modules["user_module"]
    assert imports(of_a_script("lambda row: json.dumps(row)", json=json)) == {"json"}
    assert imports(of_a_script("lambda row: row")) == set()


def test_so_does_an_operator_whose_workers_import_later():
    pipe = fp.from_sequence([]).decode(resize=8, fast=True)
    fd = write_graph_file((pipe, None), pipe)
    assert {"PIL.Image", "simplejpeg", "torch"} < {*imports_of(fd)}
    os.close(fd)


def test_tensors_need_torch():
    torch = pytest.importorskip("torch")
    tensor = torch.ones(3)
    assert "torch" in imports(lambda row: tensor) & imports(torch.tensor)
    assert "torch.nn.modules.linear" in imports(torch.nn.Identity())


def test_some_are_known_before_the_graph_is_written(monkeypatch):
    dumps = of_a_script("type('Dumps', (), {'__call__': lambda self, row: json.dumps(row)})()", json=json)
    assert {*early_imports([dumps, csv.reader])} == {"json", "_csv"}
    assert {*early_imports([of_a_script("lambda row: np.ones(row)", np=np)])} == {"numpy"}
    assert early_imports([json.dumps]) == {"json": json.__file__}
    monkeypatch.setattr(json.__spec__, "_initializing", True, raising=False)
    assert early_imports([json.dumps]) == {}
