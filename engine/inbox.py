"""What a user says while a run is going. It is heard before the next request, never in the middle of a step.

A run ends when the work is done, whoever has just said something: what it has not heard by then is in `Run.unheard`,
for the session's next run.
"""

from __future__ import annotations

from uuid import uuid4

from msgspec import Struct

from .context import Context
from .decision.events import MessageAdded
from .validation import check_prompt


class Said(Struct, frozen=True):
    """One message of the user."""

    id: str
    text: str


def said(text: str, id: str | None = None) -> Said:
    """A message with an id of its own. Raises WrongUse if there is nothing in it."""
    check_prompt(text, "message")
    return Said(id or f"message_{uuid4().hex[:12]}", text)


def hear(context: Context) -> None:
    """Add what the user has said meanwhile to the transcript; in a replay, what was heard before this step."""
    if context.recalled is not None:
        for added in context.recalled.heard(context.log.facts.steps + 1):
            context.log.append(added)
        return
    while context.inbox:
        message = context.inbox.popleft()
        context.log.append(MessageAdded(text=message.text, origin="user", message_id=message.id))
