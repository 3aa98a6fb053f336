"""What tests take from `feedpipe.services`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.services.processes import start as start
from feedpipe.services.processes.protocol import MAX_COPIED_BYTES as MAX_COPIED_BYTES
from feedpipe.services.processes.start import ForkServer as ForkServer
from feedpipe.services.processes.start import kept_server as kept_server
from feedpipe.services.transport.graph_file import early_imports as early_imports
from feedpipe.services.transport.graph_file import imports_of as imports_of
from feedpipe.services.transport.graph_file import write_graph_file as write_graph_file
from feedpipe.services.transport.module_state import CapturedGlobals as CapturedGlobals
from feedpipe.services.transport.packing import MIN_OWN_REGION_BYTES as MIN_OWN_REGION_BYTES
from feedpipe.services.transport.packing import PackedElement as PackedElement
from feedpipe.services.transport.packing import Packer as Packer
from feedpipe.services.transport.packing import unpack as unpack
from feedpipe.services.transport.packing import unpack_body as unpack_body
