"""The live view: a run as people watch it in a terminal.

What has happened is printed once and scrolls like any output. Only the few lines at the bottom change: the row of
text that is being written, the calls that are under way, and the status. So nothing flickers, nothing is printed
twice, and the scrollback tells the whole story. The completion gets the one heavy frame of the screen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.live import Live as Region
from rich.padding import Padding
from rich.panel import Panel
from rich.spinner import Spinner
from rich.text import Text

from ...decision import Event, Outcome, Usage
from ...decision import events as ev
from ...decision.messages import ResultStatus, ToolKind
from ..bus import Lagged
from .channels import Channels
from .clean import arguments, clean, first_lines, one_line
from .phrases import Ending, Tone, cost, duration, ending_of, figures, tokens
from .trace import trace_lines
from .views import Saved

WIDEST = 100
"""Columns that are used of a wider terminal: longer lines are hard to read."""
RESULT_LINES = 6
PROMPT_LINES = 8
WAITING_SHOWN = 4

_TONES: dict[Tone, tuple[str, str, box.Box]] = {
    "success": ("green", "✔", box.HEAVY),
    "limit": ("yellow", "■", box.ROUNDED),
    "failure": ("red", "✘", box.ROUNDED),
    "cancelled": ("magenta", "◼", box.ROUNDED),
    "question": ("blue", "?", box.ROUNDED),
}
_RESULTS: dict[ResultStatus, tuple[str, str, str]] = {
    "ok": ("green", "●", ""),
    "error": ("red", "●", "failed"),
    "rejected": ("yellow", "●", "handed back"),
    "invalid": ("red", "●", "not valid"),
    "truncated": ("red", "●", "cut off"),
    "skipped": ("dim", "○", "skipped"),
    "cancelled": ("dim", "○", "cancelled"),
    "unknown": ("yellow", "○", "outcome unknown"),
    "unanswered": ("dim", "○", "unanswered"),
}


class _Terminal(Console):
    """A console on a descriptor of its own, which asks that descriptor for its size."""

    def __init__(self, descriptor: int) -> None:
        file = open(descriptor, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        super().__init__(file=file, highlight=False, markup=False, emoji=False)

    @property
    def size(self) -> ConsoleDimensions:
        try:
            return ConsoleDimensions(*os.get_terminal_size(self.file.fileno()))
        except OSError:
            return ConsoleDimensions(80, 25)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        pass


class _Call:
    """A call that has no result yet."""

    def __init__(self, name: str, kind: ToolKind) -> None:
        self.name = name
        self.kind = kind
        self.written: list[str] = []
        self.began = 0
        self.running = False


class _Writing:
    """Text as it streams in: whole rows come out, the row that is being written stays."""

    def __init__(self, kind: Literal["text", "reasoning"]) -> None:
        self.kind = kind
        self.row = ""
        self._began = False

    def feed(self, delta: str, width: int) -> Iterator[str]:
        """The rows that this makes whole."""
        *lines, self.row = (self.row + clean(delta)).split("\n")
        for line in lines:
            if line.strip() or self._began:
                self._began = True
                yield from _wrapped(line, width)
        *rows, self.row = _wrapped(self.row, width)
        yield from rows
        self._began = self._began or bool(rows)


class Live:
    """Shows a run in the terminal that `channels.stderr` is."""

    def __init__(self, channels: Channels, *, explain: bool, saved: Saved, record: str | None = None) -> None:
        self.tells_answer = channels.answers_to_terminal
        self._channels = channels
        self._explain = explain
        self._saved = saved
        self._record = record
        self._console = _Terminal(channels.stderr)
        self._region = Region(
            get_renderable=self._bottom,
            console=self._console,
            refresh_per_second=12,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._spinner = Spinner("dots")
        self._open = False
        self._kinds: dict[str, ToolKind] = {}
        self._calls: dict[str, _Call] = {}
        self._writing: _Writing | None = None
        self._last_block = ""
        self._doing = "starting"
        self._step = 0
        self._allowed = 0
        self._usage = Usage()
        self._time = 0
        self._failure_kind = ""
        self._stopping = False

    # ---- what others call

    def show(self, event: Event | Lagged) -> None:
        """Show one more event."""
        if not self._open:
            self._open = True
            self._channels.catch(self._printed)
            self._region.start()
        if isinstance(event, Lagged):
            self._note(f"… {event.missed:,} events were not shown: the terminal was too slow", "dim")
            return
        self._time = event.t
        self._take(event)

    def stopping(self) -> None:
        """Say that the user's wish has been heard."""
        self._stopping = True

    def close(self) -> None:
        """Leave the terminal as it was found."""
        if self._open:
            self._open = False
            self._end_writing()
            self._region.stop()
            self._channels.let_go()

    def abandon(self) -> None:
        """The least that makes the terminal usable, without waiting for anything."""
        os.write(self._channels.stderr, b"\x1b[?25h\r\n")

    # ---- events

    def _take(self, event: Event) -> None:
        match event:
            case ev.RunStarted():
                self._start(event)
            case ev.RunResumed():
                self._note("the run goes on where its process was killed", "dim")
            case ev.StepStarted():
                self._step_started(event)
            case ev.AttemptStarted():
                self._doing = "waiting for the model"
            case ev.TextMessageContent(delta=delta):
                self._write("text", delta)
            case ev.ReasoningMessageContent(delta=delta):
                self._write("reasoning", delta)
            case ev.ToolCallStart():
                self._end_writing()
                self._calls[event.call_id] = _Call(event.name, self._kinds.get(event.name, "ordinary"))
                self._doing = "writing a call"
            case ev.ToolCallArgs(call_id=id, delta=delta):
                if id in self._calls:
                    self._calls[id].written.append(delta)
            case ev.ToolExecutionStarted(call_id=id):
                if id in self._calls:
                    self._calls[id].running, self._calls[id].began = True, event.t
            case ev.ToolCallResult():
                self._result(event)
            case ev.ResponseFinished():
                self._end_writing()
                self._usage += event.usage
                self._doing = "running tools" if event.message.calls else "deciding"
            case ev.DecisionMade():
                self._decided(event)
            case ev.RunFinished(outcome=outcome):
                self._finish(outcome)
            case _:
                self._tell(event)

    def _tell(self, event: Event) -> None:
        """Events that are one note each, or nothing at all."""
        match event:
            case ev.MessageAdded(origin=origin, text=text):
                if origin != "user":
                    self._note(f"▸ {origin.replace('_', ' ')}: {one_line(text, 400)}", "magenta")
            case ev.AttemptFailed():
                self._attempt_failed(event)
            case ev.AttemptRetracted(attempt=attempt):
                self._note(f"↺ attempt {attempt} is void; another one takes its place", "yellow")
            case ev.ThoughtRecorded(text=text):
                self._think(text)
            case ev.CompletionRejected(reason=reason):
                self._note(f"↩ not accepted as complete: {one_line(reason, 400)}", "yellow")
            case ev.PhaseReported():
                self._phase(event)
            case ev.ContextCompacted(before_tokens=before, after_tokens=after):
                self._note(f"⇲ context compacted: {before:,} tokens to {after:,}", "magenta")
            case ev.ProviderToolReported(name=name):
                self._note(f"◌ {one_line(name, 60)} (run by the provider)", "dim")
            case ev.QuestionAnswered(text=text):
                self._note(f"▸ your answer: {one_line(text, 400)}", "blue")
            case ev.EvaluationFinished(verdict=verdict):
                self._note(f"evaluation: {verdict}", "green" if verdict == "passed" else "red")
            case ev.StageFinished(stage=stage, status=status, detail=detail):
                if status != "ok":
                    self._note(f"{stage}: {status} {one_line(detail, 200)}", "yellow")
            case ev.VerdictGiven(role=role, name=name, said=said):
                if self._explain:
                    self._note(f"{role} {one_line(name, 80)}: {one_line(said, 200)}", "dim")
            case _:
                pass  # told otherwise, or of no interest to people
