"""Provider for Gemini's own API, `models/NAME:streamGenerateContent`, of the Gemini API and of Vertex AI."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self, Unpack
from urllib.parse import quote, urlsplit

import msgspec

from ..decision import WrongUse
from .endpoint_url import split_credentials
from .gemini_format import RequestEncoder
from .gemini_stream import GeminiStream
from .http_provider import HTTPOptions, HTTPProvider
from .provider import Request, check_model

GOOGLE = "https://generativelanguage.googleapis.com/v1beta"
KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Where the key is looked for, in the order of Google's own SDK."""


class Gemini(HTTPProvider):
    """A model behind Gemini's own API.

    - `model`: its name, such as `gemini-2.5-flash`, with its folder if that is not `models/`. It may begin with
      `gemini/`, as litellm has it.
    - `api_key`: by default `GOOGLE_API_KEY` or `GEMINI_API_KEY` from the environment.
    - `base_url`: the URL up to, and without, `/models/NAME`. For Vertex AI it ends in `/publishers/google`.
    - `access_token`: sent as a bearer token instead of a key, as Vertex AI takes it.
    - `server_tools`: tools that Google runs, as the API takes them: `[{"googleSearch": {}}, {"codeExecution": {}}]`.
      What they do is reported, and sent back with the messages; nothing of it runs here.
    - `images`: whether the model can see. Bytes are sent inline, URLs for Google to fetch.
    - `settings`: sent in every request, under Gemini's names (`maxOutputTokens`, `thinkingConfig`, `safetySettings`) or
      those of chat completions (`max_tokens`, `top_p`, `stop`, `reasoning_effort`).
    - Further arguments are those of `HTTPProvider`: timeouts, `largest_response`, redirects, `finish_words`.

    Thought signatures and what Google's tools did are recorded and sent back unchanged. Use it as an async context
    manager to keep its connections between runs. Raises WrongUse for an argument that cannot work; entering it raises
    WrongUse if there is no key for Google's own server.
    """

    prefix = "gemini/"
    example = "Gemini('gemini-2.5-flash')"

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        access_token: str | None = None,
        base_url: str = GOOGLE,
        server_tools: Sequence[Mapping[str, Any]] = (),
        images: bool = True,
        **options: Unpack[HTTPOptions],
    ) -> None:
        name = check_model(model, self.example).removeprefix(self.prefix).strip().removeprefix("models/")
        folder = "" if "/" in name else "models/"
        if api_key and access_token:
            raise WrongUse("there is an api_key and an access_token, but only one of them can be sent: leave one out")
        key = access_token or api_key
        if key is None and not split_credentials(base_url)[1]:
            key = next(filter(None, map(os.environ.get, KEY_VARIABLES)), None)
        path = f"/{folder}{quote(name, safe='/@')}:streamGenerateContent?alt=sse"
        super().__init__(model, base_url, path, api_key=key, **options)
        self._bears = access_token is not None
        self._own_server = self._place.hostname == urlsplit(GOOGLE).hostname
        self._encoder = RequestEncoder(name, images=images, server_tools=_check_server_tools(server_tools))

    @property
    def endpoint(self) -> str:
        """The base URL without secrets, for records; empty for Google's own server."""
        return "" if self._own_server else super().endpoint

    def __repr__(self) -> str:
        return f"Gemini({self.model!r})" if self._own_server else super().__repr__()

    async def __aenter__(self) -> Self:
        if self._own_server and not self.has_credentials:
            raise WrongUse(f"model {self.model!r} needs a key: set {' or '.join(KEY_VARIABLES)}, or give api_key")
        return await super().__aenter__()

    def key_headers(self, key: str) -> dict[str, str]:
        """The key in Google's header, or the token as a bearer token."""
        return {"authorization": f"Bearer {key}"} if self._bears else {"x-goog-api-key": key}

    def open_parser(self) -> GeminiStream:
        """A parser for one response."""
        return GeminiStream(self._finish_words)

    def encode_request(self, request: Request) -> bytes:
        """The body of a request."""
        return self._encoder.encode(request, self._settings)


def _check_server_tools(tools: Any) -> list[Mapping[str, Any]]:
    if isinstance(tools, Mapping | str) or not isinstance(tools, Sequence):
        raise WrongUse(f"server_tools is {tools!r}: use a list, as [{{'googleSearch': {{}}}}]")
    for tool in tools:
        if not isinstance(tool, Mapping):
            raise WrongUse(
                f"server_tools: {tool!r} is not a tool: use what Gemini's API takes, as {{'googleSearch': {{}}}}"
            )
        try:
            msgspec.json.encode(tool)
        except (TypeError, ValueError, RecursionError):
            raise WrongUse(f"server_tools: {tool!r} is not JSON: use what Gemini's API takes") from None
    return list(tools)
