"""What the engine tells a model before it starts. No prompt names a tool."""

from __future__ import annotations

_WORK = "You are an agent that works on a user's task with the tools you are given."

_COMPLETION = (
    "When the task is done, or cannot be done, report that at once with the tool that signals completion. "
    "The user reads only that report. Do nothing after it: no checks, no extra steps, no repetition."
)

_TEXT = "When you can answer, answer in plain text. That ends your work."


def system_prompt(can_complete: bool) -> str:
    """The general system prompt: how this agent ends its work."""
    return f"{_WORK}\n{_COMPLETION if can_complete else _TEXT}"
