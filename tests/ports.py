"""Ports for servers that the tests start, or do not start, as processes of their own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """A port of 127.0.0.1 that the system gives to nobody else inside the block.

    A server that names it can listen on it, also again after its end, since servers listen with SO_REUSEADDR. As long
    as none does, a connection to it is refused. A port that was free a moment ago may be another process's by now.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
