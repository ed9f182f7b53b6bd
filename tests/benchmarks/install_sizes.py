"""What an install of endstop brings: packages, MB and seconds until it is imported; what it can be installed beside.

    python tests/benchmarks/install_sizes.py        (or `make install-sizes`; ten minutes or more)

Each row is an environment of its own below `.venv-sizes`, made by pip in one go as a user would, without constraints,
and removed afterwards. Packages are all that pip lists, endstop with them and without pip. MB are 2^20 bytes that the
folder of packages takes on the disk, with the byte code that pip writes. `pip check` says whether anything asks for
another version than is there, and a session is run in each environment that can run one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import NamedTuple

from table import processor, write_page

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".venv-sizes"
BEFORE = "fe73ca63"
"""The last commit where a plain install brought everything."""
PARTS = ("decision", "providers", "engine", "pyproject.toml", "README.md", "LICENSE")
EXTRAS = ("litellm", "server", "all")
PEERS = {"openai-agents": "agents", "pydantic-ai": "pydantic_ai", "langchain": "langchain", "langgraph": "langgraph"}
"""Other frameworks: how pip calls them, and how Python does."""
SESSION = """
import asyncio, sys
from importlib import import_module
from endstop import Engine
from endstop.providers import Scripted
outcome = asyncio.run(Engine(Scripted("Done.")).run("Say so."))
assert outcome.status == "completed", outcome
for name in sys.argv[1:]: import_module(name)
"""


class Install(NamedTuple):
    """What pip made of one environment."""

    versions: Mapping[str, str]
    megabytes: float
    seconds: float
    """Until all was installed."""
    import_ms: float
    """CPU of `from endstop import Engine`, in a fresh process."""
    clash: str
    """What pip or `pip check` complains of; empty if it does not."""


class Sizes:
    """Makes environments and measures them."""

    def __init__(self, place: Path) -> None:
        self._place = place
        place.mkdir(exist_ok=True)
        venv.create(place / "pip", with_pip=True)
        self.now = self._copy(place / "now")
        self.before = self._at(BEFORE, place / "before")

    def measure(self, source: Path, extra: str = "", peers: Sequence[str] = ()) -> Install:
        """Install endstop with an extra, and what is to stand beside it, and say what that took."""
        folder = self._place / "env"
        venv.create(folder, with_pip=False, clear=True)
        began = time.monotonic()
        wanted = f"{source}[{extra}]" if extra else str(source)
        done = self._pip(folder, "install", wanted, *peers)
        took = time.monotonic() - began
        if done.returncode:
            return Install({}, 0, took, 0, conflict(done.stdout) or done.stderr[-500:])
        listed = json.loads(self._pip(folder, "list", "--format", "json").stdout)
        checked = self._pip(folder, "check")
        python = str(folder / "bin" / "python")
        subprocess.run(
            [python, "-c", SESSION, *(PEERS[name.partition("==")[0]] for name in peers)], check=True, timeout=300
        )
        return Install(
            {one["name"]: one["version"] for one in listed},
            _disk_use(folder / "lib") / 2**20,
            took,
            _import_ms(python),
            checked.stdout.strip().replace("\n", "; ") if checked.returncode else "",
        )

    def close(self) -> None:
        """Remove all environments."""
        shutil.rmtree(self._place)

    def _pip(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self._place / "pip" / "bin" / "python", "-m", "pip", "--python", folder / "bin" / "python"]
        quiet = ("--disable-pip-version-check", "--no-input")
        return subprocess.run([*command, *quiet, *arguments], capture_output=True, text=True, timeout=1800, check=False)

    def _copy(self, source: Path) -> Path:
        """The working tree, so that no old `build/` gets into the package."""
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir()
        unwanted = shutil.ignore_patterns("__pycache__")
        for name in PARTS:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / name, ignore=unwanted)
            else:
                shutil.copy(ROOT / name, source / name)
        return source

    def _at(self, revision: str, source: Path) -> Path:
        """The tree of a commit."""
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir()
        archive = subprocess.run(["git", "archive", revision, *PARTS], cwd=ROOT, capture_output=True, check=True)
        subprocess.run(["tar", "-x"], cwd=source, input=archive.stdout, check=True)
        return source


def conflict(told: str) -> str:
    """Who asks for what, of all that pip tells of a conflict: each package's first release with each requirement."""
    _, found, causes = told.partition("The conflict is caused by:")
    asked: dict[tuple[str, str], str] = {}
    for line in causes.splitlines() if found else ():
        who, depends, on = line.partition(" depends on ")
        if depends:
            name, _, release = re.sub(r"\[.*?\]", "", who).strip().partition(" ")
            asked.setdefault((name, on), f"{name} {release} asks for {on.partition(';')[0]}")
    return "; ".join(asked.values())


def _disk_use(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def _import_ms(python: str, processes: int = 9) -> float:
    """CPU of `from endstop import Engine`: a process with it less one that does nothing, in turns; the median."""
    codes = ("pass", "from endstop import Engine")
    took = [[_cpu_seconds(python, code) for code in codes] for _ in range(processes + 1)][1:]
    return median(done - idle for idle, done in took) * 1e3


def _cpu_seconds(python: str, code: str) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([python, "-c", code], check=True, timeout=60)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def state() -> str:
    """The commit that last changed what is installed; `dirty` if that is not what is measured."""
    command = ["git", "log", "-1", "--format=%h", "--", *PARTS]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    same = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", *PARTS], cwd=ROOT, check=False).returncode == 0
    return told if same else f"{told}-dirty"


def say(title: str, done: Install) -> None:
    """One row, while the others are still being made."""
    told = done.clash or "pip check is clean"
    print(f"{title}: {len(done.versions)} packages, {done.megabytes:.0f} MB; {told}", flush=True)


def rows(sizes: Sizes) -> str:
    """The table of what each extra brings."""
    lines = [
        "| install | packages | MB | seconds to install | CPU of `from endstop import Engine` |",
        "|---|--:|--:|--:|--:|",
    ]
    wanted = [(f"`endstop` before ({BEFORE})", sizes.before, ""), ("`endstop`", sizes.now, "")]
    wanted += [(f"`endstop[{extra}]`", sizes.now, extra) for extra in EXTRAS]
    for title, source, extra in wanted:
        done = sizes.measure(source, extra)
        say(title, done)
        if done.clash:
            raise SystemExit(f"{title}: {done.clash}")
        figures = f"{done.megabytes:.0f} | {done.seconds:.0f} | {done.import_ms:.0f} ms"
        lines.append(f"| {title} | {len(done.versions)} | {figures} |")
    return "\n".join(lines)


def beside(sizes: Sizes) -> str:
    """The table of what endstop can be installed beside, in one environment."""
    names = " | ".join(f"`{name}`" for name in (*PEERS, "openai"))
    lines = [
        f"| with the latest of these in one environment | packages | MB | `pip check` | {names} |",
        f"|---|--:|--:|---|{'---|' * len(PEERS)}---|",
    ]
    peers = tuple(PEERS)
    for title, source, extra in (
        ("`endstop`", sizes.now, ""),
        ("`endstop[litellm]`", sizes.now, "litellm"),
    ):
        done = sizes.measure(source, extra, peers)
        say(title, done)
        shown = [done.versions.get(name, "-") for name in (*PEERS, "openai")]
        told = done.clash.replace("|", "/") or "clean"
        lines.append(f"| {title} | {len(done.versions)} | {done.megabytes:.0f} | {told} | {' | '.join(shown)} |")
        if done.versions:  # from now on the same releases: pip would look for older ones until it finds some that fit
            peers = tuple(f"{name}=={done.versions[name]}" for name in PEERS)
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the tables into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", type=Path, default=ROOT / "docs/start/installation.md")
    chosen = parser.parse_args()
    where = (
        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC at commit {state()} by `make install-sizes`. "
        f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start; "
        f"{platform.system()}, Python {platform.python_version()}."
    )
    sizes = Sizes(PLACE)
    try:
        tables = f"{rows(sizes)}\n\n{beside(sizes)}"
    finally:
        sizes.close()
    write_page(chosen.page, f"{where}\n\n{tables}", "sizes")


if __name__ == "__main__":
    sys.exit(main())
