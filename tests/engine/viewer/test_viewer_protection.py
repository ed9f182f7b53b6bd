"""Who may use the viewer, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from endstop.process.tokens import Tokens
from endstop.viewer.viewer_app import ViewerOptions
from yarl import URL

from .viewing import RECORDS, viewing

LOOP = RECORDS / "loop.jsonl"


@pytest.mark.parametrize("path", ["/", "/sessions", "/facets", "/report"])
async def test_a_name_that_is_not_of_this_machine_is_refused(path: str) -> None:
    async with viewing(LOOP) as site:
        refused = await site.get(path, 421, Host="attacker.example:8644")
        assert refused["code"] == "host"


async def test_pages_of_other_origins_are_refused_and_a_link_from_them_is_not() -> None:
    async with viewing(LOOP) as site:
        assert (await site.get("/sessions", 403, Origin="https://attacker.example"))["code"] == "origin"
        assert (await site.get("/sessions", 403, **{"Sec-Fetch-Site": "cross-site"}))["code"] == "origin"
        opened = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert (await site.get("/sessions", **opened))["total"] == 1
        assert (await site.get("/sessions", Origin=site.url))["total"] == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_the_viewer_only_reads(method: str) -> None:
    async with viewing(LOOP) as site, site.client.request(method, f"{site.url}/sessions", json={}) as reply:
        assert reply.status == 405
        assert reply.content_type == "application/problem+json"
        assert "GET" in reply.headers["Allow"]


@pytest.mark.parametrize(
    "path",
    [
        "/page/../viewer_app.py",
        "/page/..%2f..%2fviewer%2fviewer_app.py",
        "/page//etc/passwd",
        "/sessions/..%2f..%2fetc/record",
    ],
)
async def test_no_path_leads_out_of_the_page_or_the_records(path: str) -> None:
    from yarl import URL

    async with viewing(LOOP) as site, site.client.get(URL(site.url + path, encoded=True)) as reply:
        assert reply.status == 404
        assert "root:" not in await reply.text()


async def test_with_tokens_everything_but_the_page_needs_one() -> None:
    options = ViewerOptions(tokens=Tokens({"ann": "secret-of-ann"}))
    async with viewing(LOOP, options=options) as site:
        assert (await site.get("/sessions", 401))["code"] == "token"
        await site.get("/facets", 401, Authorization="Bearer wrong")
        found = await site.get("/sessions", Authorization="Bearer secret-of-ann", Host="viewer.example")
        assert found["total"] == 1
        async with site.client.get(site.url) as reply:
            assert reply.status == 200


async def test_every_response_has_the_security_headers_and_a_report_its_own() -> None:
    made: list[Sequence[Path]] = []

    def report(paths: Sequence[Path]) -> str:
        made.append(paths)
        return "<title>report</title>"

    async with viewing(LOOP, options=ViewerOptions(report=report)) as site:
        for path in ("/", "/sessions", "/nothing", "/page/style.css"):
            async with site.client.get(site.url + path) as reply:
                assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
                assert reply.headers["X-Content-Type-Options"] == "nosniff"
        for _ in range(2):
            async with site.client.get(f"{site.url}/report") as reply:
                assert await reply.text() == "<title>report</title>"
                assert "frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]
    assert made == [[LOOP]], "made once for the same files"


async def test_an_unexpected_error_is_told_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    def report(paths: Sequence[Path]) -> str:
        raise RuntimeError("the text of the error")

    async with viewing(LOOP, options=ViewerOptions(report=report)) as site:
        problem = await site.get("/report", 500)
    assert "the text of the error" not in problem["detail"]
    assert "the text of the error" in caplog.text


async def test_a_request_whose_head_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endstop.http.idle_connections.HEAD_SECONDS", 0.2)
    async with viewing(LOOP) as site, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", URL(site.url).port)
        writer.write(b"GET /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept:")
        assert await reader.read() == b""
        writer.close()
        assert (await site.get("/sessions"))["total"] == 1
