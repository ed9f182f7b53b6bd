"""What a response means beyond its words: the user's own rule is asked, then the gates, if it would end the run."""

from __future__ import annotations

from .context import Context
from .decision import AssistantMessage, Stop
from .decision.events import CompletionRejected
from .hook_runner import ask, ask_gates, read_text_rule
from .tools.answers import Completion


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
