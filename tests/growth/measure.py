"""How the processor time of a function grows with the length of its input."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sized
from functools import partial
from time import process_time
from typing import TypeVar

NOISE = 0.004
"""Seconds below which nothing is said of a growth."""
SHORT = 0.0003
"""Seconds below which a text takes as long as it takes to call the function."""
TIMES = 3
Input = TypeVar("Input", bound=Sized)


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


def growth(work: Callable[[Input], object], small: Input, large: Input, bound: float) -> float:
    """The exponent of the growth from one input to a larger one.

    The larger one is measured again only if it seems to take too long: the least of several times is never longer.
    """
    factor = len(large) / len(small)
    first, second = seconds(partial(work, small)), math.inf
    for _ in range(TIMES):
        second = min(second, seconds(partial(work, large), 1))
        if exponent(first, second, factor) < bound:
            break
    return exponent(first, second, factor)
