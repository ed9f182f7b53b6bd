"""Drives the agents through the scenarios, and writes docs/reference/agents.md.

    python -m tests.agents --agents "codex pi" --scenarios "c i"        (or `make agents`)
    python -m tests.agents --delays "0 5 50"                    each cell once with each
    python -m tests.agents --agents smolagents --options=--no-upstream-streaming    a row of its own

They are installed first, each once, into AGENTS_CACHE (default ~/.cache/endstop-agents; 2 GB with all of them). Where
the system allows it, all of it then runs in a network of its own, in which there is nothing but loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from msgspec import UNSET

from .agents import ROOT, Agent, agents
from .checks import COMPARED, problems
from .drive import drive
from .hook_checks import problems_with_hook
from .install import install
from .loopback_only import leave_network
from .recordings import path_of, record
from .results import Cell, cell, joined, keep
from .scenarios import BEHIND_PROXY, COMPACTION, SCENARIOS, Scenario, compaction_at
from .scripted_provider import LATE

MOST_LATE = 10_000
"""Milliseconds."""


@dataclass(frozen=True)
class Asked:
    """What to measure of each agent."""

    names: list[str]
    """Those of scenarios; none: all that the agent has."""
    delays: list[int]
    """Milliseconds from the last event of a stream to its end, for a run of each cell; none: one run with all."""
    options: tuple[str, ...]
    """Options of the proxy, besides those of the scenario."""

    def scenarios(self, agent: Agent) -> list[Scenario]:
        """Return those that this agent has; with more options of the proxy, only those that have no other row."""
        own = BEHIND_PROXY if self.options else agent.scenarios
        return [own[name] for name in self.names or own if name in own]

    def to_record(self, agent: Agent) -> list[Scenario]:
        """Return those that may be played again: without a hook, and the compaction of an agent that does it."""
        known = dict(BEHIND_PROXY)
        if agent.compacts_at:
            known[COMPACTION.name] = compaction_at(agent.compacts_at)
        return [known[name] for name in self.names or known if name in known]


def main() -> None:
    """Measure what was asked for, cell by cell."""
    parser = argparse.ArgumentParser(prog="python -m tests.agents", description=__doc__.partition("\n")[0])
    parser.add_argument("--agents", default="", help="names of agents (default: all)")
    parser.add_argument("--scenarios", default="", help="names of scenarios (default: all)")
    parser.add_argument(
        "--record", action="store_true", help="only keep what the agents send, as fixtures of the tests"
    )
    parser.add_argument(
        "--delays",
        default="",
        help="milliseconds from the last event of a stream to its end: each cell is measured once with each of them "
        "(default: once, with 0, 5 and 50 in turn)",
    )
    parser.add_argument("--options", default="", help="more options of the proxy: what is measured is a row of its own")
    chosen = parser.parse_args()
    names, scenes = chosen.agents.split() or list(agents()), chosen.scenarios.split()
    known = {*SCENARIOS, *([COMPACTION.name] if chosen.record else [])}
    if unknown := [*(set(names) - set(agents())), *(set(scenes) - known)]:
        parser.error(f"no agent or scenario is called {unknown[0]}: {', '.join([*agents(), *SCENARIOS])}")
    delays = _delays(parser, chosen.delays.split())
    failed = {name: _installed(agents()[name]) for name in names}
    if not leave_network():
        print("this system has no network of its own for the agents: they are only told to use none", flush=True)
    asked = Asked(scenes, delays, tuple(chosen.options.split()))
    for name in names:
        agent = agents()[name]
        if not chosen.record:
            _measure_agent(agent, asked, failed[name])
        elif not failed[name]:
            asyncio.run(record(agent, asked.to_record(agent)))
            print(f"{name}: {path_of(name).stat().st_size:,} bytes", flush=True)


def _installed(agent: Agent) -> str:
    """Install an agent; return why it cannot be, or nothing."""
    if failed := install(agent):
        print(f"{agent.name}: not installed: {failed}", flush=True)
    return failed


def _delays(parser: argparse.ArgumentParser, words: list[str]) -> list[int]:
    """Return milliseconds. Ends the process if one is none."""
    for word in words:
        if not word.isdecimal() or int(word) > MOST_LATE:
            parser.error(f"--delays {word}: write whole milliseconds from 0 to {MOST_LATE}, as in --delays '0 5 50'")
    return [int(word) for word in words]


def _measure_agent(agent: Agent, asked: Asked, failed: str) -> None:
    date, commit = datetime.now(UTC).date().isoformat(), _commit()
    for scenario in asked.scenarios(agent):
        if failed:
            measured = Cell(version="", date=date, commit=commit, problems=[f"not installed: {failed}"])
        else:
            measured = asyncio.run(_measure(agent, scenario, asked, date, commit))
        keep(agent, asked.options, scenario.name, measured)
        said = "; ".join(measured.problems) or "ok"
        print(f"{agent.name} {scenario.name}: {measured.requests} requests, {measured.seconds} s: {said}", flush=True)


async def _measure(agent: Agent, scenario: Scenario, asked: Asked, date: str, commit: str) -> Cell:
    """Return what one cell shows; a driver that fails is a cell that is not as it must be."""
    scenario = replace(scenario, options=(*scenario.options, *asked.options))
    cells = []
    try:
        for delay in asked.delays or [None]:
            late = LATE if delay is None else (delay / 1000,)
            direct = await drive(agent, scenario, direct=True, late=late) if scenario.name in COMPARED else None
            seen = await drive(agent, scenario, late=late)
            wrong = problems_with_hook(seen) if scenario.hooked else problems(seen, direct)
            cells.append(cell(agent, seen, wrong, date, commit))
    except Exception as error:
        said = [f"the driver failed: {error!r}"]
        return Cell(version=agent.version, date=date, commit=commit, problems=said, delays=asked.delays or UNSET)
    return joined(cells, asked.delays) if asked.delays else cells[0]


def _commit() -> str:
    """Return the commit of the working tree; empty outside of git."""
    try:
        done = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


if __name__ == "__main__":
    main()
