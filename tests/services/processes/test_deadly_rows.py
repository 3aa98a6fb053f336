"""A row that ends its worker each time is named in an error. If it ends its worker once, nothing is lost."""

from __future__ import annotations

import ctypes
import logging
import os
import signal

import pyarrow.fs  # noqa: F401  # the fork server imports it once for all workers
import pytest

import feedpipe as fp
from feedpipe.errors import WorkerError

DEADLY = 137


def lethal(row):
    if int(row) == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return int(row)


def run_to_error(loader):
    """The rows before the error, and the text of the error."""
    got = []
    with pytest.raises(WorkerError) as caught:
        for element in loader:
            got.append(element)
    return got, str(caught.value)


def numbers(count=400):
    return fp.from_sequence(range(count))


def files(folder):
    for number in range(8):
        (folder / f"{number}.txt").write_text("".join(f"{row}\n" for row in range(50 * number, 50 * number + 50)))
    return fp.list_files(f"{folder}/*.txt")


PIPES = {
    "in a block": lambda pipe: pipe.map(lethal),
    "in a batch": lambda pipe: pipe.map(lethal).batch(8),
    "filter": lambda pipe: pipe.filter(lambda row: lethal(row) >= 0),
    "flat_map": lambda pipe: pipe.flat_map(lambda row: [row, lethal(row)]).batch(3),
    "flat_map, lazily": lambda pipe: pipe.flat_map(lambda row: map(lethal, [0, row, 0])),
    "window": lambda pipe: pipe.map(lethal).shuffle(window=20),
    "ahead": lambda pipe: pipe.filter(bool).map(lethal).prefetch(40).batch(5),
}


@pytest.mark.parametrize("name", PIPES)
def test_the_error_names_source_and_row(name, deaths):
    with deaths(least=2), fp.Loader(PIPES[name](numbers()), workers=2) as loader:
        _, text = run_to_error(loader)
    assert f"on from_sequence, row {DEADLY + 1}" in text
    assert "died there 3 times" in text and f"at {__file__}:" in text


def closes_all(row):
    if row == 5:
        os.closerange(0, 1_000)
    return row


def replaces_all(row):
    if row == 5:
        for descriptor in range(3, 100):
            os.dup2(2, descriptor)
    return row


@pytest.mark.parametrize("function", [closes_all, replaces_all])
def test_a_function_that_closes_the_connection_is_named(function, deaths):
    with deaths(least=2), fp.Loader(numbers(20).map(function).batch(2), workers=1) as loader:
        _, text = run_to_error(loader)
    assert f"in `.map({function.__name__})`\n  on from_sequence, row 6\n  at {__file__}:" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["in a batch", "flat_map", "ahead"])
def test_the_error_names_file_and_row(name, tmp_path, deaths):
    pipe = PIPES[name](files(tmp_path).open_files().parse_lines())
    with deaths(least=2), fp.Loader(pipe, workers=1) as loader:
        _, text = run_to_error(loader)
    assert f"on {tmp_path}/2.txt, line 38" in text


@pytest.mark.parametrize("workers", [1, 2])
def test_what_comes_before_is_delivered(workers, deaths):
    for pipe, before in (
        (numbers().map(lethal), list(range(DEADLY))),
        (numbers().map(lethal).batch(10), [list(range(row, row + 10)) for row in range(0, 130, 10)]),
    ):
        with deaths(least=2), fp.Loader(pipe, workers=workers) as loader:
            assert run_to_error(loader)[0] == before


def test_the_iterator_raises_it_again_and_the_next_epoch_tries_again(tmp_path, deaths):
    mend = tmp_path / "mend"

    def unless_mended(row):
        return row if mend.exists() else lethal(row)

    with fp.Loader(numbers().map(unless_mended), workers=2) as loader:
        iterator = iter(loader)
        with deaths(least=2):
            first = run_to_error(iterator)
        assert len(first[0]) == DEADLY
        assert run_to_error(iterator) == ([], first[1])
        mend.touch()
        assert list(loader) == list(range(400))


def once(how):
    """A function that ends its process once, at one row, by calling `how`."""

    def function(row, flag):
        if row == DEADLY and not flag.exists():
            flag.touch()
            how()
        return row

    return function


ENDS = {
    "SIGSEGV": lambda: ctypes.string_at(0),
    "SIGABRT": os.abort,
    "exited with status 7": lambda: os._exit(7),
}


@pytest.mark.parametrize("text", ENDS)
def test_a_single_death_loses_nothing(text, tmp_path, deaths):
    flag, function = tmp_path / "flag", once(ENDS[text])
    with deaths() as warnings, fp.Loader(numbers().map(lambda row: function(row, flag)).batch(6), workers=2) as loader:
        assert sum(loader, []) == list(range(400))
    assert len(warnings) == 1 and text in warnings[0]


def test_a_fatal_signal_prints_nothing_and_the_error_ends_with_the_last_call(capfd, caplog, deaths):
    def segmentation_fault(row):
        return ctypes.string_at(0) if row == DEADLY else row

    caplog.set_level(logging.DEBUG, logger="feedpipe")
    with deaths(least=2) as warnings, fp.Loader(numbers().map(segmentation_fault), workers=1) as loader:
        _, text = run_to_error(loader)
    message, _, frames = text.partition("\nits last call was:\n")
    assert "was killed by SIGSEGV" in message and message.endswith("so it is not started again")
    assert [line.rpartition(" in ")[2] for line in frames.splitlines()] == ["string_at", "segmentation_fault"]
    assert capfd.readouterr().err == ""
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == len(warnings) + 1  # also those that had made some rows before
    assert all("Fatal Python error: Segmentation fault" in message for message in logged)
