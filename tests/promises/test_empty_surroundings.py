"""Row F15: a terminal without a size prints plain lines, and an exported but empty variable is no variable."""

import asyncio
from pathlib import Path

import pytest
from endstop.decision import UserMessage
from endstop.providers import OpenAICompatible, Request

from ..console import PATIENCE, endstop
from ..engine.cli.terminal import in_terminal
from ..providers.endpoint import Endpoint, delta, stream
from ..servers import ChatServer, call

ANSWER = stream(delta(content="ok", finish="stop"))


@pytest.mark.parametrize(("columns", "rows"), [(0, 0), (0, 24), (80, 0)])
async def test_F15_on_a_terminal_without_a_size_the_run_is_told_in_plain_lines(columns: int, rows: int) -> None:
    async with (
        ChatServer(["I will look.", call("finish_task", summary="The port is 8080.")]) as server,
        in_terminal("run", "Set the port", "--model", "m", "--api-base", server.url, columns=columns, rows=rows) as (
            terminal,
            process,
        ),
    ):
        await terminal.closed()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    for text in ("I will look.", "The port is 8080."):
        assert text in terminal.text
    assert "\x1b[2K" not in terminal.raw


@pytest.mark.parametrize("value", ["", " \n"])
async def test_F15_an_empty_key_is_no_key_on_the_direct_path(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    async with Endpoint(ANSWER) as endpoint:
        async with (
            OpenAICompatible("m", endpoint.url) as provider,
            provider.stream(Request(messages=[UserMessage("go")])) as chunks,
        ):
            async for _ in chunks:
                pass
        assert "authorization" not in str(endpoint.headers[-1]).lower()


@pytest.mark.parametrize("value", ["", " "])
async def test_F15_the_command_line_asks_for_a_key_where_it_is_empty(value: str, tmp_path: Path) -> None:
    done = await endstop("run", "go", "--model", "m", "--provider", "openai", env={"OPENAI_API_KEY": value})
    assert done.code == 2
    assert "set OPENAI_API_KEY" in done.err


async def test_F15_empty_folders_and_tokens_are_none(tmp_path: Path) -> None:
    empty = {"XDG_STATE_HOME": "", "XDG_CACHE_HOME": "", "ENDSTOP_TOKEN": "", "HTTP_PROXY": "", "http_proxy": ""}
    async with ChatServer("Port 80.") as server:
        done = await endstop(
            "run", "go", "--model", "m", "--api-base", server.url, env={**empty, "HOME": str(tmp_path)}, cwd=tmp_path
        )
    assert (done.code, done.out) == (0, "Port 80.\n")
    assert not (tmp_path / "endstop").exists()
