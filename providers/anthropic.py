"""Provider for Claude through Anthropic's Messages API, without the vendor's library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Unpack
from urllib.parse import urlsplit

import msgspec

from ..decision import ToolSpec, WrongUse
from ..decision.public_names import renamed_keywords
from ..decision.wrong_calls import checked
from .anthropic_format import Turn, TurnJoiner, encode_system, encode_tools, encode_turn
from .anthropic_stream import AnthropicStream
from .cache_marks import CacheMarks
from .http_provider import HTTPOptions, HTTPProvider
from .openai_format import EncodedSession
from .provider import Request, check_server_tools

HOST = "https://api.anthropic.com"
VERSION = "2023-06-01"
"""API version that requests name (Anthropic API reference, "Versions")."""
MAX_TOKENS = 32_000
"""Default limit on a response: what every model since Claude 3.7 can write."""
OLDER = {"claude-3-5": 8_192, "claude-3-7": MAX_TOKENS, "claude-3": 4_096, "claude-2": 4_096}
"""Default limits for older models, by a part of their names."""
OTHER_NAMES = {"stop": "stop_sequences", "max_completion_tokens": "max_tokens"}
"""Settings of chat completions that this API names differently."""
CHOICES = {"required": "any", "none": "none"}
"""The API's names for a `tool_choice`. `auto` is its default and not sent."""


@checked
class Anthropic(HTTPProvider):
    """A Claude model, as in `Anthropic("claude-sonnet-4-5")`; its name may begin with `anthropic/`.

    - `api_key`: by default `ANTHROPIC_API_KEY` from the environment.
    - `api_base`: another server with the Messages API, with or without `/v1`. A user and password in it are sent
      instead of a key; without either, no key is sent.
    - `settings`: sent in every request (`temperature`, `thinking`, ...). `stop` is sent as `stop_sequences`; `seed` is
      left out, because the API has none. `max_tokens`, which the API requires, is 32,000 unless it is set here or in
      `ModelOptions(settings=...)`; 8,192 for Claude 3.5, 4,096 for Claude 3.
    - `server_tools`: tools that Anthropic runs itself, as its documentation writes them:
      `[{"type": "web_search_20250305", "name": "web_search"}]`. Their use is reported and never executed here.
    - `betas`: names of features in preview, sent as `anthropic-beta`.
    - `cache`: whether to mark the stable part of a session for the prompt cache.
    - `images`: whether the model can see images.

    Thinking with its signature, results of server tools, citations and whatever else the API wants back is recorded
    and sent back unchanged. All other arguments are those of `HTTPProvider`. Raises WrongUse for an argument that
    cannot work; entering it raises WrongUse if there is no key for Anthropic's own server.
    """

    prefix = "anthropic/"
    example = "Anthropic('claude-sonnet-4-5')"
    key_variable = "ANTHROPIC_API_KEY"
    vendor_url = HOST
    request_id_header = "request-id"

    @renamed_keywords(base_url="api_base")
    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        api_base: str = HOST,
        server_tools: Sequence[Mapping[str, Any]] = (),
        betas: Sequence[str] = (),
        cache: bool = True,
        images: bool = True,
        **options: Unpack[HTTPOptions],
    ) -> None:
        path = "/messages" if _names_version(api_base) else "/v1/messages"
        super().__init__(model, api_base, path, api_key=api_key, **options)
        self._server_tools = check_server_tools(server_tools, {"type": "web_search_20250305", "name": "web_search"})
        self._betas = _check_betas(betas)
        self._cache = cache
        self._images = images

    def key_headers(self, key: str) -> dict[str, str]:
        """Return Anthropic's header with the key."""
        return {"x-api-key": key}

    def request_headers(self) -> dict[str, str]:
        """Return the headers with the API version and the preview features."""
        betas = {"anthropic-beta": ",".join(self._betas)} if self._betas else {}
        return {"anthropic-version": VERSION, **betas}

    def open_parser(self) -> AnthropicStream:
        """Return a new parser for the stream of one response."""
        return AnthropicStream(self._finish_words, runs_items=False)

    def encode_request(self, request: Request) -> bytes:
        """Return the body of a request."""
        encoded, marks, joiner = request.memo.get(self) or request.memo.setdefault(self, self._new_session())
        turns: list[Turn] = encoded.messages(request)
        stable, places = len(turns) - len(request.ephemeral), frozenset[int]()
        if self._cache:
            places = marks.places(lambda at: turns[at].role, stable, request.edition)
        head: dict[str, Any] = {"model": self.model_name, "max_tokens": _max_tokens(self.model_name), "stream": True}
        if system := encode_system(turns, mark=self._cache):
            head["system"] = msgspec.Raw(system)
        if request.tools or self._server_tools:
            head["tools"] = encoded.tools(request)
            if request.tool_choice != "auto":
                head["tool_choice"] = {"type": CHOICES[request.tool_choice]}
        fields = msgspec.json.encode({**head, **_settings({**self._settings, **request.settings})})
        return b'%s,"messages":%s}' % (fields[:-1], joiner.join(turns, places, stable, request.edition))

    def _new_session(self) -> tuple[EncodedSession[Turn, msgspec.Raw], CacheMarks, TurnJoiner]:
        encoded = EncodedSession(partial(encode_turn, images=self._images), self._encode_tools)
        return encoded, CacheMarks(), TurnJoiner()

    def _encode_tools(self, tools: Sequence[ToolSpec]) -> msgspec.Raw:
        """Encode the tools, marking the last one for the prompt cache, which then covers all of them."""
        every = [*self._server_tools, *encode_tools(tools)]
        if self._cache and every:
            every[-1] = {**every[-1], "cache_control": {"type": "ephemeral"}}
        return msgspec.Raw(msgspec.json.encode(every))


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings under the API's names, without `seed`: the API rejects settings that it does not know."""
    found = {OTHER_NAMES.get(name, name): value for name, value in settings.items() if name != "seed"}
    if isinstance(found.get("stop_sequences"), str):
        found["stop_sequences"] = [found["stop_sequences"]]
    return found


def _names_version(url: str) -> bool:
    try:
        return urlsplit(url).path.rstrip("/").endswith("/v1")
    except ValueError:
        return False  # an invalid URL, which is said elsewhere


def _max_tokens(model: str) -> int:
    return next((tokens for name, tokens in OLDER.items() if name in model), MAX_TOKENS)


def _check_betas(betas: Any) -> tuple[str, ...]:
    if isinstance(betas, str) or not all(isinstance(name, str) and name.isprintable() and name for name in betas):
        raise WrongUse(f"betas is {betas!r}: give a list of names, as in ['interleaved-thinking-2025-05-14']")
    return tuple(betas)
