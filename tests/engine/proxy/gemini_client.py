"""A client of Gemini's API that reads streams as Google's own clients do, blocking or not."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

KEY = "AIza-0123456789abcdef"
TRUSTS_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that only speak HTTP: without it each of them reads the certificates of all authorities, for 25 ms."""
_EVENT = re.compile(r"\s*data: (.*)(?:\n\n|\r\r|\r\n\r\n)")
"""An event as Google's client for JavaScript finds it: nothing else may stand between two of them."""


_DECODER = json.JSONDecoder()


class GeminiError(Exception):
    """The error of a response, or of a stream."""

    def __init__(self, said: Any, response: httpx.Response) -> None:
        super().__init__(json.dumps(said))
        self.status_code = said["error"]["code"]
        self.response = response


class Response:
    """One response, or one event of a stream."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self.data


class GeminiClient:
    """Sends requests below this URL. blocks: whether it is the blocking one."""

    def __init__(self, url: str, *, blocks: bool) -> None:
        self._url = url
        kind = httpx.Client if blocks else httpx.AsyncClient
        self._client: Any = kind(headers={"x-goog-api-key": KEY}, timeout=60.0, verify=TRUSTS_NOBODY)
        self._blocks = blocks

    def __enter__(self) -> GeminiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    async def __aenter__(self) -> GeminiClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    def whole(self, path: str, body: dict[str, Any]) -> Any:
        if not self._blocks:
            return self._whole_async(path, body)
        return _read(self._client.post(self._url + path, json=body))

    async def _whole_async(self, path: str, body: dict[str, Any]) -> Response:
        return _read(await self._client.post(self._url + path, json=body))

    def stream(self, path: str, body: dict[str, Any]) -> Any:
        opened = self._client.stream("POST", self._url + path, json=body)
        return _opened(opened) if self._blocks else _opened_async(opened)


def _read(reply: httpx.Response) -> Response:
    if reply.status_code != 200:
        raise GeminiError(reply.json(), reply)
    return Response(reply.json())


@contextmanager
def _opened(opened: Any) -> Iterator[Stream]:
    with opened as reply:
        if reply.status_code != 200:
            reply.read()
            _read(reply)
        yield Stream(reply)


@asynccontextmanager
async def _opened_async(opened: Any) -> AsyncIterator[AsyncStream]:
    async with opened as reply:
        if reply.status_code != 200:
            await reply.aread()
            _read(reply)
        yield AsyncStream(reply)


class _Parts:
    """The events of a stream, and the response that they make together."""

    def __init__(self, reply: httpx.Response) -> None:
        self._reply = reply
        self._text = ""
        self._is_array = "json" in reply.headers["content-type"]
        self._events: list[Response] = []

    def _feed(self, text: str) -> list[Response]:
        self._text += text
        found = list(map(self._response, self._take_elements() if self._is_array else self._take_events()))
        self._events += found
        return found

    def _take_events(self) -> Iterator[Any]:
        while event := _EVENT.match(self._text):
            self._text = self._text[event.end() :]
            yield json.loads(event[1])

    def _take_elements(self) -> Iterator[Any]:
        while True:
            text = self._text.lstrip(" \r\n")
            assert text[:1] in ("", ",", "[", "]"), text
            try:
                element, end = _DECODER.raw_decode(text[1:].lstrip())
            except ValueError:
                return
            self._text = text[1:].lstrip()[end:]
            yield element

    def _response(self, data: Any) -> Response:
        if "error" in data:
            raise GeminiError(data, self._reply)
        return Response(data)

    def _end(self) -> None:
        """Fail if more is left than the end: an error is the only thing that is no event."""
        rest = self._text.strip()
        if rest != ("]" if self._is_array else ""):
            raise GeminiError(json.loads(rest), self._reply)

    def so_far(self) -> Response:
        """All parts, with consecutive texts joined. Fails if no event had a finish reason."""
        parts: list[dict[str, Any]] = []
        last: dict[str, Any] = {}
        for event in self._events:
            last |= event.data["candidates"][0]
            for part in event.data["candidates"][0]["content"]["parts"]:
                if parts and part.keys() == parts[-1].keys() == {"text"}:
                    parts[-1] = {"text": parts[-1]["text"] + part["text"]}
                elif part != {"text": ""}:
                    parts.append(part)
        assert last["finishReason"] == "STOP"
        head = {"responseId": self._events[-1].data.get("responseId")}
        return Response({"candidates": [{**last, "content": {"role": "model", "parts": parts}}], **head})


class Stream(_Parts):
    """A stream of a blocking client."""

    def __iter__(self) -> Iterator[Response]:
        for text in self._reply.iter_text():
            yield from self._feed(text)
        self._end()

    def final(self) -> Response:
        return self.so_far()


class AsyncStream(_Parts):
    """A stream."""

    async def __aiter__(self) -> AsyncIterator[Response]:
        async for text in self._reply.aiter_text():
            for event in self._feed(text):
                yield event
        self._end()

    async def final(self) -> Response:
        return self.so_far()
