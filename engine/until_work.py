"""`WorkCheck`: asks the checks of an `Until` about the work in its folder, with the guarded files as they were.

It knows nothing of a loop. `until_background.py` runs it beside a run of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from weakref import finalize

import anyio
import anyio.to_thread
from msgspec.structs import replace

from .check_answers import NOT_STARTED, Check, CheckAnswer, CommandCheck, NotMet, WorkAnswer, answer_of
from .decision import WrongUse
from .providers._logging import log_warning
from .providers.clock import Clock
from .tools.run_context import Progress
from .tools.schema import InvalidArguments
from .tools.user_functions import call_user_function, describe_error, run_in_own_task
from .until import Until, name_of
from .user_errors import log_unusable_answer, log_user_error
from .work.folder_copy import copy_of
from .work.guarded_files import GuardedFiles
from .work.summary_lines import read_summary
from .work.watched_files import named_files, shadowing_patterns, watched_patterns
from .work.work_fingerprint import WorkFingerprint


class WorkCheck:
    """The checks of the runs of one session.

    folder: where commands run, and whose files are the work; None if the work is not in files. clock: for the timeout.
    session_id: for the log. is_work: whether the files of the folder are all of the work; if not, each call that may
    write counts as a change of it. kept: a file for the originals of guarded files, if several processes check in turn.
    """

    def __init__(
        self,
        until: Until,
        folder: str | None,
        clock: Clock,
        session_id: str = "",
        *,
        is_work: bool = True,
        kept: Path | None = None,
    ) -> None:
        self._kept = kept
        self.until = until
        self._folder = folder
        self._clock = clock
        self._session_id = session_id
        self._fingerprint = WorkFingerprint(folder) if folder is not None and is_work else None
        self._timeouts = 0
        """Checks in a row that did not end in time."""
        self._asked = False
        self._files: GuardedFiles | None = None
        """Files that the check stands on."""

    @property
    def sees_files(self) -> bool:
        """Whether the work is in files, so that it has a fingerprint."""
        return self._fingerprint is not None

    async def fingerprint(self) -> str:
        """Return the fingerprint of the work as it is now."""
        assert self._fingerprint is not None
        return await anyio.to_thread.run_sync(self._fingerprint.take)

    async def begin_run(self) -> None:
        """Take what has changed since the run before, in the files that the check stands on, as the user's."""
        self._asked = False
        if self._kept is not None:
            await self.remember_guarded_files()
        if self._files is not None:
            await anyio.to_thread.run_sync(self._files.adopt)
            await self._keep()

    async def end_run(self) -> None:
        """Note how the files that the check stands on are at the end of a run."""
        if self._files is not None:
            await anyio.to_thread.run_sync(self._files.mark)
            await self._keep()

    async def _keep(self) -> None:
        if self._kept is not None and self._files is not None:
            await anyio.to_thread.run_sync(self._files.keep, self._kept)

    async def remember_guarded_files(self) -> None:
        """Keep the files that the check stands on as they are now, before an agent can change them."""
        folder, until = self._folder, self.until
        if folder is None or not until.commands or self._files is not None:
            return
        self._files = await anyio.to_thread.run_sync(_remember, until, folder, self._kept)
        finalize(self, self._files.close)

    async def ask(self, progress: Callable[[], Progress]) -> WorkAnswer:
        """Ask the checks, for at most `Until.timeout`. progress: returns the run as a function sees it.

        Raises WrongUse if the first time a command cannot be executed.
        """
        began, first = self._clock.now(), not self._asked
        answer = WorkAnswer(said="unknown", detail="it was stopped")
        with self._clock.deadline(self.until.timeout) as deadline:
            try:
                answer = await self._ask_where_it_counts(progress, first)
            except OSError as error:  # a copy could not be made, or a command not be started
                answer = WorkAnswer(said="unknown", detail=describe_error(error))
        if deadline.cancel_called:
            detail = f"`{self.until.name}` did not end within {self.until.timeout:g} seconds"
            answer = WorkAnswer(said="not_met", detail=detail, timed_out=True)
        self._timeouts = self._timeouts + 1 if answer.timed_out else 0
        if self._timeouts == 2:
            log_warning(f"until: {answer.detail}, twice in a row; it counts as not met", session_id=self._session_id)
        self._asked = True
        return replace(answer, duration_ms=round((self._clock.now() - began) * 1000))

    async def _ask_where_it_counts(self, progress: Callable[[], Progress], first: bool) -> WorkAnswer:
        """Ask the checks where the agent works, or in a copy with the guarded files as they were."""
        files = self._files
        changed = () if files is None else await anyio.to_thread.run_sync(files.changed)
        guarded = () if files is None else tuple(filter(files.guards, changed))
        if files is not None and guarded:
            answer = await self._ask_in_copy(files.pristine_copy(), progress, first)
        elif self.until.copy and self._folder is not None:
            answer = await self._ask_in_copy(copy_of(self._folder), progress, first)
        else:
            answer = await self._ask_all(self._folder, progress, first)
        if guarded and answer.said == "not_met":
            names = ", ".join(guarded)
            detail = f"Files that are not to be changed were put back for the check: {names}.\n{answer.detail}"
            return replace(answer, detail=detail, guard_changed=guarded)
        if files is None or not changed or guarded or answer.said != "met":
            return answer
        before = await self._ask_in_copy(files.pristine_copy(), progress, first)
        return answer if before.said == "met" else replace(answer, guard_changed=changed)

    async def _ask_in_copy(
        self, copy: AbstractContextManager[Path], progress: Callable[[], Progress], first: bool
    ) -> WorkAnswer:
        """Ask the checks in a copy of the folder, which is made and removed in a thread."""
        with anyio.CancelScope(shield=True):  # what it has made must be removed again
            folder = await anyio.to_thread.run_sync(copy.__enter__)
        try:
            return await self._ask_all(str(folder), progress, first)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(copy.__exit__, None, None, None)

    async def _ask_all(self, folder: str | None, progress: Callable[[], Progress], first: bool) -> WorkAnswer:
        """Ask the checks in order, up to the first that is not met."""
        score, of, judged_by, usage = None, None, "", None
        for check in self.until.checks:
            if isinstance(check, CommandCheck):
                answer = await _execute(check, folder, first)
            else:
                answer = await self._call(check, progress())
            judged_by, usage = answer.judged_by or judged_by, answer.usage or usage
            score, of = (answer.score, answer.of) if score is None else (score, of)
            if answer.said != "met":
                return answer
        return WorkAnswer(said="met", score=score, of=of, judged_by=judged_by, usage=usage)

    async def _call(self, check: Check, progress: Progress) -> WorkAnswer:
        """Return the answer of a function. One that raises, or answers something else, is not met."""
        name = name_of(check)
        try:
            work = call_user_function(check, progress)
            said: CheckAnswer = await run_in_own_task(work, name, session_id=self._session_id, role="check")
        except InvalidArguments as error:  # what a check tells the model, as a tool does
            said = NotMet(describe_error(error))
        except Exception as error:
            log_user_error("check", check, error, session_id=self._session_id)
            return WorkAnswer(said="not_met", detail=f"the check itself failed: {describe_error(error)}")
        answer = answer_of(said, name)
        if answer.said != "unknown":
            return answer
        log_unusable_answer(
            "check", check, f"{answer.detail}: return Met() or NotMet(reason)", session_id=self._session_id
        )
        return answer if said is None else replace(answer, said="not_met")


async def _execute(check: CommandCheck, folder: str | None, first: bool) -> WorkAnswer:
    code, output = await check.execute(folder)
    if first and code in NOT_STARTED:
        raise WrongUse(f"until: {check.describe(code, output)}\nGive a command that can be executed there")
    answer = answer_of(check.read(code, output), check.command)
    if answer.score is not None:
        return answer
    score, of = check.read_score(output) if check.has_score else _counted_tests(output)
    return replace(answer, score=score, of=of)


def _counted_tests(output: str) -> tuple[float | None, float | None]:
    """Return how many tests passed, and how many there were, if the summary of a known runner says it."""
    summary = read_summary(output)
    if summary.passed is None and summary.failed is None:
        return None, None
    passed = summary.passed or 0
    return passed, passed + (summary.failed or 0)


def _remember(until: Until, folder: str, kept: Path | None) -> GuardedFiles:
    """Keep the files that the check stands on; without those that are only watched if they are too many.

    kept: the file with the originals that another process has kept, if there is one.
    """
    if kept is None or not kept.exists():
        files = _guarded(until, folder, until.guard)
        if kept is not None:
            files.keep(kept)
        return files
    files = _guarded(until, folder, (), unasked=until.guard)  # the agent may have deleted all that a pattern fits
    if not files.take_kept(kept):
        files.keep(kept)
    return files


def _guarded(until: Until, folder: str, guard: Sequence[str], *, unasked: Sequence[str] = ()) -> GuardedFiles:
    """Return the guarded files of a folder. unasked: patterns that may fit nothing."""
    named = [*unasked, *(name for one in until.commands for name in named_files(one.command, folder))]
    watched = [pattern for one in until.commands for pattern in watched_patterns(one.command)]
    watched += [pattern for one in until.commands for pattern in shadowing_patterns(one.command, folder)]
    try:
        return GuardedFiles(folder, guard, named=named, watched=watched)
    except WrongUse as error:
        files = GuardedFiles(folder, guard, named=named)
        log_warning("until: changes of tests and settings are not noticed", folder=folder, why=str(error))
        return files
