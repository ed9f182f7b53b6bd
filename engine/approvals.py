"""Approvals: a call of a tool with `approval=` waits until the user agrees, and so does each later writing call.

    @tool(approval=True)
    async def delete_folder(path: str) -> str: ...

    @tool(approval=lambda arguments: arguments["amount"] > 100)
    async def pay(invoice: str, amount: float) -> str: ...

Whether a call needs approval is decided once: the answer of an approval function is recorded, and neither a replay nor
a resumed run asks it again. If the function fails or is late, the user is asked. The run pauses as `awaiting_input`,
with a `Question` for each such call. The run that begins with the last answer runs the calls, in the order of the
response, before it asks the model again (`run_waiting_calls` in `loop.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from .context import Context
from .decision import Question, ToolCall, WrongUse
from .decision.errors import did_you_mean
from .decision.events import QuestionAsked
from .decision.policy import fill_in
from .decision.wrong_calls import checked, explained
from .hook_runner import run_hook
from .hooks import Verdict
from .own_copies import own_copy
from .tools.results import truncate
from .tools.run_context import running_call
from .tools.schema import CORRECT_THEM, InvalidArguments
from .tools.tool import Tool, Toolbox

MAX_SHOWN_ARGUMENTS = 2000
"""Most characters of a call's arguments that a question to the user shows."""
REDACTED = (
    "Not run: it had waited for the user in a record that holds its arguments only in redacted form. Call it again."
)
"""Result text of a call whose arguments are lost."""
NEVER_ASKED = "Not run: its tool needs the user's approval now, and did not when it was called. Call it again."
"""Result text of a call that waited behind an approval and whose own tool needs approval only now."""


@explained
@dataclass(frozen=True)
class Approve:
    """The user's approval of a call. arguments: replace all of the model's arguments; None: the call keeps those."""

    arguments: Mapping[str, Any] | None = None


@checked
@dataclass(frozen=True)
class Deny:
    """The user's denial of a call. reason: given to the model in the call's result."""

    reason: str = ""


async def needs_approval(context: Context, tool: Tool, call: ToolCall) -> bool:
    """Return whether this call needs the user's approval. True if the approval function fails or is late."""
    if isinstance(tool.approval, bool):
        return tool.approval
    given = tool.parse(call.arguments)
    instead = "let the function of the tool correct them, or the user: session.approve(call_id, arguments=...)"
    with (
        running_call(context.run_context(call.id)),
        own_copy("approval function", tool.approval, "what it is given", given, instead) as arguments,
    ):
        verdict = await run_hook(context, "approval", tool.approval, (arguments,), parse_approval, call.id)
    return verdict.said != "not_needed"


def parse_approval(said: Any) -> Verdict:
    """Return the verdict for what an approval function returned. Raises TypeError unless that is True or False."""
    if not isinstance(said, bool):
        raise TypeError(f"an approval function answers True or False, not {type(said).__name__}")
    return Verdict("needed" if said else "not_needed")


def approval_question(context: Context, call: ToolCall) -> QuestionAsked:
    """Return the question that asks the user whether this call may run."""
    seconds = context.policy.approval_seconds
    expires = (
        ""
        if seconds is None
        else (context.clock.wall() + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
    )
    return QuestionAsked(
        call_id=call.id,
        text=fill_in(
            context.policy.prompts.approve,
            name=call.name,
            arguments=truncate(call.arguments.strip() or "{}", MAX_SHOWN_ARGUMENTS),
        ),
        tool=call.name,
        arguments=_as_mapping(call.arguments),
        expires_at=expires,
    )


def _as_mapping(arguments: str) -> dict[str, Any]:
    """Return arguments as plain JSON values; empty if they are not strict JSON, which a tool may still accept."""
    try:
        given = msgspec.json.decode(arguments.strip() or "{}")
    except (msgspec.DecodeError, RecursionError, ValueError):
        return {}
    return given if isinstance(given, dict) else {}


def has_expired(question: Question, now: datetime) -> bool:
    """Return whether the time to approve a call is over."""
    return question.expires_at != "" and now > datetime.fromisoformat(question.expires_at)


def _asking_toolbox(toolbox: Mapping[str, Tool], question: Question) -> Mapping[str, Tool]:
    """Return the tools of the run that asks: these, or those of a sub-agent."""
    for name in () if question.asker is None else question.asker.names:
        subagent = toolbox.get(name)
        toolbox = {} if subagent is None or subagent.inner is None else subagent.inner
    return toolbox


def check_edited(toolbox: Toolbox, question: Question, arguments: Any) -> dict[str, Any]:
    """Check the arguments that the user gave for a call, and return them as plain JSON values.

    Raises WrongUse if they do not fit the call's tool.
    """
    where = f"approve({question.call_id!r}, arguments=...)"
    tool = _asking_toolbox(toolbox, question).get(question.tool or "")
    if tool is None:
        raise WrongUse(f"{where}: there is no tool {question.tool!r} any more")
    if not isinstance(arguments, Mapping):
        raise WrongUse(f"{where}: use a mapping from names to values, not {type(arguments).__name__}")
    try:
        text = msgspec.json.encode(dict(arguments)).decode()
        tool.parse(text)
    except InvalidArguments as error:
        wrong = str(error).removesuffix(CORRECT_THEM).rstrip()
        raise WrongUse(f"{where}: {wrong} Give all arguments: they replace those of the model") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongUse(f"{where}: they cannot be written as JSON: {error}") from None
    known = tool.spec.parameters
    if not known.get("additionalProperties", False) and "patternProperties" not in known:
        for name in arguments:
            if name not in known.get("properties", {}):
                raise WrongUse(
                    f"{where}: {tool.name} has no argument {name!r}{did_you_mean(name, known.get('properties', {}))}"
                )
    return _as_mapping(text)
