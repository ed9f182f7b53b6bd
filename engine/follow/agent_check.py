"""The check that says when the work of an agent behind the proxy is done (`endstop proxy --until`).

It runs beside the agent, whose tools change the work in their own process: an answer counts only if the work is still
as it was. While the proxy holds a request or the end of a response, the agent waits, so the newest work can be checked.
"""

from __future__ import annotations

from ..context import nothing_to_flush
from ..decision import GoOn, ToolCall, ToolResult
from ..decision.rules import rejection_message
from ..effects import Live
from ..event_log import Log
from ..hook_runner import UNTIL
from ..providers.clock import SystemClock
from ..tools.run_context import Progress
from ..until import Until
from ..until_background import BackgroundCheck
from ..until_work import WorkCheck
from .follower import Follower


class AgentCheck:
    """The check of one conversation. folder: the agent's, whose files are the work."""

    def __init__(self, until: Until, folder: str, follower: Follower) -> None:
        self._work = WorkCheck(until, folder, SystemClock(), follower.session_id)
        self._follower = follower
        self._log: Log | None = None
        self._running: BackgroundCheck | None = None

    async def begin(self) -> None:
        """Begin the check of the work as it is before the agent's first response, if the run has just begun."""
        if self._follower.running and self._follower.facts.steps == 0:
            await self._of_this_run().begin("start")

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
        await self._of_this_run().settle("claim")
        follower, facts = self._follower, self._follower.facts.check
        if facts is None or facts.said != "not_met":
            if decides:
                follower.decide()
            return None
        said = rejection_message(facts.detail)
        if claim is None:
            decision = follower.reject(facts.detail, UNTIL)
        else:
            follower.result(ToolResult(claim.id, claim.name, said, "rejected"))
            decision = follower.decide()
        return said if isinstance(decision, GoOn) else None

    def cancel(self) -> None:
        """Cancel a running check, which then ends its processes."""
        if self._running is not None:
            self._running.cancel()

    async def close(self) -> None:
        """End a running check with all its processes."""
        if self._running is not None:
            await self._running.close()

    def _of_this_run(self) -> BackgroundCheck:
        log = self._follower.log
        if self._running is None or log is not self._log:
            self._log = log
            self._running = BackgroundCheck(self._work, log, Live(), nothing_to_flush, self._progress, alone=False)
        return self._running

    def _progress(self) -> Progress:
        return Progress(facts=self._follower.facts, messages=())
