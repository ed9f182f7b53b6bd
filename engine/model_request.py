"""The request of a step: the loop makes it from the transcript, and readers of a record rebuild it from events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from .decision import Event, Message, SystemMessage, ToolSpec, Transcript
from .decision import events as ev
from .decision.run_origin import is_foreign
from .providers import Request, ToolChoice
from .records.format import REDACTION_MARK, encode_line

RequestSource = Literal["recorded", "imported"]
"""`recorded`: the engine's own session; the messages, tools and settings are those that it sent. `imported`: a session
of another agent, whose requests are not known; only its history is."""


def make_request(
    transcript: Transcript,
    *,
    tools: tuple[ToolSpec, ...],
    tool_choice: ToolChoice,
    settings: Mapping[str, Any],
    closing: bool,
    attempt: str,
    memo: MutableMapping[Any, Any],
) -> Request:
    """Make the request of the latest step of a transcript.

    closing: whether it is the closing step, whose request lists the tools but allows no call, because some providers
    refuse a history with calls in a request without tools. memo: the provider's cache.
    """
    return Request(
        messages=transcript.messages,
        ephemeral=transcript.ephemeral,
        edition=transcript.edition,
        tools=tools,
        tool_choice="none" if closing else tool_choice,
        settings=settings,
        attempt=attempt,
        memo=memo,
    )


class StepRequest(Struct, frozen=True, kw_only=True):
    """Request of a step, as its record tells it."""

    run: int
    """Number of the run in its session, from 1."""
    step: int
    model: str
    system: str
    """The system prompt; empty if there is none."""
    messages: tuple[Message, ...]
    """The messages after the system prompt; messages that are sent only once come last."""
    tools: tuple[ToolSpec, ...]
    tool_choice: str
    settings: dict[str, Any]
    source: RequestSource
    redacted: bool
    """Whether texts were redacted when they were recorded. The model got them unredacted."""


def recorded_request(started: ev.RunStarted, step: ev.StepStarted, transcript: Transcript) -> Request:
    """Return the request of the step that has just begun, from its run's first event and the transcript up to it."""
    return make_request(
        transcript,
        tools=started.tools,
        tool_choice=started.tool_choice,  # type: ignore[arg-type]  # the loop's own
        settings=started.settings,
        closing=step.closing,
        attempt="",
        memo={},
    )


def split_system(request: Request) -> tuple[str, tuple[Message, ...]]:
    """Return a request's system prompt, or "" if it has none, and the messages after it, including those sent once."""
    messages = (*request.messages, *request.ephemeral)
    system = messages[0].text if messages and isinstance(messages[0], SystemMessage) else ""
    return system, messages[1:] if system else messages


def source_of(started: ev.RunStarted) -> RequestSource:
    """Return whether the requests of this run are known."""
    return "imported" if is_foreign(started.engine) else "recorded"


def is_redacted(started: ev.RunStarted, messages: Iterable[Message]) -> bool:
    """Return whether texts of these messages were redacted when their run was recorded."""
    return "redaction" in started.functions or REDACTION_MARK.encode() in encode_line(messages)


class RequestReader:
    """Reader of the requests of steps from events. Feed it the events of a session in order, from the first one.

    Subclasses define what is done with each request.
    """

    def __init__(self) -> None:
        self._transcript = Transcript()
        self._started: ev.RunStarted | None = None
        self._runs = 0
        self._wants_model = False

    def feed(self, event: Event) -> None:
        """Process the next event."""
        self._transcript.feed(event)
        match event:
            case ev.RunStarted():
                self._runs += 1
                self._started = event
                self._wants_model = False
            case ev.StepStarted() if self._started is not None:
                self._wants_model = self._take_step(self._runs, self._started, event)
            case ev.AttemptStarted(model=model) if self._wants_model and model:
                self._take_model(model)
                self._wants_model = False
            case _:
                pass

    def _take_step(self, run: int, started: ev.RunStarted, step: ev.StepStarted) -> bool:
        """Process the start of a step; the transcript is up to date. Return whether to call `_take_model` for it."""
        raise NotImplementedError

    def _take_model(self, model: str) -> None:
        """Process the name of the model that the request of the latest step went to."""
        raise NotImplementedError


class RequestFinder(RequestReader):
    """Finder of the request of one step.

    run: number of the run, from 1. step: its number in the run.
    """

    def __init__(self, run: int, step: int) -> None:
        super().__init__()
        self.found: StepRequest | None = None
        """The request; None until its step is fed, or if there is no such step. The latest one for a step that was
        requested again after the process died."""
        self._run, self._step = run, step

    @property
    def done(self) -> bool:
        """Whether no further event can change what was found."""
        return self._runs > self._run

    def _take_step(self, run: int, started: ev.RunStarted, step: ev.StepStarted) -> bool:
        if (run, step.step) != (self._run, self._step):
            return False
        request = recorded_request(started, step, self._transcript)
        system, messages = split_system(request)
        self.found = StepRequest(
            run=run,
            step=step.step,
            model=started.model,
            system=system,
            messages=messages,
            tools=request.tools,
            tool_choice=request.tool_choice,
            settings=dict(request.settings),
            source=source_of(started),
            redacted=is_redacted(started, messages),
        )
        return True

    def _take_model(self, model: str) -> None:
        assert self.found is not None
        self.found = replace(self.found, model=model)


def find_request(events: Iterable[Event], run: int, step: int) -> StepRequest | None:
    """Return the request of a step of a session; None if there is no such step. events: the session's, in order."""
    finder = RequestFinder(run, step)
    for event in events:
        finder.feed(event)
        if finder.done:
            break
    return finder.found
