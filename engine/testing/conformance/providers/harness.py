"""Harness of the cases: the behaviour of the model's side, and one adapter in one case."""

from __future__ import annotations

import json
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from ....decision import (
    AnyChunk,
    Assembler,
    AssistantMessage,
    FinishReport,
    ToolSpec,
    Usage,
    UserMessage,
)
from ....decision.wrong_calls import checked
from ....providers.errors import ProviderError
from ....providers.provider import Provider, Request
from ....providers.record import RecordedError
from ....providers.replay import rebuild_error
from ...wires import CHAT, Value, WireFormat
from ..nonconformance import Nonconformance

Ending = Literal[
    "whole", "unfinished", "cut", "stalled", "pinging", "error", "garbled", "refused", "silent", "unreachable"
]
"""Way in which a response ends, after its content.

`whole`: as the wire format requires. `unfinished`: cleanly, but without a finish. `cut`: the connection is lost.
`stalled`: nothing more is sent, and the connection stays open. `pinging`: the same, but keep-alive data without
content is sent now and then. `error`: an error in place of a chunk. `garbled`: a chunk that cannot be parsed. Three
have no content: `refused` with an HTTP status, `silent` (no response at all), and `unreachable` (nothing listens)."""


@checked
@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """One response of the model's side: its content, how it ends, and the error that the adapter must raise."""

    says: tuple[AnyChunk, ...] = ()
    """Chunks that the adapter must yield; the endpoint encodes them in its wire format."""
    ends: Ending = "whole"
    failure: RecordedError | None = None
    """Error that must be raised; its message is the provider's text."""
    refusing: bool = False
    """Whether the text is sent in a refusal field, if the wire format has one (OpenAI: `delta.refusal`)."""

    @property
    def error(self) -> ProviderError | None:
        """Error that must be raised, as a new object, for adapters without a wire."""
        return None if self.failure is None else rebuild_error(self.failure)


LOOK = ToolSpec(
    name="look",
    description="Look at a place.",
    parameters={"type": "object", "properties": {"place": {"type": "string"}}},
)


@dataclass(frozen=True)
class Heard:
    """A response as the engine assembles it, without the items that only a vendor can read."""

    text: str
    reasoning: tuple[tuple[str, str], ...]
    calls: tuple[tuple[str, str, str], ...]
    truncated: str | None
    finish: tuple[str | None, str]
    usage: Usage | None

    def __str__(self) -> str:
        return "\n".join(f"    {name}: {value!r}" for name, value in vars(self).items())


def heard(chunks: Sequence[AnyChunk]) -> Heard:
    """Assemble chunks as the engine does."""
    assembler = Assembler(1, "1.1", set())
    for chunk in chunks:
        assembler.feed(chunk)
    assembler.close()
    message: AssistantMessage = assembler.message
    return Heard(
        text=message.text,
        reasoning=tuple((b.text, b.signature) for b in message.reasoning if not (b.redacted and b.vendor)),
        calls=tuple((call.id, call.name, call.arguments or "{}") for call in message.calls),
        truncated=assembler.truncated,
        finish=(assembler.finish, assembler.raw_finish),
        usage=assembler.usage,
    )


@dataclass
class ProviderTrial:
    """One case on one adapter, and the endpoint that plays the model for it."""

    name: str
    provider: Provider
    script: Sequence[Behaviour]
    site: Any
    """Object that `serve` yielded: by default, the `Endpoint`."""
    counts: bool
    """Whether the case is about usage; in other cases, the adapter may report none."""
    closed_after: float | None = field(default=None)
    """Seconds from leaving the stream to the close of the connection, as seen by the server."""

    def opened(self) -> AbstractAsyncContextManager[Any]:
        """Return the provider as a context manager, even if it is not one itself."""
        provider = self.provider
        return provider if isinstance(provider, AbstractAsyncContextManager) else nullcontext(provider)

    def stream(self) -> AbstractAsyncContextManager[AsyncIterator[AnyChunk]]:
        """Request another response."""
        return self.provider.stream(Request(messages=[UserMessage("Look around.")], tools=(LOOK,)))

    async def listen(self, chunks: list[AnyChunk]) -> None:
        """Read another response to its end. Appends to `chunks`, so that they are there even if it fails."""
        async with self.stream() as given:
            async for chunk in given:
                self.take(chunk, chunks)

    def take(self, chunk: AnyChunk, chunks: list[AnyChunk]) -> None:
        """Append a chunk. Fail if it is not a chunk."""
        if not isinstance(chunk, AnyChunk):
            self.fail(f"the stream gave {chunk!r}, which is not a chunk: see endstop.decision.AnyChunk")
        chunks.append(chunk)

    def compare(self, chunks: Sequence[AnyChunk], said: Sequence[AnyChunk]) -> None:
        """Fail unless the chunks assemble to the same response as the expected ones."""
        given, expected = heard(chunks), heard(said)
        wrong = [name for name in vars(expected) if getattr(given, name) != getattr(expected, name)]
        guessed = expected.usage is None and given.usage is not None and given.usage.estimated
        if "usage" in wrong and (guessed or not self.counts):
            wrong.remove("usage")
        if wrong:
            raw = "\n".join(f"    {chunk!r}" for chunk in chunks) or "    (nothing)"
            self.fail(
                f"not as expected: {', '.join(wrong)}\n  expected:\n{expected}\n  actual:\n{given}\n  chunks:\n{raw}"
            )
        finishes = sum(isinstance(chunk, FinishReport) for chunk in chunks)
        if finishes > 1:
            self.fail(f"{finishes} finish reports: a response has exactly one")

    def check_keys(self, error: BaseException) -> None:
        """Fail if any text of this error contains the key."""
        key = getattr(self.site, "key", "")
        for place, text in _texts(error).items():
            if key and key in text:
                self.fail(f"the error's {place} contains the key: hide it, and raise `from None`\n{text}")

    def fail(self, what: str) -> NoReturn:
        """Raise Nonconformance."""
        raise Nonconformance(f"{self.name}: {what}\n  adapter: {self.provider!r}")


def _texts(error: BaseException) -> dict[str, str]:
    message = error.message if isinstance(error, ProviderError) else ""
    trace = "".join(traceback.format_exception(error))
    return {"text": str(error), "repr": repr(error), "message": message, "traceback": trace}


def events(behaviour: Behaviour, keys: str, wire: WireFormat = CHAT) -> Iterator[bytes]:
    """Yield the server-sent events of one response. keys: the request's keys, for error messages."""
    for value in wire.values(behaviour.says, behaviour.refusing):
        yield wire.frame(value)
    if behaviour.ends == "whole" and wire.end:
        yield wire.end
    elif behaviour.ends == "error":
        yield wire.frame(_error(behaviour, keys, wire))
    elif behaviour.ends == "garbled":
        yield wire.broken + keys.encode() + b"\n\n"


def refusal(behaviour: Behaviour, keys: str) -> bytes:
    """Return the HTTP response of a refused request."""
    failure = behaviour.failure
    assert failure is not None
    body = json.dumps(_error(behaviour, keys)).encode()
    head = [
        f"HTTP/1.1 {failure.status} Refused",
        "content-type: application/json",
        f"content-length: {len(body)}",
        f"x-you-sent: {keys}",
    ]
    if failure.retry_after is not None:
        head.append(f"retry-after: {failure.retry_after:g}")
    return "\r\n".join([*head, "", ""]).encode() + body


def _error(behaviour: Behaviour, keys: str, wire: WireFormat = CHAT) -> Value:
    failure = behaviour.failure
    assert failure is not None
    return wire.error(f"{failure.message} (you sent {keys})", failure.status)
