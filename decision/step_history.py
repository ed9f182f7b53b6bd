"""Progress of a run: points that accumulate while steps bring nothing new, and fall when one does.

A single signal is a poor judge. Failing calls, known results and repeated calls alternate in a run that makes no
progress, and each of them also occurs in good runs. So each step is judged as a whole, by what its calls did and what
came back, and gets points for what it did not bring (`POINTS`). A change of the work removes all points, something new
removes some. The table was chosen on recorded sessions: docs/explanation/evidence.md says on which, and with what
result.

The memory (`StepHistory`) is bounded: a table of lines, and the marks of the latest steps. It is not part of the facts:
what a step brought is written into its STEP_FINISHED, so a record can be folded without reading its texts again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from .call_effects import effect_of, runs_commands
from .call_results import has_failed, ran_out_of_time
from .compared_results import ComparedResult, compared_text
from .deferred_patterns import deferred
from .messages import ResultStatus, ToolCall, ToolSpec
from .novelty import (
    NO_LINES,
    add_marks,
    add_text,
    distinct_lines,
    essential_text,
    marks_of,
    says_nothing_found,
    without_line_numbers,
)
from .text_kinds import TextKind, reports_done

REMEMBERED_STEPS = 32
"""Number of steps for which a call counts as made before."""
SHORT_LINES = 8
SHORT_ARGUMENTS = 300
"""Arguments up to this length, in characters, are compared with results of up to `SHORT_LINES` lines, in which their
words do not count: a program that repeats what it was asked for gives the same message whatever that was. Longer
arguments are scripts, which print what they compose."""
StepKind = Literal[
    "none", "talk", "waiting", "change", "change_before", "same_change", "old_change", "failed_change",
    "known_failed_change", "failure", "known_failure", "repeated_failure", "old_failure", "news", "same_call_news",
    "answered", "acted", "silent", "nothing_found", "known_lines", "known",
]  # fmt: skip
"""What a step brought; see `POINTS`."""


class StepJudgement(Struct, frozen=True):
    """The judgement of a finished step."""

    brought: StepKind = "none"
    """The kind of the step, according to what it brought; `POINTS` has the points that the run gets for it."""
    same_results: int = 0
    """Number of steps in a row, including this one, in which the same tools gave the same results, whatever their
    arguments were. 1 for the first of them."""
    text_kind: TextKind | None = None
    """Kind of its text, if it has text and no calls, as the user's text rule or `classify_text` said at the time. None
    also in records of older versions: such a text is judged when it is asked about."""
    claims: int = 0
    """Number of steps in a row, including this one, that reported the work as done and went on with calls that changed
    nothing."""


RESET = -1_000
POINTS: dict[StepKind, int] = {
    "none": 0,
    "talk": 0,
    "waiting": 1,
    "change": RESET,
    "change_before": RESET,
    "same_change": 2,
    "old_change": 1,
    "failed_change": 1,
    "known_failed_change": 1,
    "failure": 2,
    "known_failure": 4,
    "repeated_failure": 3,
    "old_failure": 2,
    "news": -2,
    "same_call_news": 0,
    "answered": 0,
    "acted": 0,
    "silent": 1,
    "nothing_found": 1,
    "known_lines": 1,
    "known": 2,
}
"""Points of a step by its kind.

none: only calls that control the agent itself (think, plan, ask), or that poll. talk: no call at all.
waiting: its calls only wait, or all of them ran out of time, and nothing new came.
change: it changed the work. change_before: in the same way as some steps before, with other changes in between.
same_change: it repeated the latest change.
failed_change: a change that was refused with a new message; known_failed_change: with a known one. Both get few points,
because another try may succeed, unless it is the same as the step before.
failure: all calls failed in another way, with a new message; repeated_failure: with a known one, right after a step
that failed; old_failure: with a known one, after a step that did not.
news: something new came back. same_call_news: from calls that were made before, if only another number.
answered: calls made for the first time, whose result is new only in its numbers and in what it repeats of the call, as
when a tool works through many items. acted: calls made for the first time that may have done something, with a known
result or none. nothing_found: calls made for the first time that only read, and returned nothing.
known: a known result, or none.

Only records from before 2026-11-24 have four more: old_change, a change whose result had five or more lines, all of
them known; known_failure, for what is now a repeated or an old failure; silent, for calls that act and returned
nothing; known_lines, for known lines in a result that was not seen as a whole.
"""


PROGRESS: frozenset[StepKind] = frozenset({"change", "change_before", "news"})
"""Kinds of steps that changed the work or brought news."""


def add_points(points: int, kind: StepKind) -> int:
    """Return the points of a run after a step of this kind; never below 0."""
    return 0 if POINTS[kind] == RESET else max(0, points + POINTS[kind])


def describe_step(kind: StepKind) -> str:
    """Return what a step did that added points, in words for a message."""
    return "a failure" if "fail" in kind else "a change made before" if "change" in kind else "nothing new"


class StepHistory(Struct, frozen=True):
    """Memory of the steps of a run, for judging the next one. Its size is bounded."""

    judgement: StepJudgement = StepJudgement()
    """The judgement of the latest step."""
    lines: bytes = NO_LINES
    """The lines of all results; see `novelty`."""
    calls: tuple[int, ...] = ()
    """Marks of the calls of the latest steps."""
    results: tuple[int, ...] = ()
    """Marks of the same calls with their results."""
    latest_change: int = 0
    """The mark of the latest step that changed the work."""
    failed: bool = False
    """Whether all calls of the latest step failed."""
    answer: int = 0
    """The mark of the latest step's tools and results, whatever the arguments were."""
    ignored: frozenset[str] = frozenset()
    """Tools whose calls do no work: completions, questions, think tools and those that poll."""
    reading: frozenset[str] = frozenset()
    """Tools that declare that they only read."""
    declared: frozenset[str] = frozenset()
    """Tools that declare whether they only read."""
    compared: ComparedResult = "said"
    """What of a result is compared with earlier ones."""

    @classmethod
    def of(cls, tools: Iterable[ToolSpec], foreign: bool, compared: ComparedResult = "said") -> StepHistory:
        """Return the history of a run that has no steps yet.

        foreign: a foreign loop, not endstop, made the run, so its tools do not declare whether they only read.
        compared: what of a result is compared with earlier ones.
        """
        tools = tuple(tools)
        return cls(
            ignored=frozenset(tool.name for tool in tools if tool.kind != "ordinary" or tool.polls),
            reading=frozenset(tool.name for tool in tools if tool.reads),
            declared=frozenset() if foreign else frozenset(tool.name for tool in tools),
            compared=compared,
        )

    def with_step(
        self,
        calls: int,
        results: Iterable[tuple[ToolCall, str, ResultStatus]],
        judged: StepJudgement | None = None,
        text: str = "",
    ) -> StepHistory:
        """Judge a finished step and return the history that includes it.

        calls: number of calls of the step. results: the calls with an answer, as (call, content, status). judged: the
        judgement that was recorded when the step ended, if there is one. It is then kept, because the texts may have
        been redacted since. text: what the model said beside the calls.
        """
        step = _Step(self.lines)
        for call, content, status in results:
            if call.name not in self.ignored and status in _MADE:
                said = compared_text(call.name, call.arguments, content, self.compared)
                step.add(call, said, status, call.name in self.reading if call.name in self.declared else None)
        claims = self.judgement.claims + 1 if calls and not step.changed and reports_done(text) else 0
        if not step.counted:
            same = self.judgement.same_results
            kind: StepKind = "none" if calls else "talk"
            return replace(self, judgement=judged or StepJudgement(kind, same, claims=claims))
        kind = self._judge(step)
        same = self.judgement.same_results + 1 if step.answer_mark == self.answer else 1
        if kind == "change" and not step.assumed:
            same = 1  # the same action on many different items
        return replace(
            self,
            judgement=judged or StepJudgement(kind, same, claims=claims),
            lines=step.lines,
            calls=(*self.calls[1 - REMEMBERED_STEPS :], step.call_mark),
            results=(*self.results[1 - REMEMBERED_STEPS :], step.result_mark),
            latest_change=step.call_mark if step.changed else self.latest_change,
            failed=step.failed == step.counted,
            answer=step.answer_mark,
        )

    def _judge(self, step: _Step) -> StepKind:
        made_before, seen_before = step.call_mark in self.calls, step.result_mark in self.results
        if step.only_waits and not step.new_lines:
            failed = step.failed == step.counted
            return "waiting" if failed or seen_before or not made_before else "same_call_news"
        if step.timed_out == step.counted:
            return "waiting"
        if step.changed:
            return self._judge_change(step, made_before, seen_before)
        if step.failed == step.counted:
            return self._judge_failure(step, made_before)
        if made_before:
            return "same_call_news" if step.new_lines or not seen_before else "known"
        if step.new_lines or step.new_exact_lines:
            return "news"
        if not step.failed and (step.new_answer or step.acts):
            return "answered" if step.new_answer else "acted"
        return "known" if step.found else "nothing_found"

    def _judge_failure(self, step: _Step, made_before: bool) -> StepKind:
        again = made_before and step.call_mark == self.calls[-1]
        if step.changes and not again:
            return "failed_change" if step.new_lines else "known_failed_change"
        if step.new_lines or (step.new_text and not made_before):
            return "failure"
        return "repeated_failure" if self.failed else "old_failure"

    def _judge_change(self, step: _Step, made_before: bool, seen_before: bool) -> StepKind:
        if step.call_mark == self.latest_change and seen_before:
            return "same_change"
        return "change_before" if made_before else "change"


class _Step:
    """Collects what one step brought, one result at a time. lines: the memory of lines before the step."""

    def __init__(self, lines: bytes) -> None:
        self.lines = lines
        self.call_mark = self.result_mark = self.answer_mark = 0
        self.counted = self.failed = self.found = self.new_lines = 0
        self.new_exact_lines = 0
        """New lines of short results and of the run's own tools, with digits compared."""
        self.new_text = False
        """Whether a result was never seen before, to the last digit."""
        self.new_answer = False
        """Whether such a result says more than that a search found nothing."""
        self.timed_out = 0
        """Number of calls that ran out of time, or whose tool was restarted."""
        self.changes = False
        """Whether a call was meant to change the work."""
        self.changed = False
        """Whether a call has changed the work."""
        self.assumed = False
        """Whether a call changed the work only because its tool does not declare that it reads."""
        self.acts = False
        """Whether a call may do more than read."""
        self.only_waits = True

    def add(self, call: ToolCall, content: str, status: ResultStatus, reads: bool | None) -> None:
        """Add a result. reads: whether the tool declares that it only reads; None if nothing is declared."""
        effect = effect_of(call.name, call.arguments, reads)
        if effect == "controls":
            return
        certain = reads is False and not runs_commands(call.name)
        if certain:
            effect = "changes"  # a tool that does not declare that it only reads may be the work itself
            self.assumed = True
        text = essential_text(content)
        # a tool that only reads may return any text, even one that mentions errors
        failed = status == "error" if reads else has_failed(text, status, effect)
        if failed or not certain:
            self._add_lines(text, call.arguments, declared=reads is not None)
        named = crc32(call.name.encode("utf-8", "surrogatepass"))
        called = crc32(call.arguments.encode("utf-8", "surrogatepass"), named)
        returned = crc32(without_line_numbers(text).encode("utf-8", "surrogatepass"))
        self.call_mark += called
        self.result_mark += called ^ returned
        self.answer_mark += named ^ returned
        self.counted += 1
        self.failed += failed
        self.timed_out += ran_out_of_time(text, failed)
        self.changes = self.changes or effect == "changes"
        self.changed = self.changed or (effect == "changes" and not failed)
        self.acts = self.acts or effect not in ("reads", "waits")
        self.only_waits = self.only_waits and effect == "waits"

    def _add_lines(self, text: str, arguments: str, declared: bool) -> None:
        """Count what is new in a result. declared: from a tool of the run itself, where each word and number counts."""
        found = distinct_lines(text)
        if found:
            self.lines, new_text = add_text(self.lines, b"\n".join(found))
            self.new_text = self.new_text or new_text
            self.new_answer = self.new_answer or (new_text and not says_nothing_found(text))
        short = len(found) <= SHORT_LINES
        if short and not declared and len(arguments) <= SHORT_ARGUMENTS:
            found = _without_echo(found, arguments)
        self.lines, new = add_marks(self.lines, marks_of(found, exact=short or declared))
        self.found += len(found)
        self.new_lines += len(new.lines)
        self.new_exact_lines += len(new.exact)


_MADE: frozenset[ResultStatus] = frozenset({"ok", "error"})
"""Statuses of calls that ran to their end. Other guards count the rest: invalid calls, completions handed back."""
_WORD = deferred(rb"\w+")
_ECHO = b"\0"
"""A line that only repeats the arguments."""


def _without_echo(lines: Collection[bytes], arguments: str) -> Collection[bytes]:
    """Return the lines without the words that the arguments contain."""
    words = set(_WORD.findall(arguments.encode("utf-8", "surrogatepass")))
    left = (b" ".join(word for word in _WORD.findall(line) if word not in words) for line in lines)
    return dict.fromkeys(line or _ECHO for line in left)
