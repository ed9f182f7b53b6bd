"""A reader of server-sent events that goes by their numbers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from .fleet import PATIENCE, Fleet


@dataclass
class Reader:
    """Reads one run's events from the server, over as many connections as it takes, up to the terminal one."""

    fleet: Fleet
    run_id: str
    ids: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    connections: int = 0

    @property
    def numbers(self) -> list[int]:
        """The numbers of the events, as they came."""
        return [int(id.partition(".")[0]) for id in self.ids]

    @property
    def over(self) -> bool:
        """Whether the terminal event has come."""
        return bool(self.lines) and self.lines[-1].startswith('{"type":"RUN_FINISHED"')

    async def read(self) -> Reader:
        """To the end."""
        async with asyncio.timeout(PATIENCE):
            while not self.over:
                await self._connection()
        return self

    async def _connection(self) -> None:
        self.connections += 1
        headers = {"last-event-id": self.ids[-1]} if self.ids else {}
        url = f"{self.fleet.url}/runs/{self.run_id}/events"
        async with self.fleet.http.get(url, headers=headers) as response:
            assert response.status == 200, await response.text()
            unread = b""
            async for data in response.content.iter_any():
                *frames, unread = (unread + data).split(b"\n\n")
                for frame in frames:
                    self._take(frame.decode())

    def _take(self, frame: str) -> None:
        fields = dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line and not line.startswith(":"))
        named = fields.get("event", "judged")  # what is said of another loop's call stands beside its event
        assert named == "judged", f"a reader on loopback lags: {frame}"
        if "id" in fields:
            self.ids.append(fields["id"])
            self.lines.append(fields["data"])
