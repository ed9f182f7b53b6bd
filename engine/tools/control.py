"""Tools that control the run: complete it, ask the user, think. Their descriptions tell the model when to call them."""

from __future__ import annotations

from typing import Annotated

from .results import ONLY_FINISHED_WORK_CONFIRMED, Completion, Continue, Phase
from .schema import Bounds
from .tool import tool

_SUMMARY = (
    "Write 100 to 500 characters for the user: what was done, which files or things changed, the results, "
    "and what to be careful about."
)


_CHECK = (
    "First make sure that everything the task asks for is done and verified by the results of your calls. "
    "If something is missing or you are not sure, go on working instead."
)


@tool(
    kind="completion",
    reads=True,
    description=(
        f"{_CHECK} Call this exactly once, as soon as all of it is done, or you know that it cannot be done; "
        f"then stop, and call nothing after it. {_SUMMARY}"
    ),
)
async def finish_task(summary: str) -> Completion:
    """End the task.

    Args:
        summary: What was done, files, results, cautions; 100 to 500 characters.

    """
    return Completion(answer=summary, content="Task finished.")


@tool(
    kind="completion",
    reads=True,
    description=(
        f"{_CHECK} Call this as soon as all of it is done; then stop, and call nothing after it. {_SUMMARY} "
        "If only a part is done, give completion_percentage below 100 and the next phase, and go on working."
    ),
)
async def task_done(
    summary: str,
    completion_percentage: Annotated[int, Bounds(0, 100)] = 100,
    next_phase: str | None = None,
    requires_user_confirmation: bool = False,
    pending_issues: list[str] = [],  # noqa: B006  part of the schema, never changed
) -> Completion | Phase | Continue:
    """End the task, or report how far it is.

    Args:
        summary: What was done, files, results, cautions; 100 to 500 characters.
        completion_percentage: How much of the task is done, 0 to 100; below 100 the work goes on.
        next_phase: What comes next, if the task is not done.
        requires_user_confirmation: Whether the user must confirm before this counts as done.
        pending_issues: What is left open.

    """
    if completion_percentage < 100 and requires_user_confirmation:
        return Continue(ONLY_FINISHED_WORK_CONFIRMED)
    if completion_percentage < 100:
        return Phase(percentage=completion_percentage, summary=summary, next_phase=next_phase)
    return Completion(
        answer=summary,
        content="Task done.",
        pending_issues=tuple(pending_issues),
        confirm=requires_user_confirmation,
        percentage=100,
    )


@tool(
    kind="completion",
    reads=True,
    description=(
        f"{_CHECK} Call this as soon as you have the whole result; then stop, and call nothing after it. {_SUMMARY}"
    ),
)
async def attempt_completion(result: str) -> Completion:
    """Present the result.

    Args:
        result: The result for the user, final and complete: what was done, and why that completes the task. No question
            at its end.

    """
    return Completion(answer=result, content=f"task completed: {result}")


@tool(
    kind="question",
    description=(
        "Call this when you need something that only the user can tell or decide, and no tool can find out. "
        "The work pauses until the answer comes. Ask one clear question."
    ),
)
async def ask_user(question: str) -> str:
    """Ask the user.

    Args:
        question: The question, understandable on its own.

    """
    return question


@tool(
    kind="think",
    description=(
        "Call this to sum up a stage of the work or to plan the next one. It does nothing else: it changes nothing "
        "and never ends the task."
    ),
)
async def think(thought: str) -> str:
    """Record a thought.

    Args:
        thought: The summary or the plan.

    """
    return thought


@tool(
    kind="blocked",
    description=(
        "Call this if the task cannot be done by you: something that you need is missing and no tool can get it, or "
        "every way that you can think of has failed. That a test fails is no reason: change the work. "
        "Saying so honestly is better than reporting work that is not done."
    ),
)
async def report_blocked(reason: str, tried: list[str]) -> str:
    """Report that the task cannot be done.

    Args:
        reason: What is missing or prevents it, so that somebody else can remove it.
        tried: What you tried, each with what came of it.

    """
    return reason


CONTROL_TOOLS = (ask_user, attempt_completion, finish_task, report_blocked, task_done, think)
"""All tools of this module. A replay uses them to offer the tools that a record offered."""
