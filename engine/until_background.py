"""`BackgroundCheck`: runs the check of a run (`until.py`) in the background, at most once for each state of the work.

A check begins before the next step, and its answer is looked at only in fixed places (`CheckPlace`), so that a replay
looks at the same ones: whether a check begins and what it has answered are effects of the run, and their results are
events. While a response streams, a check that is met cuts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from msgspec import structs

from .check_answers import WorkAnswer
from .decision.events import CheckEnded, CheckStarted
from .decision.until_facts import CheckPlace
from .effects import EffectKey, Effects
from .event_log import Log
from .tools.run_context import Progress
from .until_work import WorkCheck

FREE_SECONDS = 30.0
"""Seconds of checks that do not count against `Until.share`: quick checks are never held back."""
ENDING_SECONDS = 6.0
"""Seconds that a cancelled check may take to end its processes."""


class BackgroundCheck:
    """The check of one run.

    check: asks. log, effects, flush: of the run. progress: returns the run as functions see it. alone: whether only
    the run's own calls change the work, so that what changes while a check runs is the check's own. replays: whether
    the run is a replay. checked: fingerprint of the work that was checked last, by another process.
    """

    def __init__(
        self,
        check: WorkCheck,
        log: Log,
        effects: Effects,
        flush: Callable[[], Awaitable[None]],
        progress: Callable[[], Progress],
        *,
        alone: bool = True,
        replays: bool = False,
        checked: str | None = None,
    ) -> None:
        self._check = check
        self._log = log
        self._effects = effects
        self._flush = flush
        self._progress = progress
        self._alone, self._replays = alone, replays
        self._waiting = False
        """Whether the loop waits for the running check, so that nothing else changes the work."""
        self._was_met = False
        """Whether the work was right in a state that has changed since."""
        self._task: asyncio.Task[WorkAnswer] | None = None
        self._writes = 0
        """Number of calls so far that may have changed the work."""
        self._written = True
        """Whether such a call has begun since a check began, or no check has begun yet."""
        self._checked = checked
        self._seconds = 0.0
        """Time that checks have taken."""
        self._cut: Callable[[], None] | None = None
        """Cuts the response that is streaming."""

    @property
    def name(self) -> str:
        """The name of the check (`Until.name`)."""
        return self._check.until.name

    @property
    def runs(self) -> bool:
        """Whether a check is running, or has ended and was not looked at."""
        return self._task is not None

    @property
    def checked(self) -> str | None:
        """Fingerprint of the work that was checked last; None before the first check."""
        return self._checked

    @property
    def _decides(self) -> bool:
        """Whether the newest answer ends the run."""
        return self._log.facts.check_said in ("met", "impossible")

    # ---- the places where the loop looks

    async def start(self) -> None:
        """Check the work before the first request. Raises WrongUse if a command cannot be executed."""
        await self._check.begin_run()
        if self._log.facts.check_said is None and self._check.until.in_background:
            await self.settle("start")

    async def begin(self, place: CheckPlace) -> None:
        """Begin to check the work as it is, if it is not checked yet, without waiting for the answer."""
        await self._begin(place, due=True)

    async def before_step(self) -> bool:
        """Look at a check that has ended, begin one if the work has changed; return whether the run is to end."""
        if not (await self._look("step") and self._decides):
            due = self._written and self._check.until.in_background
            if await self._begin("step", due=due) and self._task is None:
                await self._begin("step", due=due)  # the one in the record was running when its process died
            await self._look("step", wait=self._was_met)
        return self._decides

    async def after_response(self) -> bool:
        """Look at a check that has ended while the response streamed; return whether the run is to end."""
        await self._look("response")
        return self._decides

    async def before_write(self) -> bool:
        """Wait for a running check before a call that may change the work; return whether the run is to end."""
        if not self._check.until.copy:
            await self._look("write", wait=True)
        self.note_write()
        return self._decides

    def note_write(self) -> None:
        """Note that the work may have changed."""
        self._writes += 1
        self._written = True

    async def settle(self, place: CheckPlace) -> bool:
        """Check the work as it is now, if it is not checked yet; return whether the run is to end."""
        while not self._decides:
            started = await self._begin(place, due=True)
            if not await self._look(place, wait=True) and not (started or self._was_met):
                break
        return self._decides

    async def wait_for_newest(self) -> None:
        """Wait for the running check; then for one of the newest work, if that has changed since."""
        older = self._task
        if older is None:
            return
        if await self._state_of_work() != self._checked:
            await asyncio.wait([older])
            self._task = None
            if not await self._begin("step", due=True):
                self._task = older
        assert self._task is not None
        await asyncio.wait([self._task])

    async def is_met(self) -> bool:
        """Return whether a check has ended that is met, by the work as it still is. It is not looked at yet."""
        task = self._task
        if task is None or not task.done() or task.result().said != "met":
            return False
        if await self._state_of_work() != self._checked:
            return False
        self._written = False
        return True

    def cut_with(self, cut: Callable[[], None] | None) -> None:
        """Call `cut` as soon as the check ends the run, which may be now; None: there is no response to cut."""
        self._cut = cut
        if cut is not None and self._task is not None and self._task.done():
            self._cut_if_final(self._task)

    def cancel(self) -> None:
        """Cancel a running check, which then ends its processes."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """End a running check with all its processes."""
        self.cancel()
        if self._task is not None:
            with anyio.move_on_after(ENDING_SECONDS, shield=True):
                await asyncio.wait([self._task])
            self._task = None
        with anyio.CancelScope(shield=True):
            await self._check.end_run()

    # ---- beginning a check, and its answer

    @property
    def _is_recorded(self) -> bool:
        """Whether what happens at a place may be in a record, whatever this process does."""
        return self._replays or self._log.has_past

    async def _begin(self, place: CheckPlace, *, due: bool) -> bool:
        if not (due or self._is_recorded):
            return False
        key = EffectKey(self._log.facts.steps, "check_start", place)
        started = await self._effects.once(key, partial(self._start, place, due))
        if started is not None:
            self._log.append(started)
        return started is not None

    async def _start(self, place: CheckPlace, due: bool) -> CheckStarted | None:
        """Start a check if none is running and the work is not checked as it is; return its event."""
        if self._task is not None or not due or (place == "step" and self._has_had_its_share()):
            return None
        work = await self._state_of_work()
        self._written = False
        if work == self._checked:
            return None
        await self._check.remember_guarded_files()
        await self._flush()
        self._checked = work
        self._task = asyncio.create_task(self._run(place), name=f"check of run {self._log.facts.run_id}")
        self._task.add_done_callback(self._cut_if_final)
        return CheckStarted(step=self._log.facts.steps, place=place, name=self.name, work=work)

    async def _run(self, place: CheckPlace) -> WorkAnswer:
        answer = await self._check.ask(self._progress)
        self._seconds += answer.duration_ms / 1000
        alone = self._waiting or (self._alone and not self._check.until.copy)
        if self._check.sees_files and alone and not self._written:
            self._checked = await self._state_of_work()  # what a check writes itself is no change
        if answer.said == "met" and place == "start" and not self._check.until.from_failing:
            return WorkAnswer(said="unknown", detail="it is met already, and the work has to change first")
        return answer

    async def _look(self, place: CheckPlace, *, wait: bool = False) -> bool:
        if self._task is None and not self._is_recorded:
            return False
        key = EffectKey(self._log.facts.steps, "check", place)
        ended = await self._effects.once(key, partial(self._answer, place, wait))
        if ended is not None:
            self._log.append(ended)
        return ended is not None

    async def _answer(self, place: CheckPlace, wait: bool) -> CheckEnded | None:
        """Return the answer of the check; None if there is none yet, or if it would end the run but is out of date."""
        task = self._task
        if task is None or not (wait or task.done()):
            return None
        self._waiting = wait
        try:
            await asyncio.wait([task])
        finally:
            self._waiting = False
        self._task = None
        self._was_met = task.result().is_final and self._written and await self._state_of_work() != self._checked
        if self._was_met:
            return None
        return CheckEnded(step=self._log.facts.steps, place=place, **structs.asdict(task.result()))

    def _has_had_its_share(self) -> bool:
        return self._seconds > max(FREE_SECONDS, self._check.until.share * self._log.elapsed)

    def _cut_if_final(self, task: asyncio.Task[WorkAnswer]) -> None:
        answered = not task.cancelled() and task.exception() is None
        if self._cut is not None and answered and task.result().is_final and not self._written:
            self._cut()

    async def _state_of_work(self) -> str:
        return await self._check.fingerprint() if self._check.sees_files else f"write {self._writes}"
