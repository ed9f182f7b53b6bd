"""Watching a replay from a given event on, and step by step with keys.

Also reads keys from the terminal, shows the messages of a request, and finds the event of `--from`.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType, TracebackType
from typing import Any, Literal

from ...base.sanitize import one_line
from ...decision import AssistantMessage, Event, Message, SystemMessage, ToolResult, Transcript, UserMessage, WrongUse
from ...decision import events as ev
from ...records.reader import RecordedRun, SessionRecord
from ...replay import Watcher
from ...replay.diff import Divergence, EventAddress, latest_recorded_seq
from ...run import Run
from .replay import divergence_lines
from .run_view import RunView
from .styled_lines import Line, Shade, fit, wrap
from .text import Savings, arguments, counted, first_lines, savings_of

try:
    import termios
    import tty
except ImportError:  # not on every platform
    _PLATFORM = False
else:
    _PLATFORM = True

KEYS = "Enter step · n decision · r run · g go to · m messages · e explain · q quit"
MESSAGES_SHOWN = 24
"""How many messages are shown, the newest."""
ROWS_PER_MESSAGE = 4
"""How many rows of each message are shown, the first ones."""
RUNS_LISTED = 4
"""How many runs an error lists."""
ENTER, ESCAPE, BACKSPACE = "enter", "escape", "backspace"
_NAMES = {"\r": ENTER, "\n": ENTER, "\x1b": ESCAPE, "\x7f": BACKSPACE, "\b": BACKSPACE}
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~])")
"""The bytes that a terminal sends for arrows, function keys and the like; they are ignored."""
_STDIN = 0
_PASSED_ON = ("SIGTSTP", "SIGQUIT", "SIGHUP")
"""Signals that stop or end the process: the terminal is restored before."""


class ReplayDisplay(Watcher):
    """A replay shown in a view."""

    def __init__(self, view: RunView) -> None:
        self.begun = False
        """Whether anything has been shown."""
        self.diverged: set[str] = set()
        """Runs whose divergence was shown."""
        self._view = view
        self._recorded: RecordedRun | None = None

    def begin(self, recorded: RecordedRun, run: Run, passed: Sequence[Event]) -> None:
        """Begin to show a run.

        passed: its earlier events; of these only the start of the run and the open step are shown.
        """
        self.begun, self._recorded = True, recorded
        if passed:
            self._view.skip(passed, inside=True)

    async def show(self, event: Event, run: Run) -> None:
        """Show one more event."""
        self._view.show(event)

    def diverge(self, divergence: Divergence) -> None:
        """Show both decisions where they differ."""
        assert self._recorded is not None
        self.diverged.add(self._recorded.started.run_id)
        self._view.print_lines(partial(divergence_lines, divergence))

    def saved(self) -> Savings | None:
        """Return the savings of the run's cuts, as far as its record knows them."""
        return None if self._recorded is None else savings_of(rest.chunk for rest in self._recorded.after_cut)


class RestartFrom(Exception):
    """Raised when the user goes back to an event: the replay must start again from there."""

    def __init__(self, to: EventAddress) -> None:
        super().__init__()
        self.to = to


class ReplayStepper(ReplayDisplay):
    """Display of a replay that waits for a key before each step.

    live: whether tools are really run; then the replay cannot go back. leave: called when the user quits.
    """

    def __init__(
        self, view: RunView, record: SessionRecord, *, explain: bool, live: bool, leave: Callable[[], None]
    ) -> None:
        super().__init__(view)
        self._record = record
        self._explain = explain
        self._live = live
        self._leave = leave
        self._keys: deque[str] = deque()
        self._key_pressed = asyncio.Event()
        self._until: Literal["here", "step", "decision", "run", "target"] = "step"
        """Where to stop next."""
        self._target = 0
        self._number = 0
        self._steps: dict[int, int] = {}
        """Number of the first event of each step of the recorded run, by the number of the step."""
        self._step = 0
        self._events: list[Event] = []
        """The events of the run so far."""
        self._skipped: list[Event] = []
        """Events that were not shown on the way to the target."""
        self._message = ""

    def press(self, key: str) -> None:
        """Handle a key (see `KeyReader`); "" means that stdin was closed, and quits as `q` does."""
        if key in ("q", "\x04", ""):
            self._leave()
        self._keys.append(key)
        self._key_pressed.set()

    @property
    def at(self) -> str:
        """The public id of the last event, as numbered in the record."""
        return self._id_of(self._events)

    # ---- showing

    def begin(self, recorded: RecordedRun, run: Run, passed: Sequence[Event]) -> None:
        """Begin to step through a run. passed: as in `ReplayDisplay.begin`."""
        super().begin(recorded, run, passed)
        self._number = next(n for n, one in enumerate(self._record.runs) if one is recorded)
        self._steps = {e.step: e.seq for e in recorded.events if isinstance(e, ev.StepStarted)}
        self._events, self._skipped = list(passed), []
        self._step = max((e.step for e in passed if isinstance(e, ev.StepStarted)), default=0)
        self._until = "here" if passed else "step" if self._until != "decision" else "decision"

    async def show(self, event: Event, run: Run) -> None:
        """Show one more event, after waiting for a key if it is time to stop."""
        if self._stops_before(event):
            self._show_skipped()
            await self._stop(event)
        if isinstance(event, ev.StepStarted):
            self._step = event.step
        self._events.append(event)
        if self._until == "target" and not isinstance(event, ev.RunFinished):
            self._skipped.append(event)
            return
        self._show_skipped()
        await super().show(event, run)
        if isinstance(event, ev.DecisionMade) and self._until == "decision":
            self._view.set_explain(self._explain)
            self._until = "step"

    def diverge(self, divergence: Divergence) -> None:
        """Show both decisions, and stop before the next step."""
        self._show_skipped()
        self._until = "step"
        super().diverge(divergence)

    def _stops_before(self, event: Event) -> bool:
        if self._until == "here":
            return True
        if not isinstance(event, ev.StepStarted):
            return False
        return self._until == "step" or (self._until == "target" and event.step >= self._target)

    def _show_skipped(self) -> None:
        if self._skipped:
            self._view.skip(self._skipped)
            self._skipped = []

    # ---- the keys

    async def _stop(self, event: Event) -> None:
        ahead = event if isinstance(event, ev.StepStarted) else None
        while True:
            self._view.show_prompt((self._position(event, ahead), KEYS))
            self._message = ""
            match await self._key():
                case "enter" | " ":
                    self._until = "step"
                case "n":
                    self._until = "decision"
                    self._view.set_explain(True)
                case "r":
                    self._until = "run"
                case "g":
                    if not await self._go_to(ahead):
                        continue
                case "e":
                    self._explain = not self._explain
                    self._view.set_explain(self._explain)
                    continue
                case "m":
                    self._show_messages(ahead)
                    continue
                case _:
                    continue
            self._view.show_prompt(())
            return

    async def _key(self) -> str:
        while not self._keys:
            self._key_pressed.clear()
            await self._key_pressed.wait()
        return self._keys.popleft()

    def _position(self, event: Event, ahead: ev.StepStarted | None) -> str:
        last = max(self._steps, default=0)
        if ahead is None:
            place = f"at event {self._id_of([*self._events, event])}" + (
                f", step {self._step} of {last}" if self._step else ""
            )
        elif ahead.closing:
            place = "before the closing step"
        else:
            place = f"before step {ahead.step} of {last}"
        runs = len(self._record.runs)
        parts = [place, f"run {self._number + 1} of {runs}" if runs > 1 else "", "explain on" if self._explain else ""]
        return " · ".join(part for part in (*parts, self._message) if part)

    def _id_of(self, events: Sequence[Event]) -> str:
        if self._recorded is None:
            return "the beginning"
        return f"{one_line(self._recorded.started.run_id, 100)}:{latest_recorded_seq(self._recorded, events)}"

    def _show_messages(self, ahead: ev.StepStarted | None) -> None:
        messages = request_messages(self._record.runs[: self._number], self._events)
        step = ahead.step if ahead is not None else self._step
        self._view.print_lines(partial(message_lines, messages, step))

    async def _go_to(self, ahead: ev.StepStarted | None) -> bool:
        """Ask for a step and go to it; False to stay. Raises RestartFrom if the step is in the past."""
        typed = ""
        while (key := await self._ask_key(typed)) != ENTER:
            if key == ESCAPE:
                return False
            typed = typed[:-1] if key == BACKSPACE else (typed + key)[:9] if key in "0123456789" else typed
        step = int(typed or 0)
        if step not in self._steps:
            self._message = f"this run has steps {min(self._steps)} to {max(self._steps)}" if self._steps else ""
            return False
        if step > self._step:
            if ahead is None or step != ahead.step:
                self._until, self._target = "target", step
                return True
            return False
        if self._live:
            self._message = "tools were really run: cannot go back"
            return False
        raise RestartFrom(EventAddress(run=self._number, seq=self._steps[step]))

    async def _ask_key(self, typed: str) -> str:
        self._view.show_prompt((f"go to step {typed}▏", "Enter go · Esc cancel"))
        return await self._key()


# ---- keys


def check_terminal(stderr: int) -> None:
    """Refuse `--step` unless keys can be read and the view be seen. Raises WrongUse."""
    if not _PLATFORM:
        raise WrongUse("--step needs termios, which this platform does not have: leave it out")
    missing = [name for name, descriptor in (("stdin", _STDIN), ("stderr", stderr)) if not os.isatty(descriptor)]
    if missing:
        raise WrongUse(
            f"--step needs a terminal, but {' and '.join(missing)} "
            f"{'is not one' if len(missing) == 1 else 'are not'}: leave it out"
        )


class KeyReader:
    """A context that reads keys from the terminal on stdin, in the event loop.

    `pressed` is called with each key: a character in lower case, or `enter`, `escape`, `backspace`; with "" when
    stdin is closed. `restore_terminal` is called before a signal stops or ends the process.
    """

    def __init__(self, pressed: Callable[[str], None], restore_terminal: Callable[[], None]) -> None:
        self._pressed = pressed
        self._restore_terminal = restore_terminal
        self._settings: Any = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> KeyReader:
        self._settings = termios.tcgetattr(_STDIN)
        for number in (getattr(signal, name) for name in _PASSED_ON):
            if signal.getsignal(number) is signal.SIG_DFL:
                self._before[number] = signal.signal(number, self._pass_on)
        self._read_unbuffered()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(_STDIN, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.remove_reader(_STDIN)
        self.restore()
        for number, before in self._before.items():
            signal.signal(number, before)

    def restore(self) -> None:
        """Restore the settings of the terminal. Keys not read yet are dropped: they were not meant for the shell.

        Does not wait: with `TCSAFLUSH`, a signal during the wait for pending output would undo it.
        """
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(_STDIN, termios.TCSANOW, self._settings)
            termios.tcflush(_STDIN, termios.TCIFLUSH)

    def _read_unbuffered(self) -> None:
        tty.setcbreak(_STDIN, termios.TCSANOW)

    def _read(self) -> None:
        try:
            block = os.read(_STDIN, 1024)
        except OSError:  # on Linux, the terminal is gone
            block = b""
        if not block:
            self._loop.remove_reader(_STDIN)
            self._pressed("")
        for character in _SEQUENCES.sub("", block.decode("utf-8", "ignore")):
            self._pressed(_NAMES.get(character, character.lower()))

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Restore the terminal, then let the signal take effect; continue after a stop."""
        self.restore()
        self._restore_terminal()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, self._pass_on)
        self._read_unbuffered()


# ---- the event of --from


def find_event(record: SessionRecord, name: str) -> EventAddress:
    """Find the event of `--from`: SEQ or RUN:SEQ, where RUN is a run's id or number, from 1. Raises WrongUse."""
    run, _, seq = name.rpartition(":")
    if not (seq.isascii() and seq.isdigit()):
        raise WrongUse(f"--from {name}: give the number of an event, as in --from 12, or RUN_ID:SEQ")
    number = _number_of(record, run, name)
    events = record.runs[number].events
    if not events[0].seq <= int(seq) <= events[-1].seq:
        raise WrongUse(f"--from {name}: {_range(record.runs[number])}")
    return EventAddress(run=number, seq=int(seq))


def event_id(record: SessionRecord, beginning: EventAddress) -> str:
    """Return the public id of the event."""
    return f"{one_line(record.runs[beginning.run].started.run_id, 100)}:{beginning.seq}"


def _number_of(record: SessionRecord, run: str, name: str) -> int:
    runs = record.runs
    if not run and len(runs) == 1:
        return 0
    if not run:
        raise WrongUse(
            f"--from {name}: the record holds {counted(len(runs), 'run')}, so give one as RUN_ID:SEQ: {_ranges(runs)}"
        )
    for number, recorded in enumerate(runs):
        if recorded.started.run_id == run:
            return number
    if run.isascii() and run.isdigit() and 1 <= int(run) <= len(runs):
        return int(run) - 1
    raise WrongUse(f"--from {name}: the record has no run {run}: {_ranges(runs)}")


def _ranges(runs: list[RecordedRun]) -> str:
    more = f"; and {counted(len(runs) - RUNS_LISTED, 'run')} more" if len(runs) > RUNS_LISTED else ""
    return "; ".join(map(_range, runs[:RUNS_LISTED])) + more


def _range(run: RecordedRun) -> str:
    return f"{one_line(run.started.run_id, 100)} has events {run.events[0].seq} to {run.events[-1].seq}"


# ---- the messages of a request


_WHO: dict[type, tuple[str, Shade]] = {
    SystemMessage: ("system", "quiet"),
    UserMessage: ("user", "user"),
    AssistantMessage: ("model", "strong"),
    ToolResult: ("result", "quiet"),
}


def request_messages(before: Sequence[RecordedRun], events: Sequence[Event]) -> list[Message]:
    """Return the messages of the request of the step that is open after these events, or else of the next step.

    `before`: the earlier runs of the session.
    """
    transcript = Transcript()
    for run in before:
        for event in run.events:
            transcript.feed(event)
    bounds = [n for n, event in enumerate(events) if isinstance(event, ev.StepStarted | ev.StepFinished)]
    inside = bool(bounds) and isinstance(events[bounds[-1]], ev.StepStarted)
    sent = events[: bounds[-1]] if inside else events
    once: list[Message] = []
    for event in sent:
        transcript.feed(event)
        if isinstance(event, ev.MessageAdded) and event.ephemeral:
            once.append(UserMessage(event.text))
        elif isinstance(event, ev.ResponseFinished):
            once = []
    return [*transcript.messages, *once]


def message_lines(messages: Sequence[Message], step: int, width: int) -> Iterator[Line]:
    """Yield the messages in lines of this width."""
    yield [("  ✉ ", "user"), (f"{counted(len(messages), 'message')} for step {step}", "strong")]
    if len(messages) > MESSAGES_SHOWN:
        yield [(f"    … {counted(len(messages) - MESSAGES_SHOWN, 'earlier message')}", "quiet")]
    for message in messages[-MESSAGES_SHOWN:]:
        who, shade = _WHO[type(message)]
        for number, row in enumerate(_rows(message, width - 14)):
            yield [
                (f"    {who:<8}  " if number == 0 else " " * 14, shade),
                (row, None if shade != "quiet" else "quiet"),
            ]


def _rows(message: Message, width: int) -> list[str]:
    match message:
        case AssistantMessage():
            calls = [f"{one_line(call.name, 40)}({_arguments(call.arguments)})" for call in message.calls]
            rows = [*(_text(message.text, width) if message.text.strip() else []), *(fit(c, width) for c in calls)]
            return rows or [""]
        case ToolResult():
            status = "" if message.status == "ok" else f" ({message.status})"
            return [fit(one_line(f"of {message.name}{status}", 200), width), *_text(message.content, width)]
        case SystemMessage(text) | UserMessage(text):
            return _text(text, width)


def _text(text: str, width: int) -> list[str]:
    lines, more = first_lines(text, ROWS_PER_MESSAGE)
    rows = [row for line in lines for row in wrap(line, width)]
    if len(rows) > ROWS_PER_MESSAGE:
        rows, more = rows[:ROWS_PER_MESSAGE], 0
        rows[-1] = fit(rows[-1] + " …", width)
    return [*rows, f"… {counted(more, 'more line')}"] if more else rows


def _arguments(written: str) -> str:
    return ", ".join(f"{name}={value}" if name else value for name, value in arguments(written, 60))
