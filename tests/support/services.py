"""What tests take from `feedpipe.services`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.core.system import create_shared_memory as create_shared_memory
from feedpipe.services.processes import start as start
from feedpipe.services.processes import worker as worker
from feedpipe.services.processes.dispatch import Control as Control
from feedpipe.services.processes.dispatch import Dispatcher as Dispatcher
from feedpipe.services.processes.fork_server import _Server as _Server
from feedpipe.services.processes.pool import WorkerHandle as WorkerHandle
from feedpipe.services.processes.protocol import MAX_COPIED_BYTES as MAX_COPIED_BYTES
from feedpipe.services.processes.protocol import DispatchRequest as DispatchRequest
from feedpipe.services.processes.protocol import PlanArguments as PlanArguments
from feedpipe.services.processes.start import ForkServer as ForkServer
from feedpipe.services.processes.start import kept_server as kept_server
from feedpipe.services.transport import packing as packing
from feedpipe.services.transport.channel import Channel as Channel
from feedpipe.services.transport.graph_file import libraries_of as libraries_of
from feedpipe.services.transport.graph_file import read_graph_file as read_graph_file
from feedpipe.services.transport.graph_file import write_graph_file as write_graph_file
from feedpipe.services.transport.memory import ALIGNMENT as ALIGNMENT
from feedpipe.services.transport.memory import PAGE_BYTES as PAGE_BYTES
from feedpipe.services.transport.memory import Arena as Arena
from feedpipe.services.transport.memory import rounded_bytes as rounded_bytes
from feedpipe.services.transport.module_state import CapturedGlobals as CapturedGlobals
from feedpipe.services.transport.packing import MIN_OWN_REGION_BYTES as MIN_OWN_REGION_BYTES
from feedpipe.services.transport.packing import PackedElement as PackedElement
from feedpipe.services.transport.packing import Packer as Packer
from feedpipe.services.transport.packing import class_of as class_of
from feedpipe.services.transport.packing import number_of as number_of
from feedpipe.services.transport.packing import unpack as unpack
from feedpipe.services.transport.packing import unpack_body as unpack_body
from feedpipe.services.turns import DEFAULT as DEFAULT
from feedpipe.services.turns import Merge as Merge
from feedpipe.services.turns import PrefetchLimit as PrefetchLimit
from feedpipe.services.turns import run_shards as run_shards
