"""Provider for Gemini's own API, `models/NAME:streamGenerateContent`, of the Gemini API and of Vertex AI."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack
from urllib.parse import quote

from ..decision import WrongUse
from ..decision.public_names import renamed_keywords
from ..decision.wrong_calls import checked
from .endpoint_url import split_credentials
from .gemini_format import RequestEncoder
from .gemini_stream import GeminiStream
from .http_provider import HTTPOptions, HTTPProvider
from .provider import Request, check_model, check_server_tools

GOOGLE = "https://generativelanguage.googleapis.com/v1beta"
KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Environment variables that may hold the key, in the order of Google's own SDK."""


@checked
class Gemini(HTTPProvider):
    """A model behind Gemini's own API, as in `Gemini("gemini-2.5-flash")`.

    - `model`: its name, such as `gemini-2.5-flash`, with its folder if that is not `models/`. It may begin with
      `gemini/`, as litellm has it.
    - `api_key`: by default `GOOGLE_API_KEY` or `GEMINI_API_KEY` from the environment.
    - `api_base`: the URL before `/models/NAME`. For Vertex AI it ends in `/publishers/google`.
    - `access_token`: sent as a bearer token instead of a key, as Vertex AI takes it.
    - `server_tools`: tools that Google runs, as the API takes them: `[{"googleSearch": {}}, {"codeExecution": {}}]`.
      Their calls and results are reported and sent back with the messages, and never executed here.
    - `images`: whether the model can see. Bytes are sent inline, URLs for Google to fetch.
    - `settings`: sent in every request, under Gemini's names (`maxOutputTokens`, `thinkingConfig`, `safetySettings`) or
      those of chat completions (`max_tokens`, `top_p`, `stop`, `reasoning_effort`).
    - Further arguments are those of `HTTPProvider`: timeouts, `largest_response`, redirects, `finish_words`.

    Thought signatures and the calls and results of Google's tools are recorded and sent back unchanged. Use it as an
    async context manager to keep its connections between runs. Raises WrongUse for an argument that cannot work;
    entering it raises WrongUse if there is no key for Google's own server.
    """

    prefix = "gemini/"
    example = "Gemini('gemini-2.5-flash')"
    vendor_url = GOOGLE
    version = "/v1beta"
    key_from = " or ".join(KEY_VARIABLES)

    @renamed_keywords(base_url="api_base")
    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        access_token: str | None = None,
        api_base: str = GOOGLE,
        server_tools: Sequence[Mapping[str, Any]] = (),
        images: bool = True,
        **options: Unpack[HTTPOptions],
    ) -> None:
        name = check_model(model, self.example).removeprefix(self.prefix).strip().removeprefix("models/")
        folder = "" if "/" in name else "models/"
        if api_key and access_token:
            raise WrongUse("give api_key or access_token, not both: only one of them can be sent")
        key = access_token or api_key
        if key is None and not split_credentials(api_base)[1]:
            key = next(filter(None, map(os.environ.get, KEY_VARIABLES)), None)
        path = f"/{folder}{quote(name, safe='/@')}:streamGenerateContent?alt=sse"
        super().__init__(model, api_base, path, api_key=key, **options)
        self._bears = access_token is not None
        self._encoder = RequestEncoder(
            name, images=images, server_tools=check_server_tools(server_tools, {"googleSearch": {}})
        )

    def key_headers(self, key: str) -> dict[str, str]:
        """Return Google's header with the key, or the token as a bearer token."""
        return {"authorization": f"Bearer {key}"} if self._bears else {"x-goog-api-key": key}

    def open_parser(self) -> GeminiStream:
        """Return a new parser for the stream of one response."""
        return GeminiStream(self._finish_words, runs_items=False)

    def encode_request(self, request: Request) -> bytes:
        """Return the body of a request."""
        return self._encoder.encode(request, self._settings)
