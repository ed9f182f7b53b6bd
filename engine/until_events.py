"""The recorded events of the user's check (`until`), given out again where the loop looked at the check."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from .decision import Event
from .decision.events import CheckEnded, CheckStarted
from .decision.until_facts import CheckPlace
from .effects import EffectKey

WAITING_PLACES: frozenset[CheckPlace] = frozenset({"start", "write", "claim", "stop"})
"""Places where the loop waits for the answer of a running check."""


class RecordedChecks:
    """The checks in these events of a run, in their order."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._left = deque(event for event in events if isinstance(event, CheckStarted | CheckEnded))
        self.running = False
        """Whether the latest event taken began a check."""

    def take(self, key: EffectKey) -> CheckStarted | CheckEnded | None:
        """Take the next event if it was recorded at this place; None if it was not."""
        while self._left and self._left[0].step < key.step:
            self._left.popleft()
        if not self._left:
            return None
        event = self._left[0]
        kind = "check_start" if isinstance(event, CheckStarted) else "check"
        if (kind, event.step, event.place) != (key.kind, key.step, key.name):
            return None
        self.running = kind == "check_start"
        return self._left.popleft()
