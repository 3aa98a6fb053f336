"""The loaders of a process share a fork server, which the process keeps until it ends."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

import feedpipe as fp
from feedpipe.errors import WorkerError

from ...support.services import ForkServer, _Server, write_graph_file

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


def test_loaders_one_after_the_other_share_it(processes):
    assert {server_of() for _ in range(5)} == {processes.server_pid()}
    assert not processes.below(zombies=True)


@pytest.mark.slow
def test_loaders_that_start_in_several_threads_share_it(processes):
    processes.kill_server()
    barrier, servers = threading.Barrier(6), []

    def start():
        barrier.wait()
        servers.append(server_of())

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(servers) == 6 and set(servers) == {processes.server_pid()}


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


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_workers_have_the_surroundings_of_their_loader_from_the_same_server(change, processes, monkeypatch, tmp_path):
    monkeypatch.setenv("CHANGED", "1")
    monkeypatch.setenv("DELETED", "1")
    server, before = server_of(), surroundings()
    loaders, iterators, rows = started(function=surroundings)
    assert rows == [before]
    with contextlib.ExitStack() as stack:
        change(stack, monkeypatch, tmp_path)
        more, _, rows = started(function=surroundings)
        assert rows == [surroundings()] != [before] and processes.server_pid() == server
    assert list(iterators[0])[-1] == before  # the first loader goes on
    close([*loaders, *more])


def test_a_worker_that_is_replaced_has_the_surroundings_of_the_others(processes, deaths, monkeypatch):
    loaders, iterators, (before,) = started(function=surroundings)
    monkeypatch.setenv("VARIABLE", "1")
    more, others, (after,) = started(function=surroundings)
    monkeypatch.setenv("VARIABLE", "2")
    with deaths(least=2):
        processes.kill(processes.workers())
        assert [list(rows)[-1] for rows in (*iterators, *others)] == [before, after]
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


def test_the_server_imports_with_the_path_of_the_program(processes, monkeypatch, tmp_path):
    server = server_of()
    (tmp_path / "module_on_a_later_path.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    preloaded = {"sys": ["module_on_a_later_path"]}
    monkeypatch.setattr("feedpipe.services.processes.start._PRELOADED", preloaded)
    loaders, _, rows = started(function=lambda row: "module_on_a_later_path" in sys.modules)
    close(loaders)
    assert rows == [True] and processes.server_pid() == server


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
def test_kinds_of_loaders_in_turn_have_one_each(processes):
    services = [SERVICE, fp.MultiProcess(1, threads=2)]
    pairs = [started(service=service) for service in services * 3]
    servers = [server for _, _, (server,) in pairs]
    assert servers == servers[:2] * 3 and servers[0] != servers[1]
    for loaders, _, _ in pairs:
        close(loaders)
    processes.await_dropped()
    assert not processes.below(zombies=True)


@pytest.mark.slow
def test_a_loader_that_ends_takes_only_its_own_workers():
    loaders, iterators, _ = started(3, function=lambda row: os.getpid())
    pids = [next(iterator) for iterator in iterators]
    loaders[1].close()
    assert [set(iterators[k]) for k in (0, 2)] == [{pids[0]}, {pids[2]}]
    close(loaders)


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


@pytest.mark.slow
def test_an_idle_server_that_is_killed_is_replaced(processes):
    server = server_of()
    processes.kill_server()
    assert server_of() == processes.server_pid() != server


class RootOfThread:
    """The handle of a server that runs in a thread."""

    def __init__(self, root):
        self.root = root

    def changes(self):
        return []

    def connect(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self.root, [b"+"], [theirs.fileno()])
        return ours


@pytest.fixture
def starters(monkeypatch):
    """Makes starters of two pools, which a server in a thread serves."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setattr("feedpipe.services.processes.start.shared_server", lambda *_: RootOfThread(ours))
    thread = threading.Thread(target=_Server(theirs).run)
    thread.start()
    with theirs:
        yield ForkServer(1, 1), ForkServer(1, 1)
        ours.close()
        thread.join()


@pytest.fixture
def fds():
    """The first descriptors of a worker: one in place of its socket, and a graph."""
    pipe = fp.from_sequence(range(3))
    graph_file = write_graph_file((pipe, None), pipe)
    yield [0, graph_file]
    os.close(graph_file)


def test_a_process_that_cannot_be_started_is_an_error_of_its_loader(starters, fds, monkeypatch):
    def fork():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", fork)
        for starter in (*starters, *starters):
            with pytest.raises(WorkerError, match="no process can be started.*temporarily unavailable"):
                starter.start("worker", fds, -1)
    for starter in starters:
        starter.close()


def test_it_imports_what_workers_need_before_the_first_one_starts(starters, monkeypatch, tmp_path):
    (tmp_path / "needed_by_workers.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    preloaded = "feedpipe.services.processes.start._PRELOADED"
    monkeypatch.setattr(preloaded, {"sys": ["needed_by_workers"], "not_imported_here": ["antigravity"]})
    starter = ForkServer(1, 1)
    assert starter.end(-1).code is None  # the answer comes after the import
    assert "needed_by_workers" in sys.modules and "antigravity" not in sys.modules
    for each in (starter, *starters):
        each.close()


def test_a_process_that_does_not_end_holds_up_no_other_loader(starters, fds, monkeypatch):
    monkeypatch.setattr("feedpipe.services.processes.fork_server.GRACE_SECONDS", 10**6)
    monkeypatch.setattr(_Server, "_fork", lambda *_: os.posix_spawn("/bin/sleep", ["sleep", "1000"], {}))
    one, other = starters
    stuck, pid = one.start("worker", fds, -1), other.start("worker", fds, -1)
    one._control.shutdown(socket.SHUT_WR)
    assert other.end(pid).code == -signal.SIGKILL
    assert other.end(pid).code is None  # it is gone
    end = select.poll()
    end.register(one._control, select.POLLIN)
    assert not end.poll(0)  # the server still waits for the first
    os.kill(stuck, signal.SIGKILL)
    assert end.poll()
    one.close()
    other.close()


PROGRAM = """
import os, signal, sys, threading
import feedpipe as fp

def server():
    with fp.Loader(fp.from_sequence(range(9)).map(lambda row: os.getppid()), workers=1) as loader:
        (pid,) = set(loader)
    return pid
"""


@pytest.mark.slow
def test_it_ends_with_the_program(script):
    assert script.said(script.command("-X", "dev", "-c", PROGRAM + "server()")) == ""


def test_it_ends_if_the_program_is_killed(script, processes):
    process = script.start(PROGRAM + "print(server(), flush=True); signal.pause()")
    server = int(process.stdout.readline())
    (idle,) = processes.below(process.pid)
    assert idle.pid == server
    process.kill()
    process.communicate()
    processes.ended([idle])


@pytest.mark.slow
def test_a_forked_child_has_its_own(script):
    source = """
mine = server()
pid = os.fork()
if not pid:
    assert server() not in (mine, os.getppid())
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert server() == mine
"""
    assert script.said(script.command("-X", "dev", "-c", PROGRAM + source)) == ""


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
def test_the_program_ends_with_loaders_that_were_not_closed(script):
    source = """
iterators = []
for threads in (1, 2, 1):
    iterator = iter(fp.Loader(fp.from_sequence(range(99)), fp.MultiProcess(1, threads=threads)))
    next(iterator)
    iterators.append(iterator)
"""
    assert script.said(script.command("-X", "dev", "-c", PROGRAM + source)) == ""


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


@pytest.mark.slow
def test_it_starts_with_the_loader_and_ends_with_the_program(script):
    source = """
import os
import feedpipe as fp
from feedpipe.compat import DataLoader
loaders = fp.Loader(fp.from_sequence(range(2)), workers=1), DataLoader([1, 2], num_workers=1)
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
with loaders[0] as loader:
    assert list(loader) == [0, 1]
print(len(children))
"""
    assert script.run(source) == "1\n"
