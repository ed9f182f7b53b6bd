"""Server of `endstop view`: from the socket to the exit code."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable

from aiohttp import web
from msgspec import Struct

from ..decision import WrongUse
from ..http.idle_connections import TimedRunner
from ..process.daemon import DaemonProcess, log_to_stderr
from ..process.listening import is_loopback, listen_at, raise_file_limit, resolve_address, url_of
from ..process.shutdown import ShutdownSignals
from ..process.streams import StdStreams
from ..process.tokens import TOKEN_VARIABLE
from .catalog import Catalog
from .viewer_app import ViewerApp, ViewerOptions

BREAK_OFF_SECONDS = 2.0
"""Maximum seconds for responses to end once the viewer stops."""
LONGEST_LINE = 64 * 1024
"""Maximum bytes of a request's first line: an address may name thousands of sessions."""


class ViewerServer(Struct, frozen=True, kw_only=True):
    """Settings of `endstop view`; `serve` runs it.

    opens_browser: whether to open the page in the browser.
    """

    catalog: Catalog
    options: ViewerOptions
    host: str
    port: int
    opens_browser: bool = False
    open_browser: Callable[[str], object] = webbrowser.open

    async def serve(self) -> int:
        """Serve until a signal, and return the exit code. Raises WrongUse for settings that cannot work."""
        place = resolve_address(self.host, self.port)
        if self.options.tokens is None and not is_loopback(place.address[0]):
            raise WrongUse(
                f"--host {self.host} is open to other machines, and records hold prompts, files and results: give "
                f"--tokens FILE with a line OWNER:TOKEN for each reader, or set {TOKEN_VARIABLE}"
            )
        with listen_at(place, self.host, self.port) as listening, log_to_stderr():
            raise_file_limit()
            viewer = ViewerApp(self.catalog, self.options)
            std_streams, daemon = StdStreams(), DaemonProcess(viewer, "streams")
            runner = viewer_runner(viewer)
            if self.options.texts is not None:
                self.options.texts.start()
            self.catalog.start()
            try:
                await runner.setup()
                await web.SockSite(runner, listening).start()
                url = url_of(listening)
                std_streams.write_answer(f"endstop view shows {self._what()} at {url}\n")
                with ShutdownSignals(daemon) as interrupts:
                    interrupts.attach(daemon)
                    if self.opens_browser:
                        self.open_browser(url)
                    await daemon.stop_requested.wait()
            finally:
                viewer.begin_stopping()
                self.catalog.stop()
                if self.options.texts is not None:
                    self.options.texts.stop()
                await runner.cleanup()
        return daemon.exit_code

    def _what(self) -> str:
        first, *more = self.catalog.paths
        return f"{first} and {len(more)} more" if more else str(first)


def viewer_runner(viewer: ViewerApp) -> web.AppRunner:
    """Return the aiohttp runner of a viewer. It cancels a handler when its reader leaves."""
    return TimedRunner(
        viewer.application(),
        handler_cancellation=True,
        access_log=None,
        max_line_size=LONGEST_LINE,
        shutdown_timeout=BREAK_OFF_SECONDS,
    )
