"""The loaders of a process share a fork server, which the process keeps until it ends."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
from pathlib import Path

import pytest

import feedpipe as fp
from feedpipe.errors import WorkerError

SERVICE = fp.MultiProcess(1)


def parent(row):
    """The process that has started the worker."""
    return os.getppid()


def started(count=1, service=SERVICE, function=parent):
    """So many loaders that run, and the first element of each."""
    loaders = [fp.Loader(fp.from_sequence(range(50)).map(function), service) for _ in range(count)]
    iterators = [iter(loader) for loader in loaders]
    return loaders, iterators, [next(iterator) for iterator in iterators]


def server_of(service=SERVICE):
    """The server that a loader of its own uses."""
    (loader,), _, (server,) = started(service=service)
    loader.close()
    return server


def close(loaders):
    for loader in loaders:
        loader.close()


def test_loaders_at_once_share_it(processes):
    loaders, _, servers = started(5)
    assert set(servers) == {processes.server_pid()}
    assert len(processes.below()) == 5
    close(loaders)


@contextlib.contextmanager
def output_in(path):
    """Sends the standard output to a file."""
    before = os.dup(1)
    with open(path, "w") as file:
        os.dup2(file.fileno(), 1)
    yield
    os.dup2(before, 1)
    os.close(before)


@contextlib.contextmanager
def soft_limit():
    """Lowers a limit of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if soft else hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@contextlib.contextmanager
def one_core():
    """Leaves this process one of its cores."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


def surroundings(row=None):
    """What a process sees of its surroundings."""
    return (
        [os.environ.get(name) for name in ("VARIABLE", "CHANGED", "DELETED")],
        os.getcwd(),
        sys.path,
        os.fstat(1)[:2],
        os.fstat(2)[:2],
        os.sched_getaffinity(0),
        [resource.getrlimit(limit) for limit in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE)],
        time.tzname,
        sys.getrecursionlimit(),
    )


def variables(monkeypatch):
    monkeypatch.setenv("VARIABLE", "set, with \udcff")
    monkeypatch.setenv("CHANGED", "2")
    monkeypatch.delenv("DELETED")


@contextlib.contextmanager
def time_zone(monkeypatch):
    """Sets another time zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XYZ-5")
        time.tzset()
        yield
    time.tzset()


@contextlib.contextmanager
def deeper():
    """Raises the recursion limit."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 500)
    yield
    sys.setrecursionlimit(limit)


CHANGES = {
    "variables": lambda stack, monkeypatch, folder: variables(monkeypatch),
    "time zone": lambda stack, monkeypatch, folder: stack.enter_context(time_zone(monkeypatch)),
    "path": lambda stack, monkeypatch, folder: monkeypatch.setattr(sys, "path", ["relative", *sys.path]),
    "folder": lambda stack, monkeypatch, folder: monkeypatch.chdir(folder),
    "output": lambda stack, monkeypatch, folder: stack.enter_context(output_in(folder / "output")),
    "cores": lambda stack, monkeypatch, folder: stack.enter_context(one_core()),
    "limit": lambda stack, monkeypatch, folder: stack.enter_context(soft_limit()),
    "recursion limit": lambda stack, monkeypatch, folder: stack.enter_context(deeper()),
}


OF_A_SERVER = {"cores", "limit"}


@pytest.mark.parametrize("name", CHANGES)
def test_workers_have_the_surroundings_of_their_loader(name, processes, monkeypatch, tmp_path):
    monkeypatch.setenv("CHANGED", "1")
    monkeypatch.setenv("DELETED", "1")
    server, before = server_of(), surroundings()
    loaders, iterators, rows = started(function=surroundings)
    assert rows == [before]
    with contextlib.ExitStack() as stack:
        CHANGES[name](stack, monkeypatch, tmp_path)
        more, _, rows = started(function=surroundings)
        assert rows == [surroundings()] != [before]
        assert (processes.server_pid() == server) == (name not in OF_A_SERVER)
    assert list(iterators[0])[-1] == before  # the first loader goes on
    close([*loaders, *more])


def test_a_relative_path_leads_to_modules_of_the_folder_of_the_loader(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", ["modules", *sys.path])

    def where(row):
        import beside_the_loader

        return beside_the_loader.WHERE

    for name in "ab":
        (tmp_path / name / "modules").mkdir(parents=True)
        (tmp_path / name / "modules" / "beside_the_loader.py").write_text(f"WHERE = {name!r}")
        monkeypatch.chdir(tmp_path / name)
        loaders, _, rows = started(function=where)
        close(loaders)
        assert rows == [name]


KINDS = {
    "variable of malloc": lambda monkeypatch: monkeypatch.setenv("MALLOC_ARENA_MAX", "3"),
    "user": lambda monkeypatch: monkeypatch.setattr(os, "getegid", lambda: -1),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", KINDS.values(), ids=KINDS.keys())
def test_what_a_server_cannot_change_needs_another_one(change, processes, monkeypatch):
    loaders, iterators, (server,) = started()
    change(monkeypatch)
    more, _, (other,) = started()
    assert other == processes.server_pid() != server
    assert set(iterators[0]) == {server}  # the first loader goes on
    close([*loaders, *more])
    processes.await_dropped()
    assert not processes.below(zombies=True)  # its server has ended with it; the last one is kept


@pytest.mark.slow
def test_a_library_that_a_function_needs_is_loaded_by_the_server(processes, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.delitem(sys.modules, "feedpipe.compat.fetchers", raising=False)  # a server that has it has torch
    processes.kill_server()

    def loaded(row):
        return "libtorch" in Path(f"/proc/{os.getppid()}/maps").read_text()

    loaders, _, rows = started(function=loaded)
    more, _, rows_with_torch = started(function=lambda row: (torch.tensor(row), loaded(row))[1])
    assert (rows, rows_with_torch) == ([False], [True])
    close([*loaders, *more])


@pytest.fixture
def user_module(request, monkeypatch, tmp_path):
    """Makes a module of the user, which counts its imports; returns the function of it that counts them."""

    name = f"module_of_{request.node.name}"

    def write(code="", folder="."):
        counter = tmp_path / "imports"
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{name}.py").write_text(
            f"import os, sys, threading\nfile = open({str(counter)!r}, 'a')\nfile.write('x')\nfile.close()\n{code}\n"
            f"def function(row):\n    return (os.path.getsize({str(counter)!r}), CODE)\nCODE = {code!r}\n"
        )
        counter.write_text("")
        monkeypatch.syspath_prepend(tmp_path / folder)
        sys.modules.pop(name, None)
        function = __import__(name).function
        counter.write_text("")
        return function

    yield write
    sys.modules.pop(name, None)


def rows_of_epochs(function, count=2):
    """What each of the loaders one after the other gives."""
    rows = []
    for _ in range(count):
        loaders, _, (row,) = started(function=function)
        close(loaders)
        rows.append(row)
    return rows


def test_a_module_of_the_user_is_imported_once_for_all_loaders(user_module, processes):
    function = user_module()
    server = server_of()
    assert rows_of_epochs(function, 3) == [(1, "")] * 3
    assert processes.server_pid() == server


def test_a_module_that_starts_threads_is_imported_by_each_worker(user_module, processes):
    code = f"if os.getpid() != {os.getpid()}: threading.Thread(target=threading.Event().wait, daemon=True).start()"
    function = user_module(code)
    server = server_of()
    # The first server imports it, and goes; then each worker does.
    assert rows_of_epochs(function, 3) == [(2, code), (3, code), (4, code)]
    assert processes.server_pid() != server
    server_now = processes.server_pid()
    assert server_of() == server_now


def test_a_module_that_has_changed_or_has_another_file_is_imported_anew(user_module):
    assert rows_of_epochs(user_module("a = 1")) == [(1, "a = 1")] * 2
    assert rows_of_epochs(user_module("b = 2; c = 3")) == [(1, "b = 2; c = 3")] * 2
    assert rows_of_epochs(user_module("a = 1", "elsewhere")) == [(1, "a = 1")] * 2


def test_a_module_that_ends_its_interpreter_ends_no_server(user_module, processes):
    server = server_of()
    function = user_module(f"if os.getpid() != {os.getpid()}: sys.exit(3)")
    with pytest.raises(WorkerError):
        rows_of_epochs(function, 1)
    assert server_of() == server == processes.server_pid()


@pytest.mark.slow
def test_a_server_that_is_killed_is_an_error_of_each_loader_and_the_next_starts_another(processes):
    loaders, iterators, (server, _) = started(2)
    workers = processes.below()
    processes.kill_server()
    processes.ended(workers)  # it takes them with it
    for loader, iterator in zip(loaders, iterators, strict=True):
        for run in (iterator, loader):
            with pytest.raises(WorkerError, match="that starts workers was killed by SIGKILL.*a new loader starts"):
                list(run)
    assert server_of() == processes.server_pid() != server
    close(loaders)


PROGRAM = """
import os, signal, sys, threading
import feedpipe as fp

def server():
    with fp.Loader(fp.from_sequence(range(9)).map(lambda row: os.getppid()), workers=1) as loader:
        (pid,) = set(loader)
    return pid
"""


def test_it_ends_if_the_program_is_killed(script, processes):
    process = script.start(PROGRAM + "print(server(), flush=True); signal.pause()")
    server = int(process.stdout.readline())
    (idle,) = processes.below(process.pid)
    assert idle.pid == server
    process.kill()
    process.communicate()
    processes.ended([idle])


def test_it_ends_with_the_program_while_a_forked_child_lives_on(script, processes):
    source = """
server()
if not os.fork():
    print(os.getpid(), flush=True)
    signal.pause()
signal.pause()
"""
    process = script.start(PROGRAM + source)
    child = int(process.stdout.readline())
    (server,) = [one for one in processes.below(process.pid) if one.pid != child]
    process.kill()
    process.wait()
    try:
        processes.ended([server])
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


@pytest.mark.slow
def test_a_path_of_any_length_reaches_the_workers(script):
    source = """
import sys
import feedpipe as fp
sys.path += [f"/nowhere/{i:04d}/with/a/long/path/as/build/systems/make/them/site-packages" for i in range(3000)]
with fp.Loader(fp.from_sequence(range(2)).map(lambda row: len(sys.path)), workers=1) as loader:
    print(list(loader) == [len(sys.path)] * 2)
"""
    assert script.run(source) == "True\n"
