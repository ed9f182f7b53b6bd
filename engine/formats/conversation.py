"""Messages of another loop put together: every call id once in the session, every result at its call.

The first result of a call counts. A call without an id, or with one that was used before, becomes `{step}.{index}`,
as it would in the engine.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from ..decision import AssistantMessage, AttemptEnded, Image, Reasoning, ToolCall, ToolResult, Usage, UserMessage
from ..decision.messages import ResultStatus
from ..providers.error_replies import error_of, said_in
from .nudges import is_nudge
from .parsing import letters
from .transcript import Foreign, Origin, Said

_STATUS = re.compile(r"(?:API Error|HTTP status|status code|status|Error code)\W{0,4}([45][0-9][0-9])\b", re.IGNORECASE)
UNKNOWN = 500
"""The status of a failure that names none: trouble of the provider's own."""

RawCall = tuple[str, str, str]
"""A call as the data has it: id or nothing, name, arguments as text."""


class Conversation:
    """Adds messages to a foreign session, in their order."""

    def __init__(self, foreign: Foreign) -> None:
        self.foreign = foreign
        self.steps = 0
        self._taken: set[str] = set()
        self._used: set[str] = set()
        self._waiting: dict[str, ToolCall] = {}
        self._by_id: dict[str, deque[str]] = {}
        self._by_name: dict[str, deque[str]] = {}

    def system(self, text: str, t: float | None = None) -> None:
        """A system message: the prompt at the beginning, else words of the loop."""
        if not text:
            return
        if not self.foreign.said:
            self.foreign.system = f"{self.foreign.system}\n\n{text}" if self.foreign.system else text
        else:
            self.foreign.lose("system in the middle")
            self._add(Said(message=UserMessage(text), origin="nudge", t=t))

    def user(self, text: str, origin: Origin = "user", t: float | None = None) -> None:
        """A message in the user's role. Words that are known to be a loop's own are a nudge, whatever `origin` says."""
        self._add(Said(message=UserMessage(text), origin="nudge" if is_nudge(text) else origin, t=t))

    def assistant(
        self,
        text: str,
        calls: Sequence[RawCall] = (),
        reasoning: Sequence[Reasoning] = (),
        *,
        usage: Usage | None = None,
        raw_finish: str = "",
        model: str = "",
        t: float | None = None,
        begins: bool = False,
    ) -> None:
        """A response of the model."""
        self.steps += 1
        self._waiting, self._by_id, self._by_name = {}, {}, {}
        for index, (raw_id, name, arguments) in enumerate(calls):
            call = ToolCall(self._id(raw_id, index), name, arguments)
            self._waiting[call.id] = call
            self._by_id.setdefault(raw_id, deque()).append(call.id)
            self._by_name.setdefault(name, deque()).append(call.id)
        message = AssistantMessage(text, tuple(self._waiting.values()), tuple(reasoning))
        self._add(Said(message=message, t=t, usage=usage, raw_finish=raw_finish, model=model, begins=begins))

    def failed(self, message: str, *, model: str = "", t: float | None = None, begins: bool = False) -> None:
        """A request that no response came of: the provider failed, and this is what it said."""
        message = message.strip() or "the provider failed, and does not say why"
        error = error_of(said_in(message), status=_status_in(message))
        ended = AttemptEnded(model=model, kind=error.kind, message=message, status=error.status or None)
        self._waiting, self._by_id, self._by_name = {}, {}, {}
        self._add(Said(message=AssistantMessage(), t=t, model=model, begins=begins, failed=ended))

    def result(
        self,
        raw_id: str,
        name: str,
        content: str,
        status: ResultStatus = "ok",
        images: Sequence[Image] = (),
        t: float | None = None,
    ) -> None:
        """The result of a call of the latest response: found by its id, else by the tool's name, else the next one."""
        call = self._answered(raw_id, name)
        if call is None:
            self.foreign.lose("second result" if raw_id in self._used else "result without a call")
            self.foreign.lose("characters", letters(content))
            self.foreign.lose("image", len(images))
            return
        self._add(Said(message=ToolResult(call.id, call.name, content, status, tuple(images)), t=t))

    @property
    def waiting(self) -> list[ToolCall]:
        """Calls of the latest response that have no result yet."""
        return list(self._waiting.values())

    def _answered(self, raw_id: str, name: str) -> ToolCall | None:
        if raw_id:
            candidates = self._by_id.get(raw_id, deque())
        elif name:
            candidates = self._by_name.get(name, deque())
        else:
            candidates = deque([next(iter(self._waiting))] if self._waiting else [])
        while candidates:
            id = candidates.popleft()
            if id in self._waiting:
                return self._waiting.pop(id)
        return None

    def _id(self, raw_id: str, index: int) -> str:
        if raw_id and raw_id not in self._taken:
            id = raw_id
        else:
            self.foreign.lose("doubled call id" if raw_id else "call id")
            id = f"{self.steps}.{index}"
            while id in self._taken:
                id += "+"
        self._taken.add(id)
        self._used.add(raw_id)
        return id

    def _add(self, said: Said) -> None:
        self.foreign.said.append(said)


def _status_in(message: str) -> int:
    found = _STATUS.search(message)
    return int(found[1]) if found else UNKNOWN
