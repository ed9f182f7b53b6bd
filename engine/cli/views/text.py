"""Text that all views share: how a run ended, how to continue, what it used, and calls and results in short.

Everything that comes from a model, a tool or a provider is cleaned before it is shown (`engine/base/sanitize.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Literal

import msgspec

from ...analysis.endings import ANOTHER_RUN, PROVIDER_ERRORS, short_ending
from ...analysis.verdict import short_name as short_name
from ...base.plural import counted as counted
from ...base.sanitize import one_line, sanitize
from ...decision import AnyChunk, Decision, LimitUse, Outcome, Policy, Usage, Work
from ...decision.events import AttemptFailed, CutOff, ResponseFinished
from ...decision.limits import STOP_REASONS, Limits
from ...decision.outcome import SubagentUse
from ...records.format import summarize_drained
from ...replay.diff import RECORD_ENDS

Tone = Literal["success", "doubt", "limit", "failure", "cancelled", "question"]
"""How an ending looks. `doubt`: the work was reported as done although calls had failed before."""

TEXT_KINDS = {
    "answer": "an answer",
    "question": "a question to the user",
    "announcement": "an announcement of what comes next",
    "refusal": "a refusal",
    "refusal_with_offer": "a refusal that offers something else",
    "partial": "a report of unfinished work",
    "echo": "the repeated result of a tool",
    "error": "an error",
}
"""The words for each kind of text."""
_CAUSES = {
    "interrupt": "You stopped it with Ctrl-C.",
    "shutdown": "The process was asked to stop.",
    "race": "Another model finished first.",
    RECORD_ENDS: "The record ends here.",
}
DETAIL = 8
"""Most lines that are shown of what a check or a gate printed: the last ones."""
_UNDONE = "The task was not reported as done."


_NO_VERDICT = "the evaluation gave no verdict"
_GO_ON = '"Go on."'


@dataclass(frozen=True, slots=True)
class Recorded:
    """The record of a run, and the options to repeat in a command that resumes it."""

    path: str
    options: str = ""

    def resume(self, what: str = _GO_ON) -> str:
        """Return the command that resumes it; `what` is the prompt or the answers, as written in a shell."""
        return " ".join(_some("endstop run --resume", quote(self.path), what, self.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingText:
    """How a run ended, in words."""

    tone: Tone
    title: str
    text: str
    """The answer, the question, or what happened."""
    answered_above: bool = False
    """Whether `text` is exactly what was streamed last, so that a view need not repeat it."""
    advice: tuple[str, ...] = ()
    go_on: str = ""
    """How to go on from the record, with the command; it is shown in one line, so that it can be copied."""
    pending: tuple[str, ...] = ()
    work: str = ""
    """Whether the work is done and who says so; empty if nobody reported it as done."""
    work_tone: Tone = "success"
    is_asked: bool = False
    """Whether the user is asked next, in this terminal."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How questions are asked in this terminal when the run pauses."""

    answered: bool = False
    """Whether the run begins with an answer that was just typed, below what the run before it has shown."""


def ending_of(
    outcome: Outcome, failure: AttemptFailed | None = None, cause: str = "", recorded: Recorded | None = None
) -> EndingText:
    """Return the words for an outcome. `failure`: the provider's last error; `cause`: why the run was cancelled."""
    reason = outcome.stop_reason
    work, tone = _known(outcome), work_tone(outcome.work, outcome.failed_calls, outcome.guard_changed)
    go_on = f"Go on from here: {recorded.resume()}" if recorded is not None else ""
    match outcome.status:
        case "completed":
            return EndingText(
                tone=tone,
                title=_title(outcome),
                text=outcome.answer,
                answered_above=reason == "text_final" or outcome.answer_from == "partial_text",
                pending=outcome.pending_issues,
                work=work,
                work_tone=tone,
                go_on=go_on if tone != "success" else "",
            )
        case "exhausted":
            first, _, printed = outcome.detail.partition("\n")
            advised = _some(_UNDONE, ANOTHER_RUN.get(reason, ""))
            shown: Tone = tone if outcome.work is not None else "limit"
            title = f"Stopped: {short_ending(reason)}"
            title += {"checked": ", work checked", "wrong": ", work wrong"}.get(outcome.work or "", "")
            return EndingText(
                tone=shown,
                title=title,
                text="\n".join([first, *last_lines(printed, DETAIL)]),
                advice=advised,
                go_on=go_on,
                work=work,
                work_tone=shown,
            )
        case "failed":
            if outcome.never_started:
                return EndingText(tone="failure", title="Never started", text=outcome.detail.partition(": ")[2])
            title = {"refusal": "Refused", "internal_error": "Failed inside endstop"}.get(reason, "Failed")
            if failure is None or reason != "provider_error":
                return EndingText(tone="failure", title=title, text=outcome.detail)
            advice = PROVIDER_ERRORS.get(failure.kind, "")
            return EndingText(
                tone="failure", title=title, text=failure_words(failure), advice=_some(advice), go_on=go_on
            )
        case "cancelled":
            text = _CAUSES.get(cause, outcome.detail)
            if cause == RECORD_ENDS:  # a replay knows nothing after that
                return EndingText(tone="cancelled", title="Cancelled", text=text)
            return EndingText(tone="cancelled", title="Cancelled", text=text, advice=(_UNDONE,), go_on=go_on)
        case "awaiting_input" if not outcome.questions:
            in_text = outcome.answer_from == "text"
            return EndingText(
                tone="question",
                title="A question for you",
                text=outcome.answer if in_text else outcome.detail,
                answered_above=in_text,
                advice=() if go_on else ("Run it again with your reply.",),
                go_on=go_on,
            )
        case "awaiting_input":
            questions = "\n\n".join(question.text for question in outcome.questions)
            confirming = bool(outcome.questions) and all(q.confirms is not None for q in outcome.questions)
            title = "Please confirm" if confirming else "A question for you"
            if any(q.tool is not None for q in outcome.questions):
                title = "Please approve"
            elif outcome.questions and all(q.extends for q in outcome.questions):
                title = "More steps?"
            return EndingText(
                tone="question",
                title=title,
                text=questions,
                advice=_how_to_answer(outcome, recorded, confirming),
                go_on=_answering(outcome, recorded, confirming) if recorded is not None else "",
                pending=tuple(issue for question in outcome.questions for issue in question.pending_issues),
            )


def _title(outcome: Outcome) -> str:
    """Return the title for a completed run.

    It claims no more than is known: "Task complete" only after an evaluation.
    """
    if outcome.stop_reason in ("text_final", "handled"):
        return "Answered, but wrong" if outcome.work == "wrong" else "Answered"
    if outcome.stop_reason == "until_met" and outcome.work == "said":
        return "Judged as done" if outcome.judged_by else "Passes its check, but only with changed files"
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
        checked_by=outcome.checked_by,
        judged_by=outcome.judged_by,
        guard_changed=outcome.guard_changed,
    )


def work_tone(work: Work | None, failed_calls: Sequence[str], guard_changed: Sequence[str] = ()) -> Tone:
    """Return the tone in which a view shows `work_words`."""
    if work == "wrong":
        return "failure"
    return "doubt" if work == "said" and (failed_calls or guard_changed) else "success"


def work_words(
    work: Work | None,
    *,
    stop_reason: str = "",
    accepted_by: Sequence[str] = (),
    failed_calls: Sequence[str] = (),
    evaluated_by: str | None = None,
    checked_by: str = "",
    judged_by: str = "",
    guard_changed: Sequence[str] = (),
) -> str:
    """Say whether the work is done and who says so; empty if nobody reported it as done.

    evaluated_by: the evaluator's name; None without an evaluation. The others are fields of `Outcome`.
    """
    no_verdict = _NO_VERDICT if evaluated_by is not None else ""
    by = f"`{one_line(checked_by, 100)}`" if checked_by else short_name(evaluated_by or "") or "an evaluation"
    match work:
        case "said" if guard_changed:
            return f"not checked: the check fails with the original {_listed(guard_changed)}"
        case "said" if judged_by:
            return f"judged by {one_line(judged_by, 60)}, not checked"
        case None:
            return no_verdict
        case "said":
            failed = failed_before(failed_calls) if failed_calls else ""
            return "; ".join(_some(f"{_said_by(stop_reason, accepted_by)}, not checked", no_verdict, failed))
        case "checked":
            return f"checked by {by}: passed"
        case "wrong":
            return f"wrong: checked by {by}, failed"


def _said_by(stop_reason: str, accepted_by: Sequence[str]) -> str:
    """Say who calls the work done: the agent, and the gates or the user that accepted it."""
    names = " and ".join("the user" if name == "user" else short_name(name) for name in accepted_by)
    match stop_reason:
        case "handled":
            return "answered by a handler"
        case "judged":
            return f"judged complete by {names}".rstrip()
        case _:
            return f"reported by the agent, accepted by {names}" if names else "reported by the agent"


def _listed(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(one_line(name, 40) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def failed_before(names: Sequence[str]) -> str:
    """Say why a report of completion is in doubt: these calls failed before it."""
    return f"{_listed(names)} failed earlier, and no later call made up for it"


def _how_to_answer(outcome: Outcome, recorded: Recorded | None, confirming: bool) -> tuple[str, ...]:
    if recorded is None:
        return (
            "The task is not done. Run it again with your answer in the prompt. "
            "With --record FILE, you could answer with: endstop run --resume FILE --answer TEXT.",
        )
    if any(question.tool is not None for question in outcome.questions):
        return ("--deny CALL_ID=REASON tells the model why not.",)
    if any(question.extends for question in outcome.questions):
        return ("Any number of steps can be granted; --answer no ends the run at its limit.",)
    return _some(
        "No hands it back to the model, with your text; any other answer asks you again." if confirming else ""
    )


def _answering(outcome: Outcome, recorded: Recorded, confirming: bool) -> str:
    """Return the command with which a script answers."""
    if any(question.tool is not None for question in outcome.questions):
        answers = " ".join(
            f"--approve {quote(q.call_id)}" if q.tool else f'--answer {quote(q.call_id)}="..."'
            for q in outcome.questions
        )
    elif len(outcome.questions) == 1 and outcome.questions[0].extends:
        answers = f"--extend {outcome.questions[0].extends}"
    elif len(outcome.questions) == 1:
        answers = f'--answer "{"yes" if confirming else "..."}"'
    else:
        answers = " ".join(f'--answer {quote(question.call_id)}="..."' for question in outcome.questions)
    return f"Answer it: {recorded.resume(answers)}"


def left_open(recorded: Recorded | None) -> str:
    """Say what to do about a question that was asked in the terminal and left open."""
    if recorded is None:
        return "Left open, and not recorded (--record FILE): run it again with your answer in the prompt."
    return f"Left open. Answer it later: {recorded.resume('')}"


def cut_words(name: str, response: ResponseFinished) -> str:
    """Say what is known of a response that was cut at the completion call of this name."""
    rest = response.after_cut
    if response.cut_at_end or response.raw_finish or (rest is not None and rest.whole and rest == CutOff()):
        return f"The response ended with {name}: nothing was cut off"
    if rest is None:
        return f"Cut at {name}: whether anything would have followed is unknown"
    if not (rest.output_tokens or rest.calls):
        return f"Cut at {name}: nothing followed while the rest was read"
    least = "" if rest.whole else "at least "
    return f"Cut at {name}, which saved {least}{saved_words(rest.output_tokens, rest.calls)}"


def saved_words(output_tokens: int, calls: Sequence[str]) -> str:
    """Describe the output that was not generated and the calls that were not made."""
    parts = [f"about {counted(output_tokens, 'output token')}"] if output_tokens else []
    if calls:
        names = [f"{one_line(name, 40)} x{n}" if n > 1 else one_line(name, 40) for name, n in Counter(calls).items()]
        parts.append(f"{counted(len(calls), 'tool call')} ({', '.join(names)})")
    return " and ".join(parts)


def sparkline(values: Sequence[float]) -> str:
    """Return a curve of one character for each value, from the smallest to the largest, which alone is full."""
    low, high = min(values), max(values)
    return "".join(_LEVELS[int((value - low) / (high - low or 1) * (len(_LEVELS) - 1))] for value in values)


_LEVELS = "▁▂▃▄▅▆▇█"


def failure_words(failure: AttemptFailed) -> str:
    """Return the provider's message and the delay that it asked for."""
    wait = f" (retry after {failure.retry_after:g} s)" if failure.retry_after is not None else ""
    return failure.message + wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What a cut saved: output tokens that were not generated and calls that were not made."""

    tokens: int = 0
    calls: tuple[str, ...] = ()

    def __str__(self) -> str:
        return saved_words(self.tokens, self.calls)


Saved = Callable[[], Savings | None]
"""Called at the end of a run: what its cuts saved, or None if that is unknown."""


def savings_of(chunks: Iterable[AnyChunk]) -> Savings:
    """Return the savings of cuts, from the chunks that were read after them.

    Tokens are estimated at 4 characters each.
    """
    rest = summarize_drained(chunks)
    return Savings(tokens=rest.output_tokens, calls=rest.calls)


def _some(*parts: str) -> tuple[str, ...]:
    return tuple(part for part in parts if part)


# ---- what a run used


def usage_line(outcome: Outcome) -> str:
    """Return steps, tokens, money and time in one line."""
    limit = outcome.limits.get("steps")
    steps = f"{outcome.steps} of {counted(int(limit.allowed), 'step')}" if limit else counted(outcome.steps, "step")
    timed = "" if "seconds" in outcome.limits else duration(outcome.duration_ms)
    return " · ".join(_some(steps, *usage_parts(outcome.usage, outcome.limits), _subagents(outcome.subagents), timed))


def _subagents(used: SubagentUse | None) -> str:
    """Return the part of a run's usage that its sub-agents used, as text; empty if it had none."""
    if used is None:
        return ""
    parts = ", ".join(_some(tokens(used.usage), cost(used.usage)))
    return f"of that {counted(used.runs, 'sub-agent')}: {parts}"


def usage_parts(usage: Usage, limits: Mapping[str, LimitUse]) -> tuple[str, ...]:
    """Return tokens, cost and everything else with a hard limit, each with its limit; without the run's steps."""
    hard = {name: use for name, use in limits.items() if not use.soft and name != "steps"}
    if "input_tokens" in hard or "output_tokens" in hard:
        used = {"input_tokens": f"{usage.input_tokens:,} tokens in", "output_tokens": f"{usage.output_tokens:,} out"}
    else:
        used = {"tokens": tokens(usage)}
    used["cost_usd"] = cost(usage)
    return _some(*(used | {name: _share(name, use) for name, use in hard.items()}).values())


def steps_text(limits: Limits) -> str:
    """Say how many steps a run may make."""
    if limits.steps is None:
        return "no limit of steps"
    more = "" if limits.extend is None else f" ({limits.most_steps:g} on progress)"
    if limits.asks:
        more = ", then it asks for more"
    return counted(limits.steps, "step") + more


def limit_texts(policy: Policy) -> tuple[str, ...]:
    """Return the limits of a policy besides the run's steps."""
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
    """Format tokens in and out, marked if estimated."""
    if not (usage.input_tokens or usage.output_tokens):
        return ""
    about = "about " if usage.estimated else ""
    return f"{about}{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"


def cost(usage: Usage) -> str:
    """Format the cost in US dollars; empty if no price is known."""
    return "" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"


def duration(milliseconds: float) -> str:
    """Format a time in a fitting unit, as in `950 ms`, `12.5 s` or `2 min 05 s`."""
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"


# ---- calls, results and decisions


def actions_line(actions: Sequence[str], most: int = 8) -> str:
    """Return actions in one line; an action done several times is shown once, with its count."""
    counts = Counter(actions)
    shown = [f"{action} x{times}" if times > 1 else action for action, times in counts.items()]
    more = [f"and {len(shown) - most} more"] if len(shown) > most else []
    return " · ".join([*shown[:most], *more])


_CHANGES_FOLDER = re.compile(
    r"""\A\s*(?:(?:cd|pushd)\s+(?:"[^"]*"|'[^']*'|[^\s;&|]+)[^\S\n]*+(?:&&|;|\n)\s*+)+(?=[^\s&;|])"""
)
"""Common prefixes of commands, before their subject."""


def call_summary(name: str, written: str) -> str:
    """Return a tool call on one line: the name of the tool and one of its text arguments, as in `read_file config.ini`.

    It is the first argument that fits into 60 characters. If none does, it is the beginning of the first one. A `cd
    FOLDER &&` before a shell command is left out.
    """
    given = (_decoded(written) or {}).values()
    texts = [_value(_CHANGES_FOLDER.sub("", value, count=1), 60) for value in given if isinstance(value, str)]
    short = [value.strip('"') for value in texts if value.endswith('"')]
    cut = [f"{value[1:].partition('…')[0]}…" for value in texts]
    return " ".join([one_line(name, 60), *[*short, *cut][:1]])


def first_lines(text: str, most: int) -> tuple[list[str], int]:
    """Return the first lines of the text and the number of the others. Blank lines at both ends are dropped."""
    lines = sanitize(text).strip("\n").rstrip().split("\n")
    if len(lines) == most + 1:
        most += 1  # instead of a line that says "1 more line"
    return lines[:most], max(0, len(lines) - most)


def last_lines(text: str, most: int) -> list[str]:
    """Return the last lines that are not blank, below a line with the number of lines before them."""
    lines = [line for line in sanitize(text).split("\n") if line.strip()]
    return lines if len(lines) <= most else [f"… {len(lines) - most:,} earlier lines", *lines[-most:]]


def arguments(written: str, longest: int) -> list[tuple[str, str]]:
    """Return the names and values of a call's arguments, each value in one line of at most `longest` characters."""
    decoded = _decoded(written)
    if decoded is None:
        return [("", one_line(written, longest))]
    return [(one_line(str(name), 40), _value(value, longest)) for name, value in decoded.items()]


def _decoded(written: str) -> dict[str, Any] | None:
    try:
        decoded: Any = msgspec.json.decode(written or "{}")
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _value(value: Any, longest: int) -> str:
    if isinstance(value, str) and len(value) > longest:
        return f'{_json(value[:longest])[:longest].rstrip(chr(92))}…" ({len(value):,} characters)'
    text = _json(value)
    return text if len(text) <= longest else text[:longest] + "…"


def _json(value: Any) -> str:
    return sanitize(msgspec.json.encode(value).decode())


def trace_lines(decision: Decision) -> Iterator[tuple[str, str, str]]:
    """Yield for each rule of a decision's trace its name, the facts that it saw, and its verdict ("" for none)."""
    for considered in decision.trace:
        saw = " ".join(f"{name}={value_of(value)}" for name, value in considered.saw.items())
        yield considered.rule, saw, considered.said


def value_of(value: Any) -> str:
    """Describe a fact's value in a few words."""
    match value:
        case None:
            return "none"
        case str():
            return one_line(value, 40) or '""'
        case list() | tuple():
            return str(len(value)) if value else "none"
        case _:
            return one_line(str(value), 40)
