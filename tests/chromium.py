"""One Chromium without a window, with one of Playwright's drivers, for all files that a process tests in turn.

To start both takes 1 to 1.5 s of CPU. Playwright leaves its event loop marked as the running one, which would keep all
others out of the thread: it is so marked only while a test of the browser runs.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
"""Path of the browser that the tests start: of the programs in `NAMES`, the first that is installed. None if none is.

chromium-headless-shell is built without windows, and takes two thirds of the CPU time of the others.
"""


class Chromium:
    """A running Chromium, whose event loop is the thread's running one only while the browser is in use.

    Make it where Playwright has just been started, so that Playwright's loop is the running one. kind: Playwright's
    browser type, which launches it.
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        self._hooks = (None, None)
        self._browser = self._launched()
        self._switch()

    @contextmanager
    def used(self) -> Iterator[Any]:
        """Give the browser, without any profile or page; a crashed one is replaced. Fails if a profile is left open."""
        self._switch()
        try:
            if not self._browser.is_connected():
                self._browser = self._launched()
            yield self._browser
            assert self._browser.contexts == [], "a test left a browser profile open"
        finally:
            for context in self._browser.contexts:
                context.close()
            self._switch()

    def close(self) -> None:
        """End the browser. Playwright's event loop is the running one after that: Playwright needs it to end itself."""
        self._switch()
        self._browser.close()

    def _launched(self) -> Any:
        return self._kind.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

    def _switch(self) -> None:
        """Make Playwright's event loop the running one, with its hooks for generators, or take both away again."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self._loop if before is None else None)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(*self._hooks)
        self._hooks = tuple(hooks)


@contextmanager
def start_chromium() -> Iterator[Chromium]:
    """Start Chromium, and end it when the block is left. Skips the test where Playwright or Chromium is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: it is in `.[test]`")
    if CHROMIUM is None:
        pytest.skip("there is no chromium here: apt-get install chromium-headless-shell")
    with sync_api.sync_playwright() as playwright:
        chromium = Chromium(playwright.chromium)
        try:
            yield chromium
        finally:
            chromium.close()
