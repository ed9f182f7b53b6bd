"""How the processor time of a function grows with the length of its input."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from time import process_time

NOISE = 0.004
"""Seconds below which nothing is said of a growth."""
SHORT = 0.0003
"""Seconds below which a text takes as long as it takes to call the function."""
TIMES = 3


def seconds(work: Callable[[], object], times: int = TIMES) -> float:
    """Processor time, the least of several; one is enough where it is long or very short."""
    least = math.inf
    gc.disable()  # it looks at all that lives, at some lengths and not at others: a growth in steps that is not ours
    try:
        for _ in range(times):
            began = process_time()
            work()
            least = min(least, process_time() - began)
            if least < NOISE or least > 1:
                break
    finally:
        gc.enable()
    return least


def exponent(small: float, large: float, factor: float) -> float:
    """The exponent of a growth: 1 is linear, 2 is quadratic. small, large: seconds; factor: between the two lengths."""
    return math.log(max(large, NOISE) / max(small, NOISE), factor)
