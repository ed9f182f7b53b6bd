"""An error of a connection, or a reply that no model gave, says what to change in the address or the key."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from endstop.providers import Anthropic, Gemini, OpenAICompatible, OpenAIResponses, ProviderError
from endstop.providers.endpoint_hints import EndpointAddress

from .streams import chunks_of

PAGE = "<!doctype html><html><body>Welcome</body></html>"
REPLIES: dict[str, Any] = {
    "page": lambda: web.Response(text=PAGE, content_type="text/html"),
    "page404": lambda: web.Response(status=404, text=PAGE, content_type="text/html"),
    "no_model": lambda: web.json_response({"error": {"message": "The model `m` does not exist"}}, status=404),
    "key": lambda: web.json_response({"error": {"message": "no"}}, status=401),
    "forbidden": lambda: web.Response(status=403, text="Forbidden"),
    "method": lambda: web.Response(status=405, text="Method Not Allowed"),
    "other": lambda: web.json_response({"error": "Unexpected endpoint or method"}),
    "tls": lambda: web.Response(status=400, text="The plain HTTP request was sent to HTTPS port"),
    "moved": lambda: web.Response(status=301, headers={"location": "https://models.example/v1/chat/completions"}),
    "login": lambda: web.Response(status=302, headers={"location": "/login"}),
}


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """A server that is none of a model: the first part of a path says what it answers, and all others are unknown."""
    app = web.Application()

    async def answer(request: web.Request) -> web.Response:
        reply: web.Response = REPLIES[request.match_info["kind"]]()
        return reply

    kinds = "|".join(REPLIES)
    app.router.add_route("*", f"/{{kind:{kinds}}}/{{rest:.*}}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    await runner.cleanup()


async def error_of(provider: Any) -> str:
    with pytest.raises(ProviderError) as raised:
        await chunks_of(provider)
    return str(raised.value)


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("", "the server has no {0}/chat/completions: try api_base='{0}/v1'"),
        ("/", "try api_base='{0}/v1'"),
        ("/v1/v1", "try api_base='{0}/v1'"),
        ("/v1/models", "try api_base='{0}/v1'"),
        ("/v1/completions", "try api_base='{0}/v1'"),
        ("/api/v1/embeddings", "try api_base='{0}/api/v1'"),
        ("/v2", "check the path in api_base"),
        ("/page", "a web page answers at {0}/page/chat/completions: try api_base='{0}/page/v1'"),
        ("/page404/v1", "a web page answers at {0}/page404/v1/chat/completions: check the path in api_base"),
        ("/no_model/v1", "the path is right: check the name of the model"),
        ("/key/v1", "no key was sent: set OPENAI_API_KEY, or give api_key"),
        ("/forbidden/v1", "no key was sent: set OPENAI_API_KEY, or give api_key"),
        ("/method", "try api_base='{0}/method/v1'"),
        ("/other", "another API may answer at {0}/other/chat/completions: try api_base='{0}/other/v1'"),
        ("/tls/v1", "it is a server with TLS: try api_base='https"),
        ("/moved/v1", "give api_base='https://models.example/v1'"),
        ("/login/v1", "a redirect that would lose the request: check api_base"),
    ],
)
async def test_a_reply_that_no_model_gave_says_what_to_change(
    address: str, path: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert hint.format(address) in await error_of(OpenAICompatible("m", address + path))


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        (OpenAIResponses, "try api_base='{0}/v1'"),
        (Gemini, "try api_base='{0}/v1beta'"),
        (Anthropic, "the server has no {0}/v1/messages: check the path in api_base"),
    ],
)
async def test_every_provider_names_the_path_that_its_api_has(address: str, kind: Any, hint: str) -> None:
    assert hint.format(address) in await error_of(kind("m", api_base=address, api_key="key"))


async def test_a_key_that_is_refused_is_named_by_where_it_comes_from_and_never_shown(address: str) -> None:
    said = await error_of(OpenAICompatible("m", f"{address}/key/v1", api_key="sk-secret-of-mine"))
    assert "from api_key or OPENAI_API_KEY" in said
    assert "secret" not in said


async def test_credentials_and_query_of_an_address_are_not_shown(address: str) -> None:
    secret = address.replace("//", "//me:password@") + "?token=secret"
    said = await error_of(OpenAICompatible("m", secret))
    assert f"try api_base='{address}/v1'" in said
    assert "password" not in said
    assert "secret" not in said


async def test_a_scheme_that_the_server_does_not_speak_is_named(address: str) -> None:
    secure = address.replace("http", "https")
    assert f"without TLS: try api_base='{address}/v1'" in await error_of(OpenAICompatible("m", f"{secure}/v1"))


@pytest.mark.parametrize(("begins", "hint"), [(b"", "TLS: try api_base='https"), (b"SSH-2.0-x\r\n", "no HTTP server")])
async def test_what_is_no_http_server_is_named(begins: bytes, hint: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(begins)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert hint in await error_of(OpenAICompatible("m", f"http://127.0.0.1:{port}/v1"))


async def test_a_port_that_nothing_listens_at_and_a_host_that_nobody_knows_are_named() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    assert "nothing listens there" in await error_of(OpenAICompatible("m", f"http://127.0.0.1:{port}/v1"))
    assert "no host has this name" in await error_of(OpenAICompatible("m", "http://no-such-host.invalid/v1"))


def test_an_error_is_recognised_among_the_causes_of_others() -> None:
    untrusted = ssl.SSLCertVerificationError(1, "certificate verify failed")
    outer = RuntimeError("cannot connect")
    outer.__cause__ = untrusted
    assert "SSL_CERT_FILE" in EndpointAddress("https://here/v1").after_error(outer)
    assert "http:// in api_base" in EndpointAddress().after_error(ssl.SSLError(1, "wrong version number"))
    assert EndpointAddress("http://here/v1", option="--upstream").after_reply(404, "") == (
        " (the server has no http://here/v1: check the path in --upstream)"
    )


def test_other_errors_and_replies_say_nothing_more() -> None:
    asked = EndpointAddress("http://here/v1", "/chat/completions", keys="KEY")
    assert asked.after_error(ValueError("?")) == ""
    assert [asked.after_reply(status, "no") for status in (400, 402, 413, 429, 500, 503)] == [""] * 6
