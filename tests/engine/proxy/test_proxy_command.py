"""`endstop proxy` in a process of its own: what it prints, how it stops, and where it refuses to begin."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from aiohttp import web
from endstop import read_record
from endstop.cli.main import main

from ...console import PATIENCE, started
from .agents import Provider, run_agent, serving


async def url_said_by(process: Any) -> str:
    async with asyncio.timeout(PATIENCE):
        line = (await process.stdout.readline()).decode()
    found = re.match(r"endstop proxy listens at (http://127\.0\.0\.1:\d+), in front of http://", line)
    assert found is not None, line
    return found[1]


async def test_a_run_is_followed_recorded_and_ended_and_the_key_is_written_nowhere(tmp_path: Path) -> None:
    provider = Provider()
    async with serving(provider.handle) as upstream, aiohttp.ClientSession() as client:
        options = ("--upstream", f"{upstream}/v1", "--port", "0", "--record", tmp_path / "records")
        async with started("proxy", *options) as process:
            url = await url_said_by(process)
            assert await run_agent(url, client, streams=True) == (4, 200, "port is 8080", "answered")
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                out, err = await process.communicate()
    assert process.returncode == 0
    assert f"base_url = {url}/v1" in out.decode()
    (record,) = (tmp_path / "records").rglob("session_*.jsonl")
    (run,) = read_record(record).runs
    assert run.finished is not None
    assert run.finished.outcome.status == "completed"
    assert "sk-1" not in record.read_text(encoding="utf-8") + out.decode() + err.decode()


COLOURS = ("red", "green", "blue", "white", "black", "brown")
MATERIALS = ("brass", "glass", "iron", "oak", "paper", "silver", "stone", "tin", "wax", "wool")
FOUND = [f"It is {colour} and made of {material}." for colour in COLOURS for material in MATERIALS]
"""What sixty files say."""


async def explorer(request: web.Request) -> web.Response:
    """A provider whose model reads a file after the other, and then answers."""
    body = await request.json()
    results = sum(message["role"] == "tool" for message in body["messages"])
    message: dict[str, Any] = {"role": "assistant", "content": "I read all."}
    if results < len(FOUND):
        function = {"name": "read_file", "arguments": json.dumps({"path": f"house/{results}.txt"})}
        call = {"id": f"call_{results}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    finish = "tool_calls" if "tool_calls" in message else "stop"
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return web.json_response({**head, "choices": [{"index": 0, "message": message, "finish_reason": finish}]})


async def test_sixty_different_calls_that_bring_something_new_are_all_answered_by_default(tmp_path: Path) -> None:
    messages: list[Any] = [{"role": "user", "content": "What is in the house?"}]
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools: Any = [{"type": "function", "function": {"name": "read_file", "parameters": parameters}}]
    answered = 0
    async with serving(explorer) as upstream:
        options = ("--upstream", f"{upstream}/v1", "--port", "0", "--record", tmp_path)
        async with (
            started("proxy", *options) as process,
            openai.AsyncOpenAI(base_url=f"{await url_said_by(process)}/v1", api_key="sk-1", max_retries=0) as client,
        ):
            while True:
                reply = await client.chat.completions.create(model="m", messages=messages, tools=tools)
                message = reply.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                if not message.tool_calls:
                    break
                (call,) = message.tool_calls
                messages.append({"role": "tool", "tool_call_id": call.id, "content": FOUND[answered]})
                answered += 1
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == 0
    assert (answered, message.content) == (60, "I read all.")
    (record,) = tmp_path.rglob("*.jsonl")
    (run,) = read_record(record).runs
    assert run.finished is not None
    assert (run.finished.outcome.stop_reason, run.finished.outcome.steps) == ("text_final", 61)
    assert run.started.policy.limits.steps is None


async def test_a_response_in_progress_ends_and_its_record_is_closed_before_the_proxy_does(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        await request.read()
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        for text, finish in (("the port ", None), ("is 8080", None), ("", "stop")):
            chunk = {"id": "x", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}
            await reply.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            await go_on.wait()
        await reply.write(b"data: [DONE]\n\n")
        return reply

    body = {"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True}
    async with serving(slow) as upstream, aiohttp.ClientSession() as client:
        options = ("--upstream", upstream, "--port", "0", "--record", tmp_path)
        async with started("proxy", *options) as process:
            url = await url_said_by(process)
            async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
                begun = await reply.content.readuntil(b"\n\n")
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(PATIENCE):
                    assert b"event=stopping requests=1" in await process.stderr.readline()
                with suppress(aiohttp.ClientConnectionError):  # it listens no more, or is about to
                    async with client.post(f"{url}/v1/chat/completions", json=body) as refused:
                        assert refused.status == 503
                go_on.set()
                whole = begun + await reply.content.read()
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == 0
    assert whole.endswith(b"data: [DONE]\n\n")
    (record,) = tmp_path.rglob("*.jsonl")
    (run,) = read_record(record).runs
    assert run.finished is not None
    assert run.finished.outcome.answer == "the port is 8080"


async def endless(request: web.Request) -> web.StreamResponse:
    """Begins a response, and never ends it."""
    await request.read()
    reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await reply.prepare(request)
    chunk = {"id": "x", "choices": [{"index": 0, "delta": {"content": "the port "}}]}
    await reply.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    await asyncio.Event().wait()
    return reply


@pytest.mark.parametrize(
    ("signals", "grace", "code", "recorded"),
    [
        ([signal.SIGTERM], 0, 0, "the proxy stopped in the middle of the response"),
        ([signal.SIGINT], 0, 130, "the proxy stopped in the middle of the response"),
        ([signal.SIGTERM, signal.SIGTERM], 600, 130, "Set the port"),
        ([signal.SIGKILL], 600, -signal.SIGKILL, "Set the port"),
    ],
)
async def test_a_response_that_outlives_the_proxy_breaks_off_and_what_was_known_is_recorded(
    signals: list[signal.Signals], grace: int, code: int, recorded: str, tmp_path: Path
) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Set the port"}], "stream": True}
    async with serving(endless) as upstream, aiohttp.ClientSession() as client:
        options = ("--upstream", upstream, "--port", "0", "--record", tmp_path, "--grace", str(grace))
        async with started("proxy", *options) as process:
            url = await url_said_by(process)
            async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
                await reply.content.readuntil(b"\n\n")
                for number, one in enumerate(signals):
                    process.send_signal(one)
                    if number + 1 < len(signals):
                        async with asyncio.timeout(PATIENCE):
                            assert b"stopping" in await process.stderr.readline()
                with pytest.raises(aiohttp.ClientError):  # what it has is not taken for a whole response
                    await asyncio.wait_for(reply.content.read(), PATIENCE)
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == code
    (record,) = tmp_path.rglob("*.jsonl")
    assert recorded in record.read_text(encoding="utf-8")
    assert read_record(record).runs


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--upstream", "api.openai.com"], "is not a URL: write it like https://api.openai.com/v1"),
        (["--upstream", "ftp://host/x"], "is not a URL"),
        (["--upstream", "https://me:secret@host"], "--upstream has a user"),
        (["--upstream", "http://127.0.0.1:9", "--host", "0.0.0.0"], "need a token of the proxy's own"),
        (["--upstream", "http://127.0.0.1:9", "--policy", "nobody"], "neither a policy"),
        (["--upstream", "http://127.0.0.1:9", "--policy", "strict"], "name the agent's with --completion"),
        (["--upstream", "http://127.0.0.1:9", "--record", "/dev/null/x"], "cannot be made a folder"),
        (["--upstream", "http://127.0.0.1:9", "--port", "70000"], "use 0 to 65535"),
        (["--upstream", "http://127.0.0.1:9", "--idle", "-1"], "use 0 or more"),
    ],
)
def test_what_cannot_work_is_said_and_nothing_begins(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENDSTOP_TOKEN", raising=False)
    assert main(["proxy", *options]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "secret" not in err


def test_a_port_in_use_and_its_own_address_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["proxy", "--upstream", "http://127.0.0.1:9", "--port", str(port)]) == 2
        assert f"--port {port} is in use" in capsys.readouterr().err
    assert main(["proxy", "--upstream", f"http://localhost:{port}/v1", "--port", str(port)]) == 2
    assert "is the proxy itself" in capsys.readouterr().err
