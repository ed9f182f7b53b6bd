"""Both sides of `endstop demo`: each reads the same stream at the same time, and works on a file of its own."""

from __future__ import annotations

import asyncio
import difflib
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aiohttp import ClientError

from ..decision import Outcome
from ..engine import Engine
from ..providers import OpenAICompatible
from ..tools.tool import Tool, tool
from .demo_reader import read_and_run
from .demo_stream import CHANGES_BEFORE, TASK, DemoStream, StreamServer
from .views.demo import DemoSide

READER, ENDSTOP = "reader", "endstop"
_NAMES = {
    READER: "usual reader: to the stream's end, then every call",
    ENDSTOP: "endstop: to the end of finish_task, then it closes",
}
BEFORE = "[server]\nhost = localhost\nport = 3000\ndebug = false\n"


class ConfigFile:
    """The `config.ini` of one side, in this folder, with the tools that the model is offered.

    `ran` counts the changes. `when_finished` is the text that the file had when `finish_task` ran for the first time.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._path = folder / "config.ini"
        self._path.write_text(BEFORE, encoding="utf-8")
        self.ran = 0
        self.when_finished: str | None = None

    @property
    def text(self) -> str:
        """What is in the file now."""
        return self._path.read_text(encoding="utf-8")

    @property
    def calls_after(self) -> int:
        """How many changes ran that stand after `finish_task` in the stream."""
        return max(0, self.ran - len(CHANGES_BEFORE))

    def set_option(self, key: str, value: str) -> str:
        """Change an option, or add it at the end."""
        line = f"{key} = {value}"
        lines = [line if old.startswith(f"{key} = ") else old for old in self.text.splitlines()]
        self._path.write_text("\n".join([*lines, *([] if line in lines else [line]), ""]), encoding="utf-8")
        self.ran += 1
        return line

    def finish_task(self, summary: str) -> str:
        """Take note that the task is reported as done."""
        if self.when_finished is None:
            self.when_finished = self.text
        return summary

    def changed_after_finish(self) -> list[str]:
        """Return what happened to the file after `finish_task`, as the lines of a diff; none if nothing did."""
        if self.when_finished is None:
            return []
        diff = difflib.unified_diff(self.when_finished.splitlines(), self.text.splitlines(), n=0, lineterm="")
        return [line for line in diff if not line.startswith(("---", "+++", "@@"))]


class DemoSides:
    """The two sides, which begin with `read`. Their files are in this folder. pause: awaited before each chunk."""

    def __init__(self, folder: Path, pause: Callable[[], Awaitable[None]]) -> None:
        self.stream = DemoStream()
        self.files = {name: ConfigFile(folder / name) for name in (READER, ENDSTOP)}
        self._server = StreamServer(self.stream, pause)

    async def read(self) -> Outcome:
        """Let both sides read the stream, and return how endstop's run ended.

        Raises OSError if there is no connection on loopback.
        """
        with _without_proxy():
            async with self._server:
                outcome: Outcome
                _, outcome = await asyncio.gather(self._usual(), self._engine())
                return outcome

    def progress(self) -> Sequence[DemoSide]:
        """Return how far each side has come."""
        return [
            DemoSide(
                name=_NAMES[name],
                sent=self._server.sent.get(name, 0),
                done_at=self.stream.done_at,
                chunks=len(self.stream.events),
                calls=file.calls_after,
            )
            for name, file in self.files.items()
        ]

    async def _usual(self) -> None:
        file = self.files[READER]
        request = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": TASK}]}
        url = f"{self._server.api_base(READER)}/chat/completions"
        try:
            await read_and_run(url, request, {"set_option": file.set_option, "finish_task": file.finish_task})
        except ClientError as error:
            raise ConnectionError(str(error)) from error

    async def _engine(self) -> Outcome:
        provider = OpenAICompatible("demo", self._server.api_base(ENDSTOP), api_key="none")
        async with Engine(provider, tools=[_change_tool(self.files[ENDSTOP])]) as engine:
            return await engine.run(TASK)


def _change_tool(file: ConfigFile) -> Tool:
    @tool
    async def set_option(key: str, value: str) -> str:
        """Change an option in config.ini.

        Args:
            key: The name of the option.
            value: Its new value.

        """
        return file.set_option(key, value)

    return set_option


@contextmanager
def _without_proxy() -> Iterator[None]:
    """Let no proxy of the environment stand between this process and its own server."""
    before = os.environ.get("no_proxy")
    os.environ["no_proxy"] = ",".join(filter(None, (before or os.environ.get("NO_PROXY"), "127.0.0.1")))
    try:
        yield
    finally:
        if before is None:
            del os.environ["no_proxy"]
        else:
            os.environ["no_proxy"] = before
