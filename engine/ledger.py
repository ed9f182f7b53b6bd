"""What the calls of one step have come to: one result for each, and what the rest of the step must know of them."""

from __future__ import annotations

from collections.abc import Sequence

from .context import Context
from .decision import Image, ToolCall
from .decision.events import QuestionAsked, ToolCallResult
from .decision.messages import ResultStatus
from .tools.results import fingerprint

FAILED: frozenset[ResultStatus] = frozenset({"error", "invalid", "truncated", "unknown"})
"""What keeps a completion beside it from being accepted (`policy.reject_after_failure`)."""


class Ledger:
    """The results of one step. The first result of a call counts, later ones are dropped."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._answered: set[str] = set()
        self._closed = False
        self.asked = False
        """Whether a question to the user stands in this step."""
        self._failures: dict[str, str] = {}
        """The calls that failed, or whose effect is not known, by id, and why."""

    def answer(self, call: ToolCall, content: str, status: ResultStatus, images: tuple[Image, ...] = ()) -> None:
        """Give a call its result."""
        if self._closed or call.id in self._answered:
            return
        self._answered.add(call.id)
        if status in FAILED:
            self.fail(call.id, call.name, content)
        unmarked = status == "unknown" or self._polls(call)
        self._context.log.append(
            ToolCallResult(
                call_id=call.id,
                name=call.name,
                content=content,
                status=status,
                fingerprint="" if unmarked else self._mark(call, content, images),
                images=images,
            )
        )

    def __contains__(self, call_id: str) -> bool:
        """Whether this call has its result, or waits for the user."""
        return call_id in self._answered

    def recall(self, result: ToolCallResult) -> None:
        """Take a result that the record holds already."""
        self._answered.add(result.call_id)
        if result.status in FAILED:
            self.fail(result.call_id, result.name, result.content)

    def close(self) -> None:
        """Take no results any more: the calls are void."""
        self._closed = True

    def leave_open(self, call: ToolCall) -> None:
        """Its answer will come from the user."""
        self._answered.add(call.id)

    def ask(self, call: ToolCall, question: str) -> None:
        """Ask the user, whose answer is the call's result."""
        if self._closed or call.id in self._answered:
            return
        self.asked = True
        self.leave_open(call)
        self._context.log.append(QuestionAsked(call_id=call.id, text=question))

    def fail(self, call_id: str, name: str, why: str) -> None:
        """A call has failed, or was not made: a completion after it is not accepted, if the policy says so."""
        self._failures[call_id] = f"{name}, called before it, failed: {why}"

    def failure_among(self, ids: Sequence[str]) -> str | None:
        """The first of these calls that failed, whichever was the first to end; None if none did."""
        return next((self._failures[id] for id in ids if id in self._failures), None)

    def _mark(self, call: ToolCall, content: str, images: tuple[Image, ...]) -> str:
        recalled = self._context.recalled
        mark = "" if recalled is None else recalled.fingerprint(call.id, content)
        return mark or fingerprint(call, content, images)

    def _polls(self, call: ToolCall) -> bool:
        tool = self._context.toolbox.get(call.name)
        return tool is not None and tool.spec.polls
