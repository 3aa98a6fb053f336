"""Graphs: immutable plain data, printed as code, visited once."""

from __future__ import annotations

import copy
import pickle

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError, SourceError, UnknownLengthError

from ..support.core import names, walk


def diamond(levels: int) -> fp.Pipe[object]:
    pipe: fp.Pipe[object] = fp.from_sequence([1])
    for _ in range(levels):
        pipe = pipe.concat(pipe).map(lambda x: x)
    return pipe


def test_each_node_is_visited_once():
    pipe = diamond(30)
    assert len(list(walk(pipe))) == 61
    assert len(set(names(pipe).values())) == 61
    assert len(pipe) == 2**30 and pipe[2**29] == 1
    assert len(fp.Loader(pipe, rank=1, world_size=2)) == 2**29


def test_a_large_attribute_costs_nothing():
    class Huge:
        def __reduce__(self):
            raise AssertionError("a graph is not discovered by pickling")

        def __deepcopy__(self, memo):
            raise AssertionError("a graph is not copied")

        def __call__(self, x):
            return x

    pipe = fp.from_sequence(range(4)).map(Huge()).batch(2)
    assert list(fp.Loader(pipe)) == [[0, 1], [2, 3]]


def test_a_pipe_is_immutable():
    pipe = fp.from_sequence([1])
    with pytest.raises(AttributeError, match="immutable"):
        pipe.op = None
    assert list(pipe.map(lambda x: x + 1)) == [2] and list(pipe) == [1]


def test_length_truth_and_index():
    pipe = fp.from_sequence(range(10))
    assert bool(fp.from_sequence([])) and len(pipe) == 10 and pipe[-1] == 9
    assert list(pipe[2:8:3]) == [2, 5] and pipe.head(2) == [0, 1]
    with pytest.raises(IndexError, match="index 10 is out of range"):
        pipe[10]
    with pytest.raises(UnknownLengthError, match=r"streamed; `\.load\(\)`"):
        pipe.filter(bool)[0]
    with pytest.raises(TypeError):
        len(pipe.filter(bool))


def test_only_a_pipe_can_be_loaded():
    with pytest.raises(ArgumentTypeError, match="`pipe` must be a Pipe but got"):
        fp.Loader([1, 2, 3])


def test_an_error_at_the_first_look_has_no_other_before_it():
    with pytest.raises(SourceError) as caught:
        fp.read_lines("none.txt").head(1)
    seen: BaseException | None = caught.value
    while seen is not None:
        assert isinstance(seen, SourceError)
        seen = seen.__cause__ or seen.__context__


def test_pickles_with_functions_that_cannot_be_imported():
    """As arguments of `torch.multiprocessing.spawn`, and in torch's loaders whose workers are spawned."""
    pipe = fp.from_sequence(range(9)).map(lambda x: x * 2).filter(lambda x: x % 4).shuffle(window=4).batch(2)
    expected = list(pipe)
    for make in (lambda: pipe, lambda: fp.Loader(pipe)):
        again = pickle.loads(pickle.dumps(make()))
        assert repr(again) == repr(make()) and list(again) == expected
        assert list(copy.copy(make())) == list(copy.deepcopy(make())) == expected
