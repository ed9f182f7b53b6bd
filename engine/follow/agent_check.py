"""The check that says when the work of an agent is done: `until` of the adapters, and `endstop proxy --until`.

It runs beside the agent, whose tools change the work without asking: an answer counts only if the work is still as it
was. While an adapter or the proxy holds a request or the end of a response, the agent waits, so the newest work can be
checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from ..analysis.foreign_loops import ends_without_calls
from ..context import nothing_to_flush
from ..decision import Decision, GoOn, Stop, ToolCall, ToolResult
from ..decision.rules import rejection_message
from ..decision.until_facts import UNTIL
from ..effects import Live
from ..event_log import Log
from ..providers.clock import SystemClock
from ..tools.run_context import Progress
from ..until import Until
from ..until_background import BackgroundCheck
from ..until_work import WorkCheck
from .follower import Follower

T = TypeVar("T")
ACCEPTED = "Accepted."
"""Result of a withheld completion after which the agent goes on nevertheless."""


class AgentCheck:
    """The check of one conversation.

    folder: the agent's, whose files are the work; None if it is not in files. checked: fingerprint of the work that
    was checked last, by another process. kept: a file for the originals of guarded files, for other processes.
    """

    def __init__(
        self,
        until: Until,
        folder: str | None,
        follower: Follower,
        *,
        checked: str | None = None,
        kept: Path | None = None,
    ) -> None:
        self._checked = checked
        self._work = WorkCheck(until, folder, SystemClock(), follower.session_id, kept=kept)
        self._follower = follower
        self._log: Log | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: BackgroundCheck | None = None

    # ---- for an adapter, which is asked after each step

    async def start(self) -> Stop | None:
        """Check the work before the first request of a run. Return a Stop if nothing is left to do.

        Raises WrongUse if a command cannot be executed.
        """
        await self._of_this_run().start()
        if self._follower.facts.check_said not in ("met", "impossible"):
            return None
        decision = self._follower.decide()
        return decision if isinstance(decision, Stop) else None

    async def decide(self) -> Decision:
        """Return the decision after a step, as `Follower.decide` does; `say` of a GoOn has what the check says.

        A completion or a final text is checked first, and handed back if the work is not done. Otherwise a check of
        changed work begins, and runs beside the agent.
        """
        follower, check = self._follower, self._of_this_run()
        if follower.facts.steps == 0 and not follower.in_step:
            return await self.start() or follower.decide()
        claim = follower.claim
        if claim is not None:
            check.note_write()
            await check.settle("claim")
            if self._is_not_met:
                return self._reject(claim)
        ahead = follower.preview()
        if follower.facts.calls and claim is None:
            check.note_write()
        if isinstance(ahead, GoOn):
            await check.before_step()
            ahead = follower.preview()
        if isinstance(ahead, GoOn):
            return follower.decide()
        if ends_without_calls(follower.facts, ahead):
            await check.settle("claim")
            if self._is_not_met:
                return self._reject(None)
        await check.settle("stop")
        return follower.decide()

    async def settle(self) -> None:
        """Check the work as it is now, because the agent ends by its own rule."""
        if self._follower.running and self._follower.facts.steps:
            await self._of_this_run().settle("stop")

    @property
    def _is_not_met(self) -> bool:
        return self._follower.facts.check_said == "not_met"

    def _reject(self, claim: ToolCall | None) -> Decision:
        facts = self._follower.facts.check
        assert facts is not None
        decision = self._follower.reject(facts.told_detail, UNTIL, claim)
        if claim is None or not isinstance(decision, GoOn):
            return decision
        told = (rejection_message(facts.told_detail), decision.say)
        return replace(decision, say="\n\n".join(filter(None, told)))

    # ---- for a hook, whose agent waits at its end

    async def begin_work(self) -> None:
        """Note the guarded files as they are at a prompt. What has changed since the agent's end is the user's."""
        await self._work.begin_run()

    async def check_end(self) -> bool:
        """Check the work as it is now, unless it was checked as it is. Return whether it was not."""
        check = self._of_this_run()
        check.note_write()
        before = self._answers
        await check.settle("claim")
        return self._answers > before

    @property
    def _answers(self) -> int:
        """Number of checks of this run that have ended."""
        facts = self._follower.facts.check
        return 0 if facts is None else facts.answers

    @property
    def checked(self) -> str | None:
        """Fingerprint of the work that was checked last; None before the first check."""
        return self._checked if self._running is None else self._running.checked

    # ---- for the proxy, which holds the agent's requests and the ends of its responses

    async def begin(self) -> None:
        """Begin the check of the work as it is before the agent's first response, if the run has just begun."""
        if self._follower.running and self._follower.facts.steps == 0:
            check = self._of_this_run()
            await self._work.begin_run()
            await check.begin("start")

    async def before_request(self) -> None:
        """Look at the check before a request is decided on; the work may have changed since the one before."""
        if self._follower.running and self._follower.facts.steps:
            check = self._of_this_run()
            check.note_write()
            await check.before_step()

    async def hand_back(self, claim: ToolCall | None, *, decides: bool) -> str | None:
        """Check the work before the agent ends. Return what its model is told; None if it may end.

        claim: the completion call with which it would end; None for a final text. decides: whether the run is decided
        on now, because no result of a call will come.
        """
        check = self._of_this_run()
        check.note_write()
        await check.settle("claim")
        follower, facts = self._follower, self._follower.facts.check
        if facts is None or facts.said != "not_met":
            if decides:
                follower.decide()
            return await self._noted_end(None)
        said = rejection_message(facts.told_detail)
        if claim is None:
            decision = follower.reject(facts.told_detail, UNTIL)
        else:
            follower.result(ToolResult(claim.id, claim.name, said, "rejected"))
            decision = follower.decide()
        return said if isinstance(decision, GoOn) else await self._noted_end(None)

    async def answer_withheld(self, calls: Sequence[ToolCall]) -> str:
        """Check the work, and answer completion calls whose agent has run the calls beside them; return the result."""
        if not self._follower.running:
            return ACCEPTED
        check = self._of_this_run()
        check.note_write()
        await check.settle("claim")
        facts = self._follower.facts.check
        if facts is None or facts.said != "not_met":
            return ACCEPTED
        result = rejection_message(facts.told_detail)
        for call in calls:
            self._follower.result(ToolResult(call.id, call.name, result, "rejected"))
        return result

    @property
    def runs(self) -> bool:
        """Whether a check is running, or its answer was not looked at yet."""
        return self._running is not None and self._running.runs

    async def wait_for_newest(self) -> bool:
        """Wait until the work as it is now is checked, if a check is running; return whether it is right."""
        await self._of_this_run().wait_for_newest()
        return await self.is_met()

    async def is_met(self) -> bool:
        """Return whether a check has ended, and says that the work as it is now is right."""
        return await self._of_this_run().is_met()

    async def end_response(self) -> Stop | None:
        """Look at the check after it has cut a response. Return the decision that ends the run."""
        await self._of_this_run().after_response()
        decision = self._follower.decide()
        return await self._noted_end(decision) if isinstance(decision, Stop) else None

    def cancel(self) -> None:
        """Cancel a running check, which then ends its processes."""
        if self._running is not None:
            self._running.cancel()

    async def close(self) -> None:
        """End a running check with all its processes."""
        if self._running is not None:
            await self._running.close()

    async def _noted_end(self, answer: T) -> T:
        """Return the answer. What changes from here until the next run is the user's."""
        if not self._follower.running:
            await self._work.end_run()
        return answer

    def _of_this_run(self) -> BackgroundCheck:
        """Return the check of the current run: another one if its loop has ended with its tasks, as in a paused run."""
        log, loop = self._follower.log, asyncio.get_running_loop()
        if self._running is None or log is not self._log or loop is not self._loop:
            if self._loop is loop:
                self.cancel()
            self._log, self._loop = log, loop
            self._running = BackgroundCheck(
                self._work, log, Live(), nothing_to_flush, self._progress, alone=False, checked=self._checked
            )
        return self._running

    def _progress(self) -> Progress:
        return Progress(facts=self._follower.facts, messages=())
