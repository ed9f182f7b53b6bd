"""`CheckRunner`: runs the check of a run (`until.py`) beside it, at most once for each state of the work.

A check begins before the next step, and its answer is looked at only in fixed places (`CheckPlace`), so that a replay
looks at the same ones: whether a check begins and what it has answered are effects of the run, and their results are
events. While a response streams, a check that is met cuts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from msgspec.structs import replace

from .checks import NOT_EXECUTED, CommandCheck, Impossible, Met, NotMet, failure_mark
from .context import Context
from .decision import WrongUse
from .decision.checks import CheckPlace
from .decision.events import CheckEnded, CheckStarted
from .effects import EffectKey
from .guarded_files import GuardedFiles, copy_of, named_files, watched_patterns
from .hook_runner import progress
from .providers._logging import log_warning
from .tools.user_functions import call_user_function, describe_error, run_in_own_task
from .until import Until, name_of
from .work_fingerprint import WorkFingerprint

FREE_SECONDS = 30.0
"""Seconds of checks that do not count against `Until.share`: quick checks are never held back."""
ENDING_SECONDS = 6.0
"""Seconds that a cancelled check may take to end its processes."""


class CheckRunner:
    """Runs the check of one run. folder: its files are the work; None if the work is not in files."""

    def __init__(self, until: Until, folder: str | None) -> None:
        self._until = until
        self._folder = folder
        self._fingerprint = None if folder is None else WorkFingerprint(folder)
        self._task: asyncio.Task[CheckEnded] | None = None
        self._writes = 0
        """Number of calls so far that may have changed the work."""
        self._written = True
        """Whether such a call has begun since a check began, or none has begun yet."""
        self._checked: str | None = None
        """Fingerprint of the work that was checked last."""
        self._timeouts = 0
        """Checks in a row that did not end in time."""
        self._seconds = 0.0
        """Time that checks have taken."""
        self._guarded: GuardedFiles | None = None
        self._watched: GuardedFiles | None = None
        self._cut: Callable[[], None] | None = None
        """Cuts the response that is streaming."""

    @property
    def name(self) -> str:
        """The name of the check (`Until.name`)."""
        return self._until.name

    # ---- the places where the loop looks

    async def start(self, context: Context) -> None:
        """Check the work before the first request. Raises WrongUse if a command cannot be executed."""
        if context.log.facts.check_said is None:
            await self.settle(context, "start")

    async def before_step(self, context: Context) -> bool:
        """Look at a check that has ended, begin one if the work has changed; return whether the run is to end."""
        if not await self._look(context, "step"):
            await self._begin(context, "step", due=self._written)
        return _decides(context)

    async def after_response(self, context: Context) -> bool:
        """Look at a check that has ended while the response streamed; return whether the run is to end."""
        await self._look(context, "response")
        return _decides(context)

    async def before_write(self, context: Context) -> bool:
        """Wait for a running check before a call that may change the work; return whether the run is to end."""
        if not self._until.copy:
            await self._look(context, "write", wait=True)
        self._writes += 1
        self._written = True
        return _decides(context)

    async def settle(self, context: Context, place: CheckPlace) -> bool:
        """Check the work as it is now, if it is not checked yet; return whether the run is to end."""
        while not _decides(context):
            started = await self._begin(context, place, due=True)
            if not await self._look(context, place, wait=True) and not started:
                break
        return _decides(context)

    @contextmanager
    def cutting(self, cut: Callable[[], None]) -> Iterator[None]:
        """Call `cut` as soon as the check is met inside the block."""
        self._cut = cut
        try:
            yield
        finally:
            self._cut = None

    async def close(self) -> None:
        """End a running check with all its processes, and remove copies of files."""
        if self._task is not None:
            self._task.cancel()
            with anyio.move_on_after(ENDING_SECONDS, shield=True):
                await asyncio.wait([self._task])
            self._task = None
        for guarded in (self._guarded, self._watched):
            if guarded is not None:
                guarded.close()

    # ---- beginning a check, and its answer

    async def _begin(self, context: Context, place: CheckPlace, *, due: bool) -> bool:
        key = EffectKey(context.log.facts.steps, "check_start", place)
        started = await context.effects.once(key, partial(self._start, context, place, due))
        if started is not None:
            context.log.append(started)
        return started is not None

    async def _start(self, context: Context, place: CheckPlace, due: bool) -> CheckStarted | None:
        """Start a check if none is running and the work is not checked as it is; return its event."""
        if self._task is not None or not due or (place == "step" and self._has_had_its_share(context)):
            return None
        work = await self._state_of_work()
        self._written = False
        if work == self._checked:
            return None
        await self._remember_guarded_files()
        await context.flush()
        self._checked = work
        self._task = asyncio.create_task(self._run(context, place), name=f"check of run {context.run_id}")
        self._task.add_done_callback(self._cut_if_met)
        return CheckStarted(step=context.log.facts.steps, place=place, name=self._until.name, work=work)

    async def _look(self, context: Context, place: CheckPlace, *, wait: bool = False) -> bool:
        key = EffectKey(context.log.facts.steps, "check", place)
        ended = await context.effects.once(key, partial(self._answer, context, place, wait))
        if ended is not None:
            context.log.append(ended)
        return ended is not None

    async def _answer(self, context: Context, place: CheckPlace, wait: bool) -> CheckEnded | None:
        task = self._task
        if task is None or not (wait or task.done()):
            return None
        await asyncio.wait([task])
        self._task = None
        return replace(task.result(), step=context.log.facts.steps, place=place)

    def _has_had_its_share(self, context: Context) -> bool:
        return self._seconds > max(FREE_SECONDS, self._until.share * context.log.elapsed)

    def _cut_if_met(self, task: asyncio.Task[CheckEnded]) -> None:
        if (
            self._cut is not None
            and not task.cancelled()
            and task.exception() is None
            and _is_final(task.result().said)
        ):
            self._cut()

    async def _state_of_work(self) -> str:
        if self._fingerprint is None:
            return f"write {self._writes}"
        return await anyio.to_thread.run_sync(self._fingerprint.take)

    async def _remember_guarded_files(self) -> None:
        """Keep the files that the check stands on as they are before the first request."""
        folder, until = self._folder, self._until
        if folder is None or not until.commands or self._watched is not None:
            return
        named = [name for one in until.commands for name in named_files(one.command, folder)]
        watched = [pattern for one in until.commands for pattern in watched_patterns(one.command)]
        self._guarded, self._watched = await anyio.to_thread.run_sync(_remember, folder, until.guard, named, watched)

    # ---- the check itself

    async def _run(self, context: Context, place: CheckPlace) -> CheckEnded:
        began = context.clock.now()
        ended = CheckEnded(step=0, place=place, said="unknown", detail="it was stopped")
        with context.clock.deadline(self._until.timeout) as deadline:
            ended = await self._ask(context, place)
        if deadline.cancel_called:
            detail = f"`{self._until.name}` did not end within {self._until.timeout:g} seconds"
            ended = CheckEnded(step=0, place=place, said="not_met", detail=detail, timed_out=True)
        self._timeouts = self._timeouts + 1 if ended.timed_out else 0
        if self._timeouts == 2:
            log_warning(f"until: {ended.detail}, twice in a row; it counts as not met", run_id=context.run_id)
        if ended.said == "met" and place == "start" and not self._until.from_failing:
            ended = replace(ended, said="unknown", detail="it is met already, and the work has to change first")
        seconds = context.clock.now() - began
        self._seconds += seconds
        if self._fingerprint is not None and not self._written and not self._until.copy:
            self._checked = await self._state_of_work()  # what a check writes itself is no change
        return replace(ended, duration_ms=round(seconds * 1000))

    async def _ask(self, context: Context, place: CheckPlace) -> CheckEnded:
        """Ask the checks: where the agent works, or in a copy with the guarded files as they were."""
        guarded = await _changed(self._guarded)
        if self._guarded is not None and guarded:
            ended = await self._ask_in_copy(context, place, self._guarded.pristine_copy())
        elif self._until.copy and self._folder is not None:
            ended = await self._ask_in_copy(context, place, copy_of(self._folder))
        else:
            ended = await self._ask_all(context, place, self._folder)
        if guarded and ended.said == "not_met":
            names = ", ".join(guarded)
            detail = f"Files that are not to be changed were put back for the check: {names}.\n{ended.detail}"
            return replace(ended, detail=detail, guard_changed=guarded)
        watched = await _changed(self._watched) if ended.said == "met" else ()
        if self._watched is None or not watched:
            return replace(ended, guard_changed=())
        before = await self._ask_in_copy(context, place, self._watched.pristine_copy())
        return ended if before.said == "met" else replace(ended, guard_changed=watched)

    async def _ask_in_copy(self, context: Context, place: CheckPlace, copy: AbstractContextManager[Path]) -> CheckEnded:
        """Ask the checks in a copy of the folder, which is made and removed in a thread."""
        with anyio.CancelScope(shield=True):  # what it has made must be removed again
            folder = await anyio.to_thread.run_sync(copy.__enter__)
        try:
            return await self._ask_all(context, place, str(folder))
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(copy.__exit__, None, None, None)

    async def _ask_all(self, context: Context, place: CheckPlace, folder: str | None) -> CheckEnded:
        """Ask the checks in order, up to the first that is not met."""
        for check in self._until.checks:
            try:
                answer = await self._ask_one(context, check, place, folder)
            except WrongUse:
                raise
            except Exception as error:
                return CheckEnded(step=0, place=place, said="unknown", detail=describe_error(error))
            match answer:
                case Met() | True:
                    continue
                case NotMet(reason, score, of):
                    failure = 0 if score is not None else failure_mark(answer)
                    return CheckEnded(
                        step=0, place=place, said="not_met", detail=reason, score=score, of=of, failure=failure
                    )
                case False:
                    return CheckEnded(step=0, place=place, said="not_met", detail=f"`{name_of(check)}` is not met")
                case Impossible(reason):
                    return CheckEnded(step=0, place=place, said="impossible", detail=reason)
                case None:
                    return CheckEnded(step=0, place=place, said="unknown", detail=f"`{name_of(check)}` cannot tell")
                case _:
                    what = f"a check answers Met, NotMet, Impossible, a bool or None, not {type(answer).__name__}"
                    return CheckEnded(step=0, place=place, said="unknown", detail=what)
        return CheckEnded(step=0, place=place, said="met")

    async def _ask_one(self, context: Context, check: Any, place: CheckPlace, folder: str | None) -> Any:
        if not isinstance(check, CommandCheck):
            work = call_user_function(check, progress(context))
            return await run_in_own_task(work, name_of(check), run_id=context.run_id, role="check")
        code, output = await check.execute(folder)
        if place == "start" and code in NOT_EXECUTED:
            raise WrongUse(f"until: {check.describe(code, output)}\nThe command must be one that can run here")
        return check.read(code, output)


def _remember(
    folder: str, guard: tuple[str, ...], named: list[str], watched: list[str]
) -> tuple[GuardedFiles | None, GuardedFiles | None]:
    """Keep the guarded files, and these with the files that are only watched; None where there are none."""
    guarded = GuardedFiles(folder, guard, named) if guard or named else None
    return guarded, GuardedFiles(folder, guard, [*named, *watched]) if guard or named or watched else None


async def _changed(files: GuardedFiles | None) -> tuple[str, ...]:
    return () if files is None else await anyio.to_thread.run_sync(files.changed)


def _decides(context: Context) -> bool:
    """Return whether the newest answer ends the run."""
    return _is_final(context.log.facts.check_said)


def _is_final(said: str | None) -> bool:
    return said in ("met", "impossible")
