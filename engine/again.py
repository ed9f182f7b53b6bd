"""A call that had begun when its process died: what became of it, as far as anybody can say.

A reading one is run again. Of a writing one the tool's own `check` may know; else the policy says (`interrupted_calls`)
whether it is answered `unknown` or the user is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .context import Context
from .decision import ToolCall
from .decision.events import VerdictGiven
from .hooks import qualified
from .tools._callables import apart, in_words
from .tools._callables import call as call_function
from .tools.answers import Asked, Happened, NotHappened, Settled, Unclear
from .tools.results import UNKNOWN, shortened
from .tools.tool import Tool

RUN = NotHappened()
"""It had no effect, or none that counts: it is to be run."""
SHOWN = 2000
"""Characters of the arguments that the user is shown."""


async def found_out(context: Context, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Any:
    """The result of the call; `RUN`; or Asked, which leaves it to the user."""
    if tool.spec.reads:
        return RUN
    if tool.check is not None:
        match await _checked(context, tool, call, arguments):
            case Happened(result):
                return result
            case NotHappened():
                return RUN
            case Unclear():
                pass
    if context.policy.interrupted_calls == "ask":
        given = shortened(call.arguments, SHOWN)
        return Asked(
            f"The process died while {tool.name} was running with {given}\n"
            "Whether it has taken effect is not known. What shall stand as its result?"
        )
    return Settled(content=UNKNOWN, status="unknown")


async def _checked(
    context: Context, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]
) -> Happened | NotHappened | Unclear:
    """What the tool's check says, recorded; one that raises, hangs or answers something else says Unclear."""
    assert tool.check is not None
    await context.flush()
    began = context.clock.now()
    said: Any = Unclear(f"no answer within {tool.timeout:g} seconds" if tool.timeout is not None else "")
    failed = True
    with context.clock.deadline(tool.timeout):
        try:
            work = call_function(tool.check, **arguments)
            said = await apart(work, qualified(tool.check), run_id=context.run_id, call_id=call.id)
            failed = not isinstance(said, Happened | NotHappened | Unclear)
            if failed:
                said = Unclear(f"a check answers Happened, NotHappened or Unclear, not {type(said).__name__}")
        except Exception as error:
            said = Unclear(in_words(error))
    context.log.append(
        VerdictGiven(
            role="check",
            name=qualified(tool.check),
            said="failed" if failed else _WORDS[type(said)],
            detail=said.why if isinstance(said, Unclear) else "",
            call_id=call.id,
            duration_ms=round((context.clock.now() - began) * 1000),
        )
    )
    assert isinstance(said, Happened | NotHappened | Unclear)
    return said


_WORDS: dict[type, str] = {Happened: "happened", NotHappened: "not_happened", Unclear: "unclear"}
