"""The result of a replay, as text and as JSON, and a divergence with both decisions.

The two decisions are shown side by side, or one below the other in a narrow terminal. The first rule with a different
verdict is marked, and so are the facts that differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ...base.sanitize import one_line
from ...decision import Decision, TraceEntry
from ...decision import events as ev
from ...replay import ReplayedRun, ReplayReport
from ...replay.diff import Divergence, EventDifference
from .styled_lines import Line, Piece, Shade, plain_text, side_by_side, wrap
from .text import Recorded, counted, value_of


class ReplayNotes(Struct, frozen=True, kw_only=True):
    """The parts of a replay's result besides the comparison."""

    left_at: str = ""
    """The event at which the user quit; empty if the replay ended."""
    diverged: bool = False
    """Whether the run had diverged before the user quit."""
    not_reached: str = ""
    """The event of `--from`, if the replay ended before it."""
    being_written: bool = False
    """Whether another process is still writing to the record."""
    shown: Collection[str] = ()
    """Runs whose divergence was already shown."""


def is_same(report: ReplayReport, notes: ReplayNotes) -> bool:
    """Return whether the replay, as far as it got, did not differ."""
    return report.same and not notes.diverged


def as_json(report: ReplayReport, notes: ReplayNotes) -> str:
    """Encode the result as one line of JSON."""
    runs = [
        {
            "run_id": run.run_id,
            "same": run.divergence is None,
            "decisions": run.decisions,
            "divergence": run.divergence,
            "difference": run.difference,
            "outcome": run.outcome,
            "recorded": run.recorded,
        }
        for run in report.runs
    ]
    whole = {
        "same": is_same(report, notes),
        "record": report.path,
        "runs": runs,
        "damaged_lines": report.damaged,
        "missing_attachments": report.missing,
        "being_written": notes.being_written,
        "left_at": notes.left_at or None,
    }
    return msgspec.json.encode(whole).decode() + "\n"


def as_text(report: ReplayReport, notes: ReplayNotes, width: int, *, in_terminal: bool) -> str:
    """Return the result as text.

    width: columns of the evidence of a divergence. in_terminal: whether sentences are wrapped, too. A command stays one
    line, so that it can be copied.
    """
    lines = [line for run in report.runs for line in _run_lines(run, notes, width, in_terminal)]
    lines += (row for remark in _remarks(report, notes) for row in _rows(remark, width, in_terminal))
    if report.runs and report.runs[-1].recorded is None and not (notes.being_written or notes.left_at):
        resume = Recorded(report.path).resume("")
        killed = "the last run was killed; resume it with:"
        lines += [*wrap(killed, width), resume] if in_terminal else [f"{killed} {resume}"]
    same, decisions = is_same(report, notes), sum(run.decisions for run in report.runs)
    if notes.left_at:
        lines.append(f"left at {notes.left_at}: {'the same until then' if same else 'NOT the same'}")
    elif same:
        lines.append(f"the same: {counted(decisions, 'decision')} in {counted(len(report.runs), 'run')}")
    else:
        lines.append("NOT the same")
    return "\n".join(lines) + "\n"


def _rows(sentence: str, width: int, in_terminal: bool) -> list[str]:
    return wrap(sentence, width) if in_terminal else [sentence]


def _run_lines(run: ReplayedRun, notes: ReplayNotes, width: int, in_terminal: bool) -> Iterator[str]:
    run_id = one_line(run.run_id, 100)
    if run.divergence is not None:
        yield from _rows(f"{run_id}: diverges: {one_line(run.divergence.what, 1000)}", width, in_terminal)
        if run.run_id not in notes.shown:
            yield from map(plain_text, evidence_lines(run.divergence, width))
        return
    ended = "the record ends before the run does" if run.recorded is None else one_line(run.outcome.stop_reason, 100)
    same = counted(run.decisions, "decision")
    yield from _rows(f"{run_id}: {run.outcome.status} ({ended}), {same} the same", width, in_terminal)
    if run.difference is not None:
        yield from map(plain_text, difference_lines(run.difference, width))


def _remarks(report: ReplayReport, notes: ReplayNotes) -> Iterator[str]:
    if notes.not_reached:
        yield f"event {notes.not_reached} was not reached: the replay ended before it"
    if notes.being_written:
        yield "another process is writing to the record: this is the result for what it held when it was read"
    elif report.damaged:
        yield f"{counted(len(report.damaged), 'line')} of the record could not be read"
    if report.missing:
        yield f"{counted(len(report.missing), 'attachment')} of the record could not be found"


WIDE = 90
"""The width in columns from which both decisions are shown side by side."""
LONGEST = 400
"""The most characters that are shown of one thing that differs, such as a verdict."""
RULE = 30
"""The most characters that are shown of a rule's name."""
_MARK = "▸ "


class _Pair(Struct, frozen=True):
    """The verdicts of one rule in the record and in the replay; None if it was not asked."""

    rule: str
    then: TraceEntry | None
    now: TraceEntry | None

    @property
    def differs(self) -> bool:
        return _said(self.then) != _said(self.now)

    @property
    def other_facts(self) -> set[str]:
        then, now = _saw(self.then), _saw(self.now)
        return {name for name in then.keys() & now.keys() if _json(then[name]) != _json(now[name])}


def divergence_lines(divergence: Divergence, width: int) -> Iterator[Line]:
    """Yield the divergence in lines of this width."""
    for number, row in enumerate(wrap(f"diverges: {one_line(divergence.what, 1000)}", width - 4)):
        yield [("  ≠ " if number == 0 else "    ", "bad"), (row, "strong")]
    yield from evidence_lines(divergence, width)


def evidence_lines(divergence: Divergence, width: int) -> Iterator[Line]:
    """Yield the evidence: the first event that differs, and both decisions with the facts and verdict of each rule."""
    if divergence.before is not None:
        yield from difference_lines(divergence.before, width)
    recorded, replayed = divergence.recorded, divergence.replayed
    if recorded is not None and replayed is not None and recorded.trace and replayed.trace:
        pairs = _pairs(recorded, replayed)
        first = next((pair.rule for pair in pairs if pair.differs), None)
        both = _side_by_side if width >= WIDE else _stacked
        yield from both(recorded, replayed, pairs, first, width)
    elif recorded is not None or replayed is not None:  # otherwise the decisions agree and only their results differ
        yield from _under("record", _decision(recorded, width - 14))
        yield from _under("replay", _decision(replayed, width - 14))
        yield from _alone(replayed or recorded, width)


def difference_lines(difference: EventDifference, width: int) -> Iterator[Line]:
    """Yield the first event that differs, as recorded and as replayed."""
    for number, row in enumerate(wrap(_which(difference), width - 6)):
        yield [("    " if number == 0 else "      ", None), (row, "warning")]
    sides = (("was", difference.recorded), ("is", difference.replayed))
    for word, event in sides:
        shown = "not there" if event is None else _content(event, difference.fields)
        rows = wrap(one_line(shown, LONGEST), width - 11)
        for number, row in enumerate(rows):
            yield [(f"      {word:<5}" if number == 0 else " " * 11, "quiet"), (row, None)]


def _which(difference: EventDifference) -> str:
    event = difference.recorded or difference.replayed
    assert event is not None
    kind = str(type(event).__struct_config__.tag)
    name = getattr(event, "name", "")
    of = (
        f" of {one_line(name, 60)}"
        if name
        else f" of step {event.step}"
        if isinstance(event, ev.ResponseFinished)
        else ""
    )
    fields = f" ({', '.join(difference.fields)})" if difference.fields else ""
    then, now = difference.recorded, difference.replayed
    if then is None:
        where = f"event {event.seq} of the replay"
    elif now is None or now.seq == then.seq:
        where = f"event {then.seq}"
    else:
        where = f"event {then.seq}, {now.seq} in the replay"
    return f"first differed: {where}, {kind}{of}{fields}"


def _content(event: Any, fields: Sequence[str]) -> str:
    """Return the fields of an event that differ, or its content in one line."""
    if isinstance(event, ev.ResponseFinished):
        return _response(event, fields)
    shown = fields or tuple(
        name for name in ("status", "content", "said", "reason", "answer", "text") if hasattr(event, name)
    )
    return " · ".join(str(getattr(event, name)) for name in shown) or "there"


def _response(event: ev.ResponseFinished, fields: Sequence[str]) -> str:
    message = event.message
    parts = [message.text] if message.text.strip() else []
    parts += [f"{call.name} {call.arguments}".rstrip() for call in message.calls]
    if not parts:
        parts = ["nothing but reasoning" if message.reasoning else "nothing"]
    if "truncated" in fields:
        parts.append("complete" if event.truncated is None else "cut off inside a call")
    return " · ".join(parts)


# ---- the traces


def _pairs(recorded: Decision, replayed: Decision) -> list[_Pair]:
    then = {one_line(one.rule, RULE): one for one in recorded.trace}
    now = {one_line(one.rule, RULE): one for one in replayed.trace}
    return [_Pair(rule, then.get(rule), now.get(rule)) for rule in {**then, **now}]


def _side_by_side(
    recorded: Decision, replayed: Decision, pairs: Sequence[_Pair], first: str | None, width: int
) -> Iterator[Line]:
    rule = max(len(pair.rule) for pair in pairs) + len(_MARK)
    side = (width - 4 - rule - 4) // 2
    widths = (rule, side, side)

    def row(head: Piece, then: Sequence[Piece], now: Sequence[Piece]) -> Iterator[Line]:
        for line in side_by_side(([head], then, now), widths):
            yield [("    ", None), *line]

    yield from row(("", None), [("the record", "quiet")], [("the replay", "quiet")])
    yield from row(_decision_head(first), _decision(recorded, side), _decision(replayed, side))
    for pair in pairs:
        marked = pair.rule == first
        head = ((_MARK if marked else "  ") + pair.rule, _shade(pair, marked))
        yield from row(head, _considered(pair.then, pair, side), _considered(pair.now, pair, side))


def _stacked(
    recorded: Decision, replayed: Decision, pairs: Sequence[_Pair], first: str | None, width: int
) -> Iterator[Line]:
    room = width - 14
    yield [("    ", None), _decision_head(first)]
    yield from _under("record", _decision(recorded, room))
    yield from _under("replay", _decision(replayed, room))
    for pair in pairs:
        marked = pair.rule == first
        yield [("    ", None), ((_MARK if marked else "  ") + pair.rule, _shade(pair, marked))]
        then, now = _considered(pair.then, pair, room), _considered(pair.now, pair, room)
        if then == now:
            yield from _under("both", then)
        else:
            yield from _under("record", then)
            yield from _under("replay", now)


def _alone(decision: Decision | None, width: int) -> Iterator[Line]:
    """Yield the trace of a decision that only one side has: the record or the replay."""
    trace = () if decision is None else decision.trace
    rule = max((len(one_line(one.rule, RULE)) for one in trace), default=0) + len(_MARK)
    room = width - 4 - rule - 2
    for one in trace:
        head: Piece = ((_MARK if one.said else "  ") + one_line(one.rule, RULE), None if one.said else "quiet")
        for line in side_by_side(([head], _considered(one, _Pair(one.rule, one, one), room)), (rule, room)):
            yield [("    ", None), *line]


def _under(name: str, rows: Sequence[Piece]) -> Iterator[Line]:
    for number, row in enumerate(rows):
        yield [(f"      {name:<8}" if number == 0 else " " * 14, "quiet"), row]


def _decision_head(first: str | None) -> Piece:
    """Return the row of the decisions, marked if no rule differs."""
    return (f"{_MARK}decision", "bad") if first is None else ("  decision", None)


def _decision(decision: Decision | None, width: int) -> list[Piece]:
    if decision is None:
        return [("no decision here", "quiet")]
    rows: list[Piece] = [(row, "strong") for row in wrap(one_line(str(decision), LONGEST), width)]
    rows += [(row, "quiet") for row in wrap(one_line(f"by {decision.rule}", LONGEST), width)]
    if not decision.trace:
        rows.append(("its trace was not recorded", "quiet"))
    return rows


def _considered(one: TraceEntry | None, pair: _Pair, width: int) -> list[Piece]:
    """Return a rule's verdict and the facts that it saw, those that differ first."""
    if one is None:
        return [("not asked", "quiet")]
    other = [name for name in one.saw if name in pair.other_facts]
    same = [name for name in one.saw if name not in other]
    if not (one.said or other):
        return [(row, "quiet") for row in wrap(f"· {_facts(one, same)}".rstrip(), width)]
    shade: Shade | None = "quiet" if not one.said else "warning" if pair.differs else None
    rows: list[Piece] = [(row, shade) for row in wrap(one_line(one.said, LONGEST) or "·", width)]
    rows += [(row, "warning") for row in wrap(_facts(one, other), width) if row]
    return rows + [(row, "quiet") for row in wrap(_facts(one, same), width) if row]


def _facts(one: TraceEntry, names: Sequence[str]) -> str:
    return " ".join(f"{one_line(name, RULE)}={value_of(one.saw[name])}" for name in names)


def _shade(pair: _Pair, marked: bool) -> Shade | None:
    return "bad" if marked else None if pair.differs else "quiet"


def _said(one: TraceEntry | None) -> str | None:
    return None if one is None else one.said


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)  # as in a record, where a tuple is a list


def _saw(one: TraceEntry | None) -> dict[str, Any]:
    return {} if one is None else one.saw
