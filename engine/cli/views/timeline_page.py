"""The timelines of sessions on a report's page: the values of their template (`sessions.html.j2`).

A session appears as a strip of colours. Opened, it shows each step as a cell and as a row of a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

from ...analysis.endings import short_ending
from ...analysis.sampling import SampledSession
from ...analysis.scoring import LabelledRun, WorkState
from ...analysis.summary import RunSummary
from ...analysis.timeline import Intervention, RunTimeline, SessionTimeline, StepCell, StepMark
from ...base.sanitize import one_line
from ...fork import describe_origin
from .document import Tone
from .figures import short
from .report_document import KNOWN
from .text import counted, duration
from .view_links import WANTED, ViewLinks

MARKS: dict[StepMark, tuple[Tone, str, str]] = {
    "calls": ("main", "", "tools were called (how many, if several)"),
    "text": ("quiet", "t", "text only"),
    "completion": ("good", "✓", "a completion was accepted"),
    "rejected": ("warn", "↩", "a completion was rejected"),
    "error": ("bad", "!", "a call or the request failed"),
    "question": ("loop", "?", "the user was asked"),
    "closing": ("quiet", "…", "closing text after a limit"),
    "empty": ("quiet", "∅", "the response was empty"),
}
"""The cell of a step: its tone, its sign and what it means."""
_COMPLETIONS: dict[WorkState, tuple[Tone, str]] = {"wrong": ("bad", "✗"), "said_after_failures": ("warn", "✓")}
"""Tone and sign of a completion's cell if the work is wrong or calls had failed before, instead of those in `MARKS`."""
BRIEF: dict[StepMark, str] = {
    "calls": "",
    "text": "text",
    "completion": "completion accepted",
    "rejected": "completion rejected",
    "error": "error",
    "question": "question",
    "closing": "closing text",
    "empty": "empty response",
}
"""The words for what a step did, for its row; the names of its calls follow."""
STRIP_PARTS = 60
"""Stretches of one colour in a strip, or parts of it, at most: each is written into the page."""


class Note(NamedTuple):
    """The letter next to the cells for an action of the loop or the user before a step, and its meaning."""

    sign: str
    meaning: str

    @property
    def brief(self) -> str:
        """The meaning in fewer words, for the step's row."""
        return self.meaning.removeprefix("the loop ")


NOTES: dict[Intervention, Note] = {
    "nudge": Note("N", "the loop nudged the model"),
    "reminder": Note("R", "the loop reminded the model of a limit"),
    "compaction": Note("C", "the context was compacted"),
    "retry": Note("A", "the request was retried"),
    "resumed": Note("K", "the run was resumed after a crash"),
    "user": Note("U", "the user sent a message"),
}


@dataclass(frozen=True, slots=True)
class SessionSection:
    """A session of the page, and why it was chosen."""

    chosen: SampledSession
    timeline: SessionTimeline

    @property
    def size(self) -> int:
        """How many steps and calls the page gets if the steps of this session are shown; see `MOST_WRITTEN`."""
        return sum(1 + len(cell.calls) for run in self.timeline.runs for cell in run.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step, as a cell and as a row."""

    cell: StepCell
    look: str
    """CSS classes of the cell."""
    sign: str
    is_done: bool
    """Whether the work was reported as done in this step."""
    is_after: bool
    """Whether the work had been reported as done before this step."""
    anchors: Sequence[str]
    """The words about the work at this step: that it was changed for the last time, that it was checked."""
    left_out: int
    """Steps before this one that are not shown."""
    link: str
    """The step in the viewer."""
    call_links: Sequence[str]
    """The calls in the viewer, for those that failed; empty for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSection:
    """One run of a session."""

    digest: RunSummary
    about: str
    """Its policy, how it ended and what it used."""
    ended: str
    steps: Sequence[StepView]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """One session, as the template shows it."""

    section: SessionSection
    ending: str
    known: str
    tone: Tone
    task: str
    """What was asked; the session's id if nothing was."""
    link: str
    """The session in the viewer."""
    keywords: str
    """By these the page's script filters the sessions: reasons for which it was chosen, and how it ended."""
    strip: str
    """The style of the strip; empty if there are no steps."""
    runs: Sequence[RunSection]
    with_steps: bool
    marks: Counter[StepMark]
    """How many steps have which mark."""


def session_view(
    section: SessionSection, runs: Sequence[LabelledRun], longest: int, links: ViewLinks, *, with_steps: bool
) -> SessionView:
    """Return the view of a session. longest: steps of the longest session, whose strip is as wide as the page."""
    timelines = section.timeline.runs
    last = runs[-1]
    ending = _ending(last.digest)
    known, tone = KNOWN[last.known]
    first, id = runs[0].digest, section.chosen.view_id
    keywords = [*section.chosen.reasons, f"end-{one_line(ending, 60)}"]
    return SessionView(
        section=section,
        ending=ending,
        known=known,
        tone=tone,
        task=one_line(first.prompt, 300) or first.session_id or "session",
        link=links.session(id),
        keywords=" ".join(word.replace(" ", "-") for word in keywords),
        strip=_strip(timelines, runs, section.chosen.steps, longest),
        runs=[_run_view(*both, links, id) for both in zip(timelines, runs, strict=True)],
        with_steps=with_steps,
        marks=Counter(cell.mark for timeline in timelines for cell in timeline.cells),
    )


def _run_view(timeline: RunTimeline, run: LabelledRun, links: ViewLinks, id: str) -> RunSection:
    return RunSection(
        digest=run.digest,
        about="".join(_about(run)),
        ended=f"{_ending(run.digest)}, {_known(run)}",
        steps=[
            _step_view(
                cell,
                run,
                timeline.left_out if place == timeline.left_out_after else 0,
                links.step(id, timeline.number, cell.number),
                [
                    links.call(id, timeline.number, cell.number, call.id)
                    if call.failed or call.status in WANTED
                    else ""
                    for call in cell.calls
                ],
            )
            for place, cell in enumerate(timeline.cells)
        ],
    )


def _about(run: LabelledRun) -> Iterator[str]:
    digest, waste, used = run.digest, run.waste, run.digest.used
    if digest.origin is not None:
        yield f"{one_line(describe_origin(digest.origin), 300)}; "
    yield f"policy {one_line(digest.policy, 60)}; {_ending(digest)}"
    if digest.allowed and not run.imported:
        yield f"; {digest.end.steps} of {counted(digest.allowed, 'step')} allowed"
    yield f"; {_known(run)}"
    if run.known == "said_after_failures":
        yield f" ({', '.join(one_line(name, 40) for name in digest.failed_calls)})"
    if waste is not None and waste.steps:
        yield f"; {counted(waste.steps, 'step')} after it was reported as done"
    changed = digest.after_change
    yield (
        f"; {counted(changed.steps, 'step')} after the last change"
        if changed is not None
        else "; never changed anything"
    )
    if (checked := digest.after_check) is not None:
        yield f"; {counted(checked.steps, 'step')} after it was checked"
    yield f"; {short(used.usage.input_tokens)} tokens in, {short(used.usage.output_tokens)} out, {duration(used.ms)}."


def _ending(digest: RunSummary) -> str:
    return short_ending(digest.ending or "cut_off")


def _known(run: LabelledRun) -> str:
    """Say what is known of the work, and from whom."""
    return KNOWN[run.known][0] + (f" by {run.by}" if run.good is not None else "")


def _step_view(cell: StepCell, run: LabelledRun, left_out: int, link: str, call_links: Sequence[str]) -> StepView:
    tone, sign = _look(cell, run)
    calls = len(cell.calls) + cell.more_calls
    is_done = run.done is not None and cell.step == run.done.steps
    is_after = _is_after(cell, run)
    anchors = _anchors(cell, run.digest)
    classes = {"after": is_after, "repeated": cell.repeated, "flagged": is_done, "anchored": bool(anchors)}
    return StepView(
        cell=cell,
        look=" ".join([tone, *(name for name, holds in classes.items() if holds)]),
        sign=str(calls) if cell.mark == "calls" and calls > 1 else sign,
        is_done=is_done,
        is_after=is_after,
        anchors=anchors,
        left_out=left_out,
        link=link,
        call_links=call_links,
    )


def _anchors(cell: StepCell, digest: RunSummary) -> list[str]:
    """Say whether the work was changed for the last time at this step, and whether it was checked there."""
    points = {"the last change of the work": digest.changed, "the work was checked": digest.checked}
    return [
        words for words, at in points.items() if at is not None and at.steps == cell.step and cell.mark != "closing"
    ]


def _look(cell: StepCell, run: LabelledRun) -> tuple[Tone, str]:
    """Return the tone and the sign of a cell."""
    tone, sign, _ = MARKS[cell.mark]
    if cell.mark == "completion":
        return _COMPLETIONS.get(run.known, (tone, sign))
    return tone, sign


def _is_after(cell: StepCell, run: LabelledRun) -> bool:
    return run.done is not None and cell.step > run.done.steps


def _strip(timelines: Sequence[RunTimeline], runs: Sequence[LabelledRun], steps: int, longest: int) -> str:
    """Return the CSS style of a strip with the colours of all steps.

    Its width shows the number of steps relative to `longest`.
    """
    colours = [_colour(cell, run) for timeline, run in zip(timelines, runs, strict=True) for cell in timeline.cells]
    if not colours:
        return ""
    stretches = colour_stretches(colours)
    whole = sum(length for _, length in stretches)
    stops, at = [], 0
    for colour, length in stretches:
        stops.append(f"{colour} {_percent(at / whole)} {_percent((at + length) / whole)}")
        at += length
    width = _percent(max(0.01, steps / max(1, longest)))
    return f"width:{width};background:linear-gradient(90deg,{','.join(stops)})"


def colour_stretches(colours: Sequence[str]) -> list[tuple[str, int]]:
    """Return the stretches of equal colours, each with its length.

    Of more than `STRIP_PARTS` stretches, equal parts of the whole are shown instead. In each part, every colour has its
    share, so that a rare one is seen, too.
    """
    stretches = [(colour, len(list(same))) for colour, same in groupby(colours)]
    if len(stretches) <= STRIP_PARTS:
        return stretches
    bounds = [len(colours) * part // STRIP_PARTS for part in range(STRIP_PARTS + 1)]
    parts = [colours[begin:end] for begin, end in pairwise(bounds)]
    return [share for part in parts for share in Counter(part).items()]


def _colour(cell: StepCell, run: LabelledRun) -> str:
    tone = f"var(--{_look(cell, run)[0]})"
    return f"color-mix(in srgb,{tone} 35%,var(--page))" if _is_after(cell, run) else tone


def _percent(share: float) -> str:
    return f"{100 * share:.1f}".rstrip("0").rstrip(".") + "%"
