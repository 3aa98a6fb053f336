"""What tests take from `feedpipe.plan`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.plan import division as division
from feedpipe.plan import lengths as lengths
from feedpipe.plan.divide import Pieces as Pieces
from feedpipe.plan.divide import divide as divide
from feedpipe.plan.divide import step_of as step_of
from feedpipe.plan.explain import explained as explained
from feedpipe.plan.fingerprint import MAX_FACTS as MAX_FACTS
from feedpipe.plan.fingerprint import Fingerprint as Fingerprint
from feedpipe.plan.fingerprint import code_differences as code_differences
from feedpipe.plan.fingerprint import differences as differences
from feedpipe.plan.rests import PARTS as PARTS
from feedpipe.plan.rests import Redivision as Redivision
from feedpipe.plan.rests import Rest as Rest
from feedpipe.plan.rests import dealt as dealt
from feedpipe.plan.rests import numbered as numbered
from feedpipe.plan.shards import NeighboursShard as NeighboursShard
from feedpipe.plan.shards import PermutedShard as PermutedShard
from feedpipe.plan.shards import PlacedShard as PlacedShard
from feedpipe.plan.shards import RemainingShard as RemainingShard
from feedpipe.plan.shards import StreamedShard as StreamedShard
