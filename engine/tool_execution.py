"""Execute one tool call within its deadline; whatever the function raises becomes the call's result.

The start of a call is logged and flushed before the function runs. A call that was running when its process died is
therefore known and not simply run again: `resolve_interrupted_call` decides what happens to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any

from .approvals import MAX_SHOWN_ARGUMENTS
from .cancel_scope import RoundScope
from .context import Context
from .decision import ToolCall, WrongUse
from .decision.events import ToolExecutionStarted, ToolProgress, VerdictGiven
from .decision.messages import ResultStatus
from .decision.other_names import other_name
from .decision.policy import fill_in
from .decision.transcript import PROCESS_DIED
from .durability import RunLost
from .effects import EffectKey
from .hard_limits import NO_DEADLINE
from .hooks import qualified_name
from .tools.call_progress import progress_to
from .tools.result_texts import LIMIT_REACHED, STILL_RUNNING_AFTER, STOPPED_AT_LIMIT
from .tools.results import (
    CallOutcome,
    Completion,
    Happened,
    NeedsUserInput,
    NotHappened,
    ProgressUpdate,
    Unclear,
    parse_completion,
    truncate,
)
from .tools.run_context import context_parameter, running_call, with_context
from .tools.schema import InvalidArguments
from .tools.tool import Tool
from .tools.user_functions import call_user_function, describe_error, run_in_own_task
from .user_errors import log_unusable_answer, log_user_error

UNLIMITED_KINDS = frozenset({"completion", "question"})
"""Kinds of tools that no limit of the run cuts off: a complete completion or question always gets its result."""
NOT_EXECUTED = NotHappened()
"""Answer of `resolve_interrupted_call` if the call had no effect, or none that matters: it is run again."""
_CHECK_WORDS: dict[type, str] = {Happened: "happened", NotHappened: "not_happened", Unclear: "unclear"}
_current_context: ContextVar[Context] = ContextVar("endstop_context")
"""Context of the run whose call is being run. It is visible to the call's function and to the tasks that it starts."""


def calling_context() -> Context:
    """Return the context of the run whose call is being run. Raises LookupError outside a call."""
    return _current_context.get()


def call_key(context: Context, call: ToolCall) -> EffectKey:
    """Return the key of a call of the current step."""
    return EffectKey(context.log.facts.steps, "call", call_id=call.id)


async def execute_call(
    context: Context, scope: RoundScope, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]
) -> Any:
    """Run a call. Return the function's value, a CallOutcome that says why it failed, or NeedsUserInput.

    If the scope was cancelled before the call or during it, the cancellation is raised instead.
    """
    await scope.checkpoint()
    key = call_key(context, call)
    again = context.effects.began(key)
    here = _current_context.set(context)
    try:
        with running_call(context.run_context(call.id, again=again)):
            value = await context.effects.once(key, partial(_run_once, context, tool, call, arguments, again))
    finally:
        _current_context.reset(here)
    await scope.checkpoint()
    return value


async def _run_once(context: Context, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], again: bool) -> Any:
    """Run a call. again: whether it had begun in a process that died."""
    value = await resolve_interrupted_call(context, tool, call, arguments) if again else NOT_EXECUTED
    if value is NOT_EXECUTED:
        value = await _run(context, tool, call, arguments)
    if tool.kind == "completion":
        value = parse_completion(value, arguments)
    if isinstance(value, Completion) and isinstance(value.confirm, bool):
        question = fill_in(context.policy.prompts.confirm, answer=value.answer)
        return replace(value, confirm=question if value.confirm else None)
    return value


async def _run(context: Context, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Any:
    """Run the function within the tool's own timeout and, unless its kind is unlimited, the run's limit on time."""
    context.log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
    await context.flush()
    value: Any = None
    left = partial(context.left_behind.add, call.id)
    run_deadline = NO_DEADLINE if tool.kind in UNLIMITED_KINDS else context.limits.deadline()
    with run_deadline, context.clock.deadline(tool.timeout) as deadline:
        try:
            with progress_to(partial(_record_progress, context, call)):
                work = context.execute(call, tool, arguments)
                value = await run_in_own_task(work, tool.name, left, run_id=context.run_id, call_id=call.id)
        except (WrongUse, RunLost):  # of a sub-agent: it cannot continue, or not here
            raise
        except Exception as error:
            if not _is_told(tool, error):
                meant = other_name("endstop", type(error).__name__).removeprefix(": ")  # such as `ModelRetry`
                log_user_error("tool", tool.function, error, call_id=call.id, **({"hint": meant} if meant else {}))
            value = CallOutcome(content=describe_error(error), status="error")
    left_behind = call.id in context.left_behind
    if run_deadline.cancelled_caught:
        context.limits.record_time_up(context.log.facts.steps)
        return cut_off_outcome(tool, left_behind=left_behind)
    if deadline.cancelled_caught:
        stopped = f"{tool.name} was stopped after {tool.timeout:g} seconds."
        return CallOutcome(content=STILL_RUNNING_AFTER.format(stopped) if left_behind else stopped, status="error")
    return value


def _is_told(tool: Tool, error: Exception) -> bool:
    """Return whether a tool raised this to tell the model something, as our own tools do. All else is a bug."""
    return isinstance(error, InvalidArguments) or getattr(tool.function, "__module__", "").startswith("endstop.")


def _record_progress(context: Context, call: ToolCall, update: ProgressUpdate) -> None:
    said = ToolProgress(call_id=call.id, name=call.name, text=update.text, progress=update.progress, total=update.total)
    context.log.append(said)


def cut_off_outcome(tool: Tool, *, left_behind: bool = False) -> CallOutcome:
    """Return the result of a call that a limit of the run cut off."""
    content = LIMIT_REACHED if tool.spec.reads else STOPPED_AT_LIMIT
    status: ResultStatus = "cancelled" if tool.spec.reads else "unknown"
    return CallOutcome(content=STILL_RUNNING_AFTER.format(content) if left_behind else content, status=status)


async def resolve_interrupted_call(context: Context, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Any:
    """Return the result of a call that was running when its process died, `NOT_EXECUTED`, or NeedsUserInput.

    A reading call is run again. For a writing call the tool's `check` is called; if it does not know, the policy
    (`interrupted_calls`) decides whether the result is `unknown` or the user is asked.
    """
    if tool.spec.reads:
        return NOT_EXECUTED
    if tool.check is not None:
        match await _run_check(context, tool, call, arguments):
            case Happened(result):
                return result
            case NotHappened():
                return NOT_EXECUTED
            case Unclear():
                pass
    if context.policy.interrupted_calls == "ask":
        given = truncate(call.arguments, MAX_SHOWN_ARGUMENTS)
        return NeedsUserInput(fill_in(context.policy.prompts.interrupted, name=tool.name, arguments=given))
    return CallOutcome(content=PROCESS_DIED, status="unknown")


async def _run_check(
    context: Context, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]
) -> Happened | NotHappened | Unclear:
    """Run the tool's check and record its verdict. A check that raises, hangs or returns something else is Unclear."""
    assert tool.check is not None
    await context.flush()
    began = context.clock.now()
    said: Any = Unclear(f"no answer within {tool.timeout:g} seconds" if tool.timeout is not None else "")
    failed = True
    with context.clock.deadline(tool.timeout):
        try:
            work = call_user_function(tool.check, **with_context(context_parameter(tool.check), arguments))
            said = await run_in_own_task(work, qualified_name(tool.check), run_id=context.run_id, call_id=call.id)
            failed = not isinstance(said, Happened | NotHappened | Unclear)
            if failed:
                said = Unclear(f"a check answers Happened, NotHappened or Unclear, not {type(said).__name__}")
                log_unusable_answer("check of a tool", tool.check, said.why, call_id=call.id)
        except Exception as error:
            log_user_error("check of a tool", tool.check, error, call_id=call.id)
            said = Unclear(describe_error(error))
    context.log.append(
        VerdictGiven(
            role="check",
            name=qualified_name(tool.check),
            said="failed" if failed else _CHECK_WORDS[type(said)],
            detail=said.why if isinstance(said, Unclear) else "",
            call_id=call.id,
            duration_ms=round((context.clock.now() - began) * 1000),
        )
    )
    assert isinstance(said, Happened | NotHappened | Unclear)
    return said
