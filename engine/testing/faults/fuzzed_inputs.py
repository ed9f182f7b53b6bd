"""Changes data at random, in a repeatable way, and checks that its reader fails only with documented errors."""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import process_time
from types import FrameType

from ...decision import WrongUse
from ...decision.wrong_calls import explained
from .invariants import Broken
from .mutations import mutated
from .peak_memory import PeakMemory
from .violations import FaultReport, Points, Stopwatch

_SHOWN = 300
"""Maximum number of bytes of an input that a violation shows."""
Read = Callable[[bytes], object]


class _TooLong(BaseException):
    """Raised inside code that takes too long; not caught by `except Exception`."""


@explained
def check_fuzzed_inputs(
    read: Read,
    examples: Sequence[bytes],
    raises: type[Exception] | tuple[type[Exception], ...],
    *,
    points: Points = 2_000,
    seed: int = 0,
    seconds: float | None = None,
    slowest: float = 5.0,
    memory: int = 500_000_000,
) -> FaultReport:
    """Pass changed inputs to a function, and check that it returns or raises one of its documented errors.

    read: reads the input: a parser, a file format, the arguments of a tool, the body of a request. Its return value
        does not matter. It may raise `AssertionError` for an invalid result, which is a violation like others.
    examples: inputs from which changed ones are made, each at most a few kilobytes, or it takes long.
    raises: the errors that it may raise.
    points: number of inputs to try, or exactly these numbers, from 1. The same seed and number give the same input.
    seconds: real seconds after which no further input is tried; None for no limit.
    slowest: maximum seconds of processor time for one input. On Unix, in the main thread, it is then interrupted.
    memory: maximum bytes by which the process may grow, at its peak.

    Raises WrongUse for arguments that cannot work, and for an example that is rejected. An unchanged example that
    breaks an invariant is point 0.
    """
    if not examples or isinstance(examples, bytes) or not all(isinstance(one, bytes) for one in examples):
        raise WrongUse(f"examples is {examples!r:.200}: give a list of bytes, one for each example")
    numbers = _numbers(points, seconds)
    report, watch = FaultReport("check_fuzzed_inputs", of=len(numbers)), Stopwatch(seconds)
    with _interrupted_after(slowest) as limit:
        for one in examples:
            how, broken = _try(read, one, raises, slowest, limit)
            if how != "read" and not broken:
                raise WrongUse(f"an example raises {how}, give examples that can be read: {_shown(one)}")
            report.add("no change", 0, broken, f"the example is {_shown(one)}")
        memory_used = PeakMemory()
        for number in numbers if report.ok else ():
            if report.full or watch.up:
                break
            data = mutated(examples, seed, number)
            how, broken = _try(read, data, raises, slowest, limit)
            if memory_used.grown > memory:
                broken.append(("bounded", f"the process grew by {memory_used.grown:,} bytes; the limit is {memory:,}"))
                memory_used = PeakMemory()
            report.tried += 1
            report.ends[how] += 1
            seen = [(invariant, f"{what}; the input is {_shown(data)}") for invariant, what in broken]
            report.add("changed input", number, seen, f"seed={seed}, points=[{number}]")
    report.seconds = watch.passed
    return report


def _numbers(points: Points, seconds: float | None) -> Sequence[int]:
    """Return the numbers of the inputs. Raises WrongUse for invalid values."""
    if points is None and seconds is None:
        raise WrongUse("points and seconds are None, but changed inputs never end: give one of them")
    if isinstance(points, bool) or (isinstance(points, int) and points < 1):
        raise WrongUse(f"points is {points!r}: give a number of inputs (1 or more), or a list of numbers")
    if points is None or isinstance(points, int):
        return range(1, sys.maxsize if points is None else points + 1)
    return points


def _try(
    read: Read,
    data: bytes,
    raises: type[Exception] | tuple[type[Exception], ...],
    slowest: float,
    limit: Callable[[float], None],
) -> tuple[str, list[Broken]]:
    """Return how it ended, for the report, and the broken invariants."""
    broken: list[Broken] = []
    began = process_time()
    try:
        limit(slowest)
        read(data)
        how = "read"
    except raises as error:
        how = type(error).__name__
    except _TooLong:
        how = "too slow"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        how = type(error).__name__
        place = traceback.extract_tb(error.__traceback__)[-1]
        broken.append(("typed_error", f"{how}: {error!s:.500} ({place.filename}:{place.lineno})"))
    finally:
        limit(0)
    took = process_time() - began
    if how == "too slow" or took > slowest:
        how = "too slow"
        broken.append(("bounded", f"it took {took:.1f} s of processor time, and the limit is {slowest:g} s"))
    return how, broken


@contextmanager
def _interrupted_after(slowest: float) -> Iterator[Callable[[float], None]]:
    """Yield a function that interrupts this thread after this many seconds of its own time; 0 cancels that."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield lambda seconds: None
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, interrupt)
    try:
        yield lambda seconds: signal.setitimer(signal.ITIMER_VIRTUAL, seconds) and None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _shown(data: bytes) -> str:
    return repr(data) if len(data) <= _SHOWN else f"{data[:_SHOWN]!r} and {len(data) - _SHOWN:,} bytes more"
