"""Three endpoints of different speed that fail in different ways: what a soak drives.

    python faulty_provider.py [SEED]        prints their three ports, then serves until it is killed

They play scenarios as `mock_provider.py` does. Faults come at random, the same for the same seed.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import uvloop
from mock_provider import ACCOUNTS, HEAD, Account, Connection, planned
from task import scenario_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Character:
    """How one endpoint is. Shares of all responses; times in milliseconds."""

    delay: float
    """Between two chunks."""
    most: int = 100_000
    """Streams at once; what is beyond is refused with 429."""
    refuses: float = 0.0
    """429 all the same."""
    breaks: float = 0.0
    """500."""
    cuts: float = 0.0
    """The connection is lost in the middle."""
    stalls: float = 0.0
    """Silence in the middle, for good."""
    late: float = 0.0
    """The first chunk comes after 8 seconds."""


CHARACTERS = (
    Character(delay=250, most=400, refuses=0.005, cuts=0.02, stalls=0.003),
    Character(delay=400, breaks=0.05, cuts=0.05, stalls=0.01, late=0.02),
    Character(delay=500, refuses=0.002),
)


def faulty(character: Character, random: Random) -> type[Connection]:
    """A connection of this character."""

    class Faulty(Connection):
        streaming = 0
        how, ends_at = "", -1

        def complete(self, request: dict[str, Any]) -> None:
            messages = request["messages"]
            scenario = scenario_in(next(m["content"] for m in messages if m["role"] == "user"))
            assert scenario is not None
            fate = random.random() if Faulty.streaming < character.most else 0.0
            for share, status in ((character.refuses, b"429 Too Many Requests"), (character.breaks, b"500 Oops")):
                if fate < share:
                    return self.refuse(status)
                fate -= share
            turns = sum("tool_calls" in message for message in messages)
            plan = planned(replace(scenario, session="", delay=character.delay), turns)
            self.account = Account(planned=len(plan.writes), call_whole=plan.call_whole)
            self.how, self.ends_at = "", -1
            for share, how in ((character.cuts, "cut"), (character.stalls, "stall")):
                if fate < share:
                    self.how, self.ends_at = how, random.randrange(len(plan.writes))
                    break
                fate -= share
            late = 8.0 if not self.how and fate < character.late else 0.0
            Faulty.streaming += 1
            self.transport.write(HEAD)
            self.next_write(plan, character.delay / 1000, asyncio.get_running_loop().time() + late)

        def refuse(self, status: bytes) -> None:
            body = b'{"error":{"message":"a fault of the soak"}}'
            head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\nretry-after: 1\r\ncontent-length: %d\r\n\r\n"
            self.transport.write(head % (status, len(body)) + body)

        def write_one(self, plan: Any, delay: float, due: float) -> None:
            assert self.account is not None
            if self.account.sent == self.ends_at:
                if self.how == "cut":
                    self.transport.abort()
                return
            super().write_one(plan, delay, due)
            if self.account.over:
                Faulty.streaming -= 1

        def connection_lost(self, exc: Exception | None) -> None:
            if self.account is not None and not self.account.over:
                Faulty.streaming -= 1
            super().connection_lost(exc)

    return Faulty


async def main(seed: int) -> None:
    loop = asyncio.get_running_loop()
    servers = []
    for number, character in enumerate(CHARACTERS):
        kind = faulty(character, Random(seed + number))
        servers.append(await loop.create_server(kind, "127.0.0.1", 0, backlog=4096))
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    while True:
        await asyncio.sleep(60)
        ACCOUNTS.clear()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
