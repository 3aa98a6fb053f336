"""The dispatcher, spoken to as its owner and a worker do."""

from __future__ import annotations

import pickle
import socket

import feedpipe as fp
from feedpipe.core.context import RowsRequest
from feedpipe.engine.stage import resolve
from feedpipe.plan.plan import Plan
from feedpipe.services.processes.dispatch_server import _Dispatcher
from feedpipe.services.processes.protocol import Program, Terms
from feedpipe.services.transport.channel import Channel
from feedpipe.services.transport.packing import Packer


def test_a_worker_may_know_of_a_run_first():
    root = resolve(fp.from_iterable(lambda: iter(range(8))).dispatch())
    plan = Plan(root, seed=0, rank=0, world_size=1, workers=1, shards=1)
    owner, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, theirs = socket.socketpair()
    with owner, control, ours:
        dispatcher = _Dispatcher(root, control, Packer())
        with theirs:
            socket.send_fds(owner, [pickle.dumps(None)], [theirs.fileno()])
        assert dispatcher._told()
        (fd,) = dispatcher._clients
        worker = Channel(ours)
        # What the owner has said of run 1 is there, and is not read yet when the worker asks for it.
        owner.send(pickle.dumps(Program(1, Terms(0, 0, 1, 1), 0)))
        name = plan.names[plan.root]
        worker.post(("open", 7, 1, RowsRequest(name, [None, 2, 0], 0, 1, (), False)))
        dispatcher._answer(fd)
        message = worker.receive(wait=True)
        assert message.head[:2] == ("block", 7)
        ours.close()
        dispatcher._answer(fd)
        assert not dispatcher._clients
