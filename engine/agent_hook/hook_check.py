"""`endstop hook --until`: the check of the work at the end of an agent, which is sent on while it is not met.

The check is that of `until` everywhere (`follow/agent_check.py`). An unchanged work tree is not checked again, also
not by the next process. An agent is let go, and the person told, where sending it on brings nothing: nothing has
changed since it was told, or `IN_VAIN` checks in a row were no better than before.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from ..decision import Stop, WrongUse
from ..decision.decisions import FOLLOWED
from ..decision.rules import rejection_message
from ..decision.until_facts import UNTIL, CheckFacts
from ..follow.agent_check import AgentCheck
from ..follow.follower import Follower
from ..until_settings import UntilSettings
from ..work.work_fingerprint import WorkFingerprint
from .hook_answers import ACCEPTED, HookAnswer
from .hook_events import Agent, HookEvent
from .hook_session import CheckMemory
from .hook_settings import HookSettings

IN_VAIN = 2
"""Checks in a row, each of changed work and no better than before, after which an agent is let go."""
BLOCK_CAP = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"
"""The variable with the number of times in a row that Claude Code lets hooks send it on."""


class EndCheck:
    """The check of one session.

    folder: of the agent. guarded: file for the originals of guarded files.
    """

    def __init__(
        self, settings: HookSettings, folder: str, follower: Follower, memory: CheckMemory, guarded: Path
    ) -> None:
        self._folder = os.path.realpath(folder) if os.path.isdir(folder) else os.getcwd()
        self._follower, self._memory = follower, memory
        self._until = UntilSettings(
            commands=settings.until,
            guard=settings.guard,
            score=settings.score,
            timeout=settings.check_seconds,
            from_failing=False,
        ).build(self._folder)
        self._check = AgentCheck(self._until, self._folder, follower, checked=memory.work or None, kept=guarded)

    def note_work(self) -> None:
        """Note how the work is at a prompt: one that changes nothing is not held up in a conversation."""
        self._memory.at_prompt = WorkFingerprint(self._folder).take()
        asyncio.run(self._check.begin_work())

    def answer_end(self, event: HookEvent, environ: Mapping[str, str]) -> HookAnswer:
        """Check the work; return why the agent is sent on, or what the person is told where it is let go."""
        if event.text:
            self._follower.response(event.text)
        if not event.goes_on:
            self._memory.sent_on = 0
        try:
            return asyncio.run(self._answer(event, environ))
        except WrongUse as error:
            return HookAnswer(say=f"endstop: the check cannot be made: {error}")

    async def _answer(self, event: HookEvent, environ: Mapping[str, str]) -> HookAnswer:
        follower, memory = self._follower, self._memory
        if _talks(environ) and memory.at_prompt and memory.at_prompt == WorkFingerprint(self._folder).take():
            return HookAnswer()
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # so that no child stays behind
        try:
            is_new = await self._check.check_end()
        finally:
            await self._check.close()
        memory.work = self._check.checked or ""
        facts = follower.facts.check
        if facts is None or facts.said != "not_met":
            return HookAnswer()
        name = self._until.name
        why = self._why_let_go(event, environ, facts, is_new=is_new)
        if why:
            follower.end(Stop(rule=FOLLOWED, reason="until_stalled", detail=f"`{name}` is not met, and {why}"))
            return HookAnswer(say=f"endstop: `{name}` is not met, and {why}, so the agent ends")
        decision = follower.reject(facts.told_detail, UNTIL)
        if isinstance(decision, Stop):
            return HookAnswer(say=f"endstop: `{name}` is not met, and the agent ends: {decision.detail}")
        memory.sent_on += 1
        memory.told = rejection_message(facts.told_detail)
        follower.said(memory.told)
        return HookAnswer(send_on=memory.told)

    def _why_let_go(self, event: HookEvent, environ: Mapping[str, str], facts: CheckFacts, *, is_new: bool) -> str:
        """Return why sending the agent on would bring nothing; empty if it may."""
        sent_on = self._memory.sent_on
        if not is_new and sent_on:
            return "nothing has changed since the agent was told"
        if facts.in_vain >= IN_VAIN:
            return f"{facts.in_vain} checks in a row were no better"
        if sent_on + 1 >= most_sent_on(event.agent, environ):
            return f"the agent was sent on {sent_on} times in a row"
        return ""


def most_sent_on(agent: Agent, environ: Mapping[str, str]) -> float:
    """Return how many times in a row an agent lets a hook send it on; infinite if it does not count."""
    limit = ACCEPTED[agent].loop_limit
    if limit is None:
        return float("inf")
    given = environ.get(BLOCK_CAP, "") if agent == "claude" else ""
    return int(given) if given.isdecimal() and int(given) else limit


def _talks(environ: Mapping[str, str]) -> bool:
    """Return whether a person talks with the agent in a terminal, as far as its variables say."""
    return environ.get("CLAUDE_CODE_ENTRYPOINT") == "cli"
