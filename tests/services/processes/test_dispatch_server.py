"""The dispatcher answers its owner and a worker."""

from __future__ import annotations

import pickle
import socket

import feedpipe as fp
from feedpipe.extensions import Plan

from ...support.core import RowShare, RowsRequest
from ...support.engine import resolve
from ...support.services import Channel, Control, Dispatcher, DispatchRequest, Packer, PlanArguments


def test_a_worker_may_learn_of_a_run_first():
    root = resolve(fp.from_iterable(lambda: iter(range(8))).dispatch())
    plan = Plan(root, seed=0, rank=0, world_size=1, shards=1)
    owner, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, theirs = socket.socketpair()
    with owner, control, ours:
        dispatcher = Dispatcher(root, Control(control), Packer(), "here")
        with theirs:
            socket.send_fds(owner, [pickle.dumps(None)], [theirs.fileno()])
        assert dispatcher._receive_control()
        (fd,) = dispatcher._clients
        worker = Channel(ours)
        # The announcement of run 1 has arrived but is still unread when the worker asks for its rows.
        owner.send(pickle.dumps(DispatchRequest(1, PlanArguments(0, 0, 1, 1), 0)))
        name = plan.names[plan.root]
        worker.post(("open", 7, 1, RowsRequest(name, [None, 2, 0], RowShare(0, 1, 1), (), False)))
        dispatcher._answer(fd)
        message = worker.receive(wait=True)
        assert message.head[:2] == ("block", 7)
        ours.close()
        dispatcher._answer(fd)
        assert not dispatcher._clients
