"""A Ray cluster of two nodes on this machine. It runs as a script of its own, which ends with the tests."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else Ray takes this machine's outside address, which may not be served
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_DEDUP_LOGS": "0",
}
STORE_BYTES = 200 << 20
HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 2,
}


class RayCluster:
    """The cluster, as tests use it.

    Attributes:
        address: what `ray.init` takes.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ENVIRONMENT,
        )
        self._process.wait()  # the cluster is no descendant of this process
        self.address = self._answer()

    @contextmanager
    def without_second_node(self, actors: Iterable[int]) -> Iterator[None]:
        """Kills the second node, and starts another one at the end.

        Args:
            actors: processes of that node. An actor ends when it misses its node's process, so this waits for them.
        """
        files = [os.pidfd_open(actor) for actor in actors]
        self._request("kill")
        for file in files:
            select.select([file], [], [])
            os.close(file)
        try:
            yield
        finally:
            self._request("add")

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.read()  # until the cluster is gone
        self._process.stdout.close()

    def _request(self, request: str) -> None:
        assert self._process.stdin is not None
        print(request, file=self._process.stdin, flush=True)
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        assert answer, "the cluster has ended"
        return answer


def _serve() -> None:
    """Starts a cluster, prints its address, and answers requests until there are no more."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 4, "object_store_memory": STORE_BYTES, "node_ip_address": "127.0.0.1"}
    head: dict[str, Any] = {"include_dashboard": False, "_system_config": HEALTH}
    cluster = Cluster(initialize_head=True, head_node_args=node | head)
    second = cluster.add_node(**node)
    cluster.wait_for_nodes()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Ray prints is no answer
    print(cluster.address, file=answers, flush=True)
    for request in sys.stdin:
        if request.strip() == "kill":
            cluster.remove_node(second, allow_graceful=False)
        else:
            second = cluster.add_node(**node)
            cluster.wait_for_nodes()
        print("done", file=answers, flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    if os.fork() == 0:
        os.setsid()
        _serve()
