"""Adapter for any endpoint with OpenAI's chat completions API, directly over aiohttp and msgspec.

For speed, a request body is joined from messages that were encoded once, and chunks are decoded straight into the few
fields that matter. Servers differ, so any field may be missing, null or not of the documented type; the result is
always a stream of chunks or a ProviderError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from ..decision import AssistantMessage, FinishReason, Message, ToolResult, ToolSpec
from ..decision.wrong_calls import checked
from .chat_reasoning import add_returned
from .chat_stream import ChatStream
from .http_provider import LARGEST_RESPONSE, HTTPProvider
from .openai_format import (
    EncodedSession,
    PicturePlacement,
    ReasoningFormat,
    encode_message,
    encode_pictures,
    encode_tools,
)
from .provider import Request

OPENROUTER = "openrouter.ai"
"""Host that reports the cost of a response on request (OpenRouter documentation, "Usage Accounting")."""


@checked
class OpenAICompatible(HTTPProvider):
    """A model behind an endpoint with OpenAI's chat completions API.

    - `api_base`: the URL without `/chat/completions`. A user and password in it are sent instead of a key.
    - `api_key`: by default `OPENAI_API_KEY` from the environment; without either, no key is sent.
    - `connect_timeout`: seconds to connect. `first_timeout`: seconds to the first content of a response (default 600).
      `read_timeout`: seconds from one piece of content to the next (default 120); given alone, it also applies to the
      first. Comments and empty chunks, which keep a connection open, are not content.
    - `largest_response`: bytes of a response after decompression; a larger one is an error of kind `protocol`.
    - `redirects_to_other_hosts`: a redirect is followed only if it keeps the request (307, 308) and stays on the same
      scheme, host and port. True allows other hosts, which get the conversation but not the key.
    - `settings`: sent in every request (`temperature`, `max_tokens`, ...).
    - `send_reasoning`: whether reasoning is sent back as text with the calls it led to. By default, models of DeepSeek
      and Moonshot, which require it, get all of it; gpt-oss, GLM and MiniMax get what this server itself has sent.
    - `images`: whether the model can see. If so, images of tool results are sent in a message after them; if not, all
      images are left out, and those of a prompt only named in its text.
    - `finish_words`: finish words of this server that the table lacks or interprets differently: `{"done": "stop"}`.
    - `reports_cost`: whether usage includes the cost, so that a limit on cost works without a known price; by default
      True for OpenRouter, which is asked to report it.

    Use it as an async context manager to keep its connections between runs. Raises WrongUse for an argument that
    cannot work.
    """

    example = "OpenAICompatible('NAME', 'http://host:port/v1')"
    key_variable = "OPENAI_API_KEY"

    def __init__(
        self,
        model: str,
        api_base: str,
        *,
        api_key: str | None = None,
        connect_timeout: float = 10.0,
        read_timeout: float | None = None,
        first_timeout: float | None = None,
        largest_response: int = LARGEST_RESPONSE,
        redirects_to_other_hosts: bool = False,
        settings: Mapping[str, Any] | None = None,
        send_reasoning: bool | None = None,
        images: bool = True,
        finish_words: Mapping[str, FinishReason] | None = None,
        reports_cost: bool | None = None,
    ) -> None:
        super().__init__(
            model,
            api_base,
            "/chat/completions",
            api_key=api_key,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            first_timeout=first_timeout,
            largest_response=largest_response,
            redirects_to_other_hosts=redirects_to_other_hosts,
            settings=settings,
            finish_words=finish_words,
        )
        insists = any(name in model.lower() for name in ("deepseek", "kimi"))
        self._thinking: ReasoningFormat = "text" if (insists if send_reasoning is None else send_reasoning) else "none"
        wants = insists or any(name in model.lower() for name in ("gpt-oss", "glm", "minimax"))
        self._returns_text = wants if send_reasoning is None else send_reasoning
        self._vendor = self._place.hostname or ""
        self._images = images
        self._asks_cost = self._place.hostname == OPENROUTER
        self.reports_cost = self._asks_cost if reports_cost is None else reports_cost

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the header with the key as a bearer token."""
        return {"authorization": f"Bearer {key}"}

    def open_parser(self) -> ChatStream:
        """Return a new parser for the stream of one response."""
        return ChatStream(self._finish_words, self._vendor, self._returns_text)

    def encode_request(self, request: Request) -> bytes:
        """Return the body of a request."""
        encoded = request.memo.get(self)
        if encoded is None:
            encoded = request.memo[self] = EncodedSession(
                partial(_encode, self._thinking, "after" if self._images else "none", self._vendor),
                _encode_tools,
                _encode_pictures if self._images else None,
            )
        head: dict[str, Any] = {"model": self.model, "stream": True, "stream_options": {"include_usage": True}}
        if self._asks_cost:
            head["usage"] = {"include": True}
        if request.tools:
            head["tools"] = encoded.tools(request)
            if request.tool_choice != "auto":
                head["tool_choice"] = request.tool_choice
        fields = msgspec.json.encode({**head, **self._settings, **request.settings})
        return b'%s,"messages":[%s]}' % (fields[:-1], b",".join(encoded.messages(request)))


def _encode(thinking: ReasoningFormat, pictures: PicturePlacement, vendor: str, message: Message) -> bytes:
    encoded = encode_message(message, thinking, pictures)
    if isinstance(message, AssistantMessage):
        add_returned(message, vendor, encoded)
    return msgspec.json.encode(encoded)


def _encode_pictures(results: Sequence[ToolResult]) -> bytes:
    return msgspec.json.encode(encode_pictures(results))


def _encode_tools(tools: Sequence[ToolSpec]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(encode_tools(tools)))
