"""Call hooks with a deadline, as effects of the run, and record what they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import msgspec
from msgspec import structs

from .context import Context
from .decision import AssistantMessage, EvaluationVerdict, Outcome, Stop, TextKind
from .decision.events import CompletionRejected, EvaluationFinished, MessageAdded, StageFinished, VerdictGiven
from .decision.outcome import RUN_STAGE_STATUS, StageStatus
from .decision.until_facts import UNTIL
from .effects import EffectKey
from .evaluation import EVALUATED_STATUSES, Evaluation, EvaluationInput, Evaluator
from .hooks import Accept, Answer, Prepare, Progress, PromptHandler, Reject, Verdict, qualified_name
from .own_copies import own_copy, own_outcome
from .tools.results import Completion, to_jsonable
from .tools.run_context import context_parameter
from .tools.schema import InvalidArguments
from .tools.user_functions import call_user_function, describe_error, run_in_own_task
from .user_errors import log_unusable_answer, log_user_error

Role = Literal["gate", "judge", "text_rule", "handler", "compactor", "approval", "system"]
Read = Callable[[Any], Verdict]

_ROLE_NAMES: dict[Role, str] = {
    "gate": "gate",
    "judge": "judge",
    "text_rule": "text rule",
    "handler": "prompt handler",
    "compactor": "compactor",
    "approval": "approval function",
    "system": "system prompt function",
}
"""What a warning calls them."""
BETWEEN_STEPS = frozenset({"judge", "handler", "compactor", "system"})
"""Hooks that run between two steps, and therefore end at the run's time limit. The others belong to a response."""


async def run_hook(
    context: Context,
    role: Role,
    function: Any,
    arguments: tuple[Any, ...],
    read: Read,
    call_id: str | None = None,
    tokens: int | None = None,
) -> Verdict:
    """Call a hook and record its verdict: `failed` if it raises, misses its deadline or `read` rejects its answer.

    read: turns what the hook returned into a verdict, or raises an exception for a wrong answer.
    tokens: the size of the request that the hook sends to a model. With a shared budget the hook waits until the budget
    has room, and is `refused` if nothing is left.
    """
    name, began = qualified_name(function), context.clock.now()
    key = EffectKey(context.log.facts.steps, role, name, call_id or "")
    verdict = await context.effects.once(key, partial(_ask, context, role, function, arguments, read, tokens))
    context.log.append(
        VerdictGiven(
            role=role,
            name=name,
            said=verdict.said,
            detail=verdict.detail,
            call_id=call_id,
            usage=verdict.usage,
            duration_ms=round((context.clock.now() - began) * 1000),
        )
    )
    return verdict


async def _ask(
    context: Context, role: Role, function: Any, arguments: tuple[Any, ...], read: Read, tokens: int | None
) -> Verdict:
    if tokens is not None and context.share is not None:
        refused = await context.share.reserve(context.log.facts.steps, tokens)
        if refused is not None:
            return Verdict("refused", f"{refused.limit} of the shared budget is used up")
    await context.flush()
    return await _run_with_deadline(context, role, function, arguments, read)


async def _run_with_deadline(
    context: Context, role: Role, function: Any, arguments: tuple[Any, ...], read: Read
) -> Verdict:
    seconds: float = getattr(context.policy.deadlines, role)
    left = context.limits.seconds_left()
    if left is not None and role in BETWEEN_STEPS:
        seconds = max(0.0, min(seconds, left))
    said: Any = None
    with context.clock.deadline(seconds) as deadline:
        try:
            work = call_user_function(function, *arguments)
            said = await run_in_own_task(work, qualified_name(function), run_id=context.run_id, role=role)
        except Exception as error:
            if role == "gate" and isinstance(error, InvalidArguments):
                return Verdict("reject", describe_error(error))
            log_user_error(_ROLE_NAMES[role], function, error)
            return Verdict("failed", describe_error(error))
    try:
        if not deadline.cancelled_caught:
            return read(said)
        why = f"no answer within {seconds:g} seconds"
    except Exception as error:
        why = describe_error(error)
    log_unusable_answer(_ROLE_NAMES[role], function, why)
    return Verdict("failed", why)


def parse_gate(said: Any) -> Verdict:
    """Return the verdict for a gate's answer. Raises TypeError unless it is Accept, Reject, True or False."""
    match said:
        case Accept() | True:
            return Verdict("accept")
        case Reject(reason):
            return Verdict("reject", reason)
        case False:
            return Verdict("reject", "The work does not pass its check yet.")
        case _:
            what = "None, as without a `return`" if said is None else type(said).__name__
            raise TypeError(f"a gate answers Accept() or Reject(reason), not {what}")


def parse_text_rule(said: Any) -> Verdict:
    """Return the verdict for a text rule's answer: True, False, None, or a verdict as a word. Raises TypeError."""
    match said:
        case True | False | None:
            return Verdict({True: "final", False: "nudge", None: "default"}[said])
        case str() if said in _TEXT_VERDICTS:
            return Verdict(said)
        case _:
            kinds = ", ".join(map(repr, get_args(TextKind)))
            raise TypeError(f"a text rule answers True, False, None or one of {kinds}, not {said!r}")


_TEXT_VERDICTS = frozenset({"final", "nudge", "default", *get_args(TextKind)})


def parse_judge(said: Any) -> Verdict:
    """Return a judge's answer. Raises TypeError unless it is a `Verdict` of `complete` or `incomplete`."""
    if isinstance(said, Verdict) and said.said in ("complete", "incomplete"):
        return said
    raise TypeError(f"a judge answers Verdict('complete') or Verdict('incomplete'), not {said!r}")


def progress(context: Context, call_id: str | None = None) -> Progress:
    """Return the run as hooks see it. call_id: of the completion that a gate checks."""
    return Progress(
        facts=context.log.facts,
        messages=tuple(context.transcript.messages),
        record=context.record_path,
        prices=context.price_list,
        context=context.run_context(call_id or ""),
    )


async def run_gates(context: Context, completion: Completion, call_id: str | None = None) -> tuple[str, str] | None:
    """Ask the check of the work, then the gates in order.

    Return the first rejection, as reason and name; None if all accept.
    """
    if context.check is not None:
        await context.check.settle("claim")
        facts = context.log.facts.check
        if facts is not None and facts.said in ("not_met", "impossible"):
            return facts.told_detail, UNTIL
    if context.hooks.gates and context.output is not None:
        completion = replace(completion, output=context.output.read(completion.answer))
    instead = "correct it in a validator of the output's type, or return Reject(reason), so that the model does"
    for gate in context.hooks.gates:
        with own_copy("gate", gate, "completion.output", completion.output, instead) as output:
            arguments = (replace(completion, output=output), progress(context, call_id))
            verdict = await run_hook(context, "gate", gate, arguments, parse_gate, call_id)
        if verdict.said != "accept":
            failed = "The check of the completion failed: " if verdict.said == "failed" else ""
            return failed + verdict.detail, qualified_name(gate)
    return None


async def run_text_rule(context: Context, message: AssistantMessage) -> None:
    """Ask the user's text rule, if there is one, whether this response ends the run."""
    if context.hooks.text_rule is not None:
        arguments: tuple[Any, ...] = (message.text, message.calls)
        if context_parameter(context.hooks.text_rule) is not None:
            arguments += (context.run_context(),)
        await run_hook(context, "text_rule", context.hooks.text_rule, arguments, parse_text_rule)


async def check_final_text(context: Context, message: AssistantMessage) -> None:
    """Let the user's check and the gates look at plain text that would end the run.

    A rejection is logged, and the run continues.
    """
    hooks = context.hooks
    if message.calls and hooks.text_rule is None and not hooks.rules:
        return  # only a function of the user makes a text beside calls the last one
    if not (hooks.gates or context.check) or not _would_end(context):
        return
    objection = await run_gates(context, Completion(answer=message.text))
    if objection is not None:
        reason, gate = objection
        context.log.append(CompletionRejected(call_id="", name="", reason=reason, by=gate))


def _would_end(context: Context) -> bool:
    facts = context.log.facts
    recorded = context.effects.judgement(facts.steps, facts.results)
    if recorded is not None:
        facts = structs.replace(facts, text_judged=recorded.text_kind)
    decision = context.decide_untraced(facts, context.policy)
    return isinstance(decision, Stop) and decision.reason == "text_final"


async def update_system_prompt(context: Context) -> None:
    """Ask the user's function for the system prompt of the next step. The transcript takes it from the verdict.

    If the function fails, the prompt stays unchanged. Raises SystemPromptFailed if there is none yet: a model without
    its instructions may do anything.
    """
    function = context.system_prompt
    if function is None:
        return
    verdict = await run_hook(context, "system", function, (progress(context),), partial(_parse_system, context))
    if verdict.said == "failed" and not (context.transcript.system or context.log.facts.steps):
        raise SystemPromptFailed(f"{qualified_name(function)}: {verdict.detail}")


class SystemPromptFailed(RuntimeError):
    """Raised when the function for the system prompt failed before the first step."""


def _parse_system(context: Context, said: Any) -> Verdict:
    if not isinstance(said, str):
        raise TypeError(f"a system prompt is a text, not {type(said).__name__}")
    return Verdict("unchanged") if said == context.transcript.system else Verdict("changed", said)


async def run_prompt_handlers(context: Context, handlers: Sequence[PromptHandler]) -> bool:
    """Run the stage `prepare`: give the run's prompt to each handler until one answers.

    Return whether the next-step prompt may follow: False if a handler left it out (`Prepare.next_step`).
    """
    if context.prompt is None or not handlers:
        context.log.append(StageFinished(stage="prepare", status="skipped" if handlers else "absent"))
        return True
    began = context.clock.now()
    failed: list[str] = []
    next_step = True
    with context.cancellable():
        next_step = await _run_each_handler(context, handlers, context.prompt, failed)
    duration = round((context.clock.now() - began) * 1000)
    status: StageStatus = "failed" if failed else "ok"
    detail = f"no valid answer from {', '.join(failed)}" if failed else ""
    if context.cancelled is not None:
        status = "cancelled"
    context.log.append(StageFinished(stage="prepare", status=status, detail=detail, duration_ms=duration))
    return next_step


async def _run_each_handler(
    context: Context, handlers: Sequence[PromptHandler], prompt: str, failed: list[str]
) -> bool:
    """Run handlers until one answers, adding the names of those that failed to `failed`.

    Return whether the next-step prompt may follow.
    """
    next_step = True
    for handler in handlers:
        arguments, read = (prompt, progress(context)), partial(_parse_handler, context)
        verdict = await run_hook(context, "handler", handler, arguments, read)
        if verdict.said == "answered":
            break
        if verdict.said == "failed":
            failed.append(qualified_name(handler))
        if verdict.said == "prepared":
            prepared = msgspec.json.decode(verdict.detail, type=Prepare)
            next_step = next_step and prepared.next_step
            if prepared.message:
                context.log.append(MessageAdded(text=prepared.message, origin="handler"))
    return next_step


def _parse_handler(context: Context, said: Any) -> Verdict:
    match said:
        case None:
            return Verdict("passed")
        case Answer(text):
            if context.output is not None:
                context.output.read(text)  # an answer that does not fit the output type is a wrong answer
            return Verdict("answered", text)
        case Prepare():
            return Verdict("prepared", msgspec.json.encode(said).decode())
        case _:
            raise TypeError(f"a handler answers Answer, Prepare or None, not {type(said).__name__}")


# ---- the evaluator


async def run_evaluation(context: Context, evaluator: Evaluator | None, outcome: Outcome) -> Outcome:
    """Evaluate the run if its status allows it, log the stages, and return the outcome with the verdict."""
    context.log.append(StageFinished(stage="run", status=RUN_STAGE_STATUS[outcome.status], detail=outcome.stop_reason))
    if evaluator is None or not _is_evaluated(outcome):
        status: StageStatus = "absent" if evaluator is None else "skipped"
        context.log.append(StageFinished(stage="evaluate", status=status, detail=f"the run is {outcome.status}"))
        return outcome
    began = context.clock.now()
    finished = await _evaluate(context, evaluator, outcome)
    duration = round((context.clock.now() - began) * 1000)
    status = "ok"
    if finished.verdict == "not_run" and "error" in finished.details:
        status = "failed" if context.cancelled is None else "cancelled"
    context.log.append(StageFinished(stage="evaluate", status=status, detail=finished.verdict, duration_ms=duration))
    return structs.replace(outcome, verdict=finished.verdict, evaluation={"name": finished.name, **finished.details})


def _is_evaluated(outcome: Outcome) -> bool:
    """Return whether the work is evaluated. A run that a call has paused is not: it continues once the user answers."""
    return outcome.status in EVALUATED_STATUSES or (outcome.status == "awaiting_input" and not outcome.questions)


async def _evaluate(context: Context, evaluator: Evaluator, outcome: Outcome) -> EvaluationFinished:
    verdict: EvaluationVerdict = "not_run"
    details: dict[str, Any] = {"error": "cancelled before it had a verdict"}
    name = qualified_name(evaluator)
    with context.cancellable():
        key = EffectKey(outcome.steps, "evaluator", name)
        verdict, details = await context.effects.once(key, partial(_call_evaluator, context, evaluator, outcome))
    return context.log.append(EvaluationFinished(verdict=verdict, name=name, details=details))


async def _call_evaluator(
    context: Context, evaluator: Evaluator, outcome: Outcome
) -> tuple[EvaluationVerdict, dict[str, Any]]:
    await context.flush()
    seconds = context.policy.deadlines.evaluation
    said: Any = None
    with own_outcome("evaluator", evaluator, outcome) as given, context.clock.deadline(seconds) as deadline:
        try:
            looked_at = EvaluationInput(
                outcome=given,
                record=context.record_path,
                started_at=context.started_at,
                context=context.run_context(),
            )
            work = call_user_function(evaluator, looked_at)
            said = await run_in_own_task(work, qualified_name(evaluator), run_id=context.run_id, role="evaluator")
        except Exception as error:
            log_user_error("evaluator", evaluator, error)
            return "not_run", {"error": describe_error(error)}
    try:
        if not deadline.cancelled_caught:
            return _read_answer(said)
        why = f"no verdict within {seconds:g} seconds"
    except TypeError as error:
        why = str(error)
    log_unusable_answer("evaluator", evaluator, why)
    return "not_run", {"error": why}


def _read_answer(said: Any) -> tuple[EvaluationVerdict, dict[str, Any]]:
    """Return the verdict and the details of an evaluator's answer. Raises TypeError if its form is wrong."""
    if isinstance(said, bool):
        return _VERDICTS[said], {}
    if isinstance(said, Evaluation):
        passed, details, where = said.passed, said.details, "Evaluation.passed"
    elif isinstance(said, Mapping) and (key := next((name for name in _PASSED if name in said), "")):
        passed, details, where = said[key], {name: said[name] for name in said if name != key}, f"{key!r}"
        if passed is None:
            return "not_run", dict(to_jsonable(details))
    else:
        what = f"a mapping without {_PASSED[0]!r}" if isinstance(said, Mapping) else type(said).__name__
        raise TypeError(f"an evaluator answers Evaluation, bool or a mapping with 'pass', not {what}")
    if not isinstance(passed, bool):
        raise TypeError(f"{where} is True or False, not {passed!r}")
    return _VERDICTS[passed], dict(to_jsonable(details))


_PASSED = ("pass", "passed")
"""Members of a mapping that hold the verdict."""
_VERDICTS: dict[bool, EvaluationVerdict] = {True: "passed", False: "failed"}
