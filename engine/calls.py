"""The calls of one step: start what may start early, settle the rest in order, answer each exactly once.

A reading call may start while the response still streams, if nothing that writes, asks or completes stands before it.
All others wait until the response is whole or cut, because a retried attempt must not repeat them; writing calls then
run one after another. After a completion call nothing runs any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ..decision import AssistantMessage, ToolCall, WrongUse
from ..decision.events import (
    CompletionAccepted,
    CompletionRejected,
    PhaseReported,
    QuestionAsked,
    ThoughtRecorded,
    ToolCallResult,
    ToolExecutionStarted,
)
from ..decision.messages import ResultStatus
from .answers import Completion, Continue, Phase, Settled
from .context import Context
from .hooks import qualified
from .results import UNKNOWN, as_text, fingerprint, handed_back
from .schema import InvalidArguments
from .scope import Cause, RoundScope
from .tools import Tool
from .verdicts import ask, progress, read_gate

SKIPPED = "Not run: it stood after the completion of the task."
TRUNCATED = "Not run: the response was cut off inside this call. Call it again, with less in one piece."


class Calls:
    """The calls of one step. `offer` while the response streams, `settle` once it is whole or cut."""

    def __init__(self, context: Context, scope: RoundScope, tasks: TaskGroup) -> None:
        self._context = context
        self._log = context.log
        self._scope = scope
        self._tasks = tasks
        self._early = True
        self._running: dict[str, anyio.Event] = {}
        self._answered: set[str] = set()
        self._failed: list[tuple[ToolCall, str]] = []
        self.asked = False
        """Whether a question to the user stands in this step."""

    def may_end(self, call: ToolCall) -> bool | None:
        """Whether a completion's arguments are valid and make it a final one; None if it is no completion."""
        tool = self._context.toolbox.get(call.name)
        return None if tool is None or tool.kind != "completion" else self._is_final(call)

    def _is_final(self, call: ToolCall) -> bool:
        tool = self._context.toolbox.get(call.name)
        if tool is None or tool.kind != "completion":
            return False
        try:
            return tool.is_final(tool.parse(call.arguments))
        except InvalidArguments:
            return False

    def offer(self, call: ToolCall) -> None:
        """Take a call that has just become whole: start it if it may start early."""
        tool = self._context.toolbox.get(call.name)
        if tool is None:
            return
        self.asked = self.asked or tool.kind == "question"
        if tool.spec.reads and self._early and tool.kind == "ordinary" and not self._lost(call):
            self._start(tool, call)
        else:
            self._early = False

    async def settle(self, message: AssistantMessage, truncated: str | None) -> None:
        """Give every call of the response its result, open questions apart."""
        alone = self._context.policy.mixed == "none" and any(self._is_final(call) for call in message.calls)
        done = False
        for call in message.calls:
            tool = self._context.toolbox.get(call.name)
            if self._lost(call):
                self._answer(call, UNKNOWN, "unknown")
            elif self._is_left_out(call, tool, done, alone):
                self._answer(call, SKIPPED, "skipped")
            elif call.id == truncated:
                self._answer(call, TRUNCATED, "truncated")
            elif tool is None:
                self._answer(call, self._unknown(call.name), "invalid")
            elif call.id in self._running:
                pass  # began while the response was streaming
            elif tool.spec.reads and tool.kind == "ordinary":
                self._start(tool, call)
            else:
                await self._finish_running()
                done = await self._run_alone(tool, call) or done
        await self._finish_running()

    def _is_left_out(self, call: ToolCall, tool: Tool | None, done: bool, alone: bool) -> bool:
        """Whether a call does not run because of the completion beside it (`policy.mixed`)."""
        kind = "ordinary" if tool is None else tool.kind
        if done:
            return self._context.policy.mixed != "all" or kind == "completion"
        return alone and kind == "ordinary" and call.id not in self._running

    def _lost(self, call: ToolCall) -> bool:
        """In a replay: whether the process was killed before this call had its result."""
        return self._context.recalled is not None and call.id in self._context.recalled.lost

    def abandon(self, message: AssistantMessage | None) -> None:
        """Answer what was cut off by a cancellation, without running anything."""
        for call in message.calls if message is not None else ():
            self._answer(call, "Cancelled while it was running or waiting to run.", "cancelled")

    # ---- running

    def _start(self, tool: Tool, call: ToolCall) -> None:
        try:
            arguments = tool.parse(call.arguments)
        except InvalidArguments as error:
            self._answer(call, str(error), "invalid")
            return
        self._running[call.id] = done = anyio.Event()

        async def run() -> None:
            try:
                await self._run_ordinary(tool, call, arguments)
            finally:
                done.set()

        self._tasks.start_soon(run)

    async def _finish_running(self) -> None:
        for done in self._running.values():
            if not done.is_set():
                await done.wait()

    async def _run_alone(self, tool: Tool, call: ToolCall) -> bool:
        """Run a call beside which nothing else runs; True if it was a completion that nothing may follow."""
        try:
            arguments = tool.parse(call.arguments)
        except InvalidArguments as error:
            self._answer(call, str(error), "invalid")
            return False
        match tool.kind:
            case "ordinary":
                await self._run_ordinary(tool, call, arguments)
            case "think":
                await self._think(tool, call, arguments)
            case "question":
                await self._ask(tool, call, arguments)
            case "completion":
                return await self._complete(tool, call, arguments)
        return False

    async def _run_ordinary(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> None:
        content, status = as_text(await self._execute(tool, call, arguments))
        self._answer(call, content, status)

    async def _think(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> None:
        content, status = as_text(await self._execute(tool, call, arguments))
        if status == "ok":
            self._log.append(ThoughtRecorded(call_id=call.id, text=content))
            content = "Noted."
        self._answer(call, content, status)

    async def _ask(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> None:
        content, status = as_text(await self._execute(tool, call, arguments))
        if status != "ok":
            self._answer(call, content, status)
            return
        self.asked = True
        self._answered.add(call.id)  # stays open: its answer comes from the user
        self._log.append(QuestionAsked(call_id=call.id, text=content))

    async def _execute(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Any:
        """What the function returned, or a Settled that says why it did not."""
        self._log.append(ToolExecutionStarted(call_id=call.id, name=call.name))
        self._context.flush()
        with self._context.clock.deadline(tool.timeout) as deadline:
            try:
                value = await self._context.execute(call, tool, arguments)
            except WrongUse:
                raise
            except (Exception, SystemExit) as error:
                value = Settled(content=f"{type(error).__name__}: {error}", status="error")
        if deadline.cancelled_caught:
            value = Settled(content=f"{tool.name} was stopped after {tool.timeout:g} seconds.", status="error")
        if self._scope.shared.cancel_called:
            await checkpoint()  # a tool that swallowed the cancellation: its late result is dropped
        return value

    # ---- completion

    async def _complete(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> bool:
        """Run a completion's handler and act on what it says; False if it only reported a phase."""
        objection = self._objection() if tool.is_final(arguments) else None
        if objection is not None:
            self._reject(call, *objection)
            return True
        match await self._execute(tool, call, arguments):
            case Phase() as phase:
                self._report(call, phase)
                return False
            case Continue(reason):
                self._reject(call, reason, "tool")
            case Completion(success=False) as failed:
                self._reject(call, failed.error or failed.content or "It did not succeed.", "tool")
            case Completion() as completion:
                await self._check(call, completion)
            case str(word) if word.strip().lower() == "continue":
                self._reject(call, Continue().reason, "tool")
            case value:
                content, status = as_text(value)
                if status == "ok":
                    await self._check(call, Completion(answer=content))
                else:
                    self._reject(call, content, "tool")
        return True

    def _objection(self) -> tuple[str, str] | None:
        """Why no completion can be final now, and by which rule; a mere phase may still be reported."""
        if self.asked:
            return "A question to the user is still open. Complete the task once it is answered.", "open_question"
        if self._failed and self._context.policy.reject_after_failure:
            first, why = self._failed[0]
            return f"{first.name}, called before it, failed: {why}", "failed_call"
        return None

    async def _check(self, call: ToolCall, completion: Completion) -> None:
        """Ask the gates, then the user if that is wanted, and accept or hand back."""
        for gate in self._context.gates:
            arguments = (completion, progress(self._context))
            verdict = await ask(self._context, "gate", gate, arguments, read_gate, call.id)
            if verdict.said != "accept":
                failed = "The check of the completion failed: " if verdict.said == "failed" else ""
                self._reject(call, failed + verdict.detail, qualified(gate))
                return
        if completion.confirm is None:
            self._accept(call, completion)
            return
        self._answered.add(call.id)  # stays open: whether it is done is for the user to say
        self._log.append(
            QuestionAsked(
                call_id=call.id,
                text=completion.confirm,
                confirms=completion.answer,
                pending_issues=completion.pending_issues,
            )
        )

    def _accept(self, call: ToolCall, completion: Completion) -> None:
        if completion.percentage is not None:
            self._log.append(
                PhaseReported(call_id=call.id, percentage=completion.percentage, summary=completion.answer)
            )
        self._log.append(
            CompletionAccepted(
                call_id=call.id,
                name=call.name,
                answer=completion.answer,
                pending_issues=completion.pending_issues,
            )
        )
        self._answer(call, completion.answer if completion.content is None else completion.content, "ok")
        if self._context.policy.inner_cancel:
            self._scope.cancel(Cause("completion", call.id))

    def _reject(self, call: ToolCall, reason: str, by: str) -> None:
        self._log.append(CompletionRejected(call_id=call.id, name=call.name, reason=reason, by=by))
        self._answer(call, handed_back(reason), "rejected")

    def _report(self, call: ToolCall, phase: Phase) -> None:
        self._log.append(
            PhaseReported(
                call_id=call.id,
                percentage=phase.percentage,
                summary=phase.summary,
                next_phase=phase.next_phase,
            )
        )
        following = f" Go on with: {phase.next_phase}" if phase.next_phase else " Go on."
        self._answer(call, f"Noted: {phase.percentage} % done.{following}", "ok")

    # ---- results

    def _answer(self, call: ToolCall, content: str, status: ResultStatus) -> None:
        if call.id in self._answered:
            return
        self._answered.add(call.id)
        if status in ("error", "invalid", "truncated"):
            self._failed.append((call, content))
        self._log.append(
            ToolCallResult(
                call_id=call.id,
                name=call.name,
                content=content,
                status=status,
                fingerprint="" if status == "unknown" or self._polls(call) else fingerprint(call, content),
            )
        )

    def _polls(self, call: ToolCall) -> bool:
        tool = self._context.toolbox.get(call.name)
        return tool is not None and tool.spec.polls

    def _unknown(self, name: str) -> str:
        offered = ", ".join(self._context.toolbox) or "none"
        return f"There is no tool {name!r}. The tools are: {offered}."
