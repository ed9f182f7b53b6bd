"""What keeps agents on loopback: a network of their own, and a proxy that refuses all else."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import aiohttp
import pytest

from ..console import PATIENCE
from .drive import serving
from .refusing_proxy import RefusingProxy
from .scenarios import SCENARIOS
from .scripted_provider import ScriptedProvider

PROGRAM = """
import errno, socket
from tests.agents.loopback_only import leave_network
assert leave_network() or print("refused")
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), timeout=5):
    print("loopback")
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    print(errno.errorcode[error.errno])
"""


def test_only_loopback_is_left() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    if done.stdout.startswith("refused"):
        pytest.skip("the system allows no namespace of networks")
    assert done.stdout.split() == ["loopback", "ENETUNREACH"], done.stderr


async def test_a_proxy_refuses_every_other_machine_and_passes_loopback_on() -> None:
    async with (
        serving(ScriptedProvider(SCENARIOS["a"])) as url,
        RefusingProxy() as proxy,
        aiohttp.ClientSession() as client,
    ):
        async with client.get("http://example.invalid/x", proxy=proxy.url) as response:
            assert response.status == 403
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        writer.write(f"CONNECT {url.removeprefix('http://')} HTTP/1.1\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 OK\r\n\r\n"
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            assert b'"object": "list"' in await reader.read()
        writer.close()
    assert proxy.refused == ["GET http://example.invalid/x HTTP/1.1"]
