"""Installs the agents, each into a folder of its own outside the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
from pathlib import Path

from .agents import Agent

TIMEOUT = 1200.0
"""Seconds that an installation may take."""


def cache() -> Path:
    """Return the folder of all agents: AGENTS_CACHE, or one in the user's cache."""
    chosen = os.environ.get("AGENTS_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "endstop-agents"


def binaries(agent: Agent) -> list[Path]:
    """Return the folders of an agent's programs."""
    folder = cache() / agent.name
    if agent.installer == "pip":
        return [folder / "bin"]
    return [folder / "node_modules" / ".bin"]


def installed_version(agent: Agent) -> str:
    """Return the version that is there; empty if none is."""
    folder = cache() / agent.name
    if agent.installer == "npm":
        manifest = folder / "node_modules" / agent.package / "package.json"
        return json.loads(manifest.read_text(encoding="utf-8"))["version"] if manifest.is_file() else ""
    name = agent.package.partition("[")[0].replace("-", "_")
    found = list(folder.glob(f"lib/python3*/site-packages/{name}-*.dist-info"))
    return found[0].name.removesuffix(".dist-info").rpartition("-")[2] if found else ""


def install(agent: Agent) -> str:
    """Install an agent unless it is there; return why it is not, or nothing."""
    if installed_version(agent) == agent.version:
        return ""
    folder = cache() / agent.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        done = subprocess.run(
            _command(agent, folder), cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return ((done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    there = installed_version(agent)
    return "" if there == agent.version else f"version {there or 'none'} came instead"


def _command(agent: Agent, folder: Path) -> list[str]:
    if agent.installer == "pip":
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
        return [*pip, "install", "-qq", f"{agent.package}=={agent.version}"]
    (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    return ["npm", "install", "--prefix", str(folder), *quiet, f"{agent.package}@{agent.version}"]
