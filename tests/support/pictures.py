"""What tests take from `feedpipe.pictures`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.pictures import graph as graph
from feedpipe.pictures import layout as layout
from feedpipe.pictures import page as page
from feedpipe.pictures import values as values
from feedpipe.pictures.page import Html as Html
