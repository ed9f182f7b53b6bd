"""The plain view: a run as lines of text on stderr, for logs and pipes. The answer goes to stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from shutil import get_terminal_size

from ...base.sanitize import one_line, sanitize
from ...decision import Decision, Event, Outcome
from ...decision.events import RunStarted
from ...event_bus import Lagged
from ...fork import describe_origin
from .narrator import EventNarrator
from .rounds import Round
from .run_view import Call, Kind, RunView
from .styled_lines import Line, Shade, plain_text, wrap
from .text import (
    Asking,
    EndingText,
    Recorded,
    Saved,
    actions_line,
    arguments,
    counted,
    duration,
    first_lines,
    limit_texts,
    steps_text,
    trace_lines,
    usage_line,
)

RESULT_LINES = 10
LINE = 300
"""The most characters that are shown of a text, or of one line of a result."""
WIDTH = 100
"""Columns if stderr is not a terminal."""


class PlainView(RunView):
    """View that prints a few lines for each event that matters."""

    def __init__(
        self, *, explain: bool, saved: Saved, recorded: Recorded | None = None, asking: Asking | None = None
    ) -> None:
        self._narrator = EventNarrator(self, explain=explain, recorded=recorded, asking=asking)
        self._saved = saved
        self._recorded = recorded
        self._kind: Kind | None = None
        self._row = ""
        self._waited: Sequence[str] = ()

    def show(self, event: Event | Lagged) -> None:
        """Show one more event."""
        self._narrator.feed(event)

    def skip(self, events: Sequence[Event], *, inside: bool = False) -> None:
        """Process events without printing them."""
        self._narrator.skip(events, inside=inside)

    def set_explain(self, on: bool) -> None:
        """Set whether decisions are printed from now on, each with every rule that was considered."""
        self._narrator.explain = on

    def print_lines(self, draw: Callable[[int], Iterable[Line]]) -> None:
        """Print lines that belong to no event."""
        self.end_writing()
        for line in draw(get_terminal_size((WIDTH, 24)).columns):
            self._line(plain_text(line))

    def show_prompt(self, lines: Sequence[str]) -> None:
        """Print what the user is asked for; lines that were printed the last time are not repeated."""
        if lines:
            self.end_writing()
            for line in lines:
                if line not in self._waited:
                    self._line(f"-- {line}")
            self._waited = lines

    def close(self) -> None:
        """Print the text that is left."""
        self.end_writing()

    # ---- called by the narrator

    def begin(self, started: RunStarted) -> None:
        """Print the run, the model, the policy and its limits."""
        policy = started.policy
        limits = ", ".join((steps_text(policy.limits), *limit_texts(policy)))
        self._line(one_line(f"endstop {started.run_id}: {started.model}, policy {policy.name}, {limits}", LINE))
        if started.origin is not None:
            self._line(one_line(describe_origin(started.origin), LINE))
        if started.prompt:
            self._line(f"prompt: {one_line(started.prompt, LINE)}")

    def step(self, number: int, closing: bool) -> None:
        """Print the number of the step."""
        self._line("closing step" if closing else f"step {number}{self._narrator.of_allowed}")

    def write(self, kind: Kind, delta: str) -> None:
        """Print the text, line by line."""
        if kind != self._kind:
            self.end_writing()
            self._kind = kind
        *lines, self._row = (self._row + sanitize(delta)).split("\n")
        for line in lines:
            self._written(line)

    def end_writing(self) -> None:
        """Print the last line of the text."""
        if self._row:
            self._written(self._row)
        self._kind, self._row = None, ""

    def call(self, call: Call) -> None:
        """Print the call, its status and the first lines of its result."""
        shown = " ".join(f"{name}={value}" if name else value for name, value in arguments(call.arguments, 80))
        took = f" ({duration(call.ended - call.began)})" if call.running else ""
        head = f"{one_line(call.name, 80)} {one_line(shown, LINE)}".rstrip()
        self._line(f"  {head} -> {call.word or call.shown_status}{took}")
        lines, more = first_lines(call.result, RESULT_LINES)
        for line in lines:
            self._line(f"    {line[:LINE]}")
        if more:
            self._line(f"    ... {counted(more, 'more line')}")

    def thought(self, text: str) -> None:
        """Print the thought, marked as such."""
        for line in sanitize(text).strip().split("\n"):
            self._line(f"  think: {line}")

    def round(self, round: Round) -> None:
        """Print the plan with the result of each step, and the thought about it."""
        self._line(f"  round {round.number}" + (f": {one_line(round.goal, LINE)}" if round.goal else ""))
        for step in round.steps:
            result = f": {one_line(step.result, LINE)}" if step.result else ""
            self._line(f"    {step.call} -> {step.status or 'not run'}{result}")
        for line in sanitize(round.thought).strip().split("\n") if round.thought.strip() else ():
            self._line(f"    think: {line}")
        if round.next:
            self._line(f"    next: {one_line(round.next, LINE)}")

    def phase(self, percentage: int, summary: str, next_phase: str | None) -> None:
        """Print the reported percentage."""
        following = f"; next: {one_line(next_phase, LINE)}" if next_phase else ""
        done = f": {one_line(summary, LINE)}" if summary.strip() else ""
        self._line(f"  {percentage} % reported as done{done}{following}")

    def note(self, text: str, shade: Shade, body: Sequence[str] = ()) -> None:
        """Print the note and its body."""
        self.end_writing()
        self._line(f"  {text.lstrip('▸✘✔⚖?↺↩◌✂… ')}")
        for line in body:
            self._line(f"    {line[:LINE]}")

    def cut(self, words: str) -> None:
        """Print the cut."""
        self._line(f"  {words}")

    def decided(self, round: int, decision: Decision) -> None:
        """Print the decision, then each rule that was considered."""
        self._line(f"  decision of round {round}: {decision}, by {decision.rule}")
        for rule, saw, verdict in trace_lines(decision):
            self._line(f"    {rule:20} {verdict or '-'}" + (f"  [{saw}]" if saw else ""))

    def end(self, ending: EndingText, outcome: Outcome) -> None:
        """Print how the run ended, what it used and how to go on."""
        text = outcome.detail if outcome.status in ("completed", "awaiting_input") else ending.text
        evaluation = (
            f", evaluation {outcome.verdict}" if outcome.evaluation is not None and outcome.verdict != "not_run" else ""
        )
        said = f": {one_line(text, 1000)}" if text else ""
        self._line(f"{ending.title}{evaluation}{said}")
        if ending.work:
            self._line(f"  {one_line(ending.work, LINE)}")
        if ending.tone == "question":
            for line in sanitize(ending.text).split("\n"):
                self._line(f"  {line}")
        for issue in ending.pending:
            self._line(f"  still open: {one_line(issue, LINE)}")
        if self._narrator.actions:
            self._line(f"  actions: {actions_line(self._narrator.actions)}")
        self._line(f"  {usage_line(outcome)}")
        if (saved := self._saved()) and str(saved):
            self._line(f"  the cut saved {saved}")
        for advice in ending.advice:
            self._line(f"  {advice}")
        if ending.go_on:
            self._line(f"  {ending.go_on}", whole=True)
        if self._recorded is not None and not ending.is_asked:
            path = self._recorded.path
            self._line(f"  recorded in {path}; replay it with: endstop replay {path}", whole=True)

    def _written(self, line: str) -> None:
        if line.strip():
            self._line(f"  reasoning: {line}" if self._kind == "reasoning" else f"  {line}")

    def _line(self, text: str, *, whole: bool = False) -> None:
        print_plain(text, whole=whole)


_IN_ASCII = str.maketrans({"·": "-", "…": "...", "→": "->", "•": "-", "≠": "!=", "▸": ">", "✉": "", "▏": ""})
"""Replacements for the signs of the views if stderr is not UTF-8. Everything else that it cannot show is escaped."""


def speaks_unicode() -> bool:
    """Return whether stderr is encoded as UTF-8."""
    return (getattr(sys.stderr, "encoding", None) or "").lower().replace("-", "") == "utf8"


def print_plain(text: str, *, whole: bool = False) -> None:
    """Print a line to stderr; in a terminal it is broken at spaces and stays indented.

    whole: only the terminal breaks it, so that a command in it can be copied.
    """
    if not speaks_unicode():
        text = text.translate(_IN_ASCII)
    if whole or not sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
        return
    indent = text[: len(text) - len(text.lstrip(" "))]
    width = max(20, get_terminal_size((WIDTH, 24)).columns)
    first, *others = wrap(text.lstrip(" "), width - len(indent) - 2)
    print("\n".join([indent + first, *(f"{indent}  {row}" for row in others)]), file=sys.stderr, flush=True)
