"""Purpose of tools by their names, as agents and their frameworks use them.

A name is only a guess: an importer uses it because it has nothing else. The engine uses a tool's kind; a name only
tells it that the author of a tool may have forgotten to give the kind. Case, `_` and `-` do not count, so that
`taskDone` is `task_done`.
"""

from __future__ import annotations

from .messages import ToolKind

PRESET_NAMES = ("attempt_completion", "finish_task", "task_done")
"""Names of the completion tools that come with endstop."""
COMPLETION_NAMES = (
    *PRESET_NAMES, "complete", "complete_task", "completion", "done", "end_task", "final_answer", "finish",
    "finish_run", "finish_work", "mark_complete", "mark_task_complete", "mark_task_done", "provide_final_answer",
    "report_completion", "signal_completion", "submit", "submit_and_exit", "submit_answer", "submit_final_answer",
    "submit_result", "submit_task", "task_complete", "task_completed", "task_finish", "task_finished", "terminate",
)  # fmt: skip
"""Tools that report the work as done."""
ANSWER_FIELDS = ("summary", "result", "answer", "final_answer", "response", "message", "content", "text", "output")
"""Fields of a completion's arguments or result that may hold the answer; the first with text is used."""
QUESTION_NAMES = (
    "ask_follow_up_question", "ask_followup_question", "ask_for_clarification", "ask_human", "ask_question",
    "ask_user", "ask_user_question", "clarify", "get_user_input", "human_input", "exit_plan_mode",
    "plan_mode_respond", "request_user_input",
)  # fmt: skip
"""Tools that ask the user."""
THINK_NAMES = ("think", "thinking", "thought", "think_aloud")
"""Tools that only record a thought."""


def _normalised(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


_PRESETS = frozenset(map(_normalised, PRESET_NAMES))
_KINDS: dict[str, ToolKind] = {
    **dict.fromkeys(map(_normalised, COMPLETION_NAMES), "completion"),
    **dict.fromkeys(map(_normalised, QUESTION_NAMES), "question"),
    **dict.fromkeys(map(_normalised, THINK_NAMES), "think"),
}


def kind_by_name(name: str) -> ToolKind:
    """Return the kind of a tool, guessed by its name: `ordinary` unless the name is a usual one of another kind."""
    return _KINDS.get(_normalised(name), "ordinary")


def is_preset_name(name: str) -> bool:
    """Return whether a name is that of a completion tool that comes with endstop."""
    return _normalised(name) in _PRESETS
