"""The live view of a run in a terminal.

Past events are printed once and scroll away like any output. Only a few lines at the bottom change: the row of text
that is being written, the running calls, and the status. So nothing flickers or is printed twice, and the scrollback
has everything. Only the completion gets a heavy frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

from ...base.sanitize import one_line, sanitize
from ...decision import Decision, Event, Outcome
from ...decision.events import RunStarted
from ...decision.messages import ResultStatus
from ...event_bus import Lagged
from ...fork import describe_origin
from ...process.streams import StdStreams
from .narrator import EventNarrator
from .rounds import Round
from .run_view import Call, Kind, RunView
from .styled_lines import Line, Shade
from .terminal import SHADES, ScreenView, spinner, styled, wrap_line, wrap_text
from .text import (
    Asking,
    EndingText,
    Recorded,
    Saved,
    Tone,
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

MEASURE = 100
"""Most columns of text and of frames around it: longer lines are hard to read. Calls, results and traces use all."""
RESULT_LINES = 6
PROMPT_LINES = 8
CALLS_SHOWN = 4
ARGUMENT = 48
"""Characters of each argument that are shown at least, if there is room for them."""

_TONES: dict[Tone, tuple[str, str, box.Box]] = {
    "success": ("green", "✔", box.HEAVY),
    "doubt": ("yellow", "!", box.HEAVY),
    "limit": ("yellow", "■", box.ROUNDED),
    "failure": ("red", "✘", box.ROUNDED),
    "cancelled": ("magenta", "■", box.ROUNDED),
    "question": ("blue", "?", box.ROUNDED),
}
_RESULTS: dict[ResultStatus | Literal["returned"], tuple[str, str, str]] = {
    "returned": ("dim", "●", ""),
    "ok": ("green", "●", ""),
    "error": ("red", "●", "failed"),
    "rejected": ("yellow", "●", "handed back"),
    "invalid": ("red", "●", "not valid"),
    "truncated": ("red", "●", "cut off"),
    "skipped": ("dim", "○", "not run"),
    "cancelled": ("dim", "○", "cancelled"),
    "unknown": ("yellow", "○", "outcome unknown"),
    "unanswered": ("dim", "○", "unanswered"),
    "denied": ("yellow", "○", "denied"),
}


class LiveView(ScreenView, RunView):
    """View of a run in the terminal at `std_streams.stderr`."""

    def __init__(
        self,
        std_streams: StdStreams,
        *,
        explain: bool,
        saved: Saved,
        recorded: Recorded | None = None,
        asking: Asking | None = None,
    ) -> None:
        super().__init__(std_streams, self._bottom, self._printed)
        self._saved = saved
        self._recorded = recorded
        self._narrator = EventNarrator(self, explain=explain, recorded=recorded, asking=asking)
        self._heard = monotonic()
        self._waiting: Sequence[str] = ()
        self._writing: _Writing | None = None
        self._block = ""
        """The kind of the last printed block: blocks of different kinds are separated by a blank line."""

    def show(self, event: Event | Lagged) -> None:
        """Show one more event."""
        self._screen.open()
        with self._screen.drawing:
            self._heard = monotonic()
            self._narrator.feed(event)

    def skip(self, events: Sequence[Event], *, inside: bool = False) -> None:
        """Process events without showing them."""
        self._screen.open()
        with self._screen.drawing:
            self._heard = monotonic()
            self._narrator.skip(events, inside=inside)

    def set_explain(self, on: bool) -> None:
        """Set whether decisions are shown from now on, each with every rule that was considered."""
        self._narrator.explain = on

    def print_lines(self, draw: Callable[[int], Iterable[Line]]) -> None:
        """Print lines that belong to no event."""
        self._screen.open()
        with self._screen.drawing:
            self.end_writing()
            rows = map(styled, draw(self._width))
            self._print(Text("\n", no_wrap=True, overflow="ellipsis").join(rows), "said")

    def show_prompt(self, lines: Sequence[str]) -> None:
        """Show what the user is asked for instead of the status line."""
        with self._screen.drawing:
            self._waiting = lines
            if self._screen.is_open:
                self._screen.refresh()

    # ---- called by the narrator

    def begin(self, started: RunStarted) -> None:
        """Print the prompt, the model, the policy and its limits."""
        shown: list[RenderableType] = []
        if started.prompt:
            lines, more = first_lines(started.prompt, PROMPT_LINES)
            shown.append(Text("\n".join(lines), style="bold"))
            if more:
                shown.append(Text(f"… {counted(more, 'more line')}", style="dim"))
        policy = started.policy
        facts: tuple[str, ...] = (
            started.model,
            f"policy {policy.name}",
            f"up to {steps_text(policy.limits)}" if policy.limits.steps else steps_text(policy.limits),
        )
        facts = (*facts, *limit_texts(policy))
        shown.append(Text(one_line(" · ".join(facts), MEASURE), style="dim"))
        if started.origin is not None:
            shown.append(Text(one_line(describe_origin(started.origin), MEASURE), style="dim"))
        panel = Panel(Group(*shown), box=box.ROUNDED, border_style="dim", padding=(0, 2), width=self._measure)
        self._print(panel, "run")

    def step(self, number: int, closing: bool) -> None:
        """Print a horizontal rule with the step, and what was used so far."""
        left = " closing step " if closing else f" step {number}{self._narrator.of_allowed} "
        used = self._narrator.usage_parts(self._narrator.t)
        timed = self._narrator.policy.limits.seconds is not None
        elapsed = self._narrator.t + self._narrator.facts.carried_ms
        parts = list(used if timed else (*used, duration(elapsed))) if self._narrator.facts.usage.input_tokens else []
        room = self._measure - 4 - cell_len(left) - 2  # for the rule at the left, at the right and between
        while parts and cell_len(f" {' · '.join(parts)} ") > room:
            parts.pop()
        right = f" {' · '.join(parts)} " if parts else ""
        rule = "─" * max(2, self._measure - 4 - cell_len(left) - cell_len(right))
        self._print(Text(f"──{left}{rule}{right}──", style="dim", no_wrap=True, overflow="crop"), "step")

    def write(self, kind: Kind, delta: str) -> None:
        """Print rows that are full; the last row stays in the region."""
        if self._writing is None or self._writing.kind != kind:
            self.end_writing()
            self._writing = _Writing(kind)
        for row in self._writing.feed(delta, self._measure - 4):
            self._print_row(kind, row)

    def end_writing(self) -> None:
        """Print the last row."""
        if self._writing is not None and self._writing.row.strip():
            row, self._writing.row = self._writing.row, ""
            self._print_row(self._writing.kind, row)
        self._writing = None

    def call(self, call: Call) -> None:
        """Print the call in a line, and the beginning of its result below."""
        style, glyph, word = _RESULTS[call.shown_status]
        word = call.word or word
        if call.kind == "completion" and call.status == "ok":
            style = "dim"  # an accepted call says nothing about the work
        took = duration(call.ended - call.began) if call.running and call.ended - call.began >= 100 else ""
        head = self._call_line(call, Text(glyph, style=style), " · ".join(part for part in (word, took) if part))
        lines, more = first_lines(call.result, RESULT_LINES)
        if style == "red":
            body = Text("\n".join(lines), style="red")
        else:
            body = Text("\n".join(lines), style="dim", no_wrap=True, overflow="ellipsis")
        shown: list[RenderableType] = [head]
        if body.plain.strip():
            shown.append(Padding(body, (0, 0, 0, 4)))
        if more:
            shown.append(Padding(Text(f"… {counted(more, 'more line')}", style="dim italic"), (0, 0, 0, 4)))
        self._print(Group(*shown), "call")

    def thought(self, text: str) -> None:
        """Print the thought in a frame."""
        self._print(self._card("◇ think", [Text(sanitize(text).strip())]), "think")

    def round(self, round: Round) -> None:
        """Print the round in a frame: the plan with the result of each step, and the thought about it."""
        shown: list[RenderableType] = []
        for step in round.steps:
            style, glyph, word = _RESULTS.get(step.status, ("dim", "○", step.status or "not run"))  # type: ignore[call-overload]
            line = Text.assemble((glyph, style), f" {step.call}", (f"  {word}" if word else "", "dim"))
            line.no_wrap, line.overflow = True, "ellipsis"
            shown.append(line)
            if result := one_line(step.result, MEASURE):
                shown.append(Padding(Text(result, style="dim", no_wrap=True, overflow="ellipsis"), (0, 0, 0, 4)))
        if round.thought.strip():
            thought = Text.assemble(("◇ ", "bold blue"), sanitize(round.thought).strip())
            shown += [Text(""), thought] if shown else [thought]
        done = [f"{round.percentage} % reported as done"] if round.percentage is not None else []
        following = [f"next: {one_line(round.next, 200)}"] if round.next else []
        if done or following:
            shown.append(Text(", ".join([*done, *following]), style="dim"))
        goal = f" · {one_line(round.goal, 60)}" if round.goal else ""
        self._print(self._card(f"round {round.number}{goal}", shown), "think")

    def _card(self, title: str, shown: Sequence[RenderableType]) -> Panel:
        return Panel(
            Group(*shown),
            title=Text(title, style="bold blue"),
            title_align="left",
            box=box.ROUNDED,
            border_style="blue",
            padding=(0, 2),
            width=self._measure,
        )

    def phase(self, percentage: int, summary: str, next_phase: str | None) -> None:
        """Print the reported percentage as a bar."""
        full = round(20 * min(100, max(0, percentage)) / 100)
        bar = Text.assemble(("  ◔ ", "blue"), ("━" * full, "blue"), ("━" * (20 - full), "dim"))
        bar.append(f" {percentage} % reported as done", style="bold")
        shown: list[RenderableType] = [bar]
        if summary.strip():
            shown.append(Padding(Text(sanitize(summary).strip()), (0, 0, 0, 4)))
        if next_phase:
            shown.append(Padding(Text(f"next: {one_line(next_phase, 200)}", style="dim"), (0, 0, 0, 4)))
        self._print(Constrain(Group(*shown), self._measure), "phase")

    def note(self, text: str, shade: Shade, body: Sequence[str] = ()) -> None:
        """Print the note in its colour, and its body."""
        shown: list[RenderableType] = [Constrain(Padding(Text(text, style=SHADES[shade]), (0, 0, 0, 2)), self._measure)]
        under = Text("\n".join(body), style="dim", no_wrap=True, overflow="ellipsis")
        if body:
            shown.append(Padding(under, (0, 0, 0, 6)))
        self._print(Group(*shown), "note")

    def cut(self, words: str) -> None:
        """Print the cut below the call at which the response was cut."""
        line = Text.assemble(("✂ ", SHADES["loop"]), words)
        self._print(Constrain(Padding(line, (0, 0, 0, 2)), self._measure), "call")

    def decided(self, round: int, decision: Decision) -> None:
        """Print the decision, and each rule that was considered."""
        head = Text.assemble("  ⚖ ", (f"round {round}: ", "dim"), (str(decision), "bold"))
        shown: list[RenderableType] = [head]
        for rule, saw, verdict in trace_lines(decision):
            line = Text(no_wrap=True, overflow="ellipsis")
            line.append(f"    {rule:<22}", style="" if verdict else "dim")
            line.append(verdict or "·", style="bold" if verdict else "dim")
            if saw and not verdict:
                line.append(f"   {saw}", style="dim")
            shown.append(line)
            if saw and verdict:
                shown.append(Padding(Text(saw, style="dim"), (0, 0, 0, 6)))
        self._print(Group(*shown), "decision")

    def end(self, ending: EndingText, outcome: Outcome) -> None:
        """Print how the run ended; the frame is heavy if the work was reported as done, green if nothing is wrong."""
        colour, glyph, frame = _TONES[ending.tone]
        shown: list[RenderableType] = []
        if ending.work:
            shown.append(Text(one_line(ending.work, 400), style=_TONES[ending.work_tone][0]))
        if ending.text.strip() and not ending.answered_above:
            shown.append(Text(sanitize(f"\n{ending.text}" if shown else ending.text).rstrip()))
        if ending.pending:
            issues = "\n".join(f"• {one_line(issue, 400)}" for issue in ending.pending)
            shown += [Text("\nstill open", style="bold yellow"), Text(issues)]
        if ending.advice:
            shown.append(Text(""))
            shown += [Text.assemble(("→ ", colour), advice) for advice in ending.advice]
        if shown:
            shown.append(Text(""))
        if self._narrator.actions:
            shown.append(Text.assemble(("actions  ", "dim"), actions_line(self._narrator.actions)))
        shown.append(Text(usage_line(outcome), style="dim"))
        if (saved := self._saved()) and str(saved):
            shown.append(Text.assemble(("the cut saved ", "dim"), (str(saved), "green")))
        title = Text(f"{glyph} {ending.title}", style=f"bold {colour}")
        panel = Panel(
            Group(*shown),
            title=title,
            title_align="left",
            box=frame,
            border_style=colour,
            padding=(1 if len(shown) > 1 else 0, 2),
            width=self._measure,
        )
        self._print(panel, "end")
        below = [Text.assemble(("→ ", colour), ending.go_on)] if ending.go_on else []
        if self._recorded is not None and not ending.is_asked:
            below.append(Text(f"recorded · endstop replay {self._recorded.path}", style="dim"))
        for line in below:
            self._print(line, "recorded", whole=True)

    # ---- the screen

    @property
    def _width(self) -> int:
        return max(20, self._screen.console.width)

    @property
    def _measure(self) -> int:
        return min(MEASURE, self._width)

    def _print(self, what: RenderableType, block: str, *, whole: bool = False) -> None:
        """Print above the region, with a blank line before a block of another kind.

        whole: only the terminal breaks a line that is too long, so that it can be copied unchanged.
        """
        apart = block == "end" or (self._block != "step" and (block != self._block or block in ("think", "run")))
        with self._screen.drawing:
            if self._block and apart:
                what = Group(Text(""), what)
            self._block = block
            self._screen.console.print(what, width=None if whole else self._width, soft_wrap=whole)

    def _print_row(self, kind: Kind, row: str) -> None:
        self._print(Text(f"  {row}", style="dim italic" if kind == "reasoning" else "", no_wrap=True), kind)

    def _printed(self, line: str) -> None:
        self._print(Text(f"  ¦ {sanitize(line)}", style="dim", no_wrap=True, overflow="ellipsis"), "printed")

    def _call_line(self, call: Call, glyph: Text, right: str) -> Text:
        line = Text("  ", no_wrap=True, overflow="ellipsis")
        line.append_text(glyph)
        line.append(f" {one_line(call.name, 60)}", style="bold")
        room = self._width - (cell_len(right) + 2 if right else 0)
        share = (room - line.cell_len) // max(1, len(arguments(call.arguments, 1)))
        for name, value in arguments(call.arguments, max(ARGUMENT, share - ARGUMENT // 2)):
            line.append(f"  {name}=" if name else "  ", style="dim")
            line.append(value)
        if line.cell_len > room:
            line.truncate(room - 1)
            line.rstrip()
            line.append("" if line.plain.endswith("…") else "…")
        if right:
            line.append("  " + right, style="dim")
        return line

    def _bottom(self) -> RenderableType:
        """Return the region: the row being written, the running calls and the status."""
        shown: list[RenderableType] = []
        writing = self._writing
        if writing is not None and writing.row.strip():
            style = "dim italic" if writing.kind == "reasoning" else ""
            if self._block not in ("", "step", writing.kind):
                shown.append(Text(""))
            shown.append(Text(f"  {writing.row}", style=style, no_wrap=True, overflow="crop"))
        calls = list(self._narrator.calls.values())
        if calls and not shown and self._block not in ("call", "step", ""):
            shown.append(Text(""))
        shown += [self._call_line(call, Text("○", style="dim"), _state(call)) for call in calls[:CALLS_SHOWN]]
        if len(calls) > CALLS_SHOWN:
            shown.append(Text(f"    and {len(calls) - CALLS_SHOWN} more", style="dim"))
        return Group(*shown, Text(""), self._foot() if self._waiting and not self._stopping else self._status())

    def _foot(self) -> Text:
        """Return the lines that ask the user for something, the most important first."""
        first, *others = [row for line in self._waiting for row in wrap_text(line, self._measure - 4)]
        return Text("\n").join(
            [Text(f"  {first}", style="bold blue"), *(Text(f"  {row}", style="dim") for row in others)]
        )

    def _status(self) -> Text:
        narrator = self._narrator
        if self._stopping:
            doing, style = "stopping · press Ctrl-C again to exit at once", "magenta"
        else:
            doing, style = narrator.activity, ""
        line = Text(f"  {spinner(monotonic())} ", no_wrap=True)
        line.append(doing, style=style)
        if narrator.facts.steps:
            line.append(f" · step {narrator.facts.steps}{narrator.of_allowed}", style="dim")
        for part in narrator.usage_parts(narrator.t + round((monotonic() - self._heard) * 1000)):
            line.append(f" · {part}", style="dim")
        line.truncate(self._width - 4, overflow="ellipsis")  # leaves room for the ^C that the terminal prints
        return line


class _Writing:
    """Streamed text: it yields the full rows and keeps the row that is being written."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.row = ""
        self._begun = False

    def feed(self, delta: str, width: int) -> Iterator[str]:
        """Yield the rows that are now full, without blank rows before the first word."""
        *lines, self.row = (self.row + sanitize(delta)).split("\n")
        for line in lines:
            if self._begun or line.strip():
                self._begun = True
                yield from wrap_line(line, width)
        *rows, self.row = wrap_line(self.row, width)
        self._begun = self._begun or bool(rows)
        yield from rows


def _state(call: Call) -> str:
    if call.running:
        return "running"
    return "" if call.kind == "ordinary" else {"completion": "finishing"}.get(call.kind, "")
