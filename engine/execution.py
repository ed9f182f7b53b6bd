"""Running one call: announced, flushed to the record, with its deadline; whatever it raises becomes its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyio.lowlevel import checkpoint

from ..decision import ToolCall, WrongUse
from ..decision.events import ToolExecutionStarted
from .answers import Settled
from .calling import in_words
from .context import Context
from .scope import RoundScope
from .tools import Tool


async def execute(context: Context, scope: RoundScope, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Any:
    """What the function returned, or a Settled that says why it did not."""
    context.log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
    await context.flush()
    with context.clock.deadline(tool.timeout) as deadline:
        try:
            value = await context.execute(call, tool, arguments)
        except WrongUse:
            raise
        except Exception as error:
            value = Settled(content=in_words(error), status="error")
    if deadline.cancelled_caught:
        value = Settled(content=f"{tool.name} was stopped after {tool.timeout:g} seconds.", status="error")
    if scope.shared.cancel_called:
        await checkpoint()  # a tool that swallowed the cancellation: its late result is dropped
    return value
