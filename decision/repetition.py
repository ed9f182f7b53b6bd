"""Counts of how often the same calls were made, with the same results or whatever they returned, cycles included.

The memory holds one mark for each of the latest steps, so it is bounded, and counting looks at no more than that. The
policy sets how long a cycle may be and whether results count: the memory serves every policy, so a backtest of another
policy needs no other memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from .messages import ToolCall

LONGEST_CYCLE = 12
"""Number of steps of the longest cycle that can be recognised."""
REMEMBERED_STEPS = 16 * LONGEST_CYCLE
"""Number of steps that are remembered to find cycles: 16 rounds of the longest one."""
CompareBy = Literal["calls_and_results", "calls"]
"""What makes two steps the same: their calls and results, or their calls alone."""


class Repetitions(Struct, frozen=True):
    """The marks of the latest steps.

    The mark of a step is the sum of the marks of its calls, so the order in which parallel calls ended does not matter.
    A cycle counts as one repetition each time it is completed.
    """

    steps: tuple[int, ...] = ()
    """Marks of calls with their results."""
    calls: tuple[int, ...] = ()
    """Marks of the calls alone, of the same steps."""
    counts: bool = False
    """Whether the latest finished step counts; a step that only polls does not."""

    def with_step(self, calls: int, results: Iterable[tuple[ToolCall, str]]) -> Repetitions:
        """Add a finished step: how many calls it has, and its results as (call, fingerprint).

        Calls without a fingerprint (of polling tools) do not count; a step that has only such calls is ignored. A step
        without calls starts the count again.
        """
        if not calls:
            return Repetitions()
        step_mark, call_mark, counted = 0, 0, 0
        for call, fingerprint in results:
            if fingerprint:
                step_mark += _number(fingerprint)
                call_mark += call_mark_of(call)
                counted += 1
        if not counted:
            return replace(self, counts=False)
        return Repetitions(
            steps=(*self.steps[1 - REMEMBERED_STEPS :], step_mark),
            calls=(*self.calls[1 - REMEMBERED_STEPS :], call_mark),
            counts=True,
        )

    def times(self, longest: int = LONGEST_CYCLE, by: CompareBy = "calls_and_results") -> int:
        """Return how often the latest calls were made in a row: 1 the first time, 0 if the latest step does not count.

        longest: steps of the longest cycle to look for. If several cycles are possible, the highest count is returned.
        """
        return count_cycles(self.steps if by == "calls_and_results" else self.calls, longest) if self.counts else 0

    def has_advanced(self, longest: int = LONGEST_CYCLE, by: CompareBy = "calls_and_results") -> bool:
        """Return whether the latest step completed one more repetition; False in the middle of a longer cycle."""
        marks = self.steps if by == "calls_and_results" else self.calls
        return self.times(longest, by) > (count_cycles(marks[:-1], longest) if len(marks) > 1 else 0)


def call_mark_of(call: ToolCall) -> int:
    """Return a number that is equal for equal calls, in every process."""
    name = crc32(call.name.encode("utf-8", "surrogatepass"))
    return name << 32 | crc32(call.arguments.encode("utf-8", "surrogatepass"), name)


def _number(fingerprint: str) -> int:
    try:
        return int(fingerprint, 16)
    except ValueError:  # in a foreign record any text will do, as long as equal calls have equal fingerprints
        return int.from_bytes(fingerprint.encode("utf-8", "replace"), "big")


def count_cycles(marks: tuple[int, ...], longest: int) -> int:
    """Return how often the cycle at the end of these marks was completed; the highest count if several are possible."""
    if marks[-1] not in marks[-1 - longest : -1]:
        return 1  # the usual case, found without counting
    return max(_count_repeats(marks, length) for length in range(1, longest + 1))


def _count_repeats(marks: tuple[int, ...], length: int) -> int:
    cycle = marks[-length:]
    if len(cycle) < length or (length > 1 and len(set(cycle)) == 1):
        return 0
    times = 0
    for end in range(len(marks), length - 1, -length):
        if marks[end - length : end] != cycle:
            break
        times += 1
    return times
