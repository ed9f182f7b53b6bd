"""Whether a run makes progress: points that collect while steps bring nothing, and fall when one does.

A single signal is a poor judge. Failing calls, known results and repeated calls alternate in a run that is going
nowhere, and each of them occurs in good runs, too. So each step is judged as a whole, by what its calls did and what
came back, and gets points for what it did not bring (`POINTS`). A change of the work takes all points away, something
new takes some. The table was chosen on recorded sessions; docs/evidence.md says on which, and what it achieves.

The memory is bounded: a table of lines, and the marks of the latest steps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from .call_effects import effect_of
from .call_results import has_failed
from .messages import ResultStatus, ToolCall, ToolSpec
from .novelty import DIGITS, NO_LINES, add_lines, distinct_lines

REMEMBERED_STEPS = 32
"""Steps in which a call counts as made before."""
SHORT_LINES = 8
SHORT_CHARS = 400
"""Of a result of at most so many lines and characters, words that stand in the call's own arguments do not count: a
program that names what it was asked for gives the same message whatever that was."""
LONG_LINES = 5
"""Lines of a result from which on a change that returns nothing new is doubted."""
POLL_LINES = 2
"""Lines of a result in which another number counts as new, if the same call is made again: a state is polled."""
READ_ARGUMENTS = 2_000
"""Characters of the arguments whose words are left out."""

StepKind = Literal[
    "none", "change", "change_before", "same_change", "old_change", "silent", "news", "same_call_news", "talk", "known",
    "known_lines", "failure", "known_failure", "same_failure",
]  # fmt: skip
"""What a step brought; see `POINTS`."""

RESET = -1_000
POINTS: dict[StepKind, int] = {
    "none": 0,
    "change": RESET,
    "change_before": 0,
    "same_change": 2,
    "old_change": 1,
    "silent": 0,
    "news": -2,
    "same_call_news": 0,
    "talk": 0,
    "known": 2,
    "known_lines": 1,
    "failure": 1,
    "known_failure": 2,
    "same_failure": 3,
}
"""Points of a step by its kind.

none: only control calls, or polling.
change: it changed the work. `change_before`: in a way in which it did some steps before, with other changes between.
same_change: it made the latest change once more. `old_change`: its result has `LONG_LINES` or more, all of them known.
silent: it ran something for the first time that gave nothing back, and may have done something.
news: something new came back. `same_call_news`: from a call that was made before.
known: a known result came back, or none. `known_lines`: a result of known lines that was not seen as a whole.
failure: all calls failed, with a new message. `known_failure`: with a known one. `same_failure`: for a known call, too.
talk: no call at all.
"""


_DESCRIPTIONS: dict[StepKind, str] = {
    "same_change": "the same change once more",
    "old_change": "a change with a known result",
    "talk": "no call",
    "failure": "a failure",
    "known_failure": "a known failure",
    "same_failure": "the same failure",
}


def describe_step(kind: StepKind) -> str:
    """What a step that adds points did, for a message."""
    return _DESCRIPTIONS.get(kind, "nothing new")


class Progress(Struct, frozen=True):
    """The points of a run, and the memory by which its next step is judged."""

    points: int = 0
    before: int = 0
    """Points before the latest step."""
    kind: StepKind = "none"
    """What the latest step brought."""
    lines: bytes = NO_LINES
    """The lines of all results; see `novelty`."""
    calls: tuple[int, ...] = ()
    """Marks of the calls of the latest steps."""
    results: tuple[int, ...] = ()
    """Marks of the same calls with their results."""
    latest_change: int = 0
    """The mark of the latest step that changed the work."""
    answer: int = 0
    """The mark of the latest step's tools and results, whatever the arguments were."""
    same_answers: int = 0
    """Steps in a row in which the same tools gave the same results; 1 is the first time."""
    ignored: frozenset[str] = frozenset()
    """Tools whose calls do no work: completions, questions, think tools and those that poll."""
    reading: frozenset[str] = frozenset()
    """Tools that declare that they only read."""
    declared: frozenset[str] = frozenset()
    """Tools of which it is known whether they only read."""

    @classmethod
    def of(cls, tools: Iterable[ToolSpec], imported: bool) -> Progress:
        """The state at the beginning of a run with these tools. imported: nothing declares which of them only read."""
        tools = tuple(tools)
        return cls(
            ignored=frozenset(tool.name for tool in tools if tool.kind != "ordinary" or tool.polls),
            reading=frozenset(tool.name for tool in tools if tool.reads),
            declared=frozenset() if imported else frozenset(tool.name for tool in tools),
        )

    def with_step(self, calls: int, results: Iterable[tuple[ToolCall, str, ResultStatus]]) -> Progress:
        """Judge a finished step: how many calls it has, and its results as (call, content, status)."""
        step = _Step()
        lines = self.lines
        for call, content, status in results:
            if call.name not in self.ignored and status not in _NOT_MADE:
                lines = step.add(call, content, status, lines, self._declared_reads(call.name))
        kind = self._judge(step, calls)
        points = 0 if POINTS[kind] == RESET else max(0, self.points + POINTS[kind])
        if not step.counted:
            return replace(self, points=points, before=self.points, kind=kind)
        return replace(
            self,
            points=points,
            before=self.points,
            kind=kind,
            lines=lines,
            calls=(*self.calls[1 - REMEMBERED_STEPS :], step.call_mark),
            results=(*self.results[1 - REMEMBERED_STEPS :], step.result_mark),
            latest_change=step.call_mark if step.changes else self.latest_change,
            answer=step.answer_mark,
            same_answers=self.same_answers + 1 if step.answer_mark == self.answer else 1,
        )

    def user_spoke(self) -> Progress:
        """Begin anew: what the user says is new."""
        return replace(self, points=0, before=0)

    def _declared_reads(self, name: str) -> bool | None:
        return name in self.reading if name in self.declared else None

    def _judge(self, step: _Step, calls: int) -> StepKind:
        if not step.counted:
            return "none" if calls else "talk"
        made_before = step.call_mark in self.calls
        if step.changed:
            return self._judge_change(step, made_before)
        if step.failed == step.counted:
            if step.new_lines:
                return "failure"
            return "same_failure" if made_before else "known_failure"
        if step.new_lines:
            return "same_call_news" if made_before else "news"
        if made_before:
            polls = step.found <= POLL_LINES and step.result_mark not in self.results  # its number is another one
            return "same_call_news" if polls else "known"
        if step.blank and step.acts:
            return "silent"
        return "known_lines" if step.new_result else "known"

    def _judge_change(self, step: _Step, made_before: bool) -> StepKind:
        if step.call_mark == self.latest_change:
            return "same_change"
        if made_before:
            return "change_before"
        return "change" if step.new_lines or step.found < LONG_LINES else "old_change"


class _Step:
    """What one step brought, as its results are added."""

    def __init__(self) -> None:
        self.call_mark = self.result_mark = self.answer_mark = 0
        self.counted = self.failed = self.found = self.new_lines = 0
        self.changes = False
        """Whether a call was to change the work."""
        self.changed = False
        """Whether it did."""
        self.new_result = False
        """Whether some result was not seen as a whole."""
        self.acts = False
        """Whether a call may do more than read."""
        self.blank = True
        """Whether all results are blank."""

    def add(self, call: ToolCall, content: str, status: ResultStatus, lines: bytes, reads: bool | None) -> bytes:
        """Add a result. lines: the memory of lines before it; returned is the one after it."""
        effect = effect_of(call.name, call.arguments, reads)
        failed = has_failed(content, status, effect)
        found = distinct_lines(content)
        short = len(found) <= SHORT_LINES and len(content) <= SHORT_CHARS
        lines, new, whole = add_lines(lines, _without_echo(found, call.arguments) if short else found)
        named = crc32(call.name.encode("utf-8", "surrogatepass"))
        called = crc32(call.arguments.encode("utf-8", "surrogatepass"), named)
        returned = content.encode("utf-8", "surrogatepass")
        self.call_mark += called
        self.result_mark += crc32(returned, called)
        self.answer_mark += crc32(returned, named)
        self.counted += 1
        self.failed += failed
        self.found += len(found)
        self.new_lines += new
        self.changes = self.changes or effect == "changes"
        self.changed = self.changed or (effect == "changes" and not failed)
        self.new_result = self.new_result or whole
        self.acts = self.acts or effect not in ("reads", "waits")
        self.blank = self.blank and (not found or _BLANK.fullmatch(content) is not None)
        return lines


_NOT_MADE: frozenset[ResultStatus] = frozenset({"skipped", "unanswered", "rejected"})
"""Statuses of calls that were not made, or that only the completion's own guards count."""
_WORD = re.compile(rb"\w+")
_BLANK = re.compile(
    r"\s*(?:<returncode>0</returncode>\s*<output>\s*</output>|\(no output\)|\(Command executed successfully[^\n]*\))?"
    r"\s*"
)
"""What tools say instead of nothing."""


def _without_echo(lines: Collection[bytes], arguments: str) -> Collection[bytes]:
    """The lines without the words that the arguments hold."""
    raw = arguments[:READ_ARGUMENTS].encode("utf-8", "surrogatepass").translate(None, DIGITS)
    words = set(_WORD.findall(raw))
    return dict.fromkeys(b" ".join(word for word in _WORD.findall(line) if word not in words) for line in lines)
