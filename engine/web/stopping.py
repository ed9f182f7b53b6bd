"""Signals in an app that embeds the service: it hears that the process is about to stop before its server does.

A server such as uvicorn waits for open responses before it ends the lifespan. Streams of running sessions would
keep it waiting, and only the lifespan's end would stop the sessions. So the service begins to stop at the signal
itself, and whoever wanted the signal before gets it, too.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ..service.service import Service

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping_at_signals(service: Service) -> Iterator[None]:
    """While it is entered, in the event loop of the main thread, SIGTERM and SIGINT make the service begin to stop.

    A signal that nobody handles, or that is ignored, is left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}

    def hear(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(service.begin_stopping)
        before[signal.Signals(number)](number, frame)

    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler):
            before[number] = handler
            signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is hear:  # else somebody else has taken it meanwhile, and will restore theirs
                signal.signal(number, handler)
