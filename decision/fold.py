"""`fold(facts, event)`: what each event changes in the facts of its run.

A fold takes O(1), for the first event as for the millionth: facts hold counters and the latest step, never the history.
What parallel calls add are counts, which do not depend on the order in which the calls ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from . import events as ev
from .cost import Price
from .facts import Facts
from .failures import Failures
from .messages import AssistantMessage, is_blank
from .outcome import OUTPUT_ARGUMENT, OUTPUT_TOOL, CutSavings, Question, SubagentUse, ask_again
from .policy import REMEMBERED_POINTS
from .step_history import PROGRESS, StepJudgement, add_points
from .until_facts import CUT_FOR_CHECK, UNTIL, CheckFacts


def fold(facts: Facts, event: ev.Event) -> Facts:
    """Return the facts after one more event. Stream parts change nothing; `ResponseFinished` does."""
    change = _CHANGES.get(type(event))
    return facts if change is None else change(facts, event)


def _run_started(facts: Facts, event: ev.RunStarted) -> Facts:
    carried = event.carried or ev.Carried()
    before = event.before or ev.Carried()
    return Facts(
        run_id=event.run_id,
        session_id=event.session_id,
        steps=carried.steps,
        rounds=carried.rounds,
        requests=carried.requests,
        tool_calls=carried.tool_calls,
        rejections=carried.rejections,
        usage=carried.usage,
        subagents=carried.subagents,
        saved=carried.saved,
        prices=_prices_of(event),
        carried_ms=carried.elapsed_ms,
        reminded=carried.reminded,
        grants=carried.grants,
        progressed=carried.steps,  # the user's answer is news
        phases=carried.phases,
        questions=carried.questions,
        before=before,
        tool_choice=event.tool_choice,
        unclear=event.policy.prompts.unclear,
        compared=event.policy.repetition.results,
        completion_tools=tuple(tool.name for tool in event.tools if tool.kind == "completion"),
        failures=Failures.of(event.tools),
        context_tokens=(event.carried or before).context_tokens,
    )


def _prices_of(event: ev.RunStarted) -> dict[str, Price]:
    own = event.prices.get(event.model)
    return event.prices if own is None else {**event.prices, "": own}


def _run_resumed(facts: Facts, event: ev.RunResumed) -> Facts:
    if event.interrupted_step is None:
        return replace(facts, t=event.t)
    reached, refused = facts.limit_reached, facts.refused
    if reached is not None and reached.step == event.interrupted_step and not facts.closing:
        reached = refused = None  # the response that reached the limit is requested again
    return replace(
        facts,
        t=event.t,
        limit_reached=reached,
        refused=refused,
        steps=facts.steps - (not facts.closing),
        inner_steps=max(0, facts.inner_steps - 1),
        provider_error=None,
        error_kind=None,
        degenerate=None,
        overflows=0,
    )


def _message_added(facts: Facts, event: ev.MessageAdded) -> Facts:
    if event.topics:
        return replace(facts, reminded=(*facts.reminded, *event.topics), t=event.t)
    if event.origin == "nudge" and facts.check is not None:
        return replace(facts, check=replace(facts.check, told=facts.check.in_vain))
    return replace(facts, stalled=0, stalled_before=0, points=()) if event.origin == "user" else facts


def _verdict_given(facts: Facts, event: ev.VerdictGiven) -> Facts:
    usage = facts.usage if event.usage is None else facts.usage + event.usage
    facts = replace(facts, usage=usage, t=event.t)
    match event.role, event.said:
        case "text_rule", said:
            return replace(facts, text_verdict=said)
        case "judge", "complete":
            judged = event.detail or "the judge says so"
            return replace(facts, judged=judged, accepted_by=_append_name(facts.accepted_by, event.name))
        case "gate", "accept":
            return replace(facts, accepted_by=_append_name(facts.accepted_by, event.name))
        case "handler", "answered":
            return replace(facts, handled=event.detail)
        case _:
            return facts


def _append_name(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)


def _cancel_requested(facts: Facts, event: ev.CancelRequested) -> Facts:
    return replace(facts, cancelled=facts.cancelled or event.cause, t=event.t)


def _round_started(facts: Facts, event: ev.RoundStarted) -> Facts:
    return replace(facts, rounds=facts.rounds + 1, inner_steps=0, t=event.t)


def _step_started(facts: Facts, event: ev.StepStarted) -> Facts:
    return replace(
        facts,
        t=event.t,
        steps=facts.steps + (not event.closing),
        inner_steps=facts.inner_steps + 1,
        finish=None,
        raw_finish="",
        text="",
        reasoned=False,
        calls=0,
        open_calls=(),
        results=(),
        answered=0,
        failed=0,
        invalid=0,
        truncated=False,
        cut_by=None,
        rejection=None,
        provider_error=None,
        error_kind=None,
        degenerate=None,
        text_verdict=None,
        text_judged=None,
        judged=None,
        refused=None,
        limit_reached=None,
        subagent_runs=(),
        closing=event.closing,
        accepted_by=facts.accepted_by if facts.accepted is not None else (),
        failures=facts.failures.step_started(),
    )


def _attempt_started(facts: Facts, event: ev.AttemptStarted) -> Facts:
    return replace(
        facts,
        requests=facts.requests + 1,
        attempt=_attempt_name(event.attempt, event.model),
        provider_error=None,
        error_kind=None,
        t=event.t,
    )


def _attempt_failed(facts: Facts, event: ev.AttemptFailed) -> Facts:
    usage = facts.usage if event.usage is None else facts.usage + event.usage
    if not event.beside and not is_blank(event.text):
        facts = replace(facts, latest_text=event.text, latest_text_partial=True)
    if event.kind == "cancelled" or event.beside:
        return replace(facts, usage=usage, t=event.t)
    wait = "" if event.retry_after is None else f" (try again in {event.retry_after:g} s)"
    overflows = facts.overflows + (event.kind == "context_overflow")
    attempt = _attempt_name(event.attempt, event.model) if event.model else facts.attempt
    if event.kind == "degenerate":
        cut, text = f"{attempt} was cut: {event.message}", event.text or facts.text
        return replace(facts, degenerate=cut, text=text, usage=usage, t=event.t)
    error = f"{attempt}: {event.kind}: {event.message}{wait}"
    return replace(facts, provider_error=error, error_kind=event.kind, overflows=overflows, usage=usage, t=event.t)


def _attempt_name(attempt: str, model: str) -> str:
    return f"attempt {attempt} of {model}" if model else f"attempt {attempt}"


def _response_finished(facts: Facts, event: ev.ResponseFinished) -> Facts:
    message, finish = event.message, event.finish
    truncated = event.truncated is not None or finish in ("length", "context_full")
    unfinished = finish == "retry" or (finish == "other" and event.raw_finish != "")
    unseen = is_blank(message.text)
    unsaid = unseen or event.cut_for == CUT_FOR_CHECK  # what the work made superfluous is no answer
    empty = not message.calls and unseen
    filtered = finish == "content_filter"
    saved = saved_by_cut(event, facts.prices.get(event.model))
    return replace(
        facts,
        t=event.t,
        finish=finish,
        raw_finish=event.raw_finish,
        text=message.text,
        latest_text=facts.latest_text if unsaid else message.text,
        latest_text_partial=facts.latest_text_partial if unsaid else truncated or event.cut_for != "",
        completion_text=_completion_text(message, facts.completion_tools) or facts.completion_text,
        reasoned=bool(message.reasoning),
        resumable=message.has_vendor_items,
        calls=len(message.calls),
        open_calls=message.calls,
        truncated=truncated,
        usage=facts.usage + event.usage,
        saved=facts.saved if saved is None else saved + facts.saved,
        context_tokens=event.usage.input_tokens + event.usage.output_tokens,
        empty_answers=facts.empty_answers + 1 if empty and not truncated and not filtered else 0,
        truncations=facts.truncations + 1 if truncated else 0,
        refusals=facts.refusals + 1 if filtered else 0,
        unfinished=facts.unfinished + 1 if unfinished and not message.calls else 0,
        monologue=0 if message.calls else facts.monologue + 1,
        same_texts=_same_texts(facts, message),
        overflows=0,
        degenerate=None,
    )


def saved_by_cut(response: ev.ResponseFinished, price: Price | None) -> CutSavings | None:
    """Return what the cut of a response saved.

    None if it was cut neither at a completion nor because the user's check is met, or had already ended there.
    """
    cut = response.cut_at is not None or response.cut_for == CUT_FOR_CHECK
    if not cut or response.cut_at_end or response.raw_finish:
        return None
    rest, priced = response.after_cut, int(price is not None)
    if rest is None:
        return CutSavings(cuts=1, priced=priced)
    tokens, calls = rest.output_tokens, len(rest.calls)
    cost = 0.0 if price is None else price.output_cost(tokens, response.usage.input_tokens)
    return CutSavings(
        cuts=1, measured=1, output_tokens=tokens, calls=calls, priced=priced, measured_priced=priced, cost_usd=cost
    )


def _same_texts(facts: Facts, message: AssistantMessage) -> int:
    if message.calls or is_blank(message.text):
        return 0
    return facts.same_texts + 1 if facts.monologue and message.text.split() == facts.latest_text.split() else 1


def _completion_text(message: AssistantMessage, completion_tools: tuple[str, ...]) -> str:
    """Return the first text argument of a completion call in this response, or its output as JSON; empty if none."""
    for call in message.calls if completion_tools else ():
        if call.name in completion_tools:
            try:
                arguments = msgspec.json.decode(call.arguments)
            except (msgspec.DecodeError, RecursionError, ValueError):
                continue
            if call.name == OUTPUT_TOOL and arguments:
                return _output_in(arguments)
            values = arguments.values() if isinstance(arguments, dict) else ()
            said = next((value for value in values if isinstance(value, str) and not is_blank(value)), "")
            if said:
                return said
    return ""


def _output_in(arguments: Any) -> str:
    """Return the value that the model gave as its output, as JSON: a text of its fields would say something else."""
    wrapped = isinstance(arguments, dict) and arguments.keys() == {OUTPUT_ARGUMENT}
    return msgspec.json.encode(arguments[OUTPUT_ARGUMENT] if wrapped else arguments).decode()


def _tool_call_result(facts: Facts, event: ev.ToolCallResult) -> Facts:
    status = event.status
    # in the completion's own step every failure counts: parallel calls may end in any order
    counts = facts.accepted is None or facts.accepted_in_step == facts.steps
    for question in facts.questions:
        if question.lets_call_run and question.waiting_call == event.call_id:  # it was cancelled while it waited
            facts = _question_closed(facts, question.call_id)
    return replace(
        facts,
        answered=facts.answered + 1,
        failed=facts.failed + (status == "error"),
        invalid=facts.invalid + (status == "invalid"),
        tool_calls=facts.tool_calls + (status in ("ok", "error", "rejected")),
        results=(*facts.results, event),
        failures=facts.failures.with_result(event.name, status) if counts else facts.failures,
    )


def _step_finished(facts: Facts, event: ev.StepFinished) -> Facts:
    all_invalid = facts.calls > 0 and facts.invalid == facts.calls
    judged = event.judged or StepJudgement(same_results=facts.same_results)
    fingerprints = [(call, result.fingerprint) for call, result in facts.answered_calls()]
    stalled = add_points(facts.stalled, judged.brought)
    return replace(
        facts,
        t=event.t,
        cut_by=event.cut_by,
        open_calls=(),
        results=(),
        invalid_steps=facts.invalid_steps + 1 if all_invalid else 0,
        repetitions=facts.repetitions.with_step(facts.calls, fingerprints),
        text_judged=judged.text_kind,
        brought=judged.brought,
        progressed=facts.steps if judged.brought in PROGRESS else facts.progressed,
        stalled=stalled,
        stalled_before=facts.stalled,
        points=(*facts.points[1 - REMEMBERED_POINTS :], stalled),
        same_results=judged.same_results,
        claims=judged.claims,
    )


def _completion_accepted(facts: Facts, event: ev.CompletionAccepted) -> Facts:
    if facts.accepted is not None:
        return facts
    by = _append_name(facts.accepted_by, "user") if event.call_id == facts.confirmed else facts.accepted_by
    return replace(
        facts,
        accepted=event.call_id,
        accepted_in_step=facts.steps,
        answer=event.answer,
        pending_issues=event.pending_issues,
        accepted_by=by,
        t=event.t,
    )


def _completion_rejected(facts: Facts, event: ev.CompletionRejected) -> Facts:
    counts = event.by != "user"  # only the model's own attempts can be a loop
    accepted_by = facts.accepted_by if facts.accepted is not None else ()
    check = facts.check if facts.check is None or event.by != UNTIL else _handed_back(facts.check)
    facts = replace(facts, rejection=event.reason, accepted_by=accepted_by, check=check, t=event.t)
    if not counts:
        return facts
    in_vain = 0 if facts.progressed >= facts.rejected_at else facts.rejections_in_vain
    return replace(facts, rejections=facts.rejections + 1, rejections_in_vain=in_vain + 1, rejected_at=facts.steps)


def _phase_reported(facts: Facts, event: ev.PhaseReported) -> Facts:
    phase = {"completion_percentage": event.percentage, "next_phase": event.next_phase, "summary": event.summary}
    return replace(facts, phases=(*facts.phases, phase), t=event.t)


def question_of(event: ev.QuestionAsked) -> Question:
    """Return the question that this event asks."""
    return Question(**{name: getattr(event, name) for name in Question.__struct_fields__ if name != "unclear"})


def _question_asked(facts: Facts, event: ev.QuestionAsked) -> Facts:
    return replace(facts, questions=(*facts.questions, question_of(event)), t=event.t)


def _question_closed(facts: Facts, call_id: str) -> Facts:
    return replace(facts, questions=tuple(q for q in facts.questions if q.call_id != call_id))


def _question_answered(facts: Facts, event: ev.QuestionAnswered) -> Facts:
    if event.says == "unclear":
        said = facts.unclear
        again = tuple(ask_again(q, said) if q.call_id == event.call_id else q for q in facts.questions)
        return replace(facts, questions=again, t=event.t)
    question = next((q for q in facts.questions if q.call_id == event.call_id), None)
    if question is not None and question.confirms is not None:
        facts = replace(facts, confirmed=event.call_id)
    if question is not None and question.is_about_limit and event.says == "no":
        facts = replace(facts, grants=replace(facts.grants, refused=True))
    return _question_closed(facts, event.call_id)


def _check_started(facts: Facts, event: ev.CheckStarted) -> Facts:
    since: Literal["", "the start"] = "the start" if event.place == "start" else ""
    check = replace(facts.check or CheckFacts(), name=event.name, unchanged_since=since)
    return replace(facts, check=check, t=event.t)


def _check_ended(facts: Facts, event: ev.CheckEnded) -> Facts:
    before = facts.check or CheckFacts()
    check = before.with_answer(event.said, event.detail, event.score, event.of, event.failure)
    if event.guard_changed and event.score is None:
        check = replace(check, score=None, of=None)  # how much is there of what was changed is unknown
    check = replace(check, guard_changed=event.guard_changed, judged_by=event.judged_by)
    usage = facts.usage if event.usage is None else facts.usage + event.usage
    rejections = facts.rejections_in_vain if check.in_vain > before.in_vain else 0
    return replace(facts, check=check, usage=usage, rejections_in_vain=rejections, t=event.t)


def _block_reported(facts: Facts, event: ev.BlockReported) -> Facts:
    check = facts.check or CheckFacts()
    blocked = event.reason if event.accepted else None
    check = replace(_handed_back(check), reports=check.reports + 1, blocked=blocked)
    return replace(facts, check=check, t=event.t)


def _handed_back(check: CheckFacts) -> CheckFacts:
    """Note that the model is told what the check says."""
    return check if check.unchanged_since else replace(check, unchanged_since="the last check")


def _context_compacted(facts: Facts, event: ev.ContextCompacted) -> Facts:
    in_vain = facts.compactions_in_vain + event.in_vain if event.in_vain or event.not_enough else 0
    return replace(
        facts,
        context_tokens=event.after_tokens,
        compactions=facts.compactions + 1,
        compactions_in_vain=in_vain,
        t=event.t,
    )


def _limit_extended(facts: Facts, event: ev.LimitExtended) -> Facts:
    so_far = facts.grants
    grants = replace(so_far, steps=so_far.steps + event.by, times=so_far.times + 1, at=facts.steps)
    return replace(facts, grants=grants, t=event.t)


def _budget_refused(facts: Facts, event: ev.BudgetRefused) -> Facts:
    return replace(facts, refused=event, t=event.t)


def _limit_reached(facts: Facts, event: ev.LimitReached) -> Facts:
    refused = facts.refused
    if event.scope == "budget":
        refused = ev.BudgetRefused(step=event.step, limit=event.limit, used=event.used, allowed=event.allowed)
    return replace(facts, limit_reached=event, refused=refused, t=event.t)


def _subagent_started(facts: Facts, event: ev.SubagentStarted) -> Facts:
    so_far = facts.subagents or SubagentUse()
    runs = (*facts.subagent_runs, (event.run_id, 0))
    begun = so_far.runs + (event.continues is None)
    return replace(facts, subagents=replace(so_far, runs=begun), subagent_runs=runs, t=event.t)


def _subagent_used(facts: Facts, event: ev.SubagentUsed) -> Facts:
    so_far = facts.subagents or SubagentUse()
    return replace(
        facts,
        t=event.t,
        usage=facts.usage + event.usage,
        subagents=replace(so_far, requests=so_far.requests + event.requests, usage=so_far.usage + event.usage),
        subagent_runs=tuple((run_id, event.at if run_id == event.run_id else at) for run_id, at in facts.subagent_runs),
    )


def _run_finished(facts: Facts, event: ev.RunFinished) -> Facts:
    return replace(facts, t=event.t)


_CHANGES: dict[type, Callable[[Facts, Any], Facts]] = {
    ev.RunStarted: _run_started,
    ev.RunResumed: _run_resumed,
    ev.MessageAdded: _message_added,
    ev.VerdictGiven: _verdict_given,
    ev.CancelRequested: _cancel_requested,
    ev.RoundStarted: _round_started,
    ev.StepStarted: _step_started,
    ev.AttemptStarted: _attempt_started,
    ev.AttemptFailed: _attempt_failed,
    ev.ResponseFinished: _response_finished,
    ev.ToolCallResult: _tool_call_result,
    ev.StepFinished: _step_finished,
    ev.CompletionAccepted: _completion_accepted,
    ev.CompletionRejected: _completion_rejected,
    ev.PhaseReported: _phase_reported,
    ev.QuestionAsked: _question_asked,
    ev.QuestionAnswered: _question_answered,
    ev.CheckStarted: _check_started,
    ev.CheckEnded: _check_ended,
    ev.BlockReported: _block_reported,
    ev.ContextCompacted: _context_compacted,
    ev.BudgetRefused: _budget_refused,
    ev.LimitExtended: _limit_extended,
    ev.LimitReached: _limit_reached,
    ev.SubagentStarted: _subagent_started,
    ev.SubagentUsed: _subagent_used,
    ev.RunFinished: _run_finished,
}
