"""`endstop view` in a process of its own: what it prints, what it shows, how it stops, where it refuses to begin."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from endstop.cli.main import main

from ...console import PATIENCE, started
from .viewing import RECORDS


async def url_said_by(process: Any) -> str:
    async with asyncio.timeout(PATIENCE):
        line = (await process.stdout.readline()).decode()
    found = re.fullmatch(r"endstop view shows .* at (http://127\.0\.0\.1:\d+)\n", line)
    assert found is not None, line
    return found[1]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
async def test_it_shows_records_and_the_report_and_ends_although_a_stream_is_open(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    options = (RECORDS, "--port", "0", "--processes", "1", "--index", tmp_path / "index.sqlite")
    async with started("view", *options) as process, aiohttp.ClientSession() as client:
        url = await url_said_by(process)
        async with asyncio.timeout(PATIENCE):
            while True:
                async with client.get(f"{url}/sessions?q=port&limit=1") as reply:
                    page = await reply.json()
                if page["reading"] is None and page["searching"] is None:
                    break
        assert page["total"] > 1
        async with client.get(f"{url}/report") as reply:
            assert reply.status == 200
            assert "<html" in await reply.text()
        async with client.get(f"{url}/sessions/{page['sessions'][0]['id']}/events") as stream:
            await stream.content.readuntil(b"\n\n")
            process.send_signal(number)
            async with asyncio.timeout(PATIENCE):
                await stream.content.read()
                _, err = await process.communicate()
    assert process.returncode == code
    assert err == b""
    assert {path.name for path in tmp_path.glob("*.sqlite*") if "-" not in path.name} == {
        "index.sqlite",
        "index.sqlite.texts",
    }


def test_a_port_in_use_a_path_that_does_not_exist_and_an_open_host_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENDSTOP_TOKEN", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refusals = {
            f"--port {port} is in use": [str(RECORDS), "--port", str(port), "--no-index"],
            f"{tmp_path}/none: no such file": [f"{tmp_path}/none"],
            "is open to other machines": [str(RECORDS), "--host", "0.0.0.0", "--port", "0", "--no-index"],
            "--port is 70000": [str(RECORDS), "--port", "70000"],
            "--processes is 0": [str(RECORDS), "--processes", "0"],
            "--index and --no-index": [str(RECORDS), "--index", "x", "--no-index"],
        }
        for words, arguments in refusals.items():
            assert main(["view", *arguments]) == 2
            assert words in capsys.readouterr().err
