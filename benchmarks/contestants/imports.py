"""What an import costs: a fresh interpreter with nothing loaded but `time`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_CODE = """
import time
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
import json, resource, sys
print(json.dumps({{
    "seconds": seconds,
    "modules": len(sys.modules),
    "torch": "torch" in sys.modules,
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}}))
"""


def measure(module: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CODE.format(module=module)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ImportError(done.stderr.strip().splitlines()[-1])
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures
