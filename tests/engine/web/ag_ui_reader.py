"""A client of AG-UI, for tests: checks every event with the official models and the order of all, and keeps the chat.

The rules are those of docs.ag-ui.com/spec/1.0 (events/lifecycle, basic/patterns/streaming, events/reasoning).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ag_ui.core import Event
from pydantic import BaseModel, TypeAdapter

EVENTS: TypeAdapter[Any] = TypeAdapter(Event)
LIFE = ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR")


def known_only(model: Any) -> None:
    """Raise AssertionError if a model holds a field that the protocol does not have."""
    if isinstance(model, BaseModel):
        assert not model.model_extra, model
        for name in type(model).model_fields:
            if name not in ("metadata", "value", "result"):
                known_only(getattr(model, name))
    elif isinstance(model, list | tuple):
        for one in model:
            known_only(one)


class Reader:
    """Reads one stream. Raises AssertionError at the first event that is malformed or out of order."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.running: str | None = None
        self.open: dict[str, set[str]] = {kind: set() for kind in ("text", "span", "reasoning", "call", "step")}
        self.messages: dict[str, str] = {}
        """All texts by message id, in order; reasoning and the user's too."""
        self.roles: dict[str, str] = {}
        self.calls: dict[str, list[str]] = {}
        """Name, arguments and parent by call id."""
        self.results: dict[str, Any] = {}
        self.void: set[str] = set()
        """Messages and calls that were taken back."""
        self.answered: set[str] = set()
        self.waiting: set[str] = set()
        """Calls that wait behind one that needs approval: their results come in a later run."""
        self.begun: set[str] = set()
        """Calls of this run."""

    def read(self, said: Iterable[bytes]) -> None:
        for one in said:
            assert b"\n" not in one
            event = EVENTS.validate_json(one)
            known_only(event)
            self._take(event)
            self.events.append(event)

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]

    def customs(self, name: str) -> list[Any]:
        return [event for event in self.of("CUSTOM") if event.name == name]

    def _take(self, event: Any) -> None:
        kind: str = event.type.value
        assert (kind == "RUN_STARTED") is (self.running is None), f"{kind} while the run is {self.running}"
        getattr(self, f"_{kind.lower()}")(event)

    def _start(self, what: str, id: str, seen: Iterable[str] = ()) -> None:
        assert id
        assert id not in self.open[what], f"{what} {id} is open already"
        assert id not in seen, f"{what} {id} was used before"
        self.open[what].add(id)

    def _end(self, what: str, id: str) -> None:
        assert id in self.open[what], f"{what} {id} is not open"
        self.open[what].remove(id)

    # ---- the run

    def _run_started(self, event: Any) -> None:
        self.running = event.run_id
        self.thread = event.thread_id
        self.begun = set()
        assert event.protocol_version == "1.0"
        for message in event.input.messages if event.input else ():
            assert message.id not in self.messages
            self.messages[message.id], self.roles[message.id] = message.content, "user"

    def _run_finished(self, event: Any) -> None:
        assert (event.thread_id, event.run_id) == (self.thread, self.running)
        self._close()
        asked = set()
        if event.outcome.type == "interrupt":
            ids = [one.id for one in event.outcome.interrupts]
            assert len(ids) == len(set(ids))
            asked = {one.tool_call_id for one in event.outcome.interrupts}
        pending = self.begun - self.answered
        approvals = event.outcome.type == "interrupt" and "tool_call" in {
            one.reason for one in event.outcome.interrupts
        }
        self.waiting = (self.waiting | (pending - asked if approvals else set())) - self.answered
        assert pending <= asked | self.waiting, f"a client would take these for its own tools: {pending - asked}"
        if event.outcome.type == "success":
            assert not self.waiting, f"calls that waited behind an approval and got no result: {self.waiting}"
        if event.outcome.type == "cancelled":
            assert event.result is None

    def _run_error(self, event: Any) -> None:
        assert event.message
        assert event.code
        assert self.begun <= self.answered
        self._close()

    def _close(self) -> None:
        assert not any(self.open.values()), f"open at the end of the run: {self.open}"
        self.running = None

    def _step_started(self, event: Any) -> None:
        self._start("step", event.step_name)

    def _step_finished(self, event: Any) -> None:
        self._end("step", event.step_name)

    # ---- messages

    def _text_message_start(self, event: Any) -> None:
        self._start("text", event.message_id, self.messages)
        self.messages[event.message_id], self.roles[event.message_id] = "", event.role

    def _text_message_content(self, event: Any) -> None:
        assert event.message_id in self.open["text"]
        assert event.delta
        self.messages[event.message_id] += event.delta

    def _text_message_end(self, event: Any) -> None:
        self._end("text", event.message_id)

    def _reasoning_start(self, event: Any) -> None:
        self._start("span", event.message_id)

    def _reasoning_message_start(self, event: Any) -> None:
        assert self.open["span"]
        self._start("reasoning", event.message_id, self.messages)
        self.messages[event.message_id], self.roles[event.message_id] = "", event.role

    def _reasoning_message_content(self, event: Any) -> None:
        assert event.message_id in self.open["reasoning"]
        assert event.delta
        self.messages[event.message_id] += event.delta

    def _reasoning_message_end(self, event: Any) -> None:
        self._end("reasoning", event.message_id)

    def _reasoning_end(self, event: Any) -> None:
        assert not self.open["reasoning"]
        self._end("span", event.message_id)

    # ---- calls

    def _tool_call_start(self, event: Any) -> None:
        self._start("call", event.tool_call_id, self.calls)
        self.calls[event.tool_call_id] = [event.tool_call_name, "", event.parent_message_id]
        self.begun.add(event.tool_call_id)

    def _tool_call_args(self, event: Any) -> None:
        assert event.tool_call_id in self.open["call"]
        assert event.delta
        self.calls[event.tool_call_id][1] += event.delta

    def _tool_call_end(self, event: Any) -> None:
        self._end("call", event.tool_call_id)

    def _tool_call_result(self, event: Any) -> None:
        assert event.role == "tool"
        assert event.message_id not in self.messages
        assert event.tool_call_id not in self.open["call"]
        assert event.tool_call_id not in self.answered, "two results of one call"
        self.answered.add(event.tool_call_id)
        self.results[event.tool_call_id] = event.content

    def _custom(self, event: Any) -> None:
        assert event.name.startswith("endstop.")
        void = ((event.metadata or {}).get("endstop") or {}).get("void")
        if void:
            self.void |= {*void["messageIds"], *void["toolCallIds"]}
