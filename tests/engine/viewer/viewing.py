"""A viewer over real HTTP on 127.0.0.1, and records for it to show."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from endstop.viewer.catalog import Catalog
from endstop.viewer.text_index import TextIndex
from endstop.viewer.viewer_app import ViewerApp, ViewerOptions
from endstop.viewer.viewer_server import viewer_runner
from msgspec.structs import replace

RECORDS = Path(__file__).parents[2] / "records"
WAIT_SECONDS = 60.0


class Site:
    """A viewer and a client of it."""

    def __init__(self, catalog: Catalog, texts: TextIndex, client: aiohttp.ClientSession, url: str) -> None:
        self.catalog, self.texts, self.client, self.url = catalog, texts, client, url

    async def built(self) -> None:
        """Wait until the text index has all files."""
        assert await asyncio.to_thread(self.texts.wait_until_built, WAIT_SECONDS)

    async def get(self, path: str, status: int = 200, **headers: str) -> Any:
        """The JSON at this path."""
        async with self.client.get(self.url + path, headers=headers) as reply:
            body = await reply.read()
            assert reply.status == status, (path, reply.status, body[:500])
            return msgspec.json.decode(body)

    async def until(self, path: str, holds: Callable[[Any], object]) -> Any:
        """The JSON at this path, as soon as it is like this."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not holds(found := await self.get(path)):
                await asyncio.sleep(0.02)
        return found

    async def events(self, session: str, count: int, **headers: str) -> list[tuple[str, dict[str, Any]]]:
        """The first `count` events of a session: id and data."""
        found: list[tuple[str, dict[str, Any]]] = []
        async with (
            asyncio.timeout(WAIT_SECONDS),
            self.client.get(f"{self.url}/sessions/{session}/events", headers=headers) as reply,
        ):
            assert reply.status == 200, await reply.text()
            assert reply.content_type == "text/event-stream"
            id = kind = ""
            while len(found) < count and (line := await reply.content.readline()):
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "id":
                    id = value
                elif name == "event":
                    kind = value
                elif not name:
                    kind = ""
                elif name == "data" and kind != "judged":
                    found.append((id, msgspec.json.decode(value)))
        return found


@asynccontextmanager
async def viewing(
    *paths: Path, texts: Path | None = None, options: ViewerOptions | None = None, read: bool = True
) -> AsyncIterator[Site]:
    """A viewer of these files and folders. texts: the file of its text index. read: whether to wait for its list."""
    with TemporaryDirectory() as folder:
        async with _viewing(paths, texts or Path(folder, "texts.sqlite"), options or ViewerOptions(), read) as site:
            yield site


@asynccontextmanager
async def _viewing(paths: Sequence[Path], place: Path, options: ViewerOptions, read: bool) -> AsyncIterator[Site]:
    catalog = Catalog(paths, index_place="", processes=1)
    texts = TextIndex(catalog.readable_files, place=place, processes=1)
    catalog.on_change = texts.update
    app = ViewerApp(catalog, replace(options, texts=texts))
    runner = viewer_runner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    texts.start()
    catalog.start()
    try:
        if read:
            assert await asyncio.to_thread(catalog.wait_until_read, WAIT_SECONDS)
        timeout = aiohttp.ClientTimeout(total=WAIT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, read_bufsize=2**26) as client:
            yield Site(catalog, texts, client, f"http://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        app.begin_stopping()
        catalog.stop()
        texts.stop()
        await asyncio.to_thread(catalog.join, WAIT_SECONDS)
        await asyncio.to_thread(texts.join, WAIT_SECONDS)
        await runner.cleanup()


class ViewerThread:
    """Views a folder in a thread of its own, until the block is left; gives its address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._up = threading.Event()
        self._url = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="viewer", daemon=True)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with viewing(self._folder) as site:
            self._url = f"{site.url}/"
            self._up.set()
            await self._over.wait()

    def __enter__(self) -> str:
        self._thread.start()
        assert self._up.wait(WAIT_SECONDS), "the viewer did not start"
        return self._url

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive(), "the viewer did not end"
