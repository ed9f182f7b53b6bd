"""Narration of a run for all views: its events as the few things that people want to see.

The `EventNarrator` calls the methods of a `RunView`. A test checks that every event is either in `_HANDLERS` or in
`NOT_NARRATED`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace as with_changes
from typing import Any

from msgspec.structs import replace

from ...base.sanitize import one_line, sanitize
from ...decision import AssistantMessage, Event, Facts, Policy, fold
from ...decision import events as ev
from ...decision.call_judgement import CallJudge
from ...decision.decide import complete_outcome
from ...decision.limit_usage import limit_statuses
from ...decision.messages import ToolKind
from ...decision.until_facts import CUT_FOR_CHECK, CheckFacts
from ...event_bus import Lagged
from .rounds import Round, takes_plans
from .run_view import Call, RunView, ViewSnapshot
from .styled_lines import Shade
from .text import (
    Asking,
    Recorded,
    call_summary,
    counted,
    cut_words,
    ending_of,
    failure_words,
    last_lines,
    short_name,
    sparkline,
    usage_parts,
)

NOTE = 400
"""The most characters in the line of a note."""
BODY = 6
"""The most lines that are shown below a note: the last ones of the text, where commands print what is wrong."""


class EventNarrator:
    """Narrator that takes the events of a run one by one and calls the view's methods that show their meaning."""

    def __init__(
        self, view: RunView, *, explain: bool, recorded: Recorded | None = None, asking: Asking | None = None
    ) -> None:
        self.calls: dict[str, Call] = {}
        """Calls without a result yet, by id."""
        self.activity = "starting"
        """The run's current activity, in words for a status line."""
        self.facts = Facts()
        self.policy = Policy()
        self.actions: list[str] = []
        """Short descriptions of the calls that may have changed something."""
        self.t = 0
        """Milliseconds since the run began."""
        self.explain = explain
        """Whether to show decisions with every rule that was considered."""
        self._view = view
        self._recorded = recorded
        self._asking = asking
        self._open_questions: dict[str, str] = {}
        """Open questions of an earlier run, by call id."""
        self._approved: dict[str, Call] = {}
        """Calls of an earlier run that wait for approval, by call id."""
        self._kinds: dict[str, ToolKind] = {}
        self._judge = CallJudge(ev.RunStarted(run_id="", session_id="", policy=self.policy))
        self._planning: set[str] = set()
        self._round: Round | None = None
        self._rounds = 0
        self._scores: list[float] = []
        """The scores of the check so far."""
        self._cuts: dict[str, str] = {}
        """The words about a cut, to be shown after its completion call; by call id."""
        self._failure: ev.AttemptFailed | None = None
        self._cause = ""
        self._streamed = False
        """Whether parts of the latest response were shown before it was whole."""

    @property
    def of_allowed(self) -> str:
        """How many steps the run may make, as " of 30"; empty without a limit."""
        steps = self.policy.limits.steps
        return "" if steps is None else f" of {steps + self.facts.grants.steps}"

    def usage_parts(self, t: int) -> tuple[str, ...]:
        """Return the usage at this time (milliseconds since the run began), with the limits."""
        facts = replace(self.facts, t=t)
        return usage_parts(facts.usage, {one.name: one.use for one in limit_statuses(facts, self.policy)})

    def skip(self, events: Sequence[Event], *, inside: bool = False) -> None:
        """Process events without showing them, except for the start of the run and, if `inside`, the open step."""
        view, self._view = self._view, (snapshot := ViewSnapshot())
        for event in events:
            self.feed(event)
            if isinstance(event, ev.StepFinished):
                snapshot.leave_step()
        self._view = view
        snapshot.show_in(view, inside)

    def feed(self, event: Event | Lagged) -> None:
        """Process one more event."""
        if isinstance(event, Lagged):
            self._view.note(
                f"… {counted(event.missed, 'event(s) (was|were)')} skipped: the terminal was too slow", "quiet"
            )
            return
        self.facts, self.t = fold(self.facts, event), event.t
        handle = _HANDLERS.get(type(event))
        if handle is not None:
            handle(self, event)

    # ---- the run and its steps

    def _run_started(self, event: ev.RunStarted) -> None:
        self.calls.clear()
        self.actions.clear()
        self.policy = event.policy
        self._open_questions = {q.call_id: q.text for q in event.carried.questions} if event.carried else {}
        self._kinds = {tool.name: tool.kind for tool in event.tools}
        self._approved = {
            question.call_id: Call(question.tool, self._kind(question.tool), [json.dumps(question.arguments or {})])
            for question in (event.carried.questions if event.carried else ())
            if question.tool is not None
        }
        self._judge = CallJudge(event)
        self._planning = {tool.name for tool in event.tools if takes_plans(tool)}
        self._round, self._rounds = None, 0
        self._failure, self._cause = None, ""
        if self._asking is None or not self._asking.answered:
            self._view.begin(event)

    def _run_resumed(self, event: ev.RunResumed) -> None:
        if event.interrupted_step is not None:
            self._discard_attempt()
        self._view.note("the run goes on where its process was killed", "quiet")

    def _resume_diverged(self, event: ev.ResumeDiverged) -> None:
        told = f"recorded is {event.recorded} (event {event.at}), now it is {event.now}"
        self._note("it goes on differently from its record", told, "warning")

    def _alarm_raised(self, event: ev.AlarmRaised) -> None:
        told = f"policy {event.policy} would have stopped it after step {event.step}: {event.detail or event.reason}"
        self._note(f"alarm, {event.reason}", told, "warning")

    def _message_added(self, event: ev.MessageAdded) -> None:
        if event.origin != "user":
            self._note(f"▸ {event.origin.replace('_', ' ')}", event.text, "loop")

    def _step_started(self, event: ev.StepStarted) -> None:
        self._view.end_writing()
        self._view.step(event.step, event.closing)

    def _attempt_started(self, event: ev.AttemptStarted) -> None:
        self.activity = "waiting for the model"
        self._streamed = False
        self._show_failure()  # of an earlier attempt: the run went on

    def _attempt_failed(self, event: ev.AttemptFailed) -> None:
        if event.beside:
            self._note(f"· {event.model} was tried as well", event.message, "quiet")
            return
        self._discard_attempt()
        self._failure = event

    def _attempt_retracted(self, event: ev.AttemptRetracted) -> None:
        self._discard_attempt()
        self._view.note(f"↺ attempt {event.attempt} is void; another one replaces it", "warning")

    def _discard_attempt(self) -> None:
        self._view.end_writing()
        self.calls.clear()

    def _response_finished(self, event: ev.ResponseFinished) -> None:
        if not self._streamed:
            self._whole_response(event.message)
        self._view.end_writing()
        if event.cut_for == CUT_FOR_CHECK:
            self._note("✂ cut: the check is met", "nothing after it was read", "good")
        if event.cut_at is not None:
            name = next((call.name for call in event.message.calls if call.id == event.cut_at), "the completion")
            self._cuts[event.cut_at] = cut_words(one_line(name, 60), event)
        self.activity = "running tools" if event.message.calls else "deciding"

    def _decision_made(self, event: ev.DecisionMade) -> None:
        if self.explain:
            self._view.decided(event.round, event.decision)

    def _cancel_requested(self, event: ev.CancelRequested) -> None:
        self._cause = event.cause

    def _run_finished(self, event: ev.RunFinished) -> None:
        self._view.end_writing()
        self.calls.clear()
        self._show_round()
        if event.outcome.stop_reason != "provider_error":
            self._show_failure()
        self._show_scores()
        outcome = complete_outcome(event.outcome, self.facts)
        ending = ending_of(outcome, self._failure, self._cause, self._recorded)
        if self._asking is not None and outcome.status == "awaiting_input":
            ending = with_changes(ending, advice=(), go_on="", is_asked=True)
        self._view.end(ending, outcome)

    def _show_failure(self) -> None:
        if self._failure is not None and self._failure.kind != "cancelled":
            what = "the response was cut" if self._failure.kind == "degenerate" else "the request failed"
            self._note(f"✘ {what}", failure_words(self._failure), "bad")
        self._failure = None

    # ---- the response

    def _whole_response(self, message: AssistantMessage) -> None:
        """Show a response that was not streamed, as imported ones are."""
        reasoning = "".join(block.text for block in message.reasoning)
        if reasoning:
            self._view.write("reasoning", reasoning)
        if message.text:
            self._view.write("text", message.text)
        for call in message.calls:
            self.calls[call.id] = Call(call.name, self._kind(call.name), written=[call.arguments])

    def _text(self, event: ev.TextMessageContent) -> None:
        self.activity, self._streamed = "writing", True
        self._view.write("text", event.delta)

    def _reasoning(self, event: ev.ReasoningMessageContent) -> None:
        self._streamed = True
        if event.delta:
            self.activity = "thinking"
            self._view.write("reasoning", event.delta)

    def _call_started(self, event: ev.ToolCallStart) -> None:
        self._streamed = True
        self._view.end_writing()
        self.calls[event.call_id] = Call(event.name, self._kind(event.name))
        self.activity = "calling"

    def _call_arguments(self, event: ev.ToolCallArgs) -> None:
        if event.call_id in self.calls:
            self.calls[event.call_id].written.append(event.delta)

    def _provider_tool(self, event: ev.ProviderToolReported) -> None:
        self._note(f"◌ {event.name}", "run by the provider itself", "quiet")

    # ---- results of calls

    def _execution_started(self, event: ev.ToolExecutionStarted) -> None:
        if (call := self._approved.pop(event.call_id, None)) is not None:
            self.calls[event.call_id] = call
        if (call := self.calls.get(event.call_id)) is not None:
            call.running, call.began = True, event.t
            if call.kind == "completion":
                self.activity = "checking whether it is done"

    def _subagent_started(self, event: ev.SubagentStarted) -> None:
        self._note(f"▸ sub-agent {event.name}", f"{event.run_id} {event.model} {event.record}", "loop")

    def _progress(self, event: ev.ToolProgress) -> None:
        how_far = "" if event.progress is None else f"{event.progress:g}"
        if how_far and event.total is not None:
            how_far = f"{how_far} of {event.total:g}"
        self.activity = one_line(f"{event.name}: {' '.join(filter(None, (how_far, event.text)))}", NOTE)

    def _result(self, event: ev.ToolCallResult) -> None:
        call = self.calls.pop(event.call_id, None) or Call(event.name, self._kind(event.name))
        judged = self._judge.judge(event, self.facts)
        call.ended, call.result, call.status, call.end = event.t, event.content, event.status, judged.end
        if self.activity.startswith(f"{event.name}: "):  # its progress
            self.activity = "running tools"
        if call.name in self._planning:
            self._planned(call)
            return
        if call.kind == "completion" and call.status in ("ok", "rejected"):
            self._completion(event.call_id, call)
            return
        if call.kind != "ordinary" and call.status in ("ok", "rejected", "unanswered"):
            return  # shown by its meaning: a completion, a phase, a thought, a question
        if call.kind == "ordinary" and call.running and not judged.only_read:
            said = "failed" if judged.failed and call.status == "ok" else call.status
            self.actions.append(call_summary(call.name, call.arguments) + ("" if said == "ok" else f" ({said})"))
        self._view.end_writing()
        self._view.call(call)

    def _completion(self, call_id: str, call: Call) -> None:
        """Show a completion call, without its text: that is shown at the end of the run, or with its rejection."""
        call.result = ""
        if call.status == "ok":
            if self.facts.accepted != call_id:
                return  # a phase, shown by `_phase`
            call.written, call.word = [], "accepted"
        self._view.end_writing()
        self._view.call(call)
        self._show_cut(call_id)

    def _show_cut(self, call_id: str) -> None:
        if (words := self._cuts.pop(call_id, None)) is not None:
            self._view.cut(words)

    def _planned(self, call: Call) -> None:
        """Begin a round with a plan that was executed; the round is shown once the model has thought about it."""
        self._show_round()
        self._rounds += 1
        self._round = Round(self._rounds)
        self._round.add_plan(call.arguments, call.result)
        if call.running and call.status != "invalid":
            self.actions += [
                step.call + ("" if step.status == "ok" else f" ({step.status})")
                for step in self._round.steps
                if step.status and step.status != "skipped"
            ]
        if call.status in ("ok", "error") and self._round.steps:
            call.result, call.written = "", []
        self._view.end_writing()
        self._view.call(call)

    def _show_round(self) -> None:
        if self._round is not None:
            self._view.round(self._round)
        self._round = None

    def _thought(self, event: ev.ThoughtRecorded) -> None:
        self._view.end_writing()
        self._view.thought(event.text)

    def _rejected(self, event: ev.CompletionRejected) -> None:
        name = short_name(event.by) if ":" in event.by else ""
        by = f" by {name}" if name and name not in event.reason else ""
        self._note_text(f"↩ not accepted as complete{by}", event.reason, "warning")

    def _phase(self, event: ev.PhaseReported) -> None:
        summary = event.summary if event.percentage < 100 else ""  # shown at the end of the run
        if self._round is None:
            self._view.phase(event.percentage, summary, event.next_phase)
            return
        self._round.percentage, self._round.thought = event.percentage, summary
        self._round.next = event.next_phase or ""
        self._show_round()

    def _question_asked(self, event: ev.QuestionAsked) -> None:
        call = self.calls.pop(event.waiting_call, None)
        if call is not None and call.kind == "completion":
            call.written, call.word, call.running = [], "waits for your answer", False
            self._view.end_writing()
            self._view.call(call)
            self._show_cut(event.call_id)
        self.activity = "about to ask you"

    def _question_answered(self, event: ev.QuestionAnswered) -> None:
        if event.arguments is not None and event.call_id in self._approved:
            self._approved[event.call_id].written = [json.dumps(event.arguments)]
        if self._asking is not None and self._asking.answered and not event.expired:
            return  # both are already on the screen
        if question := self._open_questions.get(event.call_id):
            self._note_text("? the question", question, "user")
        self._note("▸ your answer", event.text, "user")

    # ---- everything else

    def _check_ended(self, event: ev.CheckEnded) -> None:
        check = self.facts.check or CheckFacts()
        if event.said == "unknown":
            self._note("○ check: no answer", event.detail, "quiet")
            return
        if check.score is not None:
            self._scores.append(check.score)
        head = f"check {check.answers}"
        if event.said == "met":
            only = f", but only with changed {', '.join(event.guard_changed)}" if event.guard_changed else ""
            self._note(f"✔ {head}: `{check.name}` passes{only}", "", "warning" if only else "good")
            return
        change = self._scores[-1] - self._scores[-2] if check.score is not None and len(self._scores) > 1 else 0
        score = f"{check.shown_score} pass" if check.score is not None else "fails"
        put_back = f", with the original {', '.join(event.guard_changed)}" if event.guard_changed else ""
        self._note(f"◔ {head}: {score}{f', {change:+g}' if change else ''}{put_back}", "", "quiet")

    def _block_reported(self, event: ev.BlockReported) -> None:
        self._note("⚑ reported as impossible" + ("" if event.accepted else ", handed back"), event.reason, "warning")

    def _show_scores(self) -> None:
        """Show how the score of the check went, as a curve."""
        if len(self._scores) > 1:
            shown = (self.facts.check or CheckFacts()).shown_score
            self._view.note(f"score of the check: {sparkline(self._scores)}  {self._scores[0]:g} → {shown}", "quiet")

    def _verdict(self, event: ev.VerdictGiven) -> None:
        name = f"{event.role.replace('_', ' ')} {short_name(event.name)}"
        match event.role, event.said:
            case "gate", "accept":
                self._note(f"✔ {name}", "accepted", "good")
            case "gate", _:
                pass  # the rejection that follows has the reason
            case _, "failed":
                self._note(f"✘ {name} failed", event.detail, "bad")
            case "judge", said:
                self._note(f"⚖ {name}: {said}", event.detail, "quiet")
            case _, said:
                if self.explain:
                    self._note(f"{name}: {said}", event.detail, "quiet")

    def _compacted(self, event: ev.ContextCompacted) -> None:
        sizes = f"{event.before_tokens:,} tokens became {event.after_tokens:,}"
        how = {
            "shorten_results": "older results shortened",
            "summarise": "summarized by the model",
            "compactor": "replaced by the compactor",
        }
        words = how.get(event.strategy, f"{event.dropped:,} of the oldest messages dropped")
        vain = ", which is not enough" if event.in_vain or event.not_enough else ""
        self._note("▸ context compacted", f"{words}, {sizes}{vain}", "warning" if vain else "loop")

    def _limit_extended(self, event: ev.LimitExtended) -> None:
        self._note("▸ limit extended", f"{counted(event.by, 'step')} more, {event.allowed} in all", "loop")

    def _stage(self, event: ev.StageFinished) -> None:
        if event.stage == "run":
            self.activity = "evaluating"
        if self.explain:
            self._note(f"stage {event.stage}: {event.status}", event.detail, "quiet")
        elif event.status == "skipped":
            self._note(f"{event.stage}: skipped", event.detail, "quiet")

    def _evaluated(self, event: ev.EvaluationFinished) -> None:
        head = f"evaluation by {short_name(event.name)}" if event.name else "evaluation"
        verdict = {"passed": "✔ passed", "failed": "✘ failed", "not_run": "✘ gave no verdict"}[event.verdict]
        shade: Shade = "good" if event.verdict == "passed" else "bad"
        output = str(event.details.get("error") or event.details.get("output") or "") if shade == "bad" else ""
        self._view.note(one_line(f"{verdict}: {head}", NOTE), shade, last_lines(output, BODY))

    def _kind(self, name: str) -> ToolKind:
        return self._kinds.get(name, "ordinary")

    def _note_text(self, head: str, text: str, shade: Shade) -> None:
        """Show a note with the first line of the text, and the last lines of the rest below."""
        first, _, rest = sanitize(text).strip().partition("\n")
        self._view.note(one_line(f"{head}: {first}", NOTE), shade, last_lines(rest, BODY))

    def _note(self, head: str, text: str, shade: Shade) -> None:
        self._view.note(one_line(f"{head}: {text}" if text else head, NOTE), shade)


_HANDLERS: dict[type, Callable[[EventNarrator, Any], None]] = {
    ev.RunStarted: EventNarrator._run_started,
    ev.RunResumed: EventNarrator._run_resumed,
    ev.ResumeDiverged: EventNarrator._resume_diverged,
    ev.AlarmRaised: EventNarrator._alarm_raised,
    ev.MessageAdded: EventNarrator._message_added,
    ev.StepStarted: EventNarrator._step_started,
    ev.AttemptStarted: EventNarrator._attempt_started,
    ev.AttemptFailed: EventNarrator._attempt_failed,
    ev.AttemptRetracted: EventNarrator._attempt_retracted,
    ev.ResponseFinished: EventNarrator._response_finished,
    ev.DecisionMade: EventNarrator._decision_made,
    ev.CancelRequested: EventNarrator._cancel_requested,
    ev.RunFinished: EventNarrator._run_finished,
    ev.TextMessageContent: EventNarrator._text,
    ev.ReasoningMessageContent: EventNarrator._reasoning,
    ev.ToolCallStart: EventNarrator._call_started,
    ev.ToolCallArgs: EventNarrator._call_arguments,
    ev.ProviderToolReported: EventNarrator._provider_tool,
    ev.ToolExecutionStarted: EventNarrator._execution_started,
    ev.SubagentStarted: EventNarrator._subagent_started,
    ev.ToolProgress: EventNarrator._progress,
    ev.ToolCallResult: EventNarrator._result,
    ev.ThoughtRecorded: EventNarrator._thought,
    ev.CompletionRejected: EventNarrator._rejected,
    ev.PhaseReported: EventNarrator._phase,
    ev.QuestionAsked: EventNarrator._question_asked,
    ev.QuestionAnswered: EventNarrator._question_answered,
    ev.CheckEnded: EventNarrator._check_ended,
    ev.BlockReported: EventNarrator._block_reported,
    ev.VerdictGiven: EventNarrator._verdict,
    ev.ContextCompacted: EventNarrator._compacted,
    ev.LimitExtended: EventNarrator._limit_extended,
    ev.StageFinished: EventNarrator._stage,
    ev.EvaluationFinished: EventNarrator._evaluated,
}

NOT_NARRATED = frozenset(
    {ev.RoundStarted, ev.StepFinished, ev.CheckStarted}  # internals of the loop
    | {ev.ToolCallEnd, ev.FinishReported, ev.UsageReported}  # shown with the result
    | {ev.CompletionAccepted, ev.BudgetRefused, ev.LimitReached, ev.SubagentUsed}  # shown at the end of the run
)
NARRATED = frozenset(_HANDLERS)
