"""The priorities P0 to P3 as a table, first to last. The first rule that speaks decides.

Only P0 adds to what comes below instead of hiding it: a context that is too large is compacted before the *next*
request, so a finished run is not compacted at all.

P0.5 and P1 each end a run that is done, and neither needs the other: P0.5 by the accepted completion, P1 by the step
that was cut short (`cut_by`). P1 trusts a finish reason only where it agrees with what the message holds; providers
report `stop` with calls and `tool_calls` with none. P2 looks at the message alone and settles those.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from .decisions import Decision, GoOn, Pause, Stop
from .facts import Facts
from .finish_words import meaning_of
from .policy import Policy
from .text import not_accepted, settle_calls, settle_text


class Rule(Struct, frozen=True):
    """One line of the table of priorities, or one guard."""

    priority: str
    name: str
    says: str
    """What it says when it fires, in a sentence for people."""
    sees: tuple[str, ...]
    """The facts that it looks at, by name; they stand in the trace."""
    judge: Callable[[Facts, Policy], Decision | None]
    """None: it has nothing to say. A GoOn with `compact` is added to what the next rules say."""


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
    if facts.rejections > policy.patience.rejections:
        detail = f"completion handed back {facts.rejections} times, the last time because: {facts.rejection}"
        return Stop(rule="control_flow", reason="completion_rejected", detail=detail)
    say = "" if facts.calls else not_accepted(facts.rejection)  # a call has read it in its result
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
            word = "" if facts.raw_finish in ("", "error") else f" ({_shown(facts)})"
            detail = f"{facts.attempt}: the response ended with an error{word}"
            return Stop(rule=rule, reason="provider_error", detail=detail)
        case "pause" if not facts.calls:
            return GoOn(rule=rule, say=policy.prompts.paused, why="the provider paused the response")
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
            return settle_text(facts, policy, rule)
        case "tool_calls" if facts.shape == "tool_results":
            return settle_calls(facts, rule, "calls answered")
        case _:
            return None


def _unfinished(facts: Facts, policy: Policy, rule: str) -> Decision | None:
    """A response without calls whose finish word is no success; None if it is one, or the policy takes it for one."""
    allowed = policy.patience.unfinished
    if allowed is None or not facts.unfinished:
        return None
    if facts.unfinished <= allowed:
        return GoOn(rule=rule, say=policy.prompts.unfinished, why=f"the response ended with {_shown(facts)}")
    detail = f"{facts.attempt}: the response ended with {_shown(facts)}"
    if facts.finish == "other":
        word = facts.raw_finish[:LONGEST_WORD]
        detail += (
            ", a finish word that nobody knows here, so it is no success by itself. "
            f'If it means that the response is whole, say so: finish_words={{{word!r}: "stop"}}'
        )
    if facts.unfinished > 1:
        detail += f" ({facts.unfinished} responses in a row ended so)"
    return Stop(rule=rule, reason="provider_error", detail=detail)


LONGEST_WORD = 80
"""Characters of a finish word that are shown."""


def _shown(facts: Facts) -> str:
    """The vendor's finish word, and what it means where that is known."""
    meaning = meaning_of(facts.raw_finish) if facts.finish in ("retry", "error") else ""
    return repr(facts.raw_finish[:LONGEST_WORD] or facts.finish) + (f": {meaning}" if meaning else "")


def _message_shape(facts: Facts, policy: Policy) -> Decision | None:
    rule = "message_shape"
    match facts.shape:
        case "tool_results":
            return settle_calls(facts, rule, "the last message is a tool result")
        case "text":
            return _unfinished(facts, policy, rule) or settle_text(facts, policy, rule)
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
        "Context over the threshold: compact before the next request. Never hides what comes below.",
        ("context_tokens", "error_kind", "overflows", "finish"),
        _compaction,
    ),
    Rule(
        "P0.5",
        "control_flow",
        "An accepted completion stops as completed, a handler's answer as handled; an open question pauses; a "
        "completion that was handed back goes on, a bounded number of times.",
        ("accepted", "handled", "questions", "rejection", "rejections"),
        _control_flow,
    ),
    Rule(
        "P1",
        "finish_reason",
        "A step cut short by an accepted completion stops as completed; one that a limit cut off goes on to the "
        "guards; a provider's error stops, and so does a response that repeats itself; content_filter and length go "
        "on, bounded, as does text with a finish word that is no success or not known; a paused response goes on; stop "
        "with text is settled by the text policy; tool_calls with calls goes on.",
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
            "text_verdict",
            "tool_choice",
        ),
        _finish_reason,
    ),
    Rule(
        "P2",
        "message_shape",
        "Whatever the finish reason says: tool results go on, text is settled by the text policy unless its finish "
        "word is no success, an empty or reasoning-only response is asked again, bounded.",
        ("shape", "reasoned", "empty_answers", "unfinished", "text_verdict", "tool_choice", "monologue"),
        _message_shape,
    ),
    Rule("P3", "go_on", "Nothing says otherwise: go on.", (), _go_on),
)
