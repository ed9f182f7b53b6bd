"""Execute the tool calls of one step, so that each call gets exactly one result.

A reading call may start while the response still streams, unless a call that writes, asks or completes comes before it.
All others wait until the response is complete or cut, because a retried attempt must not repeat them; writing calls
then run one after another, except that calls of `parallel` tools run at the same time. After a completion call no call
starts any more (`mixed="all"` allows calls in the same response). An accepted completion cancels the shared scope of
the round, and with it every call that is still running.

After a question to the user no call starts that may write: it is answered as not run, and the model decides again once
it has the answer (`policy.after_question`).

A call that needs the user's approval stays open, and so do the writing calls after it; reading calls run meanwhile. The
run that begins with the last answer runs the open calls, or answers them as denied (`run_approved`).

A completion call first runs its function, which may say that the work is not done. Then the gates are asked, and then
the user if confirmation is required.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from .approvals import NEVER_ASKED, REDACTED, approval_question, needs_approval
from .cancel_scope import Cause, RoundScope
from .context import Context
from .decision import AssistantMessage, Image, Question, ToolCall
from .decision.events import (
    BlockReported,
    CompletionAccepted,
    CompletionRejected,
    PhaseReported,
    QuestionAnswered,
    QuestionAsked,
    ThoughtRecorded,
    ToolCallResult,
)
from .decision.messages import ResultStatus
from .decision.rules import rejection_message
from .decision.transcript import denial
from .decision.until_facts import CheckFacts
from .durability import RunLost
from .hook_runner import run_gates
from .tool_execution import UNLIMITED_KINDS, call_key, execute_call
from .tools.result_texts import CANCELLED, LIMIT_REACHED, NOT_RUN_AFTER_QUESTION, SKIPPED, STILL_RUNNING
from .tools.results import (
    PERCENTAGE_OUT_OF_RANGE,
    CallOutcome,
    Completion,
    Continue,
    NeedsUserInput,
    Phase,
    SubagentAsks,
    images_in,
    phase_reply,
    render_result,
)
from .tools.schema import InvalidArguments
from .tools.tool import Tool
from .user_errors import log_unusable_answer, log_user_error

MOST_AT_ONCE = 200
"""Number of calls of one response after which other tasks of the event loop get a turn."""
NOTED = "Noted."
HANDED_BACK = (
    "Not accepted yet. That a check fails is no obstacle: the work is to be changed until it passes. Make the next "
    "change. Report again only if something is missing that no tool can get."
)
"""Result of a report that the task cannot be done; what the check says follows."""
TRUNCATED = "Not run: the response was cut off inside this call. Call it again, with less in one piece."
RAN_EARLY = (
    "It had begun with the arguments as they stood when they were whole; then more of them came, which makes them "
    "invalid. It was stopped (it only reads), and what it found is dropped. Call it again."
)
if TYPE_CHECKING:
    from .until_background import BackgroundCheck

FAILED_STATUSES: frozenset[ResultStatus] = frozenset({"error", "invalid", "truncated", "unknown", "denied"})
"""Result statuses after which a completion is not accepted (`policy.reject_after_failure`)."""


@dataclass(slots=True)
class _Progress:
    """Progress of a response's calls."""

    truncated: Collection[str]
    """Ids of calls whose arguments are incomplete."""
    alone: bool
    """Whether only the completion may run (`policy.mixed`)."""
    before: list[str] = field(default_factory=list)
    """Ids of the calls examined so far."""
    done: bool = False
    """Whether a completion was settled."""
    asked: bool = False
    """Whether the user is asked a question, so that no call that may write starts."""
    reading: bool = True
    """Whether the calls started last only read. They run at the same time, and never together with writing ones."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """Verdict that a call does not run, with its result."""

    content: str
    status: ResultStatus
    failed: bool = False
    """Whether it rules out a later completion."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """Verdict that a call may run."""

    tool: Tool
    arguments: dict[str, Any]


class ToolCalls:
    """The tool calls of one step: `start_early` while the response streams, `run_all` once it is complete or cut."""

    def __init__(self, context: Context, scope: RoundScope) -> None:
        self._context = context
        self._log = context.log
        self._scope = scope
        self._settled = False
        """Whether the user has settled all approvals, so that calls no longer wait for one."""
        self._reset()

    def _reset(self) -> None:
        self._early = True
        self._running: dict[str, asyncio.Task[None]] = {}
        self._started: dict[str, ToolCall] = {}
        self._results = CallResults(self._context)
        self._completions = CompletionCalls(self._context, self._scope, self._results)

    @property
    def has_question(self) -> bool:
        """Whether this step asks the user a question."""
        return self._results.has_question

    def is_final_completion(self, call: ToolCall) -> bool | None:
        """Return whether a completion's arguments are valid and make it a final one; None if it is not a completion."""
        return self._completions.is_final(call)

    def start_early(self, call: ToolCall) -> None:
        """Start a call whose arguments have just become complete, if it may start before the response ends."""
        tool = self._context.toolbox.get(call.name)
        if tool is None or call.id in self._running:
            return
        self._results.has_question = self._results.has_question or tool.kind == "question"
        if tool.spec.reads and self._early and tool.kind == "ordinary" and tool.approval is False:
            may_start = call.id not in self._results and self._context.effects.may_start_early(call.id)
            if may_start and (arguments := self._arguments(tool, call)) is not None:
                self._start(tool, call, arguments)
        elif tool.kind != "completion" or self._context.policy.mixed != "all":
            self._early = False

    def cancel_changed(self, message: AssistantMessage) -> None:
        """Cancel calls that started with arguments to which the model then added more."""
        for call in message.calls:
            changed = call.id in self._started and self._started[call.id].arguments != call.arguments
            if changed and not self._context.effects.has_result(call.id):
                self._results.answer(call, RAN_EARLY, "invalid")
                self._running[call.id].cancel()

    async def run_all(self, message: AssistantMessage, truncated: Collection[str]) -> None:
        """Give every call of the response a result, except open questions. truncated: ids of incomplete calls."""
        whole = [call for call in message.calls if call.id not in truncated]
        alone = self._context.policy.mixed == "none" and any(self._completions.is_final(call) for call in whole)
        progress = _Progress(truncated, alone)
        if self._context.limits.reached:
            self._cancel_running()
        for number, call in enumerate(message.calls, 1):
            if number % MOST_AT_ONCE == 0:
                await asyncio.sleep(0)
            tool = self._context.toolbox.get(call.name)
            match self._verdict(call, tool, progress):
                case _Refused(content, status, failed):
                    self._results.answer(call, content, status)
                    if failed:
                        self._results.record_failure(call.id, call.name, content)
                case _Ready(tool, arguments):
                    await self._begin(tool, call, arguments, progress)
                case None:
                    pass
            progress.before.append(call.id)
            progress.asked = progress.asked or self._asks(tool)
        await self._finish_running(progress.before)
        self._results.ask_passed_on(message.calls)
        for call in message.calls:
            if call.id in self._running and self._context.limits.reached:
                self._results.answer(call, LIMIT_REACHED, "cancelled")
        self.cancel_rest(message)  # calls whose tasks were cancelled from elsewhere

    def _verdict(self, call: ToolCall, tool: Tool | None, progress: _Progress) -> _Refused | _Ready | None:
        """Return the verdict on running a call now; None if it has a result or started while the response streamed."""
        if call.id in self._results:
            return None
        if self._is_left_out(call, tool, progress):
            return _Refused(SKIPPED, "skipped")
        if call.id in progress.truncated:
            return _Refused(TRUNCATED, "truncated")
        if tool is None:
            return _Refused(self._unknown_tool(call.name), "invalid")
        if progress.asked and tool.kind == "ordinary" and not tool.spec.reads:
            return _Refused(NOT_RUN_AFTER_QUESTION, "skipped")
        if call.id in self._running:
            return None
        try:
            arguments = self._completions.parse(tool, call)
        except InvalidArguments as error:
            return _Refused(str(error), "invalid")
        if tool.kind not in UNLIMITED_KINDS and self._out_of_time():
            return _Refused(LIMIT_REACHED, "cancelled", failed=not tool.spec.reads)
        return _Ready(tool, arguments)

    async def _begin(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], progress: _Progress) -> None:
        """Start a call that may run at the same time as others, run any other one, or leave it open for the user."""
        ordinary = tool.kind == "ordinary"
        if ordinary and await self._waits(tool, call):
            return
        if self._context.check is not None and not tool.spec.reads:
            await self._finish_running(progress.before)
            await self._wait_for_check(self._context.check)
        if ordinary and (tool.spec.reads or tool.spec.parallel):
            if tool.spec.reads != progress.reading:
                await self._finish_running(progress.before)
            progress.reading = tool.spec.reads
            self._start(tool, call, arguments)
            return
        await self._finish_running(progress.before)
        if ordinary and self._results.awaits_approval:  # a sub-agent before it has asked the user
            self._results.mark_open(call)
            return
        done = await self._run_alone(tool, call, arguments, progress.before)
        progress.done = progress.done or done
        await self._scope.checkpoint()  # accepted: everything that follows is cancelled, including this loop

    async def _wait_for_check(self, check: BackgroundCheck) -> None:
        """Wait for a running check of the work before a call that may change it; if it ends the run, run nothing."""
        if await check.before_write():
            self._scope.cancel(Cause("check", check.name))
            await self._scope.checkpoint()

    async def run_approved(self, calls: Sequence[ToolCall], answers: Mapping[str, QuestionAnswered]) -> None:
        """Run the calls of an earlier response that waited for approval. answers: settle all approvals."""
        self._settled = True
        asking = {asker.call_id for asker in self._context.transcript.askers.values()}
        given: list[ToolCall] = []
        for call in calls:
            answer = answers.get(call.id)
            if answer is not None and answer.says != "yes":
                self._results.answer(call, denial(answer), "denied")
            elif answer is not None and answer.arguments is not None:
                call = replace(call, arguments=msgspec.json.encode(answer.arguments).decode())
            elif call.id in self._context.redacted_calls and call.id not in asking:
                self._results.answer(call, REDACTED, "invalid")
            elif answer is None and self._always_asks(call.name):
                self._results.answer(call, NEVER_ASKED, "denied")
            given.append(call)
        await self.run_all(AssistantMessage(calls=tuple(given)), ())

    def _always_asks(self, name: str) -> bool:
        tool = self._context.toolbox.get(name)
        return tool is not None and tool.approval is True

    async def _waits(self, tool: Tool, call: ToolCall) -> bool:
        """Return whether a call waits for the user: for its own approval, or, if it writes, behind a call that does."""
        if self._settled:
            return False
        if tool.approval is not False and await needs_approval(self._context, tool, call):
            await self._scope.checkpoint()
            self._results.ask_approval(call)
            return True
        if self._results.awaits_approval and not tool.spec.reads:
            self._results.mark_open(call)
            return True
        return False

    def _is_left_out(self, call: ToolCall, tool: Tool | None, progress: _Progress) -> bool:
        """Return whether a call is skipped because the step has a completion (`policy.mixed`)."""
        kind = "ordinary" if tool is None else tool.kind
        if progress.done:
            return self._context.policy.mixed != "all" or kind == "completion"
        if not progress.alone or kind != "ordinary":
            return False
        return call.id not in self._running and not self._context.effects.began(call_key(self._context, call))

    def _asks(self, tool: Tool | None) -> bool:
        """Return whether calls after one of this tool come after a question, so that none that may write starts.

        A question that could not be put to the user (invalid arguments) counts: the model wanted to ask first.
        """
        if self._context.policy.after_question == "run":
            return False
        return self._results.asked or (tool is not None and tool.kind == "question")

    def _out_of_time(self) -> bool:
        """Return whether a limit of the run is reached, so that no further call starts."""
        limits = self._context.limits
        if not limits.reached and limits.out_of_time:
            limits.record_time_up(self._log.facts.steps)
        return limits.reached

    def discard(self) -> None:
        """Forget the calls of a retracted attempt, and cancel those that started early."""
        self._cancel_running()
        self._results.close()
        self._reset()

    def _cancel_running(self) -> None:
        for task in self._running.values():
            task.cancel()

    def cancel_rest(self, message: AssistantMessage | None) -> None:
        """Give each call without a result a result that says why it did not run to its end. Runs nothing."""
        after = self._scope.cause is not None and self._scope.cause.by == "check"
        for call in message.calls if message is not None else ():
            if after and call.id not in self._running:
                self._results.answer(call, SKIPPED, "skipped")
            else:
                left = call.id in self._context.left_behind
                self._results.answer(call, STILL_RUNNING if left else CANCELLED, "cancelled")
            after = after or call.id == self._scope.cut_by
        self._results.close()

    # ---- running

    def _arguments(self, tool: Tool, call: ToolCall) -> dict[str, Any] | None:
        """Return the call's arguments; None if they are invalid, which is then its result."""
        try:
            return self._completions.parse(tool, call)
        except InvalidArguments as error:
            self._results.answer(call, str(error), "invalid")
            return None

    def _start(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> None:
        self._started[call.id] = call
        work = self._run_beside(tool, call, arguments, self._results)
        self._running[call.id] = self._scope.start(work, call.name)

    async def _run_beside(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], results: CallResults) -> None:
        if self._scope.shared.cancel_called:
            return  # the round was cancelled between the start of this task and its first step
        try:
            await self._run_ordinary(tool, call, arguments, results)
        except RunLost as lost:
            self._log.close(lost)  # before other calls are cancelled: what they log must not be written
            raise

    async def _finish_running(self, ids: Collection[str]) -> None:
        """Wait for those of these calls that are running."""
        running = [task for id, task in self._running.items() if id in ids and not task.done()]
        if running:
            await asyncio.wait(running)
        await self._scope.checkpoint()

    async def _run_alone(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], before: Sequence[str]) -> bool:
        """Run a call while no other one runs. Return whether it was a completion after which no call may run."""
        match tool.kind:
            case "ordinary" if tool.spec.completes:
                value = await execute_call(self._context, self._scope, tool, call, arguments)
                if isinstance(value, Completion | Continue | Phase):
                    return await self._completions.apply(call, value, before, extra=value.content)
                self._record_result(tool, call, value, self._results)
            case "ordinary":
                await self._run_ordinary(tool, call, arguments, self._results)
            case "think":
                await self._think(tool, call, arguments)
            case "question":
                await self._ask(tool, call, arguments)
            case "completion":
                return await self._completions.run(tool, call, arguments, before)
            case "blocked":
                return await self._report_block(call)
        return False

    async def _report_block(self, call: ToolCall) -> bool:
        """Accept the model's report that it cannot do the task, or hand it back. Return whether it is accepted.

        The first report is handed back, and the second one, too, if the work is as it was at the start: weak models
        report what the check says instead of repairing it.
        """
        reason, tried = _block_of(call)
        check = self._context.check
        if check is not None and await check.settle("claim"):
            self._results.answer(call, SKIPPED, "skipped")
            return True
        facts = self._log.facts.check or CheckFacts()
        changed = facts.unchanged_since != "the start"
        accepted = facts.reports >= (1 if changed else 2)
        self._log.append(BlockReported(call_id=call.id, reason=reason, tried=tried, accepted=accepted))
        if accepted:
            self._results.answer(call, NOTED, "ok")
        else:
            self._results.answer(call, f"{HANDED_BACK}\n{facts.told_detail}".rstrip(), "rejected")
        return accepted

    async def _run_ordinary(
        self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], results: CallResults
    ) -> None:
        value = await execute_call(self._context, self._scope, tool, call, arguments)
        if not tool.kind_given:
            self._context.warn_of_missing_kind(tool, value)
        self._record_result(tool, call, value, results)

    def _record_result(self, tool: Tool, call: ToolCall, value: Any, results: CallResults) -> None:
        if isinstance(value, NeedsUserInput):
            results.ask_user(call, value.question)
            return
        if isinstance(value, SubagentAsks):
            results.pass_on(call, value.questions)
            return
        content, status = render_result(value)
        if value is None and tool.promised_type:
            why = f"it is annotated -> {tool.promised_type} and returned None: a `return` is missing"
            log_unusable_answer("tool", tool.function, why, call_id=call.id)
        if status == "error" and not isinstance(value, CallOutcome | Completion | Continue | Phase):
            log_unusable_answer("tool", tool.function, content, call_id=call.id)
        results.answer(call, content, status, images_in(value))

    async def _think(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> None:
        content, status = render_result(await execute_call(self._context, self._scope, tool, call, arguments))
        if status == "ok":
            self._log.append(ThoughtRecorded(call_id=call.id, text=content))
            content = NOTED
        self._results.answer(call, content, status)

    async def _ask(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> None:
        content, status = render_result(await execute_call(self._context, self._scope, tool, call, arguments))
        if status != "ok":
            self._results.answer(call, content, status)
            return
        self._results.ask_user(call, content)

    def _unknown_tool(self, name: str) -> str:
        offered = ", ".join(self._context.toolbox) or "none"
        return f"There is no tool {name!r}. The tools are: {offered}."


def _block_of(call: ToolCall) -> tuple[str, tuple[str, ...]]:
    """Return the reason in a report that the task cannot be done, and what was tried. The arguments are valid."""
    said = msgspec.json.decode(call.arguments)
    return str(said.get("reason", "")), tuple(map(str, said.get("tried", ())))


class CompletionCalls:
    """Completion calls of one step: runs them and accepts or rejects each."""

    def __init__(self, context: Context, scope: RoundScope, results: CallResults) -> None:
        self._context = context
        self._log = context.log
        self._scope = scope
        self._results = results
        self._extra = ""
        """Text that is appended to the call's result."""
        self._parsed: tuple[ToolCall, dict[str, Any]] | None = None
        """The latest completion with its arguments, which are needed when it is complete and again when it is run."""

    def parse(self, tool: Tool, call: ToolCall) -> dict[str, Any]:
        """Parse the arguments of a call; those of a completion only once. Raises InvalidArguments."""
        if self._parsed is not None and self._parsed[0] == call:
            return self._parsed[1]
        try:
            arguments = tool.parse(call.arguments)
        except InvalidArguments as error:
            if error.__cause__ is not None:  # a bug in a validator of the user's type
                log_user_error("tool", tool.function, error.__cause__, call_id=call.id)
            raise
        if tool.kind == "completion":
            self._parsed = call, arguments
        return arguments

    def is_final(self, call: ToolCall) -> bool | None:
        """Return whether a completion's arguments are valid and make it a final one; None if it is not a completion."""
        tool = self._context.toolbox.get(call.name)
        if tool is None or tool.kind != "completion":
            return None
        try:
            return tool.is_final(self.parse(tool, call))
        except InvalidArguments:
            return False

    async def run(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], before: Sequence[str]) -> bool:
        """Run a completion's function and act on its result. Return False if it only reported a phase.

        before: ids of the calls before it in the response.
        """
        objection = self._objection(before) if tool.is_final(arguments) else None
        if objection is not None:
            self._reject(call, *objection)
            return True
        return await self._apply(call, await execute_call(self._context, self._scope, tool, call, arguments))

    async def apply(
        self, call: ToolCall, said: Completion | Continue | Phase, before: Sequence[str], extra: str | None
    ) -> bool:
        """Act on a completion that an ordinary tool returned (`completes=True`). Return False for only a phase."""
        self._extra = f"\n{extra}" if extra else ""
        objection = self._objection(before) if isinstance(said, Completion) else None
        if objection is not None:
            self._reject(call, *objection)
            return True
        return await self._apply(call, said)

    async def _apply(self, call: ToolCall, value: Any) -> bool:
        match value:
            case Phase(percentage=percentage) if not 0 <= percentage <= 100:
                self._results.answer(call, PERCENTAGE_OUT_OF_RANGE.format(percentage), "invalid")
                return False
            case Phase() as phase:
                self._report_phase(call, phase)
                return False
            case NeedsUserInput(question):
                self._results.ask_user(call, question)
                return False
            case CallOutcome(status="unknown", content=content):
                self._results.answer(call, content, "unknown")
                return False
            case Continue(reason):
                self._reject(call, reason, "tool")
            case Completion(success=False) as failed:
                self._reject(call, failed.error or failed.content or "It did not succeed.", "tool")
            case Completion() as completion:
                await self._check_gates(call, completion)
            case value:  # it failed, or a durable engine stored it before `parse_completion` existed
                content, status = render_result(value)
                if status == "ok":
                    await self._check_gates(call, Completion(answer=content))
                else:
                    self._reject(call, content, "tool")
        return True

    def _objection(self, before: Sequence[str]) -> tuple[str, str] | None:
        """Return why no completion can be accepted now and by which rule (`CompletionRejected.by`); None if one can."""
        if self._results.has_question:
            return "A question to the user is still open. Complete the task once it is answered.", "open_question"
        failure = self._results.first_failure(before)
        if failure is not None and self._context.policy.reject_after_failure:
            return failure, "failed_call"
        return None

    async def _check_gates(self, call: ToolCall, completion: Completion) -> None:
        """Ask the gates, then the user if confirmation is required, and accept or reject."""
        objection = await run_gates(self._context, completion, call.id)
        if objection is not None:
            self._reject(call, *objection)
            return
        if not isinstance(completion.confirm, str):
            self._accept(call, completion)
            return
        self._results.mark_open(call)  # the user decides whether the work is done
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
        self._results.answer(call, completion.answer if completion.content is None else completion.content, "ok")
        if self._context.policy.inner_cancel:
            self._scope.cancel(Cause("completion", call.id))

    def _reject(self, call: ToolCall, reason: str, by: str) -> None:
        self._log.append(CompletionRejected(call_id=call.id, name=call.name, reason=reason, by=by))
        self._results.answer(call, rejection_message(reason) + self._extra, "rejected")

    def _report_phase(self, call: ToolCall, phase: Phase) -> None:
        self._log.append(
            PhaseReported(
                call_id=call.id,
                percentage=phase.percentage,
                summary=phase.summary,
                next_phase=phase.next_phase,
            )
        )
        self._results.answer(call, phase_reply(phase.percentage, phase.next_phase) + self._extra, "ok")


def record_acceptance(context: Context, call_id: str, name: str, completion: Completion) -> None:
    """Log that a completion is accepted; if the tool reports phases, also log the last phase."""
    log = context.log
    if completion.percentage is not None:
        log.append(PhaseReported(call_id=call_id, percentage=completion.percentage, summary=completion.answer))
    log.append(
        CompletionAccepted(
            call_id=call_id, name=name, answer=completion.answer, pending_issues=completion.pending_issues
        )
    )


class CallResults:
    """Results of one step's calls. The first result of a call counts; later ones are dropped."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._answered: set[str] = set()
        self._closed = False
        self.has_question = False
        """Whether this step asks the user a question."""
        self.asked = False
        """Whether a call of this step has asked the user a question, other than for an approval."""
        self.awaits_approval = False
        """Whether a call of this step waits for the user's approval, or its sub-agent for an answer."""
        self._passed_on: dict[str, Sequence[Question]] = {}
        """Questions of sub-agents that calls have run, by call id."""
        self._failures: dict[str, str] = {}
        """Reasons why calls failed, or that their effect is unknown, by call id."""

    def answer(self, call: ToolCall, content: str, status: ResultStatus, images: tuple[Image, ...] = ()) -> None:
        """Log the result of a call, unless it has one already."""
        if self._closed or call.id in self._answered:
            return
        self._answered.add(call.id)
        marked = status != "unknown" and not self._is_polling(call)
        compared = self._context.policy.repetition.results
        result = self._context.log.append(
            ToolCallResult(
                call_id=call.id,
                name=call.name,
                content=content,
                status=status,
                fingerprint=self._context.effects.fingerprint(call, content, images, compared) if marked else "",
                images=images,
            )
        )
        if result.status in FAILED_STATUSES:
            self.record_failure(call.id, call.name, result.content)

    def __contains__(self, call_id: str) -> bool:
        """Return whether this call has a result or waits for the user."""
        return call_id in self._answered

    def close(self) -> None:
        """Drop all further results."""
        self._closed = True

    def mark_open(self, call: ToolCall) -> None:
        """Leave a call open until the user answers it."""
        self._answered.add(call.id)

    def ask_user(self, call: ToolCall, question: str) -> None:
        """Ask the user a question; the answer will be the call's result."""
        if self._closed or call.id in self._answered:
            return
        self.has_question = self.asked = True
        self.mark_open(call)
        self._context.log.append(QuestionAsked(call_id=call.id, text=question))

    def ask_approval(self, call: ToolCall) -> None:
        """Ask the user whether this call may run."""
        self.has_question = self.awaits_approval = True
        self.mark_open(call)
        self._context.log.append(approval_question(self._context, call))

    def pass_on(self, call: ToolCall, questions: Sequence[Question]) -> None:
        """Note the questions of the sub-agent that this call runs; `ask_passed_on` asks the user."""
        if not self._closed and call.id not in self._answered:
            self.has_question = self.awaits_approval = True
            self._passed_on[call.id] = questions

    def ask_passed_on(self, calls: Sequence[ToolCall]) -> None:
        """Ask the user the sub-agents' questions in the order of the calls, in whichever order they have ended."""
        for call in calls:
            questions = self._passed_on.pop(call.id, ())
            if questions:
                self.mark_open(call)
            for question in questions:
                asked = {name: getattr(question, name) for name in Question.__struct_fields__ if name != "unclear"}
                self._context.log.append(QuestionAsked(**asked))

    def record_failure(self, call_id: str, name: str, why: str) -> None:
        """Note that a call failed or was not made, which rules out a later completion (`FAILED_STATUSES`)."""
        self._failures[call_id] = f"{name}, called before it, failed: {why}"

    def first_failure(self, ids: Sequence[str]) -> str | None:
        """Return why the first of these calls failed, in the given order; None if none did."""
        return next((self._failures[id] for id in ids if id in self._failures), None)

    def _is_polling(self, call: ToolCall) -> bool:
        tool = self._context.toolbox.get(call.name)
        return tool is not None and tool.spec.polls
