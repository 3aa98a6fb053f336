"""The arguments of `Ray`, which needs no Ray to be described; tests/clients runs it."""

from __future__ import annotations

import sys

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, WorkerError


@pytest.mark.parametrize(
    "options",
    [{"actors": 0}, {"actors": 1, "cpus": -1}, {"actors": 1, "cpus": float("nan")}, {"actors": 1, "prefetch": 0}],
)
def test_arguments_out_of_range(options):
    with pytest.raises(ArgumentError, match=f"`{list(options)[-1]}` must be"):
        fp.Ray(**options)


@pytest.mark.parametrize(
    "options", [{"cpus": "2"}, {"cpus": True}, {"resources": ["gpu"]}, {"runtime_env": "env"}, {"init": 3}]
)
def test_arguments_of_a_wrong_type(options):
    with pytest.raises(ArgumentTypeError, match=f"`{next(iter(options))}` must be"):
        fp.Ray(1, **options)


def test_ray_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        fp.Loader(fp.from_sequence(range(3)), fp.Ray(2)) as loader,
        pytest.raises(WorkerError, match=r"pip install 'feedpipe\[ray\]'"),
    ):
        list(loader)
