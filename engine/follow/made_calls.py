"""The calls of the latest steps of a run, as a person is told of them: which were repeated, and since when."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ..base.sanitize import one_line
from ..decision import ToolCall
from ..decision.repetition import call_mark_of
from ..formats.parsing import as_dict
from ..providers.event_stream import decode_loosely

KEPT = 64
"""Number of steps that are kept. A circle that is longer is told without the step at which it began."""
LOOKED_AT = 2_000
"""Maximum number of characters of a call's arguments that are looked at."""
SHOWN = 80
"""Maximum number of characters of a call's arguments that are shown."""


class StepCalls(NamedTuple):
    """Calls of one step. marks: of each call, equal for the same calls."""

    step: int
    marks: frozenset[int]
    shown: str


class MadeCalls:
    """Calls of the latest steps."""

    def __init__(self) -> None:
        self._steps: deque[StepCalls] = deque(maxlen=KEPT)

    def add(self, step: int, calls: Sequence[ToolCall]) -> None:
        """Add a step. One without calls begins the count anew, as it does in `decision.repetition`."""
        if not calls:
            self._steps.clear()
            return
        marks = frozenset(map(call_mark_of, calls))
        self._steps.append(StepCalls(step, marks, " and ".join(map(shown_call, calls[:3]))))

    def repeated(self, times: int) -> tuple[str, str]:
        """Return the calls that the latest steps made this many times, and in which steps; both empty if unknown."""
        cycle = self.cycle(times)
        if not cycle:
            return (f"call {self.latest}" if self._steps else ""), ""
        shown, last = ", ".join(one.shown for one in cycle[:3]), self._steps[-1].step
        where = f"requests {self._steps[-len(cycle) * times].step} to {last}"
        return f"call {shown}" if len(cycle) == 1 else f"calls {shown}", where

    def cycle(self, times: int) -> list[StepCalls]:
        """Return the latest steps of which the calls were made this many times in a row; none if there are none."""
        steps = [*self._steps]
        for length in range(1, len(steps) // max(times, 1) + 1):
            cycle, taken = steps[-length:], steps[-length * times :]
            if all(one.marks == cycle[place % length].marks for place, one in enumerate(taken)):
                return cycle
        return []

    @property
    def steps(self) -> tuple[StepCalls, ...]:
        """The calls of the latest steps that are kept."""
        return tuple(self._steps)

    def restore(self, steps: Sequence[StepCalls]) -> None:
        """Continue after these steps."""
        self._steps = deque(steps, maxlen=KEPT)

    @property
    def latest(self) -> str:
        """The calls of the latest step; empty without any."""
        return self._steps[-1].shown if self._steps else ""


def shown_call(call: ToolCall) -> str:
    """Return a call as people read it: its name, and its only text, or its arguments."""
    given = call.arguments[:LOOKED_AT]
    arguments = as_dict(decode_loosely(given.encode("utf-8", "replace")))
    texts = [value for value in arguments.values() if isinstance(value, str)]
    said = f'"{one_line(texts[0], SHOWN)}"' if len(texts) == 1 else one_line(given, SHOWN)
    return f"{one_line(call.name, SHOWN)} {said}".rstrip()
