"""What `from endstop import Engine` costs, in fresh processes. `import endstop` alone loads next to nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from statistics import median
from typing import Any

NOT_BEFORE_USE = ("litellm", "openai", "aiohttp", "httpx", "pydantic", "structlog", "rich")
"""Packages that may be imported only when something needs them."""
_TIMED = """
import json, sys, time
began = time.perf_counter()
from endstop import Engine
took = time.perf_counter() - began
status = open("/proc/self/status").read() if sys.platform == "linux" else "VmHWM: 0 kB"
peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
loaded = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps({"seconds": took, "modules": len(sys.modules), "peak_mb": peak, "packages": loaded}))
"""
_LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s*(\S+)")


def measure_imports(processes: int) -> dict[str, Any]:
    """Seconds (median and best), what came too early, and who took the time."""
    runs = [json.loads(fresh("-c", _TIMED).stdout) for _ in range(processes)]
    seconds = [run["seconds"] for run in runs]
    trace = fresh("-X", "importtime", "-c", "from endstop import Engine").stderr
    shares: Counter[str] = Counter()
    for line in trace.splitlines():
        if (found := _LINE.match(line)) and (package := package_of(found[2])):
            shares[package] += int(found[1])
    return {
        "median_s": median(seconds),
        "best_s": min(seconds),
        "modules": runs[0]["modules"],
        "peak_mb": runs[0]["peak_mb"],
        "too_early": [name for name in NOT_BEFORE_USE if name in runs[0]["packages"]],
        "shares_ms": {name: micro / 1000 for name, micro in shares.most_common(6)},
    }


def fresh(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=60)


def package_of(module: str) -> str:
    """Under which name a module's time is counted: its package, or `standard library`."""
    top = module.partition(".")[0]
    if top.lstrip("_").startswith("editable"):
        return ""
    return "standard library" if top in sys.stdlib_module_names else top


if __name__ == "__main__":
    print(json.dumps(measure_imports(9), indent=2))
