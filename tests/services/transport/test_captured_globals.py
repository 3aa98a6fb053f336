"""Tests of `CapturedGlobals`: which changes of globals it sees, and that no code of a user runs."""

from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import WorkerWarning

from ...support.services import CapturedGlobals

SCRIPT = """
import functools, math, types
class Scale:
    def __call__(self, row):
        return row * FACTOR
class Loud:
    def __eq__(self, other): raise AssertionError
    def __repr__(self): raise AssertionError
    def __getattr__(self, name): raise AssertionError(name)
def helper(row):
    return row + SHIFT
def keep(row):
    return helper(row) > LIMITS["low"] and [other for other in ITEMS] and MODEL
def times(factor, row):
    return row * factor * FACTOR + config.depth + package.config.width + Settings.height + bare.length
def set_depth(row):
    config.calls = config.calls + 1
    return row
class Settings:
    height = 4
    @property
    def length(self): raise AssertionError
def count(row):
    global counter
    counter += 1
    return math.floor(row)
config, package, bare = types.ModuleType("config"), types.SimpleNamespace(), Settings()
package.config = types.SimpleNamespace(width=2, other=3)
config.depth, config.calls = 1, 0
FACTOR, SHIFT, LIMITS, ITEMS, MODEL, counter = 2, 1, {"low": 3}, [1, 2], Loud(), 0
pipe = (fp.from_sequence([1, 2]).filter(keep).map(Scale()).map(functools.partial(times, 2)).map(count).map(set_depth)
        .map(lambda row: row + OFFSET if UNREAD is None else row))
OFFSET, UNREAD = 1.5, None
"""


def script():
    names = {"fp": fp, "__name__": "a_script"}
    exec(SCRIPT, names)
    return names, CapturedGlobals(names["pipe"])


@pytest.mark.parametrize(
    ("change", "name", "reader"),
    [
        ("SHIFT = 2", "SHIFT", "helper"),
        ("FACTOR = 'two'", "FACTOR", None),
        ("LIMITS['low'] = 4", "LIMITS", "keep"),
        ("ITEMS.append(3)", "ITEMS", "keep"),
        ("MODEL = 3", None, None),
        ("OFFSET = None", "OFFSET", "<lambda>"),
        ("def helper(row): return row", "helper", "keep"),
        ("del SHIFT", "SHIFT", "helper"),
        ("SHIFT = Loud()", "SHIFT", "helper"),
        ("counter = 5", None, None),  # `count` assigns it
        ("config.depth = 2", "config.depth", "times"),
        ("config = types.SimpleNamespace(depth=1, calls=0)", None, None),
        ("config = None", "config.depth", "times"),
        ("del config.depth", "config.depth", "times"),
        ("config.calls = 2", None, None),  # `set_depth` assigns it
        ("package.config.width = 3", "package.config.width", "times"),
        ("package.config.other = 4", None, None),  # no function reads it
        ("Settings.height = 5", "Settings.height", "times"),
        ("bare.length_of = 5", None, None),
    ],
)
def test_a_change_is_seen_once(change, name, reader):
    names, captured = script()
    exec(change, names)
    seen = captured.changes()
    assert [seen_name for seen_name, _ in seen] == ([] if name is None else [name])
    assert reader in (None, *(function for _, function in seen))
    assert captured.changes() == []


def test_an_epoch_with_workers_warns_once_and_names_global_function_and_line():
    names = {"__name__": "a_script", "SHIFT": 1}
    exec("def shift(row): return row + SHIFT", names)
    with fp.Loader(fp.from_sequence([1, 2]).map(names["shift"]), workers=1) as loader:
        assert list(loader) == [2, 3]
        names["SHIFT"] = 10
        with pytest.warns(WorkerWarning, match=r"the global `SHIFT`, which `shift` reads, has changed") as warned:
            assert list(loader) == [2, 3]
        assert [warning.filename for warning in warned] == [__file__]
        assert list(loader) == [2, 3]  # no second warning: warnings are errors in the tests
