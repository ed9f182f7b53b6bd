"""Builder of an imported session: adds the messages of another loop's session in order, with unique ids of calls."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..decision import AssistantMessage, AttemptEnded, Image, Reasoning, ToolCall, ToolResult, Usage, UserMessage
from ..decision.messages import ResultStatus
from ..providers.error_replies import build_error, parse_error_body
from .agent_notes import OWN_REPLIES, SplitMessage, split_words
from .content_blocks import MessageContent, count_dropped_parts, parse_content
from .imported_session import ImportedCompaction, ImportedMessage, ImportedSession, Origin, RawCall
from .parsing import as_number, count_characters

_STATUS_PATTERN = re.compile(
    r"(?:API Error|HTTP status|status code|status|Error code)\W{0,4}([45][0-9][0-9])\b", re.IGNORECASE
)


class ResponseParts:
    """Parts of a response as they are read, for a format that writes each of them separately."""

    def __init__(self, t: float | None = None, model: str = "", id: str = "") -> None:
        """t: start time, in seconds since 1970. id: the request's id, if the parts name one; empty if not."""
        self.t = t
        self.model = model
        self.id = id
        self.texts: list[str] = []
        self.calls: list[RawCall] = []
        self.reasoning: list[Reasoning] = []
        self.results: list[tuple[dict[str, Any], float | None]] = []
        """Results of its calls, in the data's form, each with its time: they are added after the response."""
        self.usage: Usage | None = None
        self.finish = ""
        """The finish reason as the provider wrote it."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing arrived, for example because the request was cancelled."""
        return not (self.texts or self.calls or self.reasoning or self.finish)


class SessionBuilder:
    """Builder that adds messages to an imported session, in order.

    Every call id is unique in the session: a call without an id, or with one that is taken, becomes `{step}.{index}`,
    as in the engine. Each call gets at most one result, the first.

    A message of the loop may be held back (`hold`) until it is known what it precedes: it is added before the next
    response or failed request, or after the user's next prompt, which begins the run that it belongs to.
    """

    def __init__(self, session: ImportedSession) -> None:
        self.session = session
        self.steps = 0
        """Responses so far."""
        self._call_ids: set[str] = set()
        self._raw_ids: set[str] = set()
        self._pending: dict[str, ToolCall] = {}
        self._pending_by_raw_id: dict[str, deque[str]] = {}
        self._pending_by_name: dict[str, deque[str]] = {}

    def add_system(self, text: str, t: float | None = None) -> None:
        """Add a system message: part of the system prompt at the beginning, a nudge of the loop after it."""
        if not text:
            return
        if not self.session.messages:
            self.session.system = f"{self.session.system}\n\n{text}" if self.session.system else text
        else:
            self.session.count_loss("system in the middle")
            self._add(ImportedMessage(message=UserMessage(text), origin="nudge", t=t))

    def add_user(
        self, parts: Iterable[str | Image], origin: Origin = "user", t: float | None = None, *, typed: bool = False
    ) -> None:
        """Add a message in the user's role, from its parts. Notes of the agent in it are held back.

        typed: whether the data says that the user typed all of it.
        """
        whole = tuple(parts)
        words = SplitMessage(whole) if typed or origin in ("nudge", "interrupt") else split_words(whole)
        if words.notes and not words.said:
            self.hold(UserMessage.of(whole), t)
            return
        for note in words.notes:
            self.hold(UserMessage(note), t)
        kept = (*words.said, *words.notes)
        self.session.count_loss("characters", _characters(whole) - _characters(kept))
        self._add(ImportedMessage(message=UserMessage.of(words.said), origin=origin, t=t))
        if origin == "user":
            self.add_held()

    def add_prompt(self, content: MessageContent, origin: Origin = "user", t: float | None = None) -> None:
        """Add a message in the user's role from its content, of which only texts and images can be kept."""
        count_dropped_parts(content, self.session, calls=True, results=True, reasoning=True)
        self.add_user(content.parts, origin, t)

    def hold(self, message: UserMessage, t: float | None = None) -> None:
        """Hold back a message of the loop until it is known what it precedes. An empty one is ignored."""
        if message.text or message.images:
            self.session.held.append(ImportedMessage(message=message, origin="nudge", t=t))

    def add_held(self) -> None:
        """Add the messages that are held back, because a request follows that contains them."""
        self.session.messages += self.session.held
        self.session.held.clear()

    def add_response(
        self,
        text: str,
        calls: Sequence[RawCall] = (),
        reasoning: Sequence[Reasoning] = (),
        *,
        usage: Usage | None = None,
        raw_finish: str = "",
        model: str = "",
        t: float | None = None,
        starts_run: bool = False,
    ) -> None:
        """Add a response of the model. One that an agent writes itself, after notes alone, is left out."""
        if self.session.held and not self.session.messages and not calls and text.strip() in OWN_REPLIES:
            self.session.count_dropped("own words", text)
            return
        self.add_held()
        self.steps += 1
        self._clear_pending()
        for index, (raw_id, name, arguments) in enumerate(calls):
            call = ToolCall(self._unique_call_id(raw_id, index), name, arguments)
            self._pending[call.id] = call
            self._pending_by_raw_id.setdefault(raw_id, deque()).append(call.id)
            self._pending_by_name.setdefault(name, deque()).append(call.id)
        message = AssistantMessage(text, tuple(self._pending.values()), tuple(reasoning))
        self._add(
            ImportedMessage(
                message=message, t=t, usage=usage, raw_finish=raw_finish, model=model, starts_run=starts_run
            )
        )

    def add_parts(self, parts: ResponseParts) -> None:
        """Add a response that was read part by part, without its results. If it has no model, it gets the session's."""
        self.session.model = self.session.model or parts.model
        self.add_response(
            "\n".join(parts.texts),
            parts.calls,
            parts.reasoning,
            usage=parts.usage,
            raw_finish=parts.finish,
            model=parts.model,
            t=parts.t,
        )

    def add_failure(
        self,
        message: str,
        *,
        status: int | None = None,
        model: str = "",
        t: float | None = None,
        starts_run: bool = False,
    ) -> None:
        """Add a request that failed, with the provider's error message.

        status: the HTTP status, if the data has it separately from the message. If not, the status in the message is
        used; none is assumed.
        """
        self.add_held()
        message = message.strip() or "the provider failed, and does not say why"
        error = build_error(parse_error_body(message), status=status or _parse_status(message))
        failure = AttemptEnded(model=model, kind=error.kind, message=message, status=error.status or None)
        self._clear_pending()
        self._add(ImportedMessage(message=AssistantMessage(), t=t, model=model, starts_run=starts_run, failure=failure))

    def add_result(
        self,
        raw_id: str,
        name: str,
        content: str,
        status: ResultStatus = "ok",
        images: Sequence[Image] = (),
        t: float | None = None,
    ) -> None:
        """Add a result to a call of the latest response, found by id, else by tool name, else the next pending call."""
        call = self._take_pending(raw_id, name)
        if call is None:
            self.session.count_loss("second result" if raw_id in self._raw_ids else "result without a call")
            self.session.count_loss("characters", count_characters(content))
            self.session.count_loss("image", len(images))
            return
        self._add(ImportedMessage(message=ToolResult(call.id, call.name, content, status, tuple(images)), t=t))

    def add_result_content(
        self,
        raw_id: str,
        name: str,
        content: MessageContent,
        status: ResultStatus = "ok",
        t: float | None = None,
    ) -> None:
        """Add a result as `add_result` does, from its content, of which only texts and images can be kept."""
        count_dropped_parts(content, self.session, calls=True, results=True, reasoning=True)
        self.add_result(raw_id, name, content.text, status, content.images, t)

    def add_result_blocks(
        self,
        content: MessageContent,
        t: float | None = None,
        status_of: Callable[[str, bool], ResultStatus] = lambda text, is_error: "error" if is_error else "ok",
    ) -> None:
        """Add the results in a message of the user's role, as in Anthropic's form.

        status_of: returns a result's status from its text and whether it is marked as an error.
        """
        for block in content.results:
            inside = parse_content(block.content, self.session, pictures=True)
            self.add_result_content(block.call_id, "", inside, status_of(inside.text, block.is_error), t)

    def add_compaction(
        self,
        put_first: Sequence[UserMessage],
        *,
        kept_from: int | None = None,
        before_tokens: Any = 0,
        after_tokens: Any = 0,
        t: float | None = None,
    ) -> bool:
        """Add a compaction of the context: see `ImportedCompaction`.

        before_tokens, after_tokens: the data's values; one that is not a number counts as not recorded. Returns False
        without adding anything if nothing comes before it: a session that continues another one may begin like this.
        """
        if not self.session.messages:
            return False
        self._add(
            ImportedCompaction(
                message=UserMessage(""),
                origin="nudge",
                put_first=tuple(message for message in put_first if message.text or message.images),
                kept_from=kept_from,
                before_tokens=max(0, round(as_number(before_tokens) or 0)),
                after_tokens=max(0, round(as_number(after_tokens) or 0)),
                t=t,
            )
        )
        return True

    @property
    def pending_calls(self) -> list[ToolCall]:
        """Calls of the latest response that have no result yet."""
        return list(self._pending.values())

    def knows(self, raw_id: str) -> bool:
        """Whether a call of the latest response has this id in the data."""
        return raw_id in self._pending_by_raw_id

    def awaits(self, id: str) -> bool:
        """Whether the call with this id is one of these."""
        return id in self._pending

    def _take_pending(self, raw_id: str, name: str) -> ToolCall | None:
        if raw_id:
            candidates = self._pending_by_raw_id.get(raw_id, deque())
        elif name:
            candidates = self._pending_by_name.get(name, deque())
        else:
            candidates = deque([next(iter(self._pending))] if self._pending else [])
        while candidates:
            id = candidates.popleft()
            if id in self._pending:
                return self._pending.pop(id)
        return None

    def _clear_pending(self) -> None:
        self._pending, self._pending_by_raw_id, self._pending_by_name = {}, {}, {}

    def _unique_call_id(self, raw_id: str, index: int) -> str:
        if raw_id and raw_id not in self._call_ids:
            id = raw_id
        else:
            self.session.count_loss("doubled call id" if raw_id else "call id")
            id = f"{self.steps}.{index}"
            while id in self._call_ids:
                id += "+"
        self._call_ids.add(id)
        self._raw_ids.add(raw_id)
        return id

    def _add(self, message: ImportedMessage) -> None:
        self.session.messages.append(message)


def _characters(parts: Iterable[str | Image]) -> int:
    return sum(count_characters(part) for part in parts if isinstance(part, str))


def _parse_status(message: str) -> int | None:
    found = _STATUS_PATTERN.search(message)
    return int(found[1]) if found else None
