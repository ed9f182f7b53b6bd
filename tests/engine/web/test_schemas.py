"""What comes in is read without trusting it: bodies, queries, paths, and bytes that are no HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from endstop.providers._outage import Outage
from endstop.web import Connection, WebLimits
from hypothesis import given
from hypothesis import strategies as st

from ...captured_logs import capture_logs
from .site import PATIENCE, site

JSON = {"content-type": "application/json"}
HEAD = b"POST /sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SMALL = WebLimits(requests_per_second=None, body=2000, text=100)


def _is_problem(response: Any, status: int, code: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert set(told) == {"type", "title", "status", "detail", "code"}
    assert (told["status"], told["code"]) == (status, code)
    assert told["detail"]


async def test_who_sends_the_wrong_fields_is_told_the_right_ones() -> None:
    async with site() as at:
        for body in (b"", b'{"promt": "x"}', b"{}"):
            detail = (await at.client.post("/sessions", content=body, headers=JSON)).json()["detail"]
            assert "`prompt`, and maybe `agent`" in detail, body


BODIES = {
    "nothing": (b"", 400, "malformed"),
    "half": (b'{"prompt": "x', 400, "malformed"),
    "no text": (b"\xff\xfe", 400, "malformed"),
    "half a surrogate pair": (b'{"prompt": "\\ud800"}', 400, "malformed"),
    "bytes that are no UTF-8": (b'{"prompt": "\xed\xa0\x80"}', 400, "malformed"),
    "two": (b'{"prompt": "x"} {}', 400, "malformed"),
    "NaN": (b'{"prompt": NaN}', 400, "malformed"),
    "very deep": (b"[" * 1900, 422, "invalid"),
    "deep in a text": (b'{"prompt": ' + b"[" * 1900, 422, "invalid"),
    "a list": (b"[]", 422, "invalid"),
    "null": (b"null", 422, "invalid"),
    "a number": (b'{"prompt": 7}', 422, "invalid"),
    "no prompt": (b"{}", 422, "invalid"),
    "an empty one": (b'{"prompt": ""}', 422, "invalid"),
    "a blank one": (b'{"prompt": " \\n\\t "}', 422, "invalid"),
    "a field more": (b'{"prompt": "x", "admin": true}', 422, "invalid"),
    "an agent with control characters": (b'{"prompt": "x", "agent": "a\\u0000b"}', 422, "invalid"),
    "an agent with a newline at the end": (b'{"prompt": "x", "agent": "a\\n"}', 422, "invalid"),
}


@pytest.mark.parametrize("what", BODIES)
async def test_a_body_that_does_not_fit_is_refused(what: str) -> None:
    content, status, code = BODIES[what]
    async with site(limits=SMALL) as at:
        _is_problem(await at.client.post("/sessions", content=content, headers=JSON), status, code)
        assert (await at.client.get("/sessions")).json()["sessions"] == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"])
async def test_a_body_of_another_kind_is_refused_as_pages_can_send_it_unasked(kind: str) -> None:
    async with site() as at:
        response = await at.client.post("/sessions", content=b'{"prompt": "x"}', headers={"content-type": kind})
        _is_problem(response, 415, "media_type")


async def test_a_million_characters_are_too_many_and_the_limit_is_not() -> None:
    async with site() as at:
        _is_problem(await at.client.post("/sessions", json={"prompt": "x" * 1_000_000}), 422, "too_long")
        _is_problem(await at.client.post("/sessions", json={"prompt": "ä" * 1_000_000}), 413, "too_large")
        session = await at.start("x" * 200_000)
        assert len(session["title"]) <= 120
        for path in ("runs", "answers", "messages"):
            field = "prompt" if path == "runs" else "text"
            response = await at.client.post(f"/sessions/{session['id']}/{path}", json={field: "x" * 200_001})
            _is_problem(response, 422, "too_long")


async def test_a_body_that_is_too_large_is_refused_before_it_is_all_there() -> None:
    """Whatever its head says of its length: nothing, the truth, or a lie."""
    async with site(limits=SMALL) as at:
        chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
        for sent in (
            HEAD + b"Content-Length: 1000000000000000000000\r\n\r\n",
            HEAD + b"Content-Length: 3000\r\n\r\n",
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk,
        ):
            reader, writer = await at.connect()
            writer.write(sent)
            async with asyncio.timeout(PATIENCE):
                answer = await reader.readuntil(b"}")
            assert answer.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 ")), answer[:100]
            writer.close()


async def test_a_client_that_sends_on_after_its_refusal_still_gets_to_read_it() -> None:
    async def long() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 10_000

    async with site(limits=SMALL) as at:
        response = await at.client.post("/sessions", content=long(), headers=JSON)
        _is_problem(response, 413, "too_large")
        assert (await at.client.get("/health")).status_code == 200


async def test_a_body_that_does_not_come_is_given_up() -> None:
    limits = WebLimits(requests_per_second=None, body_seconds=0.05)
    async with site(limits=limits) as at:
        answer = await at.raw(HEAD + b"Content-Length: 20\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"timeout"' in answer


class _Quick(Connection):
    request_seconds = 0.05
    head_bytes = 2000


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HT", b"GET / HTTP/1.1\r\nHost: local"])
async def test_a_client_that_never_ends_its_head_is_hung_up_on(sent: bytes) -> None:
    async with site(http=_Quick) as at:
        answer = await at.raw(sent)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"timeout"' in answer


async def test_an_endless_head_is_refused() -> None:
    async with site(http=_Quick) as at:
        answer = await at.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 5000)
        assert answer.startswith(b"HTTP/1.1 431 ")
        answer = await at.raw(b"GET /" + b"x" * 5000)
        assert answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"GET /\x00 HTTP/1.1\r\n\r\n"])
async def test_what_is_no_http_is_refused_as_such(sent: bytes) -> None:
    async with site() as at:
        answer = await at.raw(sent)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "malformed"


async def test_beyond_the_number_of_connections_the_next_are_refused_which_is_one_line() -> None:
    class Few(Connection):
        too_many = Outage("too many")

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self._max_connections = 2

    async with site(http=Few) as at:
        others = [await at.connect() for _ in range(2)]
        with capture_logs() as logged:
            for _ in range(2):
                answer = await at.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b'"code":"connections"' in answer
        for _, writer in others:
            writer.close()
    (line,) = logged
    assert (line["event"], line["most"]) == ("too many", 2)


QUERIES = [
    "limit=0",
    "limit=201",
    "limit=x",
    "limit=",
    "limit=1&limit=2",
    "status=lost",
    "before=",
    "limits=5",
    "before=no",
    "status=null",
]


@pytest.mark.parametrize("query", QUERIES)
async def test_a_query_that_does_not_fit_is_refused(query: str) -> None:
    async with site() as at:
        _is_problem(await at.client.get(f"/sessions?{query}"), 422, "invalid")


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "inf", "x", ""])
async def test_a_wait_that_does_not_fit_is_refused(wait: str) -> None:
    async with site() as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        response = await at.client.get(f"/runs/{session['run_id']}/outcome", params={"wait": wait})
        _is_problem(response, 422, "invalid")


@pytest.mark.parametrize("id", ["session_0", "%00", "..%2f..%2fetc", "%F0%9F%92%A9", "x" * 5000, "'; DROP TABLE x"])
@pytest.mark.parametrize("rest", ["", "/events", "/record"])
async def test_an_id_that_there_is_not_is_404(id: str, rest: str) -> None:
    async with site() as at:
        response = await at.client.get(f"/sessions/{id}{rest}")
        assert response.status_code == 404
        assert response.json()["code"] in ("session", "not_found")


async def test_paths_and_methods_that_there_are_not_are_problems_too() -> None:
    async with site() as at:
        _is_problem(await at.client.get("/sessionss"), 404, "not_found")
        _is_problem(await at.client.get("/sessions/"), 404, "not_found")
        refused = await at.client.put("/sessions")
        _is_problem(refused, 405, "method_not_allowed")
        assert {"GET", "POST"} <= set(refused.headers["allow"].replace(" ", "").split(","))
        _is_problem(await at.client.request("BREW", "/sessions"), 400, "malformed")


async def test_an_unexpected_error_says_no_more_than_where_the_log_has_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site() as at:

        async def fails(*given: Any, **named: Any) -> None:
            hidden = "a secret in a variable"
            raise RuntimeError(f"the pump is broken, {len(hidden)}")

        monkeypatch.setattr(at.service, "session", fails)
        response = await at.client.get("/sessions/session_1")
        _is_problem(response, 500, "internal")
        assert "pump" not in response.text
        printed = caplog.text
        number = response.json()["detail"].rpartition(" ")[2]
        assert number in printed
        assert "the pump is broken" in printed
        assert "a secret in a variable" not in printed


REQUESTS = st.tuples(
    st.sampled_from(["POST", "GET", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH"]),
    st.sampled_from(["/sessions", "/sessions/s", "/sessions/s/runs", "/sessions/s/answers", "/sessions/s/messages",
                     "/sessions/s/cancel", "/sessions/s/resume", "/sessions/s/events", "/runs/r/outcome", "/x"]),
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["prompt", "text", "agent", "call_id", "cause", "x"]), inner, max_size=4),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)  # fmt: skip


def test_whatever_is_sent_is_answered_and_never_by_an_error_of_ours() -> None:
    """One server gets it all: what it has been sent before is no excuse."""
    with asyncio.Runner() as loop:
        up = site()
        at = loop.run(up.__aenter__())

        async def ask(method: str, path: str, body: bytes) -> None:
            response = await at.client.request(method, path, content=body, headers=JSON)
            assert response.status_code < 500
            if response.status_code >= 400 and method != "HEAD":
                assert response.headers["content-type"] == "application/problem+json"
                assert response.json()["status"] == response.status_code

        @given(REQUESTS)
        def ask_all(request: tuple[str, str, bytes]) -> None:
            loop.run(ask(*request))

        try:
            ask_all()
        finally:
            loop.run(up.__aexit__(None, None, None))


async def test_requests_that_are_sent_byte_by_byte_are_understood() -> None:
    async with site() as at:
        reader, writer = await at.connect()
        for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":
            writer.write(bytes([byte]))
            await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
