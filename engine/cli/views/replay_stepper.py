"""`endstop replay`, looked at: from some event on, and with keys step by step."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from ...decision import Event
from ...decision import events as ev
from ...records.reader import RecordedRun, SessionRecord
from ...replay import Watcher
from ...replay.diff import Beginning, Divergence, recorded_seq
from ...run import Run
from .base import Savings, savings_of
from .clean import one_line
from .keys import BACKSPACE, ENTER, ESCAPE
from .messages import message_lines, request_messages
from .replay import divergence_lines
from .select import View

KEYS = "Enter step · n decision · r run · g go to · m messages · e explain · q leave"


class Shown(Watcher):
    """Shows a replay in a view."""

    def __init__(self, view: View) -> None:
        self.begun = False
        """Whether anything was to be shown yet."""
        self.diverged: set[str] = set()
        """Runs whose divergence was shown."""
        self._view = view
        self._recorded: RecordedRun | None = None

    def begin(self, recorded: RecordedRun, run: Run, passed: Sequence[Event]) -> None:
        """A run is shown from here on."""
        self.begun, self._recorded = True, recorded
        if passed:
            self._view.recall(passed, inside=True)

    async def show(self, event: Event, run: Run) -> None:
        """One more event."""
        self._view.show(event)

    def diverge(self, divergence: Divergence) -> None:
        """Both decisions, where they part."""
        assert self._recorded is not None
        self.diverged.add(self._recorded.started.run_id)
        self._view.say(partial(divergence_lines, divergence))

    def saved(self) -> Savings | None:
        """What the cuts of the run that is shown have saved, as far as its record knows."""
        return None if self._recorded is None else savings_of(rest.chunk for rest in self._recorded.after_cut)


class GoneBack(Exception):
    """Somebody wants to see again what has passed: the replay is to start anew, from there."""

    def __init__(self, to: Beginning) -> None:
        super().__init__()
        self.to = to


class Walk(Shown):
    """Shows a replay, and waits for a key before each step.

    live: whether tools are really run, so that there is no way back.
    leave: called when somebody wants no more.
    """

    def __init__(
        self, view: View, record: SessionRecord, *, explain: bool, live: bool, leave: Callable[[], None]
    ) -> None:
        super().__init__(view)
        self._record = record
        self._explain = explain
        self._live = live
        self._leave = leave
        self._keys: deque[str] = deque()
        self._news = asyncio.Event()
        self._until: Literal["here", "step", "decision", "run", "target"] = "step"
        """What it goes on to before it stops again."""
        self._target = 0
        self._number = 0
        self._steps: dict[int, int] = {}
        """Where each step of the recorded run begins."""
        self._step = 0
        self._events: list[Event] = []
        """Those of the run so far."""
        self._skipped: list[Event] = []
        """Those that were not shown on the way to the target."""
        self._word = ""

    def press(self, key: str) -> None:
        """A key was pressed; "" if no more can come."""
        if key in ("q", "\x04", ""):
            self._leave()
        self._keys.append(key)
        self._news.set()

    @property
    def at(self) -> str:
        """The public id of the event that came last, as the record numbers it."""
        return self._id_of(self._events)

    # ---- looking on

    def begin(self, recorded: RecordedRun, run: Run, passed: Sequence[Event]) -> None:
        """A run is walked through from here on."""
        super().begin(recorded, run, passed)
        self._number = next(n for n, one in enumerate(self._record.runs) if one is recorded)
        self._steps = {e.step: e.seq for e in recorded.events if isinstance(e, ev.StepStarted)}
        self._events, self._skipped = list(passed), []
        self._step = max((e.step for e in passed if isinstance(e, ev.StepStarted)), default=0)
        self._until = "here" if passed else "step" if self._until != "decision" else "decision"

    async def show(self, event: Event, run: Run) -> None:
        """One more event, once it is wanted."""
        if self._stops_before(event):
            self._show_skipped()
            await self._stop(event)
        if isinstance(event, ev.StepStarted):
            self._step = event.step
        self._events.append(event)
        if self._until == "target" and not isinstance(event, ev.RunFinished):
            self._skipped.append(event)
            return
        self._show_skipped()
        await super().show(event, run)
        if isinstance(event, ev.DecisionMade) and self._until == "decision":
            self._view.explain(self._explain)
            self._until = "step"

    def diverge(self, divergence: Divergence) -> None:
        """Both decisions; it stops before the next step, wherever it was bound for."""
        self._show_skipped()
        self._until = "step"
        super().diverge(divergence)

    def _stops_before(self, event: Event) -> bool:
        if self._until == "here":
            return True
        if not isinstance(event, ev.StepStarted):
            return False
        return self._until == "step" or (self._until == "target" and event.step >= self._target)

    def _show_skipped(self) -> None:
        if self._skipped:
            self._view.recall(self._skipped)
            self._skipped = []

    # ---- the keys

    async def _stop(self, event: Event) -> None:
        ahead = event if isinstance(event, ev.StepStarted) else None
        while True:
            self._view.wait((self._where(event, ahead), KEYS))
            self._word = ""
            match await self._key():
                case "enter" | " ":
                    self._until = "step"
                case "n":
                    self._until = "decision"
                    self._view.explain(True)
                case "r":
                    self._until = "run"
                case "g":
                    if not await self._go_to(ahead):
                        continue
                case "e":
                    self._explain = not self._explain
                    self._view.explain(self._explain)
                    continue
                case "m":
                    self._show_messages(ahead)
                    continue
                case _:
                    continue
            self._view.wait(())
            return

    async def _key(self) -> str:
        while not self._keys:
            self._news.clear()
            await self._news.wait()
        return self._keys.popleft()

    def _where(self, event: Event, ahead: ev.StepStarted | None) -> str:
        last = max(self._steps, default=0)
        if ahead is None:
            place = f"at event {self._id_of([*self._events, event])}" + (
                f", step {self._step} of {last}" if self._step else ""
            )
        elif ahead.closing:
            place = "before the closing step"
        else:
            place = f"before step {ahead.step} of {last}"
        runs = len(self._record.runs)
        parts = [place, f"run {self._number + 1} of {runs}" if runs > 1 else "", "explain on" if self._explain else ""]
        return " · ".join(part for part in (*parts, self._word) if part)

    def _id_of(self, events: Sequence[Event]) -> str:
        if self._recorded is None:
            return "its beginning"
        return f"{one_line(self._recorded.started.run_id, 100)}:{recorded_seq(self._recorded, events)}"

    def _show_messages(self, ahead: ev.StepStarted | None) -> None:
        messages = request_messages(self._record.runs[: self._number], self._events)
        step = ahead.step if ahead is not None else self._step
        self._view.say(partial(message_lines, messages, step))

    async def _go_to(self, ahead: ev.StepStarted | None) -> bool:
        """Ask for a step and be bound for it; False to stay. Raises GoneBack if it has passed."""
        typed = ""
        while (key := await self._asked(typed)) != ENTER:
            if key == ESCAPE:
                return False
            typed = typed[:-1] if key == BACKSPACE else (typed + key)[:9] if key in "0123456789" else typed
        step = int(typed or 0)
        if step not in self._steps:
            self._word = f"this run has the steps {min(self._steps)} to {max(self._steps)}" if self._steps else ""
            return False
        if step > self._step:
            if ahead is None or step != ahead.step:
                self._until, self._target = "target", step
                return True
            return False
        if self._live:
            self._word = "tools were really run: there is no way back"
            return False
        raise GoneBack(Beginning(run=self._number, seq=self._steps[step]))

    async def _asked(self, typed: str) -> str:
        self._view.wait((f"go to step {typed}▏", "Enter go · Esc stay"))
        return await self._key()
