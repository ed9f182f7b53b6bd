"""Workers that are killed at random points of their sessions, one after another, and replaced."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from .checked import check_record, check_results, resumptions, unknown
from .fleet import Fleet, Member, until
from .ledger import Ledger
from .script import Script


@dataclass
class Toll:
    """What the kills have cost."""

    kills: int = 0
    points: list[str] = field(default_factory=list)
    """Where sessions of the killed workers stood: `session: what it had noted last`."""
    sessions: int = 0
    resumptions: int = 0
    repeated_requests: int = 0
    repeated_calls: int = 0
    unknown_calls: int = 0
    never_begun: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills at {len(self.points)} points of {self.sessions} sessions; runs taken over "
            f"{self.resumptions} times; requests that had to be made again {self.repeated_requests}, reading calls "
            f"{self.repeated_calls}, calls answered `unknown` {self.unknown_calls} (of them never begun "
            f"{self.never_begun}); faults {len(self.faults)}"
        )


class Killer:
    """Keeps `at_once` sessions going and kills whoever has one of them, so many times. `begin`: starts a worker."""

    def __init__(
        self, fleet: Fleet, begin: Callable[[], Awaitable[Member]], *, seed: int, at_once: int, name: str
    ) -> None:
        self._fleet = fleet
        self._begin = begin
        self._dice = random.Random(seed)
        self._at_once = at_once
        self._name = name
        self._scripts: dict[str, Script] = {}
        self._ids: dict[str, str] = {}
        self.toll = Toll()

    async def kill(self, workers: list[Member], kills: int) -> None:
        """Kill so many times; two workers are alive before each."""
        for _ in range(kills):
            await self._fill()
            who = await self._at_a_point(self._dice.choice(self._live()))
            victim = next((worker for worker in workers if worker.name == self._asker(who)), None)
            victim = victim or self._dice.choice(workers)
            await self._strike(victim)
            workers.remove(victim)
            workers.append(await self._begin())

    async def _at_a_point(self, who: str) -> str:
        """Wait until a session has come further by some number of lines of the side log."""
        ledger = self._fleet.side.of(who)
        wanted = min(len(ledger.lines) + self._dice.randrange(40), self._length(who))
        await until(lambda: len(self._fleet.side.of(who).lines) >= wanted, f"{who} comes to line {wanted}")
        await asyncio.sleep(self._dice.random() * 0.006)  # not only just after a line: anywhere between two
        return who

    async def check(self, folder: Path) -> None:
        """Wait until all have ended, and see what was repeated and what their records say."""
        for who, id in self._ids.items():
            told = await self._fleet.reached(id, "completed", "failed", "exhausted", "cancelled", "interrupted")
            assert told["status"] == "completed", f"{who}: {told}"
            script, ledger = self._scripts[who], self._fleet.side.of(who)
            run = await check_record(await self._fleet.record(id, folder), script)
            check_results(run, script)
            toll = self.toll
            toll.sessions += 1
            toll.resumptions += resumptions(run)
            toll.repeated_requests += ledger.repeated_requests
            toll.repeated_calls += ledger.repeated_calls
            toll.unknown_calls += len(unknown(run))
            toll.never_begun += ledger.not_begun(script)
            toll.faults += ledger.faults(script)
            if ledger.not_begun(script) > len(unknown(run)):
                toll.faults.append(f"{who}: calls were answered that never began, and nobody says so")

    async def _strike(self, victim: Member) -> None:
        await victim.kill()
        self.toll.kills += 1
        for who in self._live():
            if self._asker(who) == victim.name:
                self.toll.points.append(f"{who}: {_point(self._fleet.side.of(who))}")

    async def _fill(self) -> None:
        while len(self._live()) < self._at_once:
            who = f"{self._name}-{len(self._scripts) + 1}"
            self._scripts[who] = script = Script(who=who)
            self._ids[who] = await self._fleet.start(script)
        await until(lambda: any(self._fleet.side.of(who).lines for who in self._live()), "a session begins")

    def _live(self) -> list[str]:
        """Sessions that have not come to their last step."""
        ledgers = self._fleet.side.look()
        return [
            who
            for who, script in self._scripts.items()
            if not any(line["step"] >= script.steps for line in ledgers[who].lines[-8:])
        ]

    def _asker(self, who: str) -> str:
        """The worker that has a session, as far as the model knows."""
        requests = self._fleet.side.of(who).requests
        return requests[-1]["by"] if requests else ""

    def _length(self, who: str) -> int:
        """Lines of the side log that a session writes at least."""
        script = self._scripts[who]
        calls = sum(len(script.calls(step)) for step in range(1, script.steps))
        return 2 * (script.steps - 1) + calls


def _point(ledger: Ledger) -> str:
    last = ledger.lines[-1]
    return f"{last['what']} {last.get('tool', 'response')} of step {last['step']}"
