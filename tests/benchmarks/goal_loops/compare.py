"""Runs the goals of agents side by side on the same scenes, and writes their table into docs/explanation/goals.md.

    python tests/benchmarks/goal_loops/compare.py [--only NAME,NAME] [--scenes NAME,NAME] [--page FILE]

Each framework has an environment of its own under .venv-goals/, made with pip, and a script beside this one. Each scene
is a process of its own, which asks a scripted model on 127.0.0.1. Requests are those that the model answered, checks
those that began; a run that makes more than MOST requests, or takes more than PATIENCE seconds, is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent)]

from scenes import GOAL, SCENES, Place, Scene  # noqa: E402
from scripted_model import CHUNKS, serving  # noqa: E402
from table import commit, processor, write_page  # noqa: E402

VENVS = ROOT / ".venv-goals"
PARTS = ("decision", "providers", "engine", "pyproject.toml", "README.md", "LICENSE")
MOST = 60
"""Requests that a run may make."""
PATIENCE = 90.0
"""Seconds that a run may take."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A framework. packages: what pip installs; the first one is shown. title: what it is called beside its version."""

    script: str
    title: str
    packages: tuple[str, ...] = ()
    resumes: bool = True
    """Whether its script can go on with a session whose process was killed."""

    @property
    def environment(self) -> Path:
        """Its environment, which contenders of one framework share."""
        return VENVS / (re.split(r"==|\[", self.packages[0])[0] if self.packages else "endstop")

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return self.environment / "bin" / "python"

    @property
    def name(self) -> str:
        """The framework with its version, and what of it is measured."""
        return f"{self.packages[0].replace('==', ' ') if self.packages else 'endstop'}: {self.title}"


INSPECT = ("inspect-ai==0.3.285", "openai==3.57.0")
CONTENDERS = (
    Contender("endstop_until", "`until`"),
    Contender("strands_goal_loop", "`GoalLoop`", ("strands-agents==1.62.0", "openai==3.57.0")),
    Contender(
        "agent_framework_loop",
        "`AgentLoopMiddleware`",
        ("agent-framework-core==1.23.0", "agent-framework-openai==1.17.0", "openai==3.57.0"),
    ),
    Contender(
        "deep_agents_rubric",
        "`RubricMiddleware`",
        ("deepagents==0.7.32", "langchain-openai==1.7.4", "langgraph-checkpoint-sqlite==3.1.2"),
    ),
    Contender("inspect_attempts", "`attempts`", INSPECT, resumes=False),
    Contender("inspect_on_continue", "`on_continue`", INSPECT, resumes=False),
    Contender("pydantic_ai_validator", "output validator", ("pydantic-ai-slim[openai]==2.68.0",), resumes=False),
    Contender("openai_agents_guardrail", "output guardrail", ("openai-agents==0.24.0",), resumes=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was seen of a contender in a scene."""

    ended: str
    """As the framework says it, or why it was killed."""
    requests: int
    grader_requests: int
    checks: int
    right: bool
    """Whether the work is right at the end."""
    chunks: int
    seconds: float
    """From the first request to the end of the process; unknown (NaN) without a request."""
    left: int
    """Processes of the check that were left, as soon as the process of the agent had ended."""


def make_environment(contender: Contender) -> None:
    """Make the environment of a contender, unless it is there with the same packages. endstop is always made anew."""
    stamp, wanted = contender.environment / ".ready", " ".join(contender.packages)
    if contender.packages and stamp.exists() and stamp.read_text() == wanted:
        return
    subprocess.run([sys.executable, "-m", "venv", contender.environment], check=True)
    pip = [contender.python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "-qq"]
    with TemporaryDirectory(prefix="endstop-source-") as source:
        if not contender.packages:  # from a copy: a build would leave its folder in the checkout
            for part in PARTS:
                (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, Path(source, part))
            pip += ["--constraint", ROOT / "constraints.txt", source]
        subprocess.run([*pip, *contender.packages], check=True)
    stamp.write_text(wanted)


def measure(contender: Contender, scene: Scene) -> Result:
    """Play a scene with a contender, in a folder of its own."""
    with TemporaryDirectory(prefix="endstop-goals-") as folder, serving(scene, MOST) as model:
        place = Place(Path(folder).resolve())
        place.lay_out(scene)
        asked = {"url": model.url, "folder": str(place.work), "command": scene.command, "timeout": scene.timeout}
        left = 0
        if scene.killed:
            _start_and_kill(contender, asked | {"sessions": str(place.sessions), "resumed": False}, place)
            left = _end_processes(place.pids)
        process = _start(contender, asked | {"sessions": str(place.sessions), "resumed": scene.killed})
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline and not model.too_many.is_set():
            time.sleep(0.01)
        ended_at = time.monotonic()
        if process.poll() is None:
            process.kill()
            ended = f"goes on after {MOST} requests" if model.too_many.is_set() else f"not done after {PATIENCE:g} s"
            process.communicate()
        else:
            said, errors = process.communicate()
            ended = said.rpartition("ENDED ")[2].strip() if "ENDED " in said else f"failed: {errors[-300:]}"
        return Result(
            ended=ended,
            requests=model.requests,
            grader_requests=model.grader_requests,
            checks=place.count("begin"),
            right=place.lines >= GOAL,
            chunks=model.chunks,
            seconds=ended_at - model.first_request,
            left=left + _end_processes(place.pids),
        )


def _start(contender: Contender, asked: Mapping[str, object]) -> subprocess.Popen[str]:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    silent = {"DO_NOT_TRACK": "1", "OTEL_SDK_DISABLED": "true", "LANGSMITH_TRACING": "false"}
    return subprocess.Popen(
        [contender.python, HERE / f"{contender.script}.py", json.dumps(asked)],
        env=plain | silent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=str(asked["sessions"]),
    )


def _start_and_kill(contender: Contender, asked: Mapping[str, object], place: Place) -> None:
    """Start a process, and kill it once its check hangs."""
    process = _start(contender, asked)
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and not _pids(place.pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate()


def _pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def _end_processes(path: Path) -> int:
    """End the processes of a check that hangs; return how many there were a second after its agent had ended."""
    time.sleep(1 if _pids(path) else 0)
    left = [pid for pid in _pids(path) if _runs(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    path.unlink(missing_ok=True)
    return len(left)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def cell(scene: Scene, result: Result) -> str:
    """The cell of the table for a result."""
    figures = [f"{result.requests} / {result.checks}"]
    shown = {
        "chunks": f"{result.chunks} of {CHUNKS} chunks",
        "seconds": f"{result.seconds:.0f} s",
        "left": f"{result.left} left",
    }
    figures += [shown[name] for name in scene.shown]
    return f"{', '.join(figures)}: {result.ended}; {'right' if result.right else 'not right'}"


def table(contenders: Iterable[Contender], scenes: Iterable[Scene]) -> str:
    """Measure, and return the table: a line for each scene, a column for each contender."""
    contenders = list(contenders)
    lines = [f"| | {' | '.join(one.name for one in contenders)} |", f"|---{'|---' * len(contenders)}|"]
    for scene in scenes:
        cells = []
        for contender in contenders:
            if scene.killed and not contender.resumes:
                cells.append("not tried")
                continue
            result = measure(contender, scene)
            cells.append(cell(scene, result))
            print(f"{contender.script} {scene.name}: {cells[-1]} {result}", flush=True)
        lines.append(f"| {scene.title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the table into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(one.script for one in CONTENDERS), help="scripts of contenders")
    parser.add_argument("--scenes", default=",".join(one.name for one in SCENES))
    parser.add_argument("--page", type=Path, default=ROOT / "docs/explanation/goals.md")
    given = parser.parse_args()
    contenders = [one for one in CONTENDERS if one.script in given.only.split(",")]
    for contender in contenders:
        make_environment(contender)
    where = (
        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC at commit {commit(ROOT)} by `make bench-goals`. "
        f"{processor()}, {os.cpu_count()} cores; {platform.system()}, Python {platform.python_version()}."
    )
    measured = table(contenders, [one for one in SCENES if one.name in given.scenes.split(",")])
    write_page(given.page, f"{where}\n\n{measured}", "goals")


if __name__ == "__main__":
    main()
