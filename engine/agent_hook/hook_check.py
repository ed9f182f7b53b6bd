"""`endstop hook --until`: the check of the work at the end of an agent, which is sent on while it is not met.

The check is that of `until` everywhere (`follow/agent_check.py`). An unchanged work tree is not checked again, also
not by the next process. An agent is let go, and the person told, where sending it on brings nothing: nothing has
changed since it was told, or `IN_VAIN` checks in a row were no better than before.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from ..decision import GoOn, WrongUse
from ..decision.rules import rejection_message
from ..decision.until_facts import UNTIL
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


def note_prompt(event: HookEvent, memory: CheckMemory) -> None:
    """Note how the work is at a prompt, so that one that changes nothing is not held up in a conversation."""
    memory.at_prompt = WorkFingerprint(event.folder).take() if os.path.isdir(event.folder) else ""


def check_at_end(
    event: HookEvent, settings: HookSettings, environ: Mapping[str, str], follower: Follower, memory: CheckMemory
) -> HookAnswer:
    """Check the work, and return why the agent is sent on, or what the person is told where it is let go."""
    if event.text:
        follower.response(event.text)
    if not event.goes_on:
        memory.sent_on = 0
    try:
        return asyncio.run(_check(event, settings, environ, follower, memory))
    except WrongUse as error:
        return HookAnswer(say=f"endstop: the check cannot be made: {error}")


async def _check(
    event: HookEvent, settings: HookSettings, environ: Mapping[str, str], follower: Follower, memory: CheckMemory
) -> HookAnswer:
    folder = event.folder if os.path.isdir(event.folder) else os.getcwd()
    until = UntilSettings(
        commands=settings.until,
        guard=settings.guard,
        score=settings.score,
        timeout=settings.check_seconds,
        from_failing=False,
    ).build(folder)
    if _talks(environ) and memory.at_prompt and memory.at_prompt == WorkFingerprint(folder).take():
        return HookAnswer()
    check = AgentCheck(until, folder, follower, checked=memory.work or None)
    try:
        is_new = await check.check_end()
    finally:
        await check.close()
    memory.work = check.checked or ""
    facts = follower.facts.check
    if facts is None or facts.said != "not_met":
        return HookAnswer()
    why = ""
    if not is_new and memory.sent_on:
        why = "nothing has changed since the agent was told"
    elif facts.in_vain >= IN_VAIN:
        why = f"{facts.in_vain} checks in a row were no better"
    elif memory.sent_on + 1 >= most_sent_on(event.agent, environ):
        why = f"the agent was sent on {memory.sent_on} times in a row"
    decision = None if why else follower.reject(facts.told_detail, UNTIL)
    if not isinstance(decision, GoOn):
        return HookAnswer(say=f"endstop: `{until.name}` is not met, and {why or 'nothing comes of it'}: the agent ends")
    memory.sent_on += 1
    memory.told = rejection_message(facts.told_detail)
    follower.said(memory.told)
    return HookAnswer(send_on=memory.told)


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
