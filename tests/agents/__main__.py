"""Drives the agents through the scenarios, and writes docs/reference/agents.md.

    python -m tests.agents --agents "codex pi" --scenarios "c i"        (or `make agents`)

They are installed first, each once, into AGENTS_CACHE (default ~/.cache/endstop-agents; 2 GB with all of them). Where
the system allows it, all of it then runs in a network of its own, in which there is nothing but loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
from datetime import UTC, datetime

from .agents import ROOT, Agent, agents
from .checks import COMPARED, problems
from .drive import drive
from .hook_checks import problems_with_hook
from .install import install
from .loopback_only import leave_network
from .recordings import path_of, record
from .results import Cell, cell, keep
from .scenarios import SCENARIOS, Scenario


def main() -> None:
    """Measure what was asked for, cell by cell."""
    parser = argparse.ArgumentParser(prog="python -m tests.agents", description=__doc__.partition("\n")[0])
    parser.add_argument("--agents", default="", help="names of agents (default: all)")
    parser.add_argument("--scenarios", default="", help="names of scenarios (default: all)")
    parser.add_argument(
        "--record", action="store_true", help="only keep what the agents send, as fixtures of the tests"
    )
    chosen = parser.parse_args()
    names, scenes = chosen.agents.split() or list(agents()), chosen.scenarios.split()
    if unknown := [*(set(names) - set(agents())), *(set(scenes) - set(SCENARIOS))]:
        parser.error(f"no agent or scenario is called {unknown[0]}: {', '.join([*agents(), *SCENARIOS])}")
    failed = {name: _installed(agents()[name]) for name in names}
    if not leave_network():
        print("this system has no network of its own for the agents: they are only told to use none", flush=True)
    for name in names:
        if not chosen.record:
            own = agents()[name].scenarios
            _measure_agent(agents()[name], [own[one] for one in scenes or own if one in own], failed[name])
        elif not failed[name]:
            asyncio.run(record(agents()[name]))
            print(f"{name}: {path_of(name).stat().st_size:,} bytes", flush=True)


def _installed(agent: Agent) -> str:
    """Install an agent; return why it cannot be, or nothing."""
    if failed := install(agent):
        print(f"{agent.name}: not installed: {failed}", flush=True)
    return failed


def _measure_agent(agent: Agent, scenarios: list[Scenario], failed: str) -> None:
    date, commit = datetime.now(UTC).date().isoformat(), _commit()
    for scenario in scenarios:
        if failed:
            measured = Cell(version="", date=date, commit=commit, problems=[f"not installed: {failed}"])
        else:
            measured = asyncio.run(_measure(agent, scenario, date, commit))
        keep(agent, scenario.name, measured)
        said = "; ".join(measured.problems) or "ok"
        print(f"{agent.name} {scenario.name}: {measured.requests} requests, {measured.seconds} s: {said}", flush=True)


async def _measure(agent: Agent, scenario: Scenario, date: str, commit: str) -> Cell:
    """Return what one cell shows; a driver that fails is a cell that is not as it must be."""
    try:
        direct = await drive(agent, scenario, direct=True) if scenario.name in COMPARED else None
        seen = await drive(agent, scenario)
    except Exception as error:
        said = [f"the driver failed: {error!r}"]
        return Cell(version=agent.version, date=date, commit=commit, problems=said)
    wrong = problems_with_hook(seen) if scenario.hooked else problems(seen, direct)
    return cell(agent, seen, wrong, date, commit)


def _commit() -> str:
    """Return the commit of the working tree; empty outside of git."""
    try:
        done = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


if __name__ == "__main__":
    main()
