"""The calls of the latest steps of a run, as a person is told of them: which were repeated, and since when."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ..base.sanitize import one_line
from ..decision import ToolCall
from ..formats.parsing import as_dict
from ..providers.loose_json import decode_loosely

KEPT = 64
"""Number of steps that are kept. A circle that is longer is told without the step at which it began."""
LOOKED_AT = 2_000
"""Maximum number of characters of a call's arguments that are looked at."""
SHOWN = 80
"""Maximum number of characters of a call's arguments that are shown."""


class StepCalls(NamedTuple):
    """Calls of one step. key: equal for the same calls."""

    step: int
    key: int
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
        key = hash(frozenset((call.name, call.arguments) for call in calls))
        self._steps.append(StepCalls(step, key, " and ".join(map(shown_call, calls[:3]))))

    def repeated(self, times: int) -> tuple[str, str]:
        """Return the calls that the latest steps made this many times, and in which steps; both empty if unknown."""
        steps = [*self._steps]
        for length in range(1, len(steps) // max(times, 1) + 1):
            cycle, taken = steps[-length:], steps[-length * times :]
            if all(one.key == cycle[place % length].key for place, one in enumerate(taken)):
                shown = ", ".join(one.shown for one in cycle[:3])
                where = f"requests {taken[0].step} to {taken[-1].step}"
                return f"call {shown}" if length == 1 else f"calls {shown}", where
        return (f"call {steps[-1].shown}" if steps else ""), ""

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
