"""The timeline of a session on a page: a strip at a glance, and when it is opened each step as a cell and as a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..._sanitize import one_line
from ...analysis.html import Markup, foreign, join, table, tag
from ...analysis.sampling import SampledSession
from ...analysis.scoring import LabelledRun, WorkState
from ...analysis.timeline import Intervention, RunTimeline, SessionTimeline, StepCell, StepMark
from .report_tables import KNOWN, Tone
from .tables import short
from .text import counted, duration

MARKS: dict[StepMark, tuple[Tone, str, str]] = {
    "calls": ("main", "", "tools were called (how many, if several)"),
    "text": ("quiet", "t", "text alone"),
    "completion": ("good", "✓", "a completion was accepted"),
    "rejected": ("warn", "↩", "a completion was handed back"),
    "error": ("bad", "!", "a call or the request failed"),
    "question": ("loop", "?", "the user was asked"),
    "closing": ("quiet", "…", "last words after a limit"),
    "empty": ("quiet", "∅", "nothing came"),
}
"""What a step's cell looks like: its tone, its sign and what it means."""
_COMPLETIONS: dict[WorkState, tuple[Tone, str]] = {"wrong": ("bad", "✗"), "said_after_failures": ("warn", "✓")}
SAID: dict[Intervention, tuple[str, str]] = {
    "nudge": ("N", "the loop nudged the model"),
    "reminder": ("R", "the loop reminded it of a limit"),
    "compaction": ("C", "the context was compacted"),
    "retry": ("A", "the request was made again"),
    "resumed": ("K", "the run went on after a crash"),
    "user": ("U", "the user said something"),
}
PROMPT = 140
"""Characters of a prompt and an answer."""
STRIP_PARTS = 60
"""Stretches of one look in a strip, at most."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A session on the page, and why it is there."""

    chosen: SampledSession
    timeline: SessionTimeline


def key() -> Markup:
    """What the cells mean."""
    cells = [tag("li", _box(tone, sign), says) for tone, sign, says in MARKS.values()]
    cells.append(tag("li", _box("warn", "✓"), "a completion, after calls that failed"))
    cells.append(tag("li", _box("bad", "✗"), "a completion, and the work was checked and wrong"))
    cells.append(tag("li", tag("span", class_="cell good flagged"), "the work was reported as done"))
    cells.append(tag("li", tag("span", class_="cell main after"), "after the work was reported as done"))
    cells.append(tag("li", tag("span", class_="cell main repeated"), "the same calls and results as before"))
    cells += [tag("li", tag("span", sign, class_="cell said"), says) for sign, says in SAID.values()]
    return tag("ul", *cells, class_="key")


def session(shown: Shown, runs: Sequence[LabelledRun], longest: int, *, with_steps: bool) -> Markup:
    """One session. `longest`: steps of the longest one shown, whose strip is as wide as the page."""
    timeline = shown.timeline
    first, last = timeline.runs[0].digest, runs[-1]
    reasons = ", ".join(shown.chosen.reasons)
    ending = last.digest.stop_reason or "unfinished"
    words, tone = KNOWN[last.known]
    who = tag(
        "span",
        tag("h3", foreign(one_line(first.session_id, 80) or "session")),
        " ",
        tag("span", f"{counted(shown.chosen.steps, 'step')} · {ending} · ", class_="faint"),
        tag("span", words, class_=f"known {tone}"),
        tag("span", f" · {reasons}", class_="why") if reasons else "",
        class_="who",
    )
    prompt = one_line(first.prompt, PROMPT)
    summary = tag(
        "summary",
        who,
        tag("span", foreign(prompt), class_="faint") if prompt else "",
        _strip(timeline.runs, runs, shown.chosen.steps, longest),
    )
    inside = tag("div", *_inside(shown, runs, with_steps), class_="inside")
    return tag("details", summary, inside, class_="session", data_why=" ".join(_words(shown.chosen.reasons, ending)))


def _words(reasons: Sequence[str], ending: str) -> Iterator[str]:
    yield from (reason.replace(" ", "-") for reason in reasons)
    yield f"end-{one_line(ending, 60).replace(' ', '-')}"


def _inside(shown: Shown, runs: Sequence[LabelledRun], with_steps: bool) -> Iterator[Markup]:
    yield tag("p", "Record: ", tag("code", foreign(one_line(shown.chosen.record, 400))), class_="faint")
    if len(runs) > 1:
        yield _runs(runs)
    else:
        yield tag("p", *_about(runs[0]), class_="faint")
        if answer := one_line(runs[0].digest.answer, PROMPT):
            yield tag("p", "Answer: ", foreign(answer), class_="faint")
    if shown.timeline.more_runs:
        yield tag("p", f"And {counted(shown.timeline.more_runs, 'run')} more.", class_="faint")
    if not with_steps:
        yield tag("p", "Its steps are left out: the page would grow too large. --sessions N shows fewer sessions.")
        return
    both = list(zip(shown.timeline.runs, runs, strict=True))
    yield _cells(both)
    rows = [row for number, (run, one) in enumerate(both, 1) for row in _rows(run, one, number if len(both) > 1 else 0)]
    head = ("run, step" if len(both) > 1 else "step", "what happened", "tokens in", "out", "time")
    yield table("Step by step", head, rows, figures=(2, 3, 4))


def _runs(runs: Sequence[LabelledRun]) -> Markup:
    rows = [
        (
            str(number),
            foreign(one_line(run.digest.prompt, PROMPT)),
            join(*_ended(run), ": " if run.digest.answer else "", foreign(one_line(run.digest.answer, PROMPT))),
        )
        for number, run in enumerate(runs, 1)
    ]
    return table("Runs", ("run", "the user", "how it ended, and the answer"), rows)


def _ended(run: LabelledRun) -> Iterator[object]:
    yield run.digest.stop_reason or "not at all"
    yield f", {KNOWN[run.known][0]}"
    if run.good is not None:
        yield f" by {run.by}"


def _about(run: LabelledRun) -> Iterator[object]:
    digest, waste = run.digest, run.waste
    yield foreign(one_line(digest.model, 60) or "unknown model")
    yield f", policy {one_line(digest.policy, 60)}; ended: {digest.stop_reason or 'not at all'}"
    if digest.allowed and not run.imported:
        yield f"; {digest.end.steps} of {counted(digest.allowed, 'step')} allowed"
    yield f"; {KNOWN[run.known][0]}"
    if run.good is not None:
        yield f" by {run.by}"
    if run.known == "said_after_failures":
        yield f" ({', '.join(one_line(name, 40) for name in digest.failed_calls)})"
    if waste is not None and waste.steps:
        yield f"; {counted(waste.steps, 'step')} after it was reported as done"
    used = digest.used
    yield f"; {short(used.usage.input_tokens)} tokens in, {short(used.usage.output_tokens)} out, {duration(used.ms)}."


def _strip(timelines: Sequence[RunTimeline], runs: Sequence[LabelledRun], steps: int, longest: int) -> Markup:
    """All steps in one line of colours, as long as the session is beside the longest one."""
    looks = [_colour(cell, run) for timeline, run in zip(timelines, runs, strict=True) for cell in timeline.cells]
    stretches = [(look, len(list(same))) for look, same in groupby(looks)][:STRIP_PARTS]
    whole = sum(length for _, length in stretches)
    if not whole:
        return Markup()
    stops, at = [], 0
    for look, length in stretches:
        stops.append(f"{look} {_percent(at / whole)} {_percent((at + length) / whole)}")
        at += length
    width = _percent(max(0.01, steps / max(1, longest)))
    return tag("span", class_="strip", style=f"width:{width};background:linear-gradient(90deg,{','.join(stops)})")


def _look(cell: StepCell, run: LabelledRun) -> tuple[Tone, str]:
    """Tone and sign of a cell: a completion is green only where nothing speaks against it."""
    tone, sign, _ = MARKS[cell.mark]
    if cell.mark == "completion":
        return _COMPLETIONS.get(run.known, (tone, sign))
    return tone, sign


def _colour(cell: StepCell, run: LabelledRun) -> str:
    tone = f"var(--{_look(cell, run)[0]})"
    return f"color-mix(in srgb,{tone} 35%,var(--page))" if _is_after(cell, run) else tone


def _percent(share: float) -> str:
    return f"{100 * share:.1f}".rstrip("0").rstrip(".") + "%"


def _is_after(cell: StepCell, run: LabelledRun) -> bool:
    return run.done is not None and cell.step > run.done.steps


def _cells(runs: Sequence[tuple[RunTimeline, LabelledRun]]) -> Markup:
    """The steps as cells. To a screen reader it is one picture: the rows below say it all."""
    drawn: list[Markup] = []
    for number, (timeline, run) in enumerate(runs):
        if number:
            drawn.append(tag("span", SAID["user"][0], class_="cell said"))
        for place, cell in enumerate(timeline.cells):
            if timeline.left_out and place == timeline.left_out_after:
                drawn.append(tag("span", f"… {counted(timeline.left_out, 'step')} …", class_="cell said"))
            drawn += [tag("span", SAID[said][0], class_="cell said") for said in cell.said]
            drawn.append(_cell(cell, run))
    marks = Counter(cell.mark for timeline, _ in runs for cell in timeline.cells)
    says = ", ".join(f"{many} {mark}" for mark, many in marks.most_common())
    return tag("div", *drawn, class_="cells", role="img", aria_label=f"{counted(marks.total(), 'step')}: {says}")


def _cell(cell: StepCell, run: LabelledRun) -> Markup:
    tone, sign = _look(cell, run)
    many = len(cell.calls) + cell.more_calls
    if cell.mark == "calls" and many > 1:
        sign = str(many)
    more = " after" if _is_after(cell, run) else ""
    more += " repeated" if cell.repeated else ""
    more += " flagged" if run.done is not None and cell.step == run.done.steps else ""
    return _box(tone, sign, more)


def _box(tone: Tone, sign: str, more: str = "") -> Markup:
    return tag("span", sign, class_=f"cell {tone}{more}")


def _rows(timeline: RunTimeline, run: LabelledRun, number: int) -> list[tuple[object, ...]]:
    """A row for each step; `number`: of the run, if there are several."""
    before = f"{number}, " if number else ""
    rows: list[tuple[object, ...]] = [
        (
            f"{before}{cell.step if cell.mark != 'closing' else 'closing'}",
            _what(cell, run),
            f"{'~' if cell.estimated else ''}{cell.input_tokens:,}",
            f"{'~' if cell.estimated else ''}{cell.output_tokens:,}",
            duration(cell.ms),
        )
        for cell in timeline.cells
    ]
    if timeline.left_out:
        rows.insert(timeline.left_out_after, ("…", f"{counted(timeline.left_out, 'step')} left out", "", "", ""))
    return rows


def _what(cell: StepCell, run: LabelledRun) -> Markup:
    parts: list[object] = [SAID[said][1].replace("the loop ", "") for said in cell.said]
    called = _called(cell)
    if called:
        parts.append(join(f"{_BRIEF[cell.mark]}: " if _BRIEF[cell.mark] else "", called))
    else:
        parts.append(_BRIEF[cell.mark] or "calls")
    if cell.repeated:
        parts.append("the same as before")
    if run.done is not None and cell.step == run.done.steps:
        parts.append(tag("strong", "the work was reported as done"))
    elif _is_after(cell, run):
        parts.append("after the work was reported as done")
    return join(*parts, between="; ")


_BRIEF: dict[StepMark, str] = {
    "calls": "",
    "text": "text",
    "completion": "completion accepted",
    "rejected": "completion handed back",
    "error": "error",
    "question": "question",
    "closing": "last words",
    "empty": "nothing",
}


def _called(cell: StepCell) -> Markup:
    named = [
        join(foreign(one_line(call.name, 60)), "" if call.status == "ok" else f" ({call.status})")
        for call in cell.calls
    ]
    if cell.more_calls:
        named.append(join(f"and {cell.more_calls:,} more"))
    return join(*named, between=", ")
