"""`PlanArguments`: what a worker needs beside the graph to make the same plan as its owner."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from ..core.graph import Node
from ..plan.plan import Plan


class PlanArguments(NamedTuple):
    """What makes a plan of the graph."""

    seed: int
    rank: int
    world_size: int
    shards: int

    @staticmethod
    def of(plan: Plan) -> PlanArguments:
        return PlanArguments(plan.seed, plan.rank, plan.world_size, plan.shards)

    def plan(self, root: Node) -> Plan:
        seed, rank, world_size, shards = self
        return Plan(root, seed=seed, rank=rank, world_size=world_size, workers=0, shards=shards or None)

    def worker_seed(self, epoch: int, worker: int) -> int:
        """The seed of the global generators in a worker in this epoch."""
        words = repr((self.seed, epoch, self.rank, worker)).encode()
        return int.from_bytes(hashlib.blake2b(words, digest_size=4).digest(), "little")
