"""Checks of loaders that tests of sources and of operators share: resumes, ranks and workers."""

from __future__ import annotations

import json
import multiprocessing
import os
import traceback
from collections.abc import Callable
from typing import Any

import feedpipe as fp


def check_resumes_in_two_epochs(pipe: fp.Pipe[Any], every: int) -> None:
    """A loader goes on exactly from each place, or from some of them, in two epochs."""
    loader = fp.Loader(pipe, seed=4)
    elements, states = [], [json.loads(json.dumps(loader.state_dict()))]
    for _ in range(2):
        for element, info in loader.with_info():
            elements.append(element)
            states.append(json.loads(json.dumps(info.state_dict())))
    for step in range(0, len(states) - 1, every):
        again = fp.Loader(pipe, seed=4)
        again.load_state_dict(states[step])
        rest = list(again)
        assert rest and rest == elements[step : step + len(rest)]


def result_in_fork(function: Callable[[], Any]) -> Any:
    """What a function returns in a fork of this process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(function()))
    process.start()
    sender.close()  # so that a child which fails ends the wait
    result = receiver.recv()
    process.join()
    assert process.exitcode == 0
    return result


def status_of_fork(function: Callable[[], object]) -> int:
    """Run a function in a fork of this process, and return the status of its end."""
    child = os.fork()
    if child == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitpid(child, 0)[1]
