"""`check_hostile_endpoints`: our providers stand every endpoint, and planted defects are found."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from endstop import Engine, Run, Tool, WrongUse
from endstop.decision import FinishReport, TextDelta, ToolCallDelta
from endstop.providers import (
    Anthropic,
    Gemini,
    OpenAICompatible,
    OpenAIResponses,
    Provider,
    ProviderError,
    Request,
    Unavailable,
)
from endstop.testing.faults import HOSTILE_ENDPOINTS, FaultReport, check_hostile_endpoints

LONG = pytest.mark.long
KEY = "planted-3f9c1d7e5b2a8640"
LARGEST, SIZE = 1_000_000, 16_000_000
"""Bytes of a response, and of one that never ends; the kernel takes a few megabytes that nobody reads."""
PROVIDERS: dict[str, Callable[[str], Provider]] = {
    "chat": lambda url: OpenAICompatible("m", url, api_key=KEY, largest_response=LARGEST),
    "responses": lambda url: OpenAIResponses("m", api_base=url, api_key=KEY, largest_response=LARGEST),
    "anthropic": lambda url: Anthropic("m", api_base=url, api_key=KEY, largest_response=LARGEST),
    "gemini": lambda url: Gemini("m", api_base=url, api_key=KEY, largest_response=LARGEST),
}
EVERY_THIRD = list(HOSTILE_ENDPOINTS)[::3]


def asking(make: Callable[[str], Provider], **options: Any) -> Callable[[Path, str], Run]:
    async def look(place: str = "") -> str:
        return "seen"

    tool = Tool(look, description="Look.")
    return lambda record, url: Engine(make(url), tools=[tool], **options).start("Which port?", record=record)


def test_there_are_more_than_fifty_and_each_says_what_it_does() -> None:
    assert len(HOSTILE_ENDPOINTS) > 100
    assert all(endpoint.what.endswith(".") for endpoint in HOSTILE_ENDPOINTS.values())
    assert {endpoint.acceptable for endpoint in HOSTILE_ENDPOINTS.values()} == {"completed", "failed", "either"}


def assert_stands(report: FaultReport, tried: int) -> None:
    print(report)
    assert report.ok, report
    assert report.tried == tried
    assert min(report.ends["text_final"], report.ends["provider_error"]) > tried / 8


def test_a_provider_stands_every_third_endpoint() -> None:
    report = check_hostile_endpoints(asking(PROVIDERS["chat"]), only=EVERY_THIRD, size=SIZE)
    assert_stands(report, len(EVERY_THIRD))


@LONG
@pytest.mark.parametrize("name", PROVIDERS)
def test_our_providers_stand_every_endpoint(name: str) -> None:
    assert_stands(check_hostile_endpoints(asking(PROVIDERS[name]), size=SIZE), len(HOSTILE_ENDPOINTS))


@LONG
def test_the_bounds_hold_as_they_are_by_default() -> None:
    endless = [name for name in HOSTILE_ENDPOINTS if name.endswith(("endless", "flood", "bomb", "enormous"))]
    report = check_hostile_endpoints(asking(lambda url: OpenAICompatible("m", url, api_key=KEY)), only=endless)
    print(report)
    assert report.ok, report


# ---- planted defects


def broken(report: FaultReport) -> set[str]:
    assert not report.ok, report
    return {violation.invariant for violation in report.violations}


class Naive:
    """A provider as somebody writes it in an afternoon: no bounds, no retries, no care. Each defect is switched on."""

    model = "naive"

    def __init__(
        self, url: str, *, leaks: bool = False, tells: bool = False, believes: bool = False, redirected: bool = False
    ) -> None:
        self._url = f"{url}/chat/completions"
        self._leaks, self._tells, self._believes, self._redirected = leaks, tells, believes, redirected

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Any]]:
        session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=36_000))
        LEAKED.append(session)
        try:
            yield self._chunks(session)
        finally:
            if not self._leaks:
                await session.close()

    async def _chunks(self, session: aiohttp.ClientSession) -> AsyncIterator[Any]:
        headers = {"authorization": f"Bearer {KEY}"}
        body = b'{"tools": [{"name": "look"}]}'
        try:
            response = await session.post(self._url, data=body, headers=headers, allow_redirects=self._redirected)
            text = await response.content.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable(f"{type(error).__name__}") from error
        if response.status >= 400:
            raise Unavailable(f"{response.status} with {KEY}" if self._tells else f"{response.status}")
        if b'"tool_calls"' in text:
            yield ToolCallDelta(0, "a", "look", '{"place": "there"}')
            yield FinishReport("tool_calls", "tool_calls")
        elif b"[DONE]" in text or self._believes:
            yield TextDelta("8080")
            yield FinishReport("stop", "stop")
        else:
            raise Unavailable("no end")


LEAKED: list[aiohttp.ClientSession] = []


def naive(only: str, **defects: Any) -> FaultReport:
    try:
        return check_hostile_endpoints(
            asking(lambda url: Naive(url, **defects)), only=[only], size=SIZE, memory=60_000_000
        )
    finally:
        LEAKED.clear()


def test_the_naive_provider_without_a_defect_passes_what_is_simple() -> None:
    report = check_hostile_endpoints(asking(Naive), only=["status_500_html", "lines_crlf", "redirect_elsewhere"])
    assert report.ok, report


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("endpoint", "defects", "invariant"),
    [
        ("stall_before_headers", {}, "bounded"),
        ("comments_flood", {}, "bounded"),
        ("gzip_bomb", {}, "bounded"),
        ("lines_crlf", {"leaks": True}, "nothing_left"),
        ("error_quotes_key", {"tells": True}, "key_hidden"),
        ("redirect_elsewhere", {"redirected": True}, "same_host"),
        ("close_inside_body", {"believes": True}, "acceptable"),
        ("finish_missing", {"believes": True}, "acceptable"),
        ("byte_order_mark", {"spoils": True}, "acceptable"),
        ("call_never_whole", {}, "acceptable"),
    ],
)
def test_a_planted_defect_is_found(endpoint: str, defects: dict[str, bool], invariant: str) -> None:
    if defects.pop("spoils", False):
        report = check_hostile_endpoints(asking(lambda url: Naive(f"{url}/nowhere?")), only=["status_204"])
        assert report.ok, report
        report = check_hostile_endpoints(asking(Refusing), only=[endpoint])
    else:
        report = naive(endpoint, **defects)
    assert invariant in broken(report)
    assert report.violations[0].repeat == f"only=[{endpoint!r}]"


class Refusing(Naive):
    """Takes a good answer for an error."""

    async def _chunks(self, session: aiohttp.ClientSession) -> AsyncIterator[Any]:
        async with session.post(self._url, data=b"{}") as response:
            await response.read()
        raise Unavailable("it is wrong")
        yield


class Insisting(Naive):
    """Asks again without an end."""

    async def _chunks(self, session: aiohttp.ClientSession) -> AsyncIterator[Any]:
        for _ in range(50):
            async with session.post(self._url, data=b"{}") as response:
                await response.read()
        raise ProviderError("it gives up")
        yield


def test_a_provider_that_asks_again_and_again_is_found() -> None:
    report = check_hostile_endpoints(asking(Insisting), only=["status_500_html"])
    assert "bounded" in broken(report)
    assert "requests; the limit is 10" in report.violations[0].seen


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (asking(PROVIDERS["chat"]), {"only": ["nobody"]}, "give a list of some of status_204"),
        (asking(PROVIDERS["chat"]), {"only": "html"}, "give a list of some of"),
        (asking(lambda url: OpenAICompatible("m", "http://127.0.0.1:9/v1")), {"only": ["html"]}, "got a request"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        check_hostile_endpoints(make, **options)
