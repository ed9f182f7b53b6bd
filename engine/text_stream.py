"""The text of a run, in pieces, as a user reads it while the model writes.

    async with engine.start("Set the port to 8080") as run:
        async for piece in run.text():
            print(piece, end="", flush=True)

Each reader passes the events to a `RunText` of its own, which knows neither the run nor its bus.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

from .decision import Event
from .decision.events import AttemptStarted, ResponseFinished, RunFinished, TextMessageContent
from .decision.wrong_attributes import Refused
from .event_bus import Lagged
from .records.format import step_of_attempt

NEW_STEP, NEW_ATTEMPT = "\n\n", "\n"
"""Put between the texts of two steps, and between those of two attempts at a step."""


class RunText:
    """What the model says to the user. Feed it all events of a run in order; the joined pieces end with the answer.

    White space at the end of a step's text is left out, unless the answer ends with it.
    """

    def __init__(self) -> None:
        self._attempt = ""
        """The attempt of the latest text."""
        self._said: list[str] = []
        """The pieces of this attempt that were returned."""
        self._said_in = ""
        """The attempt of the latest piece that was returned; empty before the first."""
        self._held = ""
        """White space that is returned once more text follows."""
        self._lost = False
        """Whether events of the response in progress were missed. Its text is then returned when it is complete."""

    def feed(self, event: Event | Lagged) -> str:
        """Return the next piece of the text; empty if this event brings none."""
        match event:
            case TextMessageContent() if not self._lost:
                return self._say(event.attempt, event.delta)
            case AttemptStarted():
                self._lost = False
            case Lagged():
                self._lost = True
            case ResponseFinished() if self._lost:
                self._lost = False
                return self._say(event.attempt, self._rest_of(event))
            case RunFinished():
                return self._end(event.outcome.answer)
            case _:
                pass
        return ""

    def _say(self, attempt: str, text: str) -> str:
        if attempt != self._attempt:
            self._attempt, self._said, self._held = attempt, [], ""
        text = self._held + text
        piece = text.rstrip()
        self._held = text[len(piece) :]
        if not piece:
            return ""
        self._said.append(piece)
        separator = self._separator()
        self._said_in = attempt
        return separator + piece

    def _separator(self) -> str:
        if self._said_in in ("", self._attempt):
            return ""
        same_step = step_of_attempt(self._said_in) == step_of_attempt(self._attempt)
        return NEW_ATTEMPT if same_step else NEW_STEP

    def _rest_of(self, response: ResponseFinished) -> str:
        """Return what was missed of a response; all of it if what was said is no beginning of it."""
        said = "".join(self._said) + self._held if response.attempt == self._attempt else ""
        whole = response.message.text
        return whole[len(said) :] if whole.startswith(said) else NEW_ATTEMPT + whole

    def _end(self, answer: str) -> str:
        """Return what the answer has and no piece had."""
        said = "".join(self._said)
        if said.endswith(answer):
            return ""
        if (said + self._held).endswith(answer):
            return self._held
        if said and answer.startswith(said):
            return answer[len(said) :]
        return (NEW_STEP if self._said_in else "") + answer


class TextPieces(AsyncIterator[str]):
    """The pieces of a run's text, read with `async for`. events: all events of the run."""

    if not TYPE_CHECKING:  # type checkers refuse these uses themselves
        __await__ = Refused("Run.text()", "await")
        __iter__ = Refused("Run.text()", "for")
        __enter__ = __exit__ = Refused("Run.text()", "with")
        __aenter__ = __aexit__ = Refused("Run.text()", "async with")

    def __init__(self, events: AsyncIterator[Event | Lagged]) -> None:
        self._pieces = _pieces(events)

    async def __anext__(self) -> str:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Stop reading."""
        await self._pieces.aclose()


async def _pieces(events: AsyncIterator[Event | Lagged]) -> AsyncGenerator[str, None]:
    text = RunText()
    async for event in events:
        if piece := text.feed(event):
            yield piece
