"""The terminal of live views: a screen with a redrawn region at the bottom, and text wrapped to rows."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator

from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.text import Text

from ...process.streams import StdStreams
from .run_view import View
from .styled_lines import Line, Shade

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
REFRESHES = 12
"""How often the region is redrawn, per second."""
SHADES: dict[Shade, str] = {
    "quiet": "dim",
    "loop": "magenta",
    "good": "green",
    "warning": "yellow",
    "bad": "red",
    "user": "blue",
    "strong": "bold",
}
"""The rich style of each shade."""


class _DrawnRegion:
    """Renderable that draws the region when rich asks for it."""

    def __init__(self, draw: Callable[[], RenderableType]) -> None:
        self._draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._draw()


class Terminal(Console):
    """A rich console on a file descriptor; the descriptor gives its size."""

    def __init__(self, descriptor: int) -> None:
        file = open(descriptor, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        super().__init__(file=file, highlight=False, markup=False, emoji=False)

    @property
    def size(self) -> ConsoleDimensions:
        """Columns and lines, now."""
        try:
            columns, lines = os.get_terminal_size(self.file.fileno())
        except OSError:
            columns = lines = 0
        return ConsoleDimensions(columns or 80, lines or 25)  # 0 if unknown

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        """Ignore the size: only the terminal decides."""


class LiveScreen:
    """A terminal with a redrawn region at the bottom; printed text scrolls away above it.

    `draw` returns the region. `printed` gets each line that a tool or a library prints to stdout or stderr while the
    screen is open. Both are called from threads, one at a time, with the lock `drawing` held.
    """

    def __init__(
        self, std_streams: StdStreams, draw: Callable[[], RenderableType], printed: Callable[[str], None]
    ) -> None:
        self.console = Terminal(std_streams.stderr)
        self.is_open = False
        self.drawing = threading.RLock()
        """Held while anything is drawn, or changed that is drawn. Rich's own lock is not enough: a refresh can come
        between its measuring and its printing."""
        self._std_streams = std_streams
        self._printed = printed
        self._closing = threading.Event()
        self._region = Live(
            _DrawnRegion(draw),
            console=self.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    def open(self) -> None:
        """Begin to draw, and to pass what is printed to stdout or stderr to `printed`. Does nothing if it is open."""
        if not self.is_open:
            self.is_open = True
            self._std_streams.capture(self._caught)
            self._region.start()
            threading.Thread(target=self._refresh, name="endstop view", daemon=True).start()

    def close(self) -> None:
        """Remove the region and leave the terminal as it was found."""
        if self.is_open:
            self._std_streams.stop_capture()
            self.is_open = False
            self._closing.set()
            with self.drawing:
                self._region.stop()

    def refresh(self) -> None:
        """Draw the region now."""
        self._region.refresh()

    def restore_terminal(self) -> None:
        """Make the terminal usable, without waiting for anything."""
        os.write(self._std_streams.stderr, b"\x1b[?25h\r\n")

    def _refresh(self) -> None:
        while not self._closing.wait(1 / REFRESHES):
            with self.drawing:
                if self.is_open:
                    self._region.refresh()

    def _caught(self, line: str) -> None:
        with self.drawing:
            if self.is_open:
                self._printed(line)


class ScreenView(View):
    """A view that draws on a `LiveScreen`."""

    def __init__(
        self, std_streams: StdStreams, draw: Callable[[], RenderableType], printed: Callable[[str], None]
    ) -> None:
        self.shows_answer = std_streams.stdout_is_terminal
        self._screen = LiveScreen(std_streams, draw, printed)
        self._stopping = False

    def show_stopping(self) -> None:
        """Show that the run is being stopped."""
        self._stopping = True

    def restore_terminal(self) -> None:
        """Make the terminal usable, without waiting for anything."""
        self._screen.restore_terminal()

    def close(self) -> None:
        """Leave the terminal as it was found."""
        self._screen.close()


def styled(line: Line) -> Text:
    """Return the line with the styles of its shades."""
    return Text.assemble(*((text, SHADES[shade] if shade else "") for text, shade in line))


def print_styled(descriptor: int, lines: Iterable[Line]) -> None:
    """Print lines to the terminal of this descriptor, which breaks those that are too long."""
    console = Terminal(descriptor)
    for line in lines:
        console.print(styled(line), soft_wrap=True)


def spinner(now: float) -> str:
    """Return the character of the spinner at this time, in seconds."""
    return _SPINNER[int(now * REFRESHES) % len(_SPINNER)]


def wrap_text(text: str, width: int) -> Iterator[str]:
    """Yield the text in rows of at most `width` cells."""
    for line in text.split("\n"):
        yield from wrap_line(line, width)


def wrap_line(line: str, width: int) -> Iterator[str]:
    """Yield the line in rows of at most `width` cells, broken at spaces if possible."""
    while cell_len(line) > width:
        cells = end = 0
        while cells + cell_len(line[end]) <= width:
            cells += cell_len(line[end])
            end += 1
        space = line.rfind(" ", 1, end + 1)
        if space > 0 and line[:space].strip():
            yield line[:space]
            line = line[space + 1 :]
        else:
            yield line[: max(1, end)]
            line = line[max(1, end) :]
    yield line
