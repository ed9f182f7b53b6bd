"""The audit of a session as text: its steps, when the work was reported as done, and what would have ended it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...analysis.audit import Audit, AuditedCall, AuditedRun, AuditedStep, PolicyStop
from ...analysis.endings import short_ending
from ...analysis.verdict import Known, verdict_of
from ...base.sanitize import one_line
from ...decision.events import IMPORT_PREFIX, is_imported
from ...decision.text_kinds import is_last_word
from ...fork import describe_origin
from ...formats.imported_session import describe_losses
from .text import TEXT_KINDS, Tone, call_summary, cost, counted, duration, work_tone, work_words

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from ...decision.events import ParentCall

LINE = 110
"""The most characters that are shown of a step or another text."""
AROUND = 8
"""Steps of a long run to show at its beginning, around the report of completion, and at its end."""
WHOLE = 40
"""Runs of up to this many steps are shown completely."""
REPEATED_SHOWN = 5
_STYLES: dict[Tone, str] = {"success": "green", "doubt": "yellow", "failure": "red"}
_KNOWN: dict[Known, str] = {"passed": "green", "failed": "red", "said": "magenta", "unknown": ""}
_INDENT = (0, 0, 0, 2)
_MARKS = {"ok": "", None: " (never answered)", "rejected": " (rejected)"}


def render_audit(audit: Audit, every_step: bool) -> Iterator[RenderableType]:
    """Yield the parts of the audit. `every_step`: show all steps of long runs, too."""
    from rich.padding import Padding
    from rich.text import Text

    verdict = verdict_of(audit)
    yield Text(verdict.sentence, style=f"bold {_KNOWN[verdict.known]}".strip())
    yield Text(_headline(audit), style="dim")
    if audit.parent is not None:
        yield Text(_parent_line(audit.parent), style="cyan")
    for run in audit.runs:
        yield from _run(run, len(audit.runs) > 1, every_step)
    if audit.lost:
        yield Text("\nlost in the import:", style="dim")
        for words in describe_losses(audit.lost):
            yield Padding(Text(words, style="dim"), _INDENT)


def _headline(audit: Audit) -> str:
    steps = sum(run.made - run.copied for run in audit.runs)
    about = "about " if audit.usage.estimated else ""
    parts = [
        one_line(audit.session_id, 60),
        *([one_line(audit.model, 60)] if audit.model else []),
        *([f"imported ({audit.engine.removeprefix(IMPORT_PREFIX)})"] if is_imported(audit.engine) else []),
        *([counted(len(audit.runs), "run")] if len(audit.runs) > 1 else []),
        counted(steps, "step"),
        f"{about}{audit.usage.input_tokens:,} tokens in, {audit.usage.output_tokens:,} out",
        *([cost(audit.usage)] if audit.usage.cost_usd is not None else []),
        *([duration(audit.duration_ms)] if audit.duration_ms else []),
    ]
    return " · ".join(parts)


def _parent_line(parent: ParentCall) -> str:
    call = f", call {one_line(parent.call_id, 60)}" if parent.call_id else ""
    return f"sub-agent of {one_line(parent.session_id, 60)}{call}"


def _run(run: AuditedRun, numbered: bool, every_step: bool) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    head = f"\nrun {run.number}: " if numbered else "\n"
    yield Text(head + (one_line(run.prompt, LINE) or "(no prompt)"), style="bold")
    if run.origin is not None:
        yield Padding(Text(_origin(run), style="cyan"), _INDENT)
    if run.is_copy:
        return
    yield from _steps(run, every_step)
    for line, style in _findings(run):
        yield Padding(Text(line, style=style), _INDENT)
    yield from _policies(run)


def _origin(run: AuditedRun) -> str:
    """Say where a fork comes from, and what of it was copied."""
    assert run.origin is not None
    if run.is_copy:
        where = f"copied from {one_line(run.origin.session_id, LINE)}"
    else:
        where = one_line(describe_origin(run.origin), 3 * LINE)
    return f"{where}; {counted(run.copied, 'step')} copied and counted there"


def _policies(run: AuditedRun) -> Iterator[RenderableType]:
    """Say when each policy would have ended the run; policies with the same result share a line."""
    from rich.padding import Padding
    from rich.text import Text

    results: dict[tuple[str, str], list[str]] = {}
    for stopping in run.stoppings:
        results.setdefault(_stopping(stopping, run), []).append(stopping.policy)
    for (words, style), names in results.items():
        whose = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        yield Padding(Text(f"{whose}: ", style="bold").append(words, style=style), _INDENT)


def _steps(run: AuditedRun, every_step: bool) -> Iterator[RenderableType]:
    """Yield a line for each step, without the middle of long stretches."""
    from rich.text import Text

    shown = _shown(run) if not every_step else set(range(len(run.steps)))
    anchors = _anchor_steps(run)
    hidden: list[AuditedStep] = []
    same = 0
    for place, step in enumerate(run.steps):
        before = run.steps[place - 1] if place else None
        told = step.step in anchors or (before is not None and before.step == run.done_at)
        if before is not None and not told and not every_step and not hidden and _alike(step, before):
            same += 1
            continue
        if same:
            yield Text(f"       … and {counted(same, 'more step')}, the same", style="yellow")
            same = 0
        if place not in shown:
            hidden.append(step)
            continue
        if hidden:
            yield Text(f"       … {_summed(hidden)}", style="dim")
            hidden = []
        yield _line(step, run)
        for note in step.notes:
            yield _beside(Text("       ▸ ", style="magenta"), Text(one_line(note, LINE), style="magenta"))
        for words in _anchored(step, run):
            yield _beside(Text("  ──── ", style="cyan"), Text(f"{words} ────", style="cyan"))
        if step.step == run.done_at and not step.closing and run.status != "awaiting_input":
            style = f"bold {_style(run)}"
            yield _beside(Text("  ──── ", style=style), Text(f"{_reported(run)} ────", style=style))
    if same:
        yield Text(f"       … and {counted(same, 'more step')}, the same", style="yellow")
    if hidden:
        yield Text(f"       … {_summed(hidden)}", style="dim")


def _style(run: AuditedRun) -> str:
    """Return the colour for what is known about the work."""
    return _STYLES[work_tone(run.work, run.failed_calls)]


def _reported(run: AuditedRun) -> str:
    """Return the words at the step that reported completion: what reported it, and whether it was checked."""
    by = run.done_by or "by its end"
    reported = f"{'answered' if by == 'text' else 'reported as done'} here ({by})"
    match run.work:
        case "checked":
            return f"{reported}; checked, and passed"
        case "wrong":
            return f"{reported}; checked, and wrong"
        case _:
            return f"{reported}, not checked"


def _anchor_steps(run: AuditedRun) -> set[int]:
    return {anchor.step for anchor in (run.changed, run.checked) if anchor is not None}


def _anchored(step: AuditedStep, run: AuditedRun) -> Iterator[str]:
    """Yield the words at the step with the last change and at the step that checked it."""
    for anchor, words in ((run.changed, "the last change of the work"), (run.checked, "checked here")):
        if anchor is not None and anchor.step == step.step and not step.closing:
            yield f"{words} ({one_line(anchor.by, 40)})" if anchor.by else words


def _alike(step: AuditedStep, before: AuditedStep) -> bool:
    """Return whether a step made the same calls with the same status as the previous one."""
    calls = [(call.name, call.arguments, call.status) for call in step.calls]
    return bool(calls) and calls == [(call.name, call.arguments, call.status) for call in before.calls]


def _shown(run: AuditedRun) -> set[int]:
    """Return the indexes of the steps to show.

    All of a short run, else both ends and the steps around the report of completion.
    """
    many = len(run.steps)
    if many <= WHOLE:
        return set(range(many))
    done = next((place for place, step in enumerate(run.steps) if step.step == run.done_at), many - 1)
    anchors = _anchor_steps(run)
    marked = {place for place, step in enumerate(run.steps) if step.step in anchors}
    noted = {place for place, step in enumerate(run.steps) if step.notes or step.repeats > 2}
    near = {*range(AROUND), *range(done - AROUND, done + AROUND + 1), *range(many - AROUND, many)}
    return near | marked | (noted if len(noted) < WHOLE else set())


def _summed(steps: Sequence[AuditedStep]) -> str:
    calls = Counter(call.name for step in steps for call in step.calls)
    names = ", ".join(f"{one_line(name, 40)} x{times}" for name, times in calls.most_common(4))
    return f"{counted(len(steps), 'step')}" + (f": {names}" if names else "")


def _beside(head: Text, text: Text) -> RenderableType:
    """Return the head of a line with its text, whose further rows align with the first."""
    from rich.table import Table

    line = Table.grid()
    line.add_column(no_wrap=True)
    line.add_column()
    line.add_row(head, text)
    return line


def _line(step: AuditedStep, run: AuditedRun) -> RenderableType:
    from rich.text import Text

    text = f"“{one_line(step.text, LINE)}”" if step.text.strip() else ""
    calls = "; ".join(_call(call) for call in step.calls)
    again = f"   (the same for the {_ordinal(step.repeats)} time)" if step.repeats > 1 else ""
    ends = any(call.kind == "completion" for call in step.calls)
    failed = any(call.failed for call in step.calls)
    style = f"bold {_style(run)}" if ends and not step.after_done else "yellow" if again or step.after_done else ""
    head = Text(f"  {step.step:>4} " if not step.closing else "   end ", style="dim")
    line = Text(one_line(calls or text or "nothing", LINE), style="red" if failed and not style else style)
    return _beside(head, Text.assemble(line, (again, "yellow")))


def _call(call: AuditedCall) -> str:
    mark = " (failed)" if call.failed and call.status == "ok" else _MARKS.get(call.status, f" ({call.status})")
    return call_summary(call.name, call.arguments) + mark


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _findings(run: AuditedRun) -> Iterator[tuple[str, str]]:
    """Yield findings about the run, each with its style."""
    ended = short_ending(run.stop_reason) if run.status else "no end: the record is incomplete"
    yield f"ended after {counted(run.made, 'step')}: {ended}", ""
    known = work_words(
        run.work,
        stop_reason=run.stop_reason,
        accepted_by=run.accepted_by,
        failed_calls=run.failed_calls,
        evaluated_by=run.evaluated_by,
    )
    if known:
        yield f"the work: {known}", _style(run)
    if run.last_text is not None:
        yield f"the last text: {TEXT_KINDS[run.last_text]}", "" if is_last_word(run.last_text) else "yellow"
    yield from ((words, "") for words in _anchors(run))
    if run.wasted_steps:
        wasted = f"{counted(run.wasted_steps, 'step')} and {counted(run.wasted_output_tokens, 'output token')}"
        yield f"continued for {wasted} after the work was reported as done at step {run.done_at}", "yellow"
    elif run.done_at is None and run.status == "exhausted":
        yield "no completion was accepted, and no plain answer ended the run", "yellow"
    for repeated in sorted(run.repeated, key=lambda one: -len(one.steps))[:REPEATED_SHOWN]:
        steps = ", ".join(map(str, repeated.steps[:12])) + (", …" if len(repeated.steps) > 12 else "")
        call = call_summary(repeated.name, repeated.arguments)
        yield f"the same call with the same result, {len(repeated.steps)} times: {call} (steps {steps})", "yellow"
    if len(run.repeated) > REPEATED_SHOWN:
        yield f"{len(run.repeated) - REPEATED_SHOWN:,} other calls were repeated, too", "yellow"
    if run.unanswered:
        names = ", ".join(call.name for call in run.unanswered[:REPEATED_SHOWN])
        yield f"{counted(len(run.unanswered), 'call')} without a result: {one_line(names, LINE)}", "yellow"
    if run.failed:
        failed = ", ".join(f"{one_line(name, 40)} x{times}" for name, times in run.failed.items())
        yield f"failed calls: {failed}", "yellow"


def _anchors(run: AuditedRun) -> Iterator[str]:
    """Say where the run said that it was done, where it last changed the work, and where that was checked."""
    for anchor, words, never in (
        (run.said, "said that it was done", "never said that it was done"),
        (run.changed, "last changed the work", "never changed anything"),
        (run.checked, "checked", "never checked"),
    ):
        if anchor is None:
            yield never
            continue
        by = f" ({one_line(anchor.by, 40)})" if anchor.by else ""
        yield f"{words} at step {anchor.step}{by}, {counted(anchor.steps_after, 'step')} after it"


def _stopping(stopping: PolicyStop, run: AuditedRun) -> tuple[str, str]:
    """Return when a policy would have ended the run, in words, and the style of the line."""
    if stopping.parting == "refused":
        return f"cannot be used: {stopping.why}", "dim"
    if stopping.step is None:
        return f"not ended by step {run.made}; {one_line(stopping.why, LINE) or 'the record is incomplete'}", "dim"
    rule = f"{stopping.rule}" + (f", by the line `{stopping.line}`" if stopping.line else "")
    if stopping.parting == "same":
        return f"ended at the same step, by {rule}", "dim"
    saved = f"; {counted(stopping.saved_steps, 'step')} saved" if stopping.saved_steps else ""
    if stopping.supposed:
        why = one_line(stopping.why, LINE).rstrip(".")
        return f"{why}. If that changed nothing: ended after step {stopping.step}, by {rule}{saved}", "dim"
    return f"would have ended it after step {stopping.step}, by {rule}{saved}", "green"
