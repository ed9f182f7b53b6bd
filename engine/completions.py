"""Completion calls: may this one end the run, and if not, why it is handed back.

A completion's handler runs first and may say that the work is not done; then the gates are asked, then, if it is
wanted, the user. Acceptance cancels the shared scope of the round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .context import Cause, Context, RoundScope
from .decision import ToolCall
from .decision.events import CompletionAccepted, CompletionRejected, PhaseReported, QuestionAsked
from .decision.text import not_accepted
from .gates import ask_gates
from .ledger import Ledger
from .tool_execution import execute
from .tools.answers import Asked, Completion, Continue, Phase, Settled
from .tools.results import as_text
from .tools.schema import InvalidArguments
from .tools.tool import Tool


def record_acceptance(context: Context, call_id: str, name: str, completion: Completion) -> None:
    """Write that a completion is accepted; one that reports phases is the last of them."""
    log = context.log
    if completion.percentage is not None and context.before_kill(PhaseReported, call_id=call_id) is None:
        log.append(PhaseReported(call_id=call_id, percentage=completion.percentage, summary=completion.answer))
    log.append(
        CompletionAccepted(
            call_id=call_id, name=name, answer=completion.answer, pending_issues=completion.pending_issues
        )
    )


class Completions:
    """Settles the completion calls of one step."""

    def __init__(self, context: Context, scope: RoundScope, ledger: Ledger) -> None:
        self._context = context
        self._log = context.log
        self._scope = scope
        self._ledger = ledger
        self._besides = ""
        """What a result says beside what became of the completion."""

    def may_end(self, call: ToolCall) -> bool | None:
        """Whether a completion's arguments are valid and make it a final one; None if it is no completion."""
        tool = self._context.toolbox.get(call.name)
        if tool is None or tool.kind != "completion":
            return None
        try:
            return tool.is_final(tool.parse(call.arguments))
        except InvalidArguments:
            return False

    async def complete(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], before: Sequence[str]) -> bool:
        """Run a completion's handler and act on what it says; False if it only reported a phase.

        before: the calls that stand before it, by id.
        """
        objection = self._objection(before) if tool.is_final(arguments) else None
        if objection is not None:
            self._reject(call, *objection)
            return True
        return await self._act_on(call, await execute(self._context, self._scope, tool, call, arguments))

    async def settle(
        self, call: ToolCall, said: Completion | Continue | Phase, before: Sequence[str], besides: str | None
    ) -> bool:
        """Act on what a tool of another kind said, which did something besides; False if it only reported a phase."""
        self._besides = f"\n{besides}" if besides else ""
        objection = self._objection(before) if isinstance(said, Completion) else None
        if objection is not None:
            self._reject(call, *objection)
            return True
        return await self._act_on(call, said)

    async def _act_on(self, call: ToolCall, value: Any) -> bool:
        match value:
            case Phase() as phase:
                self._report(call, phase)
                return False
            case Asked(question):
                self._ledger.ask(call, question)
                return False
            case Settled(status="unknown", content=content):
                self._ledger.answer(call, content, "unknown")
                return False
            case Continue(reason):
                self._reject(call, reason, "tool")
            case Completion(success=False) as failed:
                self._reject(call, failed.error or failed.content or "It did not succeed.", "tool")
            case Completion() as completion:
                await self._check(call, completion)
            case value:  # it failed, or was kept before there was `completion_of`
                content, status = as_text(value)
                if status == "ok":
                    await self._check(call, Completion(answer=content))
                else:
                    self._reject(call, content, "tool")
        return True

    def take_up(self, call: ToolCall, event: CompletionAccepted | CompletionRejected | PhaseReported) -> bool:
        """Settle a completion of which a killed process had written what it came to; as `complete` does."""
        match event:
            case CompletionAccepted(answer=answer):
                self._settle_accepted(call, answer)
                return True
            case CompletionRejected(reason=reason):
                self._ledger.answer(call, not_accepted(reason), "rejected")
                return True
            case PhaseReported(percentage=percentage) if percentage < 100:
                self._ledger.answer(call, noted(percentage, event.next_phase), "ok")
                return False
            case PhaseReported():  # the last one, which comes just before the acceptance
                return False

    def _objection(self, before: Sequence[str]) -> tuple[str, str] | None:
        """Why no completion can be final now, and by which rule; a mere phase may still be reported."""
        if self._ledger.asked:
            return "A question to the user is still open. Complete the task once it is answered.", "open_question"
        failure = self._ledger.failure_among(before)
        if failure is not None and self._context.policy.reject_after_failure:
            return failure, "failed_call"
        return None

    async def _check(self, call: ToolCall, completion: Completion) -> None:
        """Ask the gates, then the user if that is wanted, and accept or hand back."""
        objection = await ask_gates(self._context, completion, call.id)
        if objection is not None:
            self._reject(call, *objection)
            return
        if completion.confirm is None:
            self._accept(call, completion)
            return
        self._ledger.leave_open(call)  # whether it is done is for the user to say
        self._log.append(
            QuestionAsked(
                call_id=call.id,
                text=completion.confirm,
                confirms=completion.answer,
                pending_issues=completion.pending_issues,
                percentage=completion.percentage,
            )
        )

    def _accept(self, call: ToolCall, completion: Completion) -> None:
        record_acceptance(self._context, call.id, call.name, completion)
        self._settle_accepted(call, completion.answer if completion.content is None else completion.content)

    def _settle_accepted(self, call: ToolCall, content: str) -> None:
        self._ledger.answer(call, content, "ok")
        if self._context.policy.inner_cancel:
            self._scope.cancel(Cause("completion", call.id))

    def _reject(self, call: ToolCall, reason: str, by: str) -> None:
        self._log.append(CompletionRejected(call_id=call.id, name=call.name, reason=reason, by=by))
        self._ledger.answer(call, not_accepted(reason) + self._besides, "rejected")

    def _report(self, call: ToolCall, phase: Phase) -> None:
        self._log.append(
            PhaseReported(
                call_id=call.id,
                percentage=phase.percentage,
                summary=phase.summary,
                next_phase=phase.next_phase,
            )
        )
        self._ledger.answer(call, noted(phase.percentage, phase.next_phase) + self._besides, "ok")


def noted(percentage: int, next_phase: str | None) -> str:
    """What the model reads where it has reported a part of the work."""
    following = f" Go on with: {next_phase}" if next_phase else " Go on."
    return f"Noted: {percentage} % done.{following}"
