"""How a run's end is told to people, in whatever view: the honest word for it, and how to go on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Literal

import msgspec

from ..._sanitize import clean, one_line
from ...decision import AnyChunk, Decision, LimitUse, Outcome, Policy, Usage, Work
from ...decision.events import AttemptFailed, CutOff, ResponseFinished
from ...decision.limits import STOP_REASONS
from ...records.format import summarize_drained
from ...replay.diff import RECORD_ENDS

Tone = Literal["success", "doubt", "limit", "failure", "cancelled", "question"]
"""`doubt`: reported as done although calls had failed before it."""

_LIMITS = {
    "step_limit": ("Stopped at the step limit", "Allow more steps: --max-steps N."),
    "token_limit": ("Stopped at the token limit", "Allow more tokens in the policy, under [limits]."),
    "cost_limit": ("Stopped at the cost limit", "Allow a higher cost in the policy, under [limits]."),
    "time_limit": ("Stopped at the time limit", "Allow more time in the policy, under [limits]."),
    "tool_call_limit": ("Stopped at the limit of tool calls", "Allow more calls in the policy, under [limits]."),
    "stuck": ("Stopped: going round in circles", "Say in the prompt what the model should do differently."),
    "degenerate": ("Stopped: the response repeated itself", "Try again, another model, or another temperature."),
    "compaction_stalled": ("Stopped: the context is full", "Use a model with a larger context, or a smaller task."),
    "completion_rejected": ("Stopped: completion not accepted", "Say in the prompt what has to be true at the end."),
    "no_answer": ("Stopped without an answer", "Try again, or another model."),
    "invalid_calls": ("Stopped: nothing but invalid calls", "Try another model, or describe the tools better."),
}

_FAILURES = {
    "auth": "Check the key: it is missing, wrong or not allowed to use this model.",
    "not_found": "Check the model's name (--model) and the endpoint (--api-base).",
    "quota": "The account has no money or no allowance left: add credit, or use another key or model.",
    "rate_limit": "Wait and run again, or use another key or model.",
    "connection": "Is the endpoint running, and is --api-base right?",
    "timeout": "The endpoint is slow or stuck: run again, or use another one.",
    "server": "The provider has trouble of its own: run again later, or use another one.",
    "context_overflow": "Use a model with a larger context, or a smaller task.",
    "bad_request": "The provider refused the request as it is: see its message above.",
    "protocol": "Does the endpoint speak OpenAI's chat completions? See --api-base and --provider.",
    "interrupted": "The connection broke off: run again.",
    "degenerate": "Try again, another model, or another temperature.",
    "cancelled": "The request was cut off from outside: run again.",
}
"""What to do about a provider's error, by its kind (`providers/errors.py`)."""


_CAUSES = {
    "interrupt": "You stopped it with Ctrl-C.",
    "shutdown": "The process was told to end.",
    "race": "Another model was first.",
    RECORD_ENDS: "The record ends here.",
}
_UNDONE = "The task was not reported as done."


_NO_VERDICT = "its evaluation gave no verdict"
_GO_ON = '"Go on."'


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where a run is recorded, and what stands on the command line again when somebody goes on from it."""

    path: str
    options: str = ""

    def resume(self, what: str = _GO_ON) -> str:
        """The command that goes on from here."""
        return " ".join(_some("endstop run --resume", quote(self.path), what, self.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingText:
    """The end of a run, as people are told it."""

    tone: Tone
    title: str
    text: str
    """The answer, the question, or what happened."""
    answered_above: bool = False
    """True if `text` is what was streamed last, word for word."""
    advice: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    work: str = ""
    """What is known of the work, and by whom; empty if nobody said that it was done."""
    work_tone: Tone = "success"


def ending_of(
    outcome: Outcome, failure: AttemptFailed | None = None, cause: str = "", recorded: Recorded | None = None
) -> EndingText:
    """The words for an outcome; `failure` is the provider's last error, `cause` why it was cancelled."""
    reason = outcome.stop_reason
    work, tone = _known(outcome), work_tone(outcome.work, outcome.failed_calls)
    go_on = f"Go on from here: {recorded.resume()}" if recorded is not None else ""
    match outcome.status:
        case "completed":
            return EndingText(
                tone=tone,
                title=_title(outcome),
                text=outcome.answer,
                answered_above=reason == "text_final",
                pending=outcome.pending_issues,
                work=work,
                work_tone=tone,
                advice=_some(go_on) if tone != "success" else (),
            )
        case "exhausted":
            title, advice = _LIMITS.get(reason, (f"Stopped: {_plain(reason)}", ""))
            advised = _some(_UNDONE, advice, go_on)
            shown: Tone = tone if outcome.work is not None else "limit"
            title += {"checked": ", work checked", "wrong": ", work wrong"}.get(outcome.work or "", "")
            return EndingText(tone=shown, title=title, text=outcome.detail, advice=advised, work=work, work_tone=shown)
        case "failed":
            title = {"refusal": "Refused", "internal_error": "Failed inside endstop"}.get(reason, "Failed")
            if failure is None or reason != "provider_error":
                return EndingText(tone="failure", title=title, text=outcome.detail)
            advice = _FAILURES.get(failure.kind, "")
            return EndingText(tone="failure", title=title, text=failure_words(failure), advice=_some(advice, go_on))
        case "cancelled":
            text = _CAUSES.get(cause, outcome.detail)
            advised = () if cause == RECORD_ENDS else _some(_UNDONE, go_on)  # a replay knows no more than that
            return EndingText(tone="cancelled", title="Cancelled", text=text, advice=advised)
        case "awaiting_input":
            questions = "\n\n".join(question.text for question in outcome.questions)
            confirming = bool(outcome.questions) and all(q.confirms is not None for q in outcome.questions)
            title = "Please confirm" if confirming else "A question to you"
            return EndingText(
                tone="question",
                title=title,
                text=questions,
                advice=_how_to_answer(outcome, recorded, confirming),
                pending=tuple(issue for question in outcome.questions for issue in question.pending_issues),
            )


def _title(outcome: Outcome) -> str:
    """Says no more than is known: only a check makes a report of completion a completion."""
    if outcome.stop_reason in ("text_final", "handled"):
        return "Answered, but wrong" if outcome.work == "wrong" else "Answered"
    if outcome.work == "checked":
        return "Task complete"
    return "Reported as done, but wrong" if outcome.work == "wrong" else "Reported as done"


def _known(outcome: Outcome) -> str:
    return work_words(
        outcome.work,
        stop_reason=outcome.stop_reason,
        accepted_by=outcome.accepted_by,
        failed_calls=outcome.failed_calls,
        evaluated_by=str(outcome.evaluation.get("name") or "") if outcome.evaluation is not None else None,
    )


def work_tone(work: Work | None, failed_calls: Sequence[str]) -> Tone:
    """The tone of what is known of the work."""
    if work == "wrong":
        return "failure"
    return "doubt" if work == "said" and failed_calls else "success"


def work_words(
    work: Work | None,
    *,
    stop_reason: str = "",
    accepted_by: Sequence[str] = (),
    failed_calls: Sequence[str] = (),
    evaluated_by: str | None = None,
) -> str:
    """What is known of the work, and who says so; empty if nobody said that it was done.

    evaluated_by: the evaluator's name, None if there was none. The others are as in an outcome.
    """
    no_verdict = _NO_VERDICT if evaluated_by is not None else ""
    match work:
        case None:
            return no_verdict
        case "said":
            failed = failed_before(failed_calls) if failed_calls else ""
            return "; ".join(_some(f"{_said_by(stop_reason, accepted_by)}, not checked", no_verdict, failed))
        case "checked":
            return f"checked by {short_name(evaluated_by or '') or 'an evaluation'}: passed"
        case "wrong":
            return f"wrong: checked by {short_name(evaluated_by or '') or 'an evaluation'}, failed"


def _said_by(stop_reason: str, accepted_by: Sequence[str]) -> str:
    """Who says that the work is done: the agent, and whoever was asked and agreed."""
    names = " and ".join("the user" if name == "user" else short_name(name) for name in accepted_by)
    match stop_reason:
        case "handled":
            return "answered by a handler"
        case "judged":
            return f"taken for done by the judge {names}".rstrip()
        case _:
            return f"reported by the agent, accepted by {names}" if names else "reported by the agent"


def failed_before(names: Sequence[str], most: int = 4) -> str:
    """Why a report of completion is doubtful."""
    shown = ", ".join(one_line(name, 40) for name in names[:most])
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"before it {shown}{more} failed, and no later call made up for that"


def _how_to_answer(outcome: Outcome, recorded: Recorded | None, confirming: bool) -> tuple[str, ...]:
    if recorded is None:
        return (
            "The task is not done: run again with your answer in the prompt. "
            "With --record FILE, endstop run --resume FILE --answer TEXT could go on from here.",
        )
    text = "yes" if confirming else "..."
    if len(outcome.questions) == 1:
        answers = f'--answer "{text}"'
    else:
        answers = " ".join(f'--answer {quote(question.call_id)}="..."' for question in outcome.questions)
    also = "A no hands it back to the model, with what you say; what is neither is asked again." if confirming else ""
    return _some(f"Answer it: {recorded.resume(answers)}", also)


def cut_words(name: str, response: ResponseFinished) -> str:
    """What is known of a response that was left at the completion call of this name."""
    rest = response.after_cut
    if response.cut_at_end or response.raw_finish or (rest is not None and rest.whole and rest == CutOff()):
        return f"The response ended with {name}: nothing was cut off"
    if rest is None:
        return f"Cut at {name}: nobody knows whether anything would have come after it"
    if not (rest.output_tokens or rest.calls):
        return f"Cut at {name}: nothing came after it for as long as it was read"
    least = "" if rest.whole else "at least "
    return f"Cut at {name}, which saved {least}{saved_words(rest.output_tokens, rest.calls)}"


def saved_words(output_tokens: int, calls: Sequence[str]) -> str:
    """Output that was not paid for, and calls that were not made."""
    parts = [f"about {counted(output_tokens, 'output token')}"] if output_tokens else []
    if calls:
        names = [f"{one_line(name, 40)} x{n}" if n > 1 else one_line(name, 40) for name, n in Counter(calls).items()]
        parts.append(f"{counted(len(calls), 'tool call')} ({', '.join(names)})")
    return " and ".join(parts)


def short_name(name: str) -> str:
    """The short name of a function that stands in a record by its qualified one; a command is called by itself."""
    short = name.rpartition(":")[2] if "Command" not in name else name.partition(":")[2]
    command = _COMMAND.fullmatch(short)
    return f"`{command[1]}`" if command else short


_COMMAND = re.compile(r"""Command(?:Gate|Evaluator)\(['"](.*)['"]\)""", re.DOTALL)


def failure_words(failure: AttemptFailed) -> str:
    """What the provider said, and how long it asks to wait."""
    wait = f" (it asks to wait {failure.retry_after:g} s)" if failure.retry_after is not None else ""
    return failure.message + wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What was never paid for: output that was not written, and calls that were not made."""

    tokens: int = 0
    calls: tuple[str, ...] = ()

    def __str__(self) -> str:
        return saved_words(self.tokens, self.calls)


Saved = Callable[[], Savings | None]
"""Asked at the end of each run what its cuts have saved; None if nobody knows."""


def savings_of(chunks: Iterable[AnyChunk]) -> Savings:
    """What the chunks after cuts amount to, 4 characters a token."""
    rest = summarize_drained(chunks)
    return Savings(tokens=rest.output_tokens, calls=rest.calls)


def _plain(reason: str) -> str:
    return reason.removeprefix("custom:").replace("_", " ")


def _some(*parts: str) -> tuple[str, ...]:
    return tuple(part for part in parts if part)


# ---- what a run used


def figures(outcome: Outcome) -> str:
    """Steps, tokens, money and time in one line."""
    limit = outcome.limits.get("steps")
    steps = f"{outcome.steps} of {counted(int(limit.allowed), 'step')}" if limit else counted(outcome.steps, "step")
    timed = "" if "seconds" in outcome.limits else duration(outcome.duration_ms)
    return " · ".join(_some(steps, *spent(outcome.usage, outcome.limits), timed))


def spent(usage: Usage, limits: Mapping[str, LimitUse]) -> tuple[str, ...]:
    """Tokens and money, and all else that has a hard limit besides the run's steps, each with what is allowed."""
    hard = {name: use for name, use in limits.items() if not use.soft and name != "steps"}
    if "input_tokens" in hard or "output_tokens" in hard:
        used = {"input_tokens": f"{usage.input_tokens:,} tokens in", "output_tokens": f"{usage.output_tokens:,} out"}
    else:
        used = {"tokens": tokens(usage)}
    used["cost_usd"] = cost(usage)
    return _some(*(used | {name: _share(name, use) for name, use in hard.items()}).values())


def allowances(policy: Policy) -> tuple[str, ...]:
    """What is allowed besides the run's steps."""
    run = {name: getattr(policy.limits, name) for name in STOP_REASONS if name != "steps"}
    session = {name: getattr(policy.session_limits, name) for name in STOP_REASONS}
    return (
        *(_amount(name, allowed) for name, allowed in run.items() if allowed is not None),
        *(f"{_amount(name, allowed)} in this session" for name, allowed in session.items() if allowed is not None),
    )


def _share(name: str, use: LimitUse) -> str:
    bare = name.removeprefix("session_").removeprefix("budget_")
    used = f"{use.used:,}" if isinstance(use.used, int) else _amount(bare, use.used)
    return f"{used} of {_amount(bare, use.allowed)}" + _scope(name, bare)


def _scope(name: str, bare: str) -> str:
    return {"session_": " in this session", "budget_": " in the shared budget"}.get(name.removesuffix(bare), "")


def _amount(name: str, amount: float) -> str:
    match name:
        case "cost_usd":
            return f"${amount:.4f}"
        case "seconds":
            return duration(amount * 1000)
        case "input_tokens" | "output_tokens":
            return f"{amount:,.0f} tokens {'in' if name == 'input_tokens' else 'out'}"
        case _:
            return counted(int(amount), name.replace("_", " ").removesuffix("s"))


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


# ---- calls, results and decisions


def actions_line(actions: Sequence[str], most: int = 8) -> str:
    """What was done, in a line: the same thing once, with how often."""
    counts = Counter(actions)
    shown = [f"{action} x{times}" if times > 1 else action for action, times in counts.items()]
    more = [f"and {len(shown) - most} more"] if len(shown) > most else []
    return " · ".join([*shown[:most], *more])


def brief(name: str, written: str) -> str:
    """A call in a few words: its name and the first argument that is short enough to be one."""
    short = [value.strip('"') for _, value in arguments(written, 60) if value.startswith('"') and value.endswith('"')]
    return f"{one_line(name, 60)} {short[0]}" if short else one_line(name, 60)


def first_lines(text: str, most: int) -> tuple[list[str], int]:
    """The first lines of the text, and how many more there are. Blank lines at its ends do not count."""
    lines = clean(text).strip("\n").rstrip().split("\n")
    if len(lines) == most + 1:
        most += 1  # one more line says more than that there is one more line
    return lines[:most], max(0, len(lines) - most)


def last_lines(text: str, most: int) -> list[str]:
    """The last lines of the text that are not blank, under a line that says how many there are before them."""
    lines = [line for line in clean(text).split("\n") if line.strip()]
    return lines if len(lines) <= most else [f"… {len(lines) - most:,} lines before", *lines[-most:]]


def arguments(written: str, longest: int) -> list[tuple[str, str]]:
    """Names and values of a call's arguments, each value in one line of at most so many characters."""
    try:
        given: Any = msgspec.json.decode(written or "{}")
    except (msgspec.DecodeError, ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return [("", one_line(written, longest))]
    return [(one_line(str(name), 40), _value(value, longest)) for name, value in given.items()]


def _value(value: Any, longest: int) -> str:
    if isinstance(value, str) and len(value) > longest:
        return f'{_json(value[:longest])[:longest].rstrip(chr(92))}…" ({len(value):,} characters)'
    text = _json(value)
    return text if len(text) <= longest else text[:longest] + "…"


def _json(value: Any) -> str:
    return clean(msgspec.json.encode(value).decode())


def trace_lines(decision: Decision) -> Iterator[tuple[str, str, str]]:
    """For each rule that was asked: its name, what it saw, what it said ("" if nothing)."""
    for considered in decision.trace:
        saw = " ".join(f"{name}={value_of(value)}" for name, value in considered.saw.items())
        yield considered.rule, saw, considered.said


def value_of(value: Any) -> str:
    """A fact in a few words."""
    match value:
        case None:
            return "none"
        case str():
            return one_line(value, 40) or '""'
        case list() | tuple():
            return str(len(value)) if value else "none"
        case _:
            return one_line(str(value), 40)
