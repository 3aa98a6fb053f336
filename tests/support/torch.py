"""What tests take from `feedpipe.torch`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.torch.device import on_device as on_device
from feedpipe.torch.ranks import Meeting as Meeting
from feedpipe.torch.ranks import SideGroup as SideGroup
