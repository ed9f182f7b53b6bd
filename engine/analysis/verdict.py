"""The verdict on a session: what a reader wants to know first, in one document for the terminal, the page and reports.

It is made from the session's audit (`audit.py`) and says how the session ended, whether that was said, checked or is
unknown, where the work was done, what each policy would have done, and what to do next. All its words are made here,
so that a view only lays them out. Nothing is said that the recording does not say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from ..base.plural import counted
from ..base.sanitize import one_line
from ..decision import LimitUse, Usage
from ..decision.run_origin import is_foreign
from .audit import Audit, AuditedAnchor, AuditedRun, AuditedStep, PolicyStop
from .endings import ENDINGS, PROVIDER_ERRORS, Ending, ending_key, ending_name

Known = Literal["passed", "failed", "said", "unknown"]
"""What is known of the work. `said`: reported as done, and not checked."""
Zone = Literal["", "changed", "done"]
"""Where a step stands: up to the last change, after it, or after the run said that it was done."""
MAX_CELLS = 240
"""Number of marks of a strip. A longer session has one mark for several steps."""
_LONGEST = 100
_COMMANDS = ("command", "cmd", "script")
"""Arguments that hold a command."""


class StripCell(Struct, kw_only=True, omit_defaults=True):
    """One mark of the strip: a step, or several in a row."""

    step: int
    """The first of its steps."""
    last: int = 0
    """The last of its steps, if there are several."""
    t: int = 0
    """Milliseconds from the start of the run to that of the first step."""
    zone: Zone = ""
    changed: int = 0
    """Number of its steps that changed the work. The next ones count steps in the same way."""
    failed: int = 0
    passed: int = 0
    """With a check that passed."""
    rejected: int = 0
    """With a check that failed."""
    asked: int = 0
    """With a question to the user."""


class StripRun(Struct, kw_only=True, omit_defaults=True):
    """The strip of one run."""

    number: int
    steps: int
    ms: int = 0
    """How long the run took; 0 if the recording has no times."""
    after_change: int = 0
    """Number of steps after the last change."""
    after_done: int = 0
    """Number of steps after the run said that it was done."""
    cells: list[StripCell] = field(default_factory=list)
    words: str = ""
    """What the strip shows, in words."""


class VerdictLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the verdict that leads to a step, such as `Last change: step 32`."""

    words: str
    name: str = ""
    """The policy or the anchor that it is about."""
    run: int = 0
    """Number of the run, from 1; 0 without a step to lead to."""
    step: int = 0
    why: str = ""
    """More about it; may be empty."""


class NextStep(Struct, frozen=True):
    """What helps now: in words, and as a command to copy."""

    words: str
    command: str


class SessionVerdict(Struct, kw_only=True, omit_defaults=True):
    """The verdict on a session, in words and places."""

    sentence: str
    ending: str
    """The key of `endings.ENDINGS`."""
    known: Known
    facts: str
    """Steps, time and cost, each as `unknown` if the recording lacks it."""
    steps: int
    ms: int | None
    cost_usd: float | None
    notes: list[str] = field(default_factory=list)
    """What else is known of the end: an error, phases, what is open."""
    anchors: list[VerdictLine] = field(default_factory=list)
    """Where it said that it was done, where it last changed the work, and where a check last passed."""
    strip: list[StripRun] = field(default_factory=list)
    policies: list[VerdictLine] = field(default_factory=list)
    """What each policy would have done, in the order of the policies; empty while the session runs."""
    next: NextStep | None = None


def verdict_of(audited: Audit, *, record: str = "", state: Literal["", "running", "queued"] = "") -> SessionVerdict:
    """Return the verdict on an audited session.

    record: the file of the record, as people know it, for the commands of `next`; without it there are none. state:
    what a session does whose latest run has no end; empty if nobody runs it.
    """
    foreign = is_foreign(audited.engine)
    runs = [run for run in audited.runs if not run.is_copy and (run.made or not foreign)] or audited.runs[-1:]
    latest = runs[-1] if runs else None
    steps = sum(run.made - run.copied for run in runs)
    ms = audited.duration_ms or None
    ending = _ending_of(latest, foreign, state) if latest is not None else "cut_off"
    runs_on = ending in ("running", "queued")
    found = ENDINGS.get(ending, ENDINGS["other"])
    return SessionVerdict(
        sentence=_sentence(found, latest, audited.runs),
        ending=ending,
        known=_known(latest),
        facts=", ".join((counted(steps, "step"), time_words(ms), cost_words(audited.usage))),
        steps=steps,
        ms=ms,
        cost_usd=audited.usage.cost_usd,
        notes=list(_notes(latest, foreign)) if latest is not None else [],
        anchors=list(_anchors(runs)),
        strip=_strip(runs),
        policies=[] if runs_on else list(_policies(runs)),
        next=None if latest is None else _next(latest, found, foreign, record, runs_on),
    )


# ---- the sentence


def _ending_of(run: AuditedRun, foreign: bool, state: str = "") -> str:
    """Return the key of a run's ending (`endings.ending_key`). state: of a run that has no end."""
    return ending_key(
        run.stop_reason or state,
        foreign=foreign,
        last_text=run.last_text,
        last_is_empty=bool(run.steps) and _is_empty(run.steps[-1]),
        questions=run.questions,
    )


def _is_empty(step: AuditedStep) -> bool:
    return not step.calls and not step.text.strip()


def _sentence(ending: Ending, run: AuditedRun | None, runs: Sequence[AuditedRun]) -> str:
    if run is None:
        return "The recording holds no step."
    words = ending.sentence.format(
        step=run.last, of=_use(run.limit, run.stop_reason), name=ending_name(run.stop_reason)
    )
    if run.done_at is not None and run.wasted_steps:
        words += f", {counted(run.wasted_steps, 'step')} after it said it was done"
    if len(runs) > 1:
        words = f"Run {run.number} of {len(runs)}: {words[0].lower()}{words[1:]}"
    if run.work in ("said", None):
        return f"{words}; {_not_checked(run)}."
    said = "passed" if run.work == "checked" else "failed"
    kind, _, file = (run.evaluated_by or "").partition(":")
    if kind == "label":
        return f"{words}, and by its label in {one_line(file, _LONGEST)} it {said}."
    return f"{words}, and {_checker(run)} {said}."


def short_name(name: str) -> str:
    """Shorten a qualified name from a record to the part after its module; a command is kept as written."""
    short = name.rpartition(":")[2] if "Command" not in name else name.partition(":")[2]
    command = _COMMAND.fullmatch(short)
    return f"`{command[1]}`" if command else short


_COMMAND = re.compile(r"""Command(?:Gate|Evaluator)\(['"](.*)['"]\)""", re.DOTALL)


def _checker(run: AuditedRun) -> str:
    """Return what checked the work: the check of the run, a label, a benchmark, or an evaluator of the user's."""
    if run.checked_by:
        return f"its check `{one_line(run.checked_by, _LONGEST)}`"
    kind, colon, name = (run.evaluated_by or "").partition(":")
    if colon and kind in ("import", "inspect", "otlp"):
        return "the check that was recorded with it"
    if name == "reward":
        return f"the check of {one_line(kind, _LONGEST)}"
    named = one_line(short_name(run.evaluated_by or ""), _LONGEST)
    return f"its evaluation by {named}" if named else "its evaluation"


def _not_checked(run: AuditedRun) -> str:
    """Say who else calls the work done, if anybody does, and that it was not checked."""
    if run.guard_changed:
        files = ", ".join(one_line(file, 60) for file in run.guard_changed[:4])
        return f"not checked, since its check passes only with the changed {files}"
    if run.judged_by:
        return f"judged by {one_line(run.judged_by, 60)}, not checked"
    who = " and ".join("the user" if one == "user" else one_line(short_name(one), 60) for one in run.accepted_by)
    return f"accepted by {who}, not checked" if who else "not checked"


def _use(limit: LimitUse | None, reason: str) -> str:
    """Return how much of a limit was used, as `, 30 of 30`; empty if that is not recorded."""
    if limit is None:
        return ""
    match reason:
        case "cost_limit":
            return f", ${limit.used:,.2f} of ${limit.allowed:,.2f}"
        case "time_limit":
            return f", {time_words(int(limit.used * 1000))} of {time_words(int(limit.allowed * 1000))}"
        case _:
            return f", {limit.used:,} of {limit.allowed:,}"


def _known(run: AuditedRun | None) -> Known:
    match run.work if run is not None else None:
        case "checked":
            return "passed"
        case "wrong":
            return "failed"
        case "said":
            return "said"
        case None:
            return "unknown"


def time_words(ms: int | None) -> str:
    """Return a time in a fitting unit, as in `12 s` or `2 h 05 min`; `time unknown` for None."""
    if ms is None:
        return "time unknown"
    seconds = ms // 1000
    if seconds < 60:
        return f"{seconds} s" if seconds else f"{ms} ms"
    if seconds < 3600:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h {seconds // 60 % 60:02d} min"


def cost_words(usage: Usage) -> str:
    """Return the cost in US dollars, as in `about $1.10`; `cost unknown` without one."""
    if usage.cost_usd is None:
        return "cost unknown"
    amount = f"${usage.cost_usd:,.2f}" if usage.cost_usd >= 0.1 else f"${usage.cost_usd:.4f}"
    return f"about {amount}" if usage.estimated else amount


def _notes(run: AuditedRun, foreign: bool) -> Iterator[str]:
    """Yield what our own loop knows besides: its words for the end, and calls that failed and were not made up for."""
    if foreign:
        return
    first = one_line(run.detail.partition("\n")[0], 300)
    if first and run.limit is None and run.status in ("exhausted", "failed", "cancelled"):
        yield first.replace(f"{run.error}:", f"{(run.error or '').replace('_', ' ')}:", 1) if run.error else first
    if run.error in PROVIDER_ERRORS and run.status == "failed":
        yield PROVIDER_ERRORS[run.error]
    if run.failed_calls and run.work == "said":
        names = ", ".join(one_line(name, 40) for name in run.failed_calls[:4])
        yield f"{names} failed earlier, and no later call made up for it"
    if run.scores:
        of = "" if run.score_of is None else f" of {run.score_of:g}"
        yield f"score of its check: {' → '.join(f'{score:g}' for score in run.scores)}{of}"
    for percentage, summary in run.phases:
        yield f"{percentage} % reported as done: {one_line(summary, 300)}"
    for issue in run.pending_issues:
        yield f"still open: {one_line(issue, 300)}"


# ---- the anchors


def _anchors(runs: Sequence[AuditedRun]) -> Iterator[VerdictLine]:
    """Yield where the session said it was done, where it last changed the work, and where a check last passed."""
    said = _latest(runs, lambda run: run.said)
    changed = _latest(runs, lambda run: run.changed)
    checked = _latest(runs, _last_passed)
    many = len(runs) > 1
    unclear = any(call.may_have_changed for run in runs for step in run.steps for call in step.calls)
    yield _anchor_place("Said done", said, "never", many)
    yield _anchor_place("Last change", changed, "unknown" if unclear else "never", many)
    yield _anchor_place("Last check that passed", checked, "never", many)


def _last_passed(run: AuditedRun) -> AuditedAnchor | None:
    """Return the last step with a check that passed, also one that a later change makes doubtful."""
    for step in reversed(run.steps):
        if run.checked is not None and step.step <= run.checked.step:
            break
        results = {call.check: call.name for call in step.calls}
        if "passed" in results and "failed" not in results:
            return AuditedAnchor(step=step.step, by=results["passed"], steps_after=run.last - step.step)
    return run.checked


def _latest(runs: Sequence[AuditedRun], of: Any) -> tuple[AuditedRun, AuditedAnchor] | None:
    return next(((run, anchor) for run in reversed(runs) if (anchor := of(run)) is not None), None)


def _anchor_place(name: str, found: tuple[AuditedRun, AuditedAnchor] | None, missing: str, many: bool) -> VerdictLine:
    if found is None:
        return VerdictLine(name=name, words=f"{name}: {missing}")
    run, anchor = found
    return VerdictLine(
        name=name,
        words=f"{name}: {_step_words(anchor.step, run, many)}",
        run=run.number,
        step=anchor.step,
        why=one_line(anchor.by, _LONGEST),
    )


def _step_words(step: int, run: AuditedRun, many: bool) -> str:
    return f"step {step} of run {run.number}" if many else f"step {step}"


# ---- the policies


def _policies(runs: Sequence[AuditedRun]) -> Iterator[VerdictLine]:
    """Yield what each policy would have done: at the first run that it would have ended earlier, else at the latest."""
    for place, _ in enumerate(runs[-1].stoppings if runs else ()):
        stops = [(run, run.stoppings[place]) for run in runs if place < len(run.stoppings)]
        run, stop = next(((run, one) for run, one in stops if _ends_earlier(one, run)), stops[-1])
        yield _policy_place(run, stop, len(runs) > 1)


def _ends_earlier(stop: PolicyStop, run: AuditedRun) -> bool:
    return stop.parting != "refused" and stop.step is not None and stop.step < run.last


def _policy_place(run: AuditedRun, stop: PolicyStop, many: bool) -> VerdictLine:
    name = one_line(stop.policy, 60)
    if stop.parting == "refused":
        return VerdictLine(name=name, words=f"{name}: cannot be used", why=one_line(stop.why, 300))
    if stop.step is None:
        return VerdictLine(name=name, words=f"{name}: would have gone on")
    if not _ends_earlier(stop, run):
        return VerdictLine(name=name, words=f"{name}: same end")
    what = "before the last change" if stop.before_change else f"{counted(stop.saved_steps, 'step')} saved"
    words = f"{name}: {_step_words(stop.step, run, many)}, {'perhaps ' if stop.supposed else ''}{what}"
    why = "if the model had gone on as it did" if stop.supposed else ""
    return VerdictLine(name=name, words=words, run=run.number, step=stop.step, why=why)


# ---- the strip


def _strip(runs: Sequence[AuditedRun]) -> list[StripRun]:
    steps = sum(len(run.steps) for run in runs)
    width = -(-steps // MAX_CELLS)
    return [_strip_run(run, max(width, 1)) for run in runs]


def _strip_run(run: AuditedRun, width: int) -> StripRun:
    cells: list[StripCell] = []
    steps = [step for step in run.steps if not step.closing]
    for begin in range(0, len(steps), width):
        several = steps[begin : begin + width]
        cell = StripCell(step=several[0].step, t=several[0].t, zone=_zone(several[-1].step, run))
        if len(several) > 1:
            cell.last = several[-1].step
        for step in several:
            checks = {call.check for call in step.calls}
            cell.changed += any(call.changed for call in step.calls)
            cell.failed += any(call.failed for call in step.calls)
            cell.passed += "passed" in checks and "failed" not in checks
            cell.rejected += "failed" in checks
            cell.asked += any(call.kind == "question" for call in step.calls)
        cells.append(cell)
    after_change, after_done = (0 if one is None else one.steps_after for one in (run.changed, run.said))
    return StripRun(
        number=run.number,
        steps=len(steps),
        ms=run.ms,
        after_change=after_change,
        after_done=after_done,
        cells=cells,
        words=_strip_words(run, cells, after_change, after_done),
    )


def _zone(step: int, run: AuditedRun) -> Zone:
    if run.said is not None and step > run.said.step:
        return "done"
    return "changed" if run.changed is not None and step > run.changed.step else ""


def _strip_words(run: AuditedRun, cells: Sequence[StripCell], after_change: int, after_done: int) -> str:
    counts = (
        (sum(cell.changed for cell in cells), "changed something"),
        (sum(cell.failed for cell in cells), "had a call with an error"),
        (sum(cell.passed for cell in cells), "had a check that passed"),
        (sum(cell.rejected for cell in cells), "had a check that did not pass"),
        (sum(cell.asked for cell in cells), "had a question"),
        (after_change, "came after the last change"),
        (after_done, "came after it said it was done"),
    )
    return ", ".join([counted(run.made, "step"), *(f"{many:,} {words}" for many, words in counts if many)])


# ---- what to do next


def _next(run: AuditedRun, ending: Ending, foreign: bool, record: str, runs_on: bool) -> NextStep | None:
    """Return what helps now; None where nothing does, or where the recording does not say enough for advice."""
    if runs_on:
        return None
    if run.work == "wrong":
        return NextStep("A check can decide before the end", f"endstop run PROMPT --gate {quote(_check_command(run))}")
    if not record or foreign or not ending.command or run.work == "checked":
        return None
    approvals = [f"--approve {quote(question.call_id)}" for question in run.questions if question.tool is not None]
    command = ending.command.format(
        record=quote(record),
        approvals=" ".join(approvals),
        steps=max((question.extends for question in run.questions), default=0),
        more=2 * int(run.limit.allowed if run.limit is not None else run.made),
    )
    return NextStep(ending.next, command)


def _check_command(run: AuditedRun) -> str:
    """Return the latest command with which the run checked its work; `COMMAND` if there is none in one short line."""
    for step in reversed(run.steps):
        for call in step.calls:
            if call.check is not None and (command := _command(call.arguments)):
                return command
    return "COMMAND"


def _command(arguments: str) -> str:
    try:
        given: Any = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    found = (
        next((given[name] for name in _COMMANDS if isinstance(given.get(name), str)), "")
        if isinstance(given, dict)
        else ""
    )
    clean = one_line(found, _LONGEST)
    return clean if clean == found else ""
