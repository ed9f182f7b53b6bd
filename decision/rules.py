"""The decision rules as a table, in order of priority from P0 to P3. The first rule that applies decides.

P0 is the exception: it adds to the decision of a later rule instead of replacing it. A context that is too large is
compacted before the *next* request, so a finished run is never compacted.

P0.5 and P1 can each end a finished run without the other: P0.5 because a completion was accepted, P1 because the step
was cut short (`cut_by`). P1 trusts a finish reason only if it matches the message: providers report `stop` with calls,
and `tool_calls` without any. P2 looks at the message alone and decides those.

Whether a plain answer ends the run is decided in one place, `decide_on_text`, which P1 and P2 share. The user's own
text rule comes first, then the filter for short texts that only echo an instruction, then what the text is
(`text_kinds.py`): a question to the user or, after a tool call, an announcement, a report of unfinished work, or the
repeated result of a tool; then the policy. If every response has to call a tool (`tool_choice="required"`) and a
completion tool is offered, plain text does not end the run.
"""

from __future__ import annotations

from collections.abc import Callable

from .decisions import Decision, GoOn, Pause, Stop
from .echoes import is_announcement, is_echo
from .facts import Facts
from .finish_words import describe_finish_word
from .policy import Policy
from .wrong_calls import CheckedStruct

LONGEST_WORD = 80
"""Maximum number of characters of a finish word that a message shows."""


class Rule(CheckedStruct, frozen=True):
    """A decision rule or a guard."""

    priority: str
    name: str
    says: str
    """What the rule does, in a sentence for people; the tables in the docs are made from it."""
    sees: tuple[str, ...]
    """Names of the facts that it looks at; their values go into the trace."""
    judge: Callable[[Facts, Policy], Decision | None]
    """Returns a decision, or None if the rule does not apply. A GoOn with `compact` is added to the next rule's."""


def _compaction(facts: Facts, policy: Policy) -> Decision | None:
    window, threshold = policy.compaction.window, policy.compaction.threshold
    if _overflowed_once(facts):
        return GoOn(rule="compaction", compact=True, why="the provider says that the context is too large")
    if facts.finish == "context_full":
        return GoOn(rule="compaction", compact=True, why="the provider says that the context is full")
    if window is None or facts.context_tokens < window * threshold:
        return None
    return GoOn(rule="compaction", compact=True, why=f"context over {threshold:.0%} of {window} tokens")


def _overflowed_once(facts: Facts) -> bool:
    return facts.error_kind == "context_overflow" and facts.overflows == 1


def _control_flow(facts: Facts, policy: Policy) -> Decision | None:
    if facts.accepted is not None:
        return Stop(rule="control_flow", reason="completed", detail="a completion was accepted")
    if facts.handled is not None:
        return Stop(rule="control_flow", reason="handled", detail="a handler answered, without the model")
    if facts.questions:
        return Pause(rule="control_flow", questions=tuple(q.call_id for q in facts.questions))
    if facts.rejection is None:
        return None
    in_vain = policy.patience.rejections_counted == "in_vain"
    times = facts.rejections_in_vain if in_vain else facts.rejections
    if times > policy.patience.rejections:
        between = " without progress in between" if in_vain else ""
        detail = f"completion handed back {times} times{between}, the last time because: {facts.rejection}"
        return Stop(rule="control_flow", reason="completion_rejected", detail=detail)
    say = "" if facts.calls else rejection_message(facts.rejection)  # a call's result already says it
    return GoOn(rule="control_flow", why="completion handed back", hand_back=True, say=say)


def _finish_reason(facts: Facts, policy: Policy) -> Decision | None:
    rule = "finish_reason"
    if _overflowed_once(facts):
        return GoOn(rule=rule, why="once more with a smaller context", hand_back=True)
    if facts.cut_by is not None:
        return Stop(rule=rule, reason="completed", detail="the step was cut short by an accepted completion")
    if facts.limit_reached is not None:
        return GoOn(rule=rule, why=f"cut off: {facts.limit_reached.limit} used up", hand_back=True)
    if facts.degenerate is not None:
        then = "" if facts.provider_error is None else f"; then {facts.provider_error}"
        return Stop(rule=rule, reason="degenerate", detail=facts.degenerate + then)
    if facts.provider_error is not None:
        return Stop(rule=rule, reason="provider_error", detail=facts.provider_error)
    match facts.finish:
        case "error":
            word = "" if facts.raw_finish in ("", "error") else f" ({_describe_finish(facts)})"
            detail = f"{facts.attempt}: the response ended with an error{word}"
            return Stop(rule=rule, reason="provider_error", detail=detail)
        case "pause" if not facts.calls:
            say = "" if facts.resumable else policy.prompts.paused
            return GoOn(rule=rule, say=say, why="the provider paused the response")
        case "retry" | "other":
            return _unfinished(facts, policy, rule)
        case "content_filter":
            if facts.refusals > policy.patience.refusals:
                return Stop(rule=rule, reason="refusal", detail="the provider refused to answer")
            return GoOn(rule=rule, say=policy.prompts.refused, why="blocked by a content filter")
        case "length" | "context_full":
            if facts.truncations > policy.patience.truncated:
                detail = f"{facts.truncations} responses in a row were cut off by the provider's length limit"
                return Stop(rule=rule, reason="no_answer", detail=detail)
            say = "" if facts.calls else policy.prompts.truncated
            return GoOn(rule=rule, say=say, why="the response was cut off by its length limit")
        case "stop" if facts.shape == "text":
            return decide_on_text(facts, policy, rule)
        case "tool_calls" if facts.shape == "tool_results":
            return decide_on_calls(facts, rule, "calls answered")
        case _:
            return None


def _unfinished(facts: Facts, policy: Policy, rule: str) -> Decision | None:
    """Decide on a response without calls whose finish word is not a success; None if the policy treats it as one."""
    allowed = policy.patience.unfinished
    if allowed is None or not facts.unfinished:
        return None
    if facts.unfinished <= allowed:
        return GoOn(rule=rule, say=policy.prompts.unfinished, why=f"the response ended with {_describe_finish(facts)}")
    detail = f"{facts.attempt}: the response ended with {_describe_finish(facts)}"
    if facts.finish == "other":
        word = facts.raw_finish[:LONGEST_WORD]
        detail += (
            ", which is not a known finish word and so does not count as a success. "
            f'If it means that the response is complete, pass finish_words={{{word!r}: "stop"}}'
        )
    if facts.unfinished > 1:
        detail += f" ({facts.unfinished} responses in a row ended so)"
    return Stop(rule=rule, reason="provider_error", detail=detail)


def _describe_finish(facts: Facts) -> str:
    """Return the vendor's finish word, with its meaning if that is known."""
    meaning = describe_finish_word(facts.raw_finish) if facts.finish in ("retry", "error") else ""
    return repr(facts.raw_finish[:LONGEST_WORD] or facts.finish) + (f": {meaning}" if meaning else "")


def _message_shape(facts: Facts, policy: Policy) -> Decision | None:
    rule = "message_shape"
    match facts.shape:
        case "tool_results":
            return decide_on_calls(facts, rule, "the last message is a tool result")
        case "text":
            return _unfinished(facts, policy, rule) or decide_on_text(facts, policy, rule)
        case "empty":
            if facts.empty_answers > policy.patience.empty_answers:
                detail = f"{facts.empty_answers} responses in a row held neither text nor a call"
                return Stop(rule=rule, reason="no_answer", detail=detail)
            why = "nothing but reasoning" if facts.reasoned else "an empty response"
            return GoOn(rule=rule, say=policy.prompts.empty, why=why)
        case "none" | "open_question":
            return None


def _go_on(facts: Facts, policy: Policy) -> Decision | None:
    return GoOn(rule="go_on", why="nothing says otherwise")


RULES: tuple[Rule, ...] = (
    Rule(
        "P0",
        "compaction",
        "Compacts the context before the next request if it is over the threshold. The rules below still apply.",
        ("context_tokens", "error_kind", "overflows", "finish"),
        _compaction,
    ),
    Rule(
        "P0.5",
        "control_flow",
        "Stops as `completed` on an accepted completion and as `handled` on a handler's answer. Pauses on an open "
        "question. Goes on after a rejected completion, a limited number of times.",
        ("accepted", "handled", "questions", "rejection", "rejections", "rejections_in_vain"),
        _control_flow,
    ),
    Rule(
        "P1",
        "finish_reason",
        "Stops as `completed` if an accepted completion cut the step, and stops on a provider error or a response that "
        "repeats itself. Leaves a step that a limit cut off to the guards. Goes on, a limited number of times, after "
        "`content_filter`, `length`, or text with a finish word that is unknown or not a success. Goes on after "
        "`tool_calls` and `pause`. Applies the setting `text` after `stop` with text.",
        (
            "cut_by",
            "limit_reached",
            "degenerate",
            "provider_error",
            "finish",
            "shape",
            "refusals",
            "truncations",
            "unfinished",
            "resumable",
            "text_verdict",
            "text_kind",
            "tool_choice",
        ),
        _finish_reason,
    ),
    Rule(
        "P2",
        "message_shape",
        "Looks at the response itself, whatever its finish reason. Goes on after tool results. Applies the setting "
        "`text` to text, unless its finish word is not a success. Asks again, a limited number of times, after a "
        "response that is empty or has only reasoning.",
        ("shape", "reasoned", "empty_answers", "unfinished", "text_verdict", "text_kind", "tool_choice", "monologue"),
        _message_shape,
    ),
    Rule("P3", "go_on", "Goes on, if no other rule decides.", (), _go_on),
)
"""The rules that come with endstop, in the order in which they are evaluated."""


def decide_on_text(facts: Facts, policy: Policy, rule: str) -> Decision:
    """Decide on a response with text and no calls. The text is not blank."""
    if facts.text_verdict == "final":
        return _final(rule, "the text rule says that this is the answer")
    if facts.text_verdict == "nudge":
        return GoOn(rule=rule, say=policy.prompts.text_is_no_end, why="the text rule says that this is no answer")
    if is_echo(facts.text, policy.echo) or (facts.tool_calls and is_announcement(facts.text, policy.echo)):
        if facts.monologue > policy.patience.echoes:
            detail = f"{facts.monologue} texts in a row, and the last only echoes or announces: {facts.text!r}"
            return Stop(rule=rule, reason="no_answer", detail=detail)
        return GoOn(rule=rule, say=policy.prompts.echo, why="the text only echoes or announces")
    if policy.question != "as_text" and facts.text_kind == "question":
        return _asked(facts, policy, rule)
    if facts.tool_choice == "required" and facts.completion_tools and policy.required_text == "nudge":
        say = policy.prompts.text_is_no_end
        return GoOn(rule=rule, say=say, why="every response is to call a tool, and this is text")
    if policy.text == "final":
        return _no_end(facts, policy, rule) or _final(rule, "a plain answer ends the run")
    return GoOn(rule=rule, say=policy.prompts.text_is_no_end, why="text alone is no end")


def _asked(facts: Facts, policy: Policy, rule: str) -> Decision:
    """Decide on a text that asks the user for something, if it does not count as any other text."""
    if policy.question == "decide" and facts.monologue <= policy.patience.questions:
        return GoOn(rule=rule, say=policy.prompts.decide, why="the text asks the user, and nobody is there")
    return Stop(rule=rule, reason="awaiting_input", detail="the text asks the user for something")


def _no_end(facts: Facts, policy: Policy, rule: str) -> Decision | None:
    """Decide on a text that would end the run after a tool call; None if the text does end it."""
    if not facts.tool_calls:
        return None
    patience, prompts = policy.patience, policy.prompts
    match facts.text_kind:
        case "announcement":
            allowed, say = patience.announcements, prompts.announcement or prompts.echo
            does = "only announces what comes next"
        case "partial":
            allowed, say, does = patience.partial_reports, prompts.partial, "reports unfinished work"
        case "echo":
            allowed, say, does = patience.result_echoes, prompts.result_echo, "only repeats the result of a tool"
        case _:
            return None
    if allowed is None:
        return None
    if facts.monologue <= allowed:
        return GoOn(rule=rule, say=say, why=f"the text {does}")
    if facts.text_kind == "echo":
        return None  # it may be what the user asked for
    detail = f"{facts.monologue} texts in a row without a call, and the last {does}"
    return Stop(rule=rule, reason="no_answer", detail=detail)


def decide_on_calls(facts: Facts, rule: str, why: str) -> Decision:
    """Decide on a response whose calls are answered: the text rule may still end the run."""
    if facts.text_verdict == "final":
        return _final(rule, "the text rule says that this is the answer")
    return GoOn(rule=rule, why=why)


def rejection_message(reason: str) -> str:
    """Return what the model reads when its completion or its plain text is rejected."""
    return f"Not accepted as complete: {reason}"


def _final(rule: str, detail: str) -> Stop:
    return Stop(rule=rule, reason="text_final", detail=detail)
