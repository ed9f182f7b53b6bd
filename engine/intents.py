"""Intents: handlers that see a prompt before the model does.

    async def greet(prompt: str, progress: Progress) -> Answer | Prepare | None:
        return Answer("Hello!") if prompt.lower() in ("hi", "hello") else None

A handler answers (the run ends as `handled`, without a model request), prepares (adds a message for the model, or
asks for no next-step prompt) or passes. The first that answers wins; one that raises or takes too long is passed over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from .context import Context
from .decision.events import MessageAdded, StageFinished, StageStatus
from .hook_runner import ask, progress
from .hooks import Progress, Verdict, qualified


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the prompt; the model is not asked."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Something for the model to know before it answers."""

    message: str = ""
    """Added in the user's role, after the prompt; nothing if empty."""
    next_step: bool = True
    """False: no next-step prompt in this run."""


Handler = Callable[[str, Progress], Awaitable[Answer | Prepare | None] | Answer | Prepare | None]


async def ask_handlers(context: Context, handlers: Sequence[Handler]) -> None:
    """The stage `prepare`: let each handler see the run's prompt, until one answers."""
    killed = context.interrupted
    if killed is not None and (killed.in_round or killed.decision is not None or killed.facts.steps):
        return
    if context.prompt is None or not handlers:
        context.stage(StageFinished(stage="prepare", status="skipped" if handlers else "absent"))
        return
    began = context.clock.now()
    failed: list[str] = []
    with context.cancellable():
        await _ask_each(context, handlers, context.prompt, failed)
    duration = round((context.clock.now() - began) * 1000)
    status: StageStatus = "failed" if failed else "ok"
    detail = f"no answer of use from {', '.join(failed)}" if failed else ""
    if context.cancelled is not None:
        status = "cancelled"
    context.stage(StageFinished(stage="prepare", status=status, detail=detail, duration_ms=duration))


async def _ask_each(context: Context, handlers: Sequence[Handler], prompt: str, failed: list[str]) -> None:
    """Ask until one answers; the names of those that failed are noted."""
    for handler in handlers:
        verdict = await ask(context, "handler", handler, (prompt, progress(context)), _read)
        if verdict.said == "answered":
            break
        if verdict.said == "failed":
            failed.append(qualified(handler))
        if verdict.said == "prepared":
            prepared = msgspec.json.decode(verdict.detail, type=Prepare)
            context.skip_next_step = context.skip_next_step or not prepared.next_step
            if prepared.message and context.before_kill(MessageAdded, origin="handler") is None:
                context.log.append(MessageAdded(text=prepared.message, origin="handler"))


def _read(said: Any) -> Verdict:
    match said:
        case None:
            return Verdict("passed")
        case Answer(text):
            return Verdict("answered", text)
        case Prepare():
            return Verdict("prepared", msgspec.json.encode(said).decode())
        case _:
            raise TypeError(f"a handler answers Answer, Prepare or None, not {type(said).__name__}")
