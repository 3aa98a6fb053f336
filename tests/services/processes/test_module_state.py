"""What the program has set in modules and libraries is there in workers, too."""

from __future__ import annotations

import textwrap

import pytest

MODULES = {
    "my_config": """
        size, names, table, deep = 224, ["a"], {"x": 1}, [[1]]
        same = names
        import types, dataclasses, enum
        options = types.SimpleNamespace(depth=1)
        class Settings:
            width = 1
        @dataclasses.dataclass(frozen=True)
        class Frozen:
            height: int = 1
        frozen = Frozen()
        class Mode(enum.Enum):
            FAST, SLOW = 1, 2
        mode = Mode.FAST
        def configure(value):
            global size
            size = value
        """,
    "my_rows": """
        import my_config
        from my_config import Settings
        SIZE, made, connected = 1, 0, False
        def read(row):
            return SIZE, my_config.size, Settings.width, helper()
        def helper():
            return my_config.options.depth
        def connect(row):
            global connected
            was, connected = connected, True
            return was
        class Data:
            def __len__(self): return 1
            def __getitem__(self, i): return my_config.size, SIZE
        """,
}

SET = {
    "a value": ("my_config.size = 64", "lambda row: my_config.size"),
    "a list, and its other name": ("my_config.names.append('b')", "lambda row: (my_config.names, my_config.same)"),
    "a dict": ("my_config.table['x'] = 2", "lambda row: my_config.table['x']"),
    "a list of lists": ("my_config.deep[0][0] = 2", "lambda row: my_config.deep"),
    "an attribute of an object": ("my_config.options.depth = 9", "lambda row: my_config.options.depth"),
    "a new attribute": ("my_config.fresh = 'x'", "lambda row: my_config.fresh"),
    "a class": ("my_config.Settings.width = 7", "lambda row: my_config.Settings.width"),
    "a class by its name": ("from my_config import Settings; Settings.width = 7", "lambda row: Settings.width"),
    "an enumeration": ("my_config.mode = my_config.Mode.SLOW", "lambda row: my_config.mode.name"),
    "a setter": ("my_config.configure(5)", "lambda row: my_config.size"),
    "a function of a module": (
        "my_rows.SIZE, my_config.size, my_config.Settings.width, my_config.options.depth = 2, 3, 4, 5",
        "my_rows.read",
    ),
    "a library": ("decimal.getcontext().prec = 5", "lambda row: str(decimal.Decimal(1) / 3)"),
    "numpy": ("np.seterr(divide='raise')", "lambda row: np.geterr()['divide']"),
    "pillow": ("ImageFile.LOAD_TRUNCATED_IMAGES = True", "lambda row: ImageFile.LOAD_TRUNCATED_IMAGES"),
    "a limit of pillow": ("Image.MAX_IMAGE_PIXELS = None", "lambda row: Image.MAX_IMAGE_PIXELS"),
    "torch": ("torch.set_default_dtype(torch.float64)", "lambda row: str(torch.tensor(1.5).dtype)"),
    "csv": ("csv.field_size_limit(7)", "lambda row: csv.field_size_limit()"),
}


@pytest.mark.slow
def test_rows_with_workers_are_those_without(script, tmp_path, monkeypatch):
    for name, source in MODULES.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    program = """
import csv, decimal, warnings
import numpy as np
import torch
from PIL import Image, ImageFile
import feedpipe as fp
from feedpipe.compat import DataLoader
import my_config, my_rows
warnings.simplefilter("error")
def rows(function, workers):
    with fp.Loader(fp.from_sequence([0]).map(function), workers=workers) as loader:
        return list(loader)
"""
    for name, (change, function) in SET.items():
        program += f"\n{change}\nfunction = {function}\n"
        program += f"assert rows(function, 1) == rows(function, 0), ({name!r}, rows(function, 1), rows(function, 0))\n"
    program += "my_rows.connect(0)\nassert rows(my_rows.connect, 1) == [False], 'a state of the run'\n"
    program += "assert list(DataLoader(my_rows.Data(), None, num_workers=1)) == [list(my_rows.Data()[0])]\n"
    assert script.run(program) == ""


def test_what_cannot_be_taken_over_is_named(script, tmp_path, monkeypatch):
    (tmp_path / "my_config.py").write_text("class Strict:\n    __slots__ = ()\n    size = 1\nstrict = Strict()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    program = """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
import feedpipe as fp, my_config
class Other:
    size = 2
my_config.strict = Other()
with fp.Loader(fp.from_sequence([0]).map(lambda row: my_config.strict.size), workers=1) as loader:
    list(loader)
"""
    assert "`my_config.strict.size` has another value in workers" in script.run(program)
