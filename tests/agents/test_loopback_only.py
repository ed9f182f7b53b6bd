"""A process that has left the network reaches loopback, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
