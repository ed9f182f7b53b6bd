"""What a call of a foreign tool means to the loop: guessed by its name, unless the user names the tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from ..decision import AssistantMessage, FinishReason, ToolKind, ToolSpec
from .transcript import Foreign

COMPLETION = frozenset(
    {
        "attempt_completion", "complete", "complete_task", "completion", "done", "end_task", "final_answer",
        "finish", "finish_run", "finish_task", "finish_work", "mark_complete", "provide_final_answer",
        "report_completion", "submit", "submit_and_exit", "submit_answer", "submit_final_answer", "submit_result",
        "submit_task", "task_complete", "task_completed", "task_done", "task_finish", "terminate",
    }
)  # fmt: skip
"""Names that mean "the work is done", in small letters."""
QUESTION = frozenset(
    {
        "ask_follow_up_question", "ask_followup_question", "ask_for_clarification", "ask_human", "ask_question",
        "ask_user", "ask_user_question", "askuserquestion", "clarify", "get_user_input", "human_input",
        "plan_mode_respond", "request_user_input",
    }
)  # fmt: skip
"""Names that mean "the user must say something first"."""
THINK = frozenset({"think", "thinking", "thought", "think_aloud"})
OWN: dict[str, frozenset[str]] = {"tau-bench": frozenset({"transfer_to_human_agents"})}
"""Completions of single formats."""


class Kinds(Struct, frozen=True, kw_only=True):
    """The user's word on tools: exact names, in place of the guesses. And on finish words."""

    completion: tuple[str, ...] = ()
    question: tuple[str, ...] = ()
    finish_words: dict[str, FinishReason] = {}
    """The meaning of finish words that `decision/finish_words.py` does not list."""

    def of(self, name: str, format: str) -> ToolKind:
        """The kind of a tool."""
        if name in self.completion:
            return "completion"
        if name in self.question:
            return "question"
        small = name.lower()
        if not self.completion and small in COMPLETION | OWN.get(format, frozenset()):
            return "completion"
        if not self.question and small in QUESTION:
            return "question"
        return "think" if small in THINK else "ordinary"

    def unused(self, seen: Collection[str]) -> list[str]:
        """Names that the user gave and no session knows."""
        return [name for name in (*self.completion, *self.question) if name not in seen]


def tools_of(foreign: Foreign, kinds: Kinds, format: str) -> tuple[ToolSpec, ...]:
    """The tools that were offered, and those that were only seen to be called, each with its kind."""
    specs = {spec.name: spec for spec in foreign.tools}
    for name in _called(foreign):
        if name and name not in specs:
            specs[name] = ToolSpec(name=name, description="", parameters={"type": "object"})
    return tuple(replace(spec, kind=kinds.of(name, format)) for name, spec in specs.items())


def _called(foreign: Foreign) -> Iterable[str]:
    for said in foreign.said:
        if isinstance(said.message, AssistantMessage):
            yield from (call.name for call in said.message.calls)
