"""Running one call: announced, flushed to the record, with its deadline; whatever it raises becomes its result.

A call that had begun in a process that died is not simply run again: `again.py` says what becomes of it. One whose
arguments are known only as they were redacted is not run at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyio.lowlevel import checkpoint

from ..decision import ToolCall, WrongUse
from ..decision.events import ToolExecutionStarted
from .again import RUN, found_out
from .answers import Settled
from .calling import in_words
from .context import Context
from .durable.keeping import keep_value
from .identity import PRESENT, call_of
from .results import OUT_OF_TIME, STOPPED, UNKNOWN, completion_of
from .scope import RoundScope
from .tools import Tool

BEYOND = frozenset({"completion", "question"})
"""Kinds of tools that no limit of the run cuts off: a completion that came whole is settled, and so is a question."""


async def execute(context: Context, scope: RoundScope, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Any:
    """What the function returned; a Settled that says why it did not; or Asked, if only the user knows."""
    here = call_of(context, call.id)
    token = PRESENT.set(here)
    try:
        if context.steps is not None:
            value = await _kept(context, tool, call, arguments, here.again)
        elif context.interrupted is not None:
            value = _read(tool, await _work(context, tool, call, arguments, here.again), arguments)
        else:
            value = _read(tool, await _run(context, tool, call, arguments), arguments)
    finally:
        PRESENT.reset(token)
    if scope.shared.cancel_called:
        await checkpoint()  # a tool that swallowed the cancellation: its late result is dropped
    return value


async def _kept(context: Context, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], again: bool) -> Any:
    """The result that a durable engine keeps of this call, or else what comes of it now."""

    async def work() -> Any:
        return _read(tool, await _work(context, tool, call, arguments, again), arguments)

    return await keep_value(context, context.step_key(call.id), work)


def _read(tool: Tool, value: Any, arguments: Mapping[str, Any]) -> Any:
    return completion_of(value, arguments) if tool.kind == "completion" else value


async def _work(context: Context, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], again: bool) -> Any:
    if context.altered(call):
        return Settled(content=UNKNOWN, status="unknown")
    if again:
        value = await found_out(context, tool, call, arguments)
        if value is not RUN:
            return value
    return await _run(context, tool, call, arguments)


async def _run(context: Context, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Any:
    context.log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
    await context.flush()
    if tool.kind in BEYOND:
        return await _within(context, tool, call, arguments)
    value = cut_off(tool)
    with context.limits.deadline() as deadline:
        value = await _within(context, tool, call, arguments)
    if deadline.cancelled_caught:
        context.limits.strike(context.log.facts.steps)
    return value


async def _within(context: Context, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Any:
    """What the function returned within the tool's own deadline."""
    with context.clock.deadline(tool.timeout) as deadline:
        try:
            value = await context.execute(call, tool, arguments)
        except WrongUse:
            raise
        except Exception as error:
            value = Settled(content=in_words(error), status="error")
    if deadline.cancelled_caught:
        value = Settled(content=f"{tool.name} was stopped after {tool.timeout:g} seconds.", status="error")
    return value


def cut_off(tool: Tool) -> Settled:
    """The result of a call that was running when a limit of the run was reached."""
    if tool.spec.reads:
        return Settled(content=OUT_OF_TIME, status="cancelled")
    return Settled(content=STOPPED, status="unknown")
