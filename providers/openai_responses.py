"""Provider for OpenAI's Responses API, streamed and stateless.

Each request holds the whole session and sets `store: false`. So the vendor stores nothing, a record can be replayed and
forked, and compaction changes what the model reads. Items that only the vendor can read, such as encrypted reasoning,
are kept in the session and sent back unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import msgspec

from ..decision import Message, SystemMessage, ToolSpec, WrongUse
from ..decision.public_names import renamed_keywords
from ..decision.wrong_calls import checked
from .http_provider import HTTPOptions, HTTPProvider
from .openai_format import EncodedSession
from .provider import Request, check_server_tools
from .responses_format import encode_message, encode_tools
from .responses_stream import ResponsesStream

OPENAI_URL = "https://api.openai.com/v1"
ENCRYPTED = "reasoning.encrypted_content"
"""Value of `include` that asks for encrypted reasoning, which can be sent back."""
_NO_REASONING = re.compile(r"(?:.*/)?(?:gpt-3|gpt-4|chatgpt-4|gpt-5-chat)")
"""Models of OpenAI that do not reason. They reject a request that asks for encrypted reasoning."""
_OTHER_NAMES = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
"""Settings that have other names in chat completions."""
_STATEFUL = {
    "previous_response_id": "each request holds the whole session: leave it out",
    "conversation": "each request holds the whole session: leave it out",
    "background": "a response is streamed while it is made: leave it out",
    "input": "pass the prompt to run(...) or start(...)",
    "instructions": "give them to the engine: Engine(provider, system=...)",
}


@checked
class OpenAIResponses(HTTPProvider):
    """A model behind OpenAI's Responses API, as in `OpenAIResponses("gpt-5.4")`; its name may begin with `openai/`.

    - `api_key`: by default `OPENAI_API_KEY` from the environment.
    - `api_base`: another server with the Responses API, up to and without `/responses`. A user and password in it are
      sent instead of a key; without either, no key is sent. It is sent the model's name unchanged.
    - `server_tools`: tools that the provider runs itself, as its API takes them: `[{"type": "web_search"}]`. Their use
      is reported and never executed here. A tool of type `custom` runs here if the engine has a tool of the same name
      with one parameter, `input`.
    - `encrypted_reasoning`: whether reasoning is requested in encrypted form, so that it can be sent back with the next
      request; by default for all models except OpenAI's non-reasoning ones.
    - `images`: whether the model can see. If so, images of prompts and of tool results are sent in their places; if
      not, they are left out and only named in the texts.
    - `settings`: sent in every request (`temperature`, `max_output_tokens`, `reasoning`, ...). `max_tokens` and
      `reasoning_effort` are sent under this API's names for them.

    All other arguments are those of `HTTPProvider`. Use it as an async context manager to keep its connections between
    runs. Raises WrongUse for an argument that cannot work; entering it raises WrongUse if there is no key for OpenAI's
    own server.
    """

    prefix = "openai/"
    example = "OpenAIResponses('gpt-5.4')"
    key_variable = "OPENAI_API_KEY"
    vendor_url = OPENAI_URL
    request_id_header = "x-request-id"

    @renamed_keywords(base_url="api_base")
    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        api_base: str = OPENAI_URL,
        server_tools: Sequence[Mapping[str, Any]] = (),
        encrypted_reasoning: bool | None = None,
        images: bool = True,
        **options: Unpack[HTTPOptions],
    ) -> None:
        super().__init__(model, api_base, "/responses", api_key=api_key, **options)
        if not self._is_vendor:
            self.model_name = self.model
        self._server_tools = _check_server_tools(server_tools)
        self._custom = frozenset(tool["name"] for tool in self._server_tools if tool["type"] == "custom")
        asks = _NO_REASONING.match(self.model_name) is None if encrypted_reasoning is None else encrypted_reasoning
        self._include = [ENCRYPTED] if asks else []
        self._images = images
        self._settings = _renamed(_check_stateless(self._settings))

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the header with the key as a bearer token."""
        return {"authorization": f"Bearer {key}"}

    def open_parser(self) -> ResponsesStream:
        """Return a new parser for the stream of one response."""
        return ResponsesStream(self._finish_words, self._custom, runs_items=False)

    def encode_request(self, request: Request) -> bytes:
        """Return the body of a request."""
        encoded = request.memo.get(self)
        if encoded is None:
            encoded = request.memo[self] = EncodedSession(self._encode_message, self._encode_tools)
        head: dict[str, Any] = {"model": self.model_name, "stream": True, "store": False}
        items = encoded.messages(request)
        first = request.messages[0] if request.messages else None
        if isinstance(first, SystemMessage):
            head["instructions"] = first.text
            items = items[1:]
        if request.tools or self._server_tools:
            head["tools"] = encoded.tools(request)
            if request.tool_choice != "auto":
                head["tool_choice"] = request.tool_choice
        head |= {**self._settings, **_renamed(request.settings)}
        if include := [*self._include, *(one for one in head.get("include", ()) if one not in self._include)]:
            head["include"] = include
        return b'%s,"input":[%s]}' % (msgspec.json.encode(head)[:-1], b",".join(filter(None, items)))

    def _encode_message(self, message: Message) -> bytes:
        return msgspec.json.encode(encode_message(message, self._custom, self._images))[1:-1]

    def _encode_tools(self, tools: Sequence[ToolSpec]) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode([*encode_tools(tools, self._custom), *self._server_tools]))


def _check_server_tools(tools: Any) -> list[dict[str, Any]]:
    """Check server tools, and return them as a list of their fields. Raises WrongUse for one that cannot be sent."""
    checked = check_server_tools(tools, {"type": "web_search"})
    for tool in checked:
        if tool["type"] == "function":
            raise WrongUse(f"server_tools: {tool.get('name')!r} is a function: give it to the engine, as tools=[...]")
        if tool["type"] == "custom" and not isinstance(tool.get("name"), str):
            raise WrongUse("server_tools: a tool of type 'custom' needs the name of a tool of the engine")
    return checked


def _check_stateless(settings: dict[str, Any]) -> dict[str, Any]:
    for name in settings.keys() & _STATEFUL.keys():
        raise WrongUse(f"settings: {name!r} is not a setting here: {_STATEFUL[name]}")
    return settings


def _renamed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings under this API's names."""
    renamed = {_OTHER_NAMES.get(name, name): value for name, value in settings.items()}
    if (effort := renamed.pop("reasoning_effort", None)) is not None:
        renamed["reasoning"] = {**(renamed.get("reasoning") or {}), "effort": effort}
    return renamed
