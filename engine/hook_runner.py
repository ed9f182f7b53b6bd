"""Asking functions that are not ours: with a deadline and recorded.

In a replay, and where a killed run goes on, what the record holds is taken instead of asking again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from .context import Context
from .decision import (
    AssistantMessage,
    Stop,
)
from .decision.events import CompletionRejected, MessageAdded, StageFinished, StageStatus, VerdictGiven
from .hooks import Accept, Answer, Prepare, Progress, PromptHandler, Reject, Verdict, qualified
from .tools.results import Completion
from .tools.user_functions import call_user_function, describe_error, run_in_own_task

Role = Literal["gate", "judge", "text_rule", "handler", "compactor"]
Read = Callable[[Any], Verdict]

ASKED_BETWEEN = frozenset({"judge", "handler", "compactor"})
"""Who is asked between two steps, and so not beyond the run's limit on time. The others settle a whole response."""


async def ask(
    context: Context,
    role: Role,
    function: Any,
    arguments: tuple[Any, ...],
    read: Read,
    call_id: str | None = None,
    tokens: int | None = None,
) -> Verdict:
    """What the function says; `failed` if it raises, takes too long or answers what `read` cannot make sense of.

    `tokens` is the size of the request that it makes to a model. Where runs share a budget it waits for room, and is
    not asked (`refused`) once nothing is left.
    """
    name = qualified(function)
    before = context.before_kill(VerdictGiven, role=role, name=name, call_id=call_id)
    if before is not None:
        return Verdict(before.said, before.detail, before.usage)
    recorded = context.replay(role, name, call_id) if context.replay is not None else None
    refused = None if recorded is not None or tokens is None else await _refused(context, tokens)
    began = context.clock.now()
    if recorded is not None:
        verdict = Verdict(recorded.said, recorded.detail, recorded.usage)
    elif refused is not None:
        verdict = refused
    else:
        await context.flush()
        verdict = await _within(context, role, function, arguments, read)
    context.log.append(
        VerdictGiven(
            role=role,
            name=name,
            said=verdict.said,
            detail=verdict.detail,
            call_id=call_id,
            usage=verdict.usage,
            duration_ms=round((context.clock.now() - began) * 1000),
        )
    )
    return verdict


async def _refused(context: Context, tokens: int) -> Verdict | None:
    refused = None if context.share is None else await context.share.reserve(context.log.facts.steps, tokens)
    return None if refused is None else Verdict("refused", f"{refused.limit} of the shared budget is used up")


async def _within(context: Context, role: Role, function: Any, arguments: tuple[Any, ...], read: Read) -> Verdict:
    seconds: float = getattr(context.policy.deadlines, role)
    left = context.limits.seconds_left()
    if left is not None and role in ASKED_BETWEEN:
        seconds = max(0.0, min(seconds, left))
    verdict = Verdict("failed", f"no answer within {seconds:g} seconds")
    with context.clock.deadline(seconds):
        try:
            work = call_user_function(function, *arguments)
            verdict = read(await run_in_own_task(work, qualified(function), run_id=context.run_id, role=role))
        except Exception as error:
            verdict = Verdict("failed", describe_error(error))
    return verdict


def read_gate(said: Any) -> Verdict:
    """Accept, Reject, or a plain truth value."""
    match said:
        case Accept() | True | None:
            return Verdict("accept")
        case Reject(reason):
            return Verdict("reject", reason)
        case False:
            return Verdict("reject", "The work does not pass its check yet.")
        case _:
            raise TypeError(f"a gate answers Accept or Reject, not {type(said).__name__}")


def read_text_rule(said: Any) -> Verdict:
    """True, False or None."""
    match said:
        case True | False | None:
            return Verdict({True: "final", False: "nudge", None: "default"}[said])
        case "final" | "nudge" | "default":
            return Verdict(said)
        case _:
            raise TypeError(f"a text rule answers True, False or None, not {type(said).__name__}")


def read_judge(said: Any) -> Verdict:
    """A Verdict of complete or incomplete."""
    if isinstance(said, Verdict) and said.said in ("complete", "incomplete"):
        return said
    raise TypeError(f"a judge answers Verdict('complete') or Verdict('incomplete'), not {said!r}")


def progress(context: Context) -> Progress:
    """What a function that is not ours may look at."""
    return Progress(
        facts=context.log.facts,
        messages=tuple(context.transcript.messages),
        record=context.record_path,
        prices=context.price_list,
    )


# Asking the gates whether an answer is good, be it a completion's or plain text that would end the run.


async def ask_gates(context: Context, completion: Completion, call_id: str | None = None) -> tuple[str, str] | None:
    """Why it is handed back, and by which gate; None if all accept. The first that objects is the last one asked."""
    for gate in context.gates:
        verdict = await ask(context, "gate", gate, (completion, progress(context)), read_gate, call_id)
        if verdict.said != "accept":
            failed = "The check of the completion failed: " if verdict.said == "failed" else ""
            return failed + verdict.detail, qualified(gate)
    return None


# What a response means beyond its words: the user's own rule is asked, then the gates, if it would end the run.


async def ask_text_rule(context: Context, message: AssistantMessage) -> None:
    """Let the user's own rule say what this response means, if there is one."""
    if context.text_rule is not None:
        await ask(context, "text_rule", context.text_rule, (message.text, message.calls), read_text_rule)


async def check_text(context: Context, message: AssistantMessage) -> None:
    """Let the gates check plain text that would end the run: it says that the work is done as a completion does."""
    if not context.gates or not _would_end(context):
        return
    objection = await ask_gates(context, Completion(answer=message.text))
    if objection is not None and context.before_kill(CompletionRejected, call_id="") is None:
        reason, gate = objection
        context.log.append(CompletionRejected(call_id="", name="", reason=reason, by=gate))


def _would_end(context: Context) -> bool:
    decision = context.look_ahead(context.log.facts, context.policy)
    return isinstance(decision, Stop) and decision.reason == "text_final"


async def ask_handlers(context: Context, handlers: Sequence[PromptHandler]) -> None:
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


async def _ask_each(context: Context, handlers: Sequence[PromptHandler], prompt: str, failed: list[str]) -> None:
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
