"""Tools of a sub-agent that pays: one waits for an approval, one writes at once. Both note what they have done."""

from __future__ import annotations

from typing import Any

from endstop import tool
from endstop.decision import AssistantMessage
from endstop.providers import Scripted

DONE: list[str] = []
"""What these tools have done, in any process of a test. A test that looks at it clears it first."""


@tool(approval=True)
async def pay(to: str) -> str:
    """Pay."""
    DONE.append(f"paid {to}")
    return f"paid {to}"


@tool
async def write(path: str) -> str:
    """Write."""
    DONE.append(f"wrote {path}")
    return f"wrote {path}"


def by_step(*responses: Any) -> Scripted:
    """Whoever asks gets the response that is due after so many responses in the conversation."""
    return Scripted(lambda request: responses[sum(isinstance(m, AssistantMessage) for m in request.messages)])
