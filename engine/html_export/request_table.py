"""Requests of all steps of a session in linear space: each message is written once, and requests refer to it.

`engine/web/page/embedded.js` rebuilds a request from it, with the same fields as `GET /sessions/ID/request`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..decision import Message
from ..decision import events as ev
from ..model_request import RequestReader, RequestSource, is_redacted, recorded_request, source_of, split_system
from ..records.format import encode_line


class RequestRow(Struct, frozen=True, kw_only=True):
    """Request of a step. Its values are indexes in `RequestTable.values`."""

    run: int
    step: int
    model: str
    system: int
    kept: int
    """Number of leading messages that it shares with the request in the previous row."""
    added: list[int]
    """Messages after those."""
    tools: int
    tool_choice: str
    settings: int
    source: RequestSource
    redacted: bool


class RequestTable(Struct, frozen=True):
    """All requests, in the order of their steps. For a step that was requested again, the last row is the valid one."""

    values: list[Raw]
    requests: list[RequestRow]


class RequestTableBuilder(RequestReader):
    """Builder of the table from the events of a session."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[RequestRow] = []
        self._latest: Sequence[Message] = ()
        self._latest_places: Sequence[tuple[int, bool]] = ()
        """For each message of the previous row, its place and whether it was redacted."""
        self._values: list[Raw] = []
        self._places: dict[bytes, int] = {}

    def table(self) -> RequestTable:
        """Return the table so far."""
        return RequestTable(self._values, self._rows)

    def _take_step(self, run: int, started: ev.RunStarted, step: ev.StepStarted) -> bool:
        request = recorded_request(started, step, self._transcript)
        system, messages = split_system(request)
        kept = 0
        for one, before in zip(messages, self._latest, strict=False):
            if one is not before:
                break
            kept += 1
        self._latest = messages
        places = [*self._latest_places[:kept], *(self._message(started, message) for message in messages[kept:])]
        self._latest_places = places
        row = RequestRow(
            run=run,
            step=step.step,
            model=started.model,
            system=self._place(encode_line(system)),
            kept=kept,
            added=[place for place, _ in places[kept:]],
            tools=self._place(encode_line(request.tools)),
            tool_choice=request.tool_choice,
            settings=self._place(encode_line(dict(request.settings))),
            source=source_of(started),
            redacted=any(redacted for _, redacted in places),
        )
        self._rows.append(row)
        return True

    def _take_model(self, model: str) -> None:
        self._rows[-1] = replace(self._rows[-1], model=model)

    def _message(self, started: ev.RunStarted, message: Message) -> tuple[int, bool]:
        return self._place(encode_line(message)), is_redacted(started, (message,))

    def _place(self, value: bytes) -> int:
        if value not in self._places:
            self._places[value] = len(self._values)
            self._values.append(Raw(value))
        return self._places[value]
