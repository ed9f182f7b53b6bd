"""How a run's end is told to people, in whatever view: the honest word for it, and how to go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...decision import Outcome, Usage
from ...decision.events import AttemptFailed

Tone = Literal["success", "limit", "failure", "cancelled", "question"]

_LIMITS = {
    "step_limit": ("Stopped at the step limit", "Allow more steps: --max-steps N."),
    "token_limit": ("Stopped at the token limit", "Allow more tokens in the policy, under [limits]."),
    "cost_limit": ("Stopped at the cost limit", "Allow a higher cost in the policy, under [limits]."),
    "time_limit": ("Stopped at the time limit", "Allow more time in the policy, under [limits]."),
    "tool_call_limit": ("Stopped at the limit of tool calls", "Allow more calls in the policy, under [limits]."),
    "stuck": ("Stopped: going round in circles", "Say in the prompt what the model should do differently."),
    "compaction_stalled": ("Stopped: the context is full", "Use a model with a larger context, or a smaller task."),
    "completion_rejected": ("Stopped: completion not accepted", "Say in the prompt what has to be true at the end."),
    "no_answer": ("Stopped without an answer", "Try again, or another model."),
    "invalid_calls": ("Stopped: nothing but invalid calls", "Try another model, or describe the tools better."),
}

_FAILURES = {
    "auth": "Check the key: it is missing, wrong or not allowed to use this model.",
    "not_found": "Check the model's name (--model) and the endpoint (--api-base).",
    "rate_limit": "Wait and run again, or use another key or model.",
    "connection": "Is the endpoint running, and is --api-base right?",
    "timeout": "The endpoint is slow or stuck: run again, or use another one.",
    "server": "The provider has trouble of its own: run again later, or use another one.",
    "context_overflow": "Use a model with a larger context, or a smaller task.",
    "bad_request": "The provider refused the request as it is: see its message above.",
    "protocol": "Does the endpoint speak OpenAI's chat completions? See --api-base and --provider.",
    "interrupted": "The connection broke off: run again.",
}
"""What to do about a provider's error, by its kind (`providers/errors.py`)."""


_CAUSES = {
    "interrupt": "You stopped it with Ctrl-C.",
    "shutdown": "The process was told to end.",
}
_UNDONE = "The task was not reported as done."


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a run, as people are told it."""

    tone: Tone
    title: str
    text: str
    """The answer, the question, or what happened."""
    answered_above: bool = False
    """True if `text` is what was streamed last, word for word."""
    advice: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


def ending_of(outcome: Outcome, failure: AttemptFailed | None = None, cause: str = "") -> Ending:
    """The words for an outcome; `failure` is the provider's last error, `cause` why it was cancelled."""
    reason = outcome.stop_reason
    match outcome.status:
        case "completed":
            text_final = reason == "text_final"
            return Ending(
                tone="success",
                title="Answered" if text_final or reason == "handled" else "Task complete",
                text=outcome.answer,
                answered_above=text_final,
                pending=outcome.pending_issues,
            )
        case "exhausted":
            title, advice = _LIMITS.get(reason, (f"Stopped: {_plain(reason)}", ""))
            return Ending(tone="limit", title=title, text=outcome.detail, advice=_some(_UNDONE, advice))
        case "failed":
            title = {"refusal": "Refused", "internal_error": "Failed inside endstop"}.get(reason, "Failed")
            if failure is None or reason != "provider_error":
                return Ending(tone="failure", title=title, text=outcome.detail)
            advice = _FAILURES.get(failure.kind, "")
            return Ending(tone="failure", title=title, text=failure_words(failure), advice=_some(advice))
        case "cancelled":
            text = _CAUSES.get(cause, outcome.detail)
            return Ending(tone="cancelled", title="Cancelled", text=text, advice=(_UNDONE,))
        case "awaiting_input":
            questions = "\n\n".join(question.text for question in outcome.questions)
            advice = "The task is not done: run again with your answer in the prompt."
            return Ending(tone="question", title="A question to you", text=questions, advice=(advice,))


def failure_words(failure: AttemptFailed) -> str:
    """What the provider said, and how long it asks to wait."""
    wait = f" (it asks to wait {failure.retry_after:g} s)" if failure.retry_after is not None else ""
    return failure.message + wait


def actions_line(actions: Sequence[str], most: int = 8) -> str:
    """What was done, in a line: the same thing once, with how often."""
    counts = Counter(actions)
    shown = [f"{action} x{times}" if times > 1 else action for action, times in counts.items()]
    more = [f"and {len(shown) - most} more"] if len(shown) > most else []
    return " · ".join([*shown[:most], *more])


def figures(outcome: Outcome) -> str:
    """Steps, tokens, money and time in one line."""
    limit = outcome.limits.get("steps")
    steps = f"{outcome.steps} of {counted(int(limit.allowed), 'step')}" if limit else counted(outcome.steps, "step")
    return " · ".join(_some(steps, tokens(outcome.usage), cost(outcome.usage), duration(outcome.duration_ms)))


def tokens(usage: Usage) -> str:
    """Tokens in and out, marked if estimated."""
    if not (usage.input_tokens or usage.output_tokens):
        return ""
    about = "about " if usage.estimated else ""
    return f"{about}{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"


def cost(usage: Usage) -> str:
    """What it cost, if a price is known."""
    return "" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"


def duration(milliseconds: float) -> str:
    """So long, as people say it."""
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"


def counted(number: int, thing: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _plain(reason: str) -> str:
    return reason.removeprefix("custom:").replace("_", " ")


def _some(*parts: str) -> tuple[str, ...]:
    return tuple(part for part in parts if part)
