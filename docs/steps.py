"""How many steps recorded sessions took to their end, against the recommended limits (`decision/limits.py`).

    python docs/steps.py golden              the project's records, tests/records
    python docs/steps.py foreign [FOLDER]    sessions of other agents, by default in ../shared/data/sessions

A step is one model request. A session that failed or waits for an answer has no end to count to, and is left out. One
that a limit of its own cut off counts as over the limits: how many steps it needed, nobody knows.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from endstop import read_record
from endstop.decision import RECOMMENDED
from endstop.decision.events import StepStarted

ROOT = Path(__file__).resolve().parent.parent
FOREIGN = ROOT.parent / "shared" / "data" / "sessions"
LOOK_UPS = {"author", "count", "find", "two", "longest", "word", "times", "greeting", "missing"}
"""Tasks of tests/real_model that change no file. Among cline's sessions, all but the one that edits."""


class Counted(NamedTuple):
    """One session."""

    kind: str
    source: str
    name: str
    steps: int
    cut: bool
    """Whether a limit of its own ended it."""


def golden() -> Iterator[Counted]:
    """The project's golden records, of a small real model."""
    folder = ROOT / "tests" / "records"
    tasks = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    for path in sorted(folder.glob("*.jsonl")):
        runs = read_record(path).runs
        last = runs[-1].finished
        if path.stem not in tasks or last is None or last.outcome.status not in ("completed", "exhausted"):
            continue
        kind = "look_up" if tasks[path.stem]["task"] in LOOK_UPS else "data_and_files"
        steps = sum(isinstance(event, StepStarted) for run in runs for event in run.events)
        yield Counted(kind, "golden", path.stem, steps, last.outcome.status == "exhausted")


def foreign(folder: Path = FOREIGN) -> Iterator[Counted]:
    """Recorded sessions of other agents; none where the folder is absent."""
    for path in sorted(folder.glob("tau-bench/*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            session = json.loads(line)
            name = f"{session['task_id']}.{session['trial']}"
            steps = sum(message["role"] == "assistant" for message in session["traj"])
            yield Counted("data_and_files", "tau-bench", name, steps, not _ended(session["traj"]))
    for path in sorted(folder.glob("swe-agent/*.traj")):
        history = json.loads(path.read_text(encoding="utf-8"))["history"]
        steps = sum(message["role"] == "assistant" and not message.get("is_demo") for message in history)
        yield Counted("data_and_files", "swe-agent", path.stem, steps, False)
    for path in sorted(folder.glob("cline/*.json")):
        requests = json.loads(path.read_text(encoding="utf-8"))
        steps = sum("/chat/completions" in request["path"] for request in requests)
        yield Counted("data_and_files" if "edit" in path.stem else "look_up", "cline", path.stem, steps, False)


def _ended(messages: list[dict[str, str]]) -> bool:
    """Whether the user ended it or a person took over, and not tau-bench's own limit of 30 steps."""
    last = messages[-1]
    return last.get("name") == "transfer_to_human_agents" or "###STOP###" in last["content"]


def table(sessions: Iterable[Counted]) -> str:
    """The sessions by kind of task and source, as a table; empty without any."""
    found = list(sessions)
    head = ("kind of task", "soft, hard", "sessions of", "how many", "median", "90th percentile", "max", "cut off")
    head = (*head, "within soft", "within hard")
    lines = [head, ("---",) * len(head)]
    for kind, limits in RECOMMENDED.items():
        for source in sorted({one.source for one in found if one.kind == kind}):
            these = [one for one in found if (one.kind, one.source) == (kind, source)]
            steps = sorted(one.steps for one in these)
            lines.append(
                (
                    f"`{kind}`",
                    f"{limits.soft_steps}, {limits.steps}",
                    source,
                    str(len(these)),
                    f"{statistics.median(steps):g}",
                    str(steps[math.ceil(0.9 * len(steps)) - 1]),
                    str(steps[-1]),
                    str(sum(one.cut for one in these)),
                    _share(these, limits.soft_steps or 0),
                    _share(these, limits.hard_steps),
                )
            )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) if found else ""


def _share(sessions: list[Counted], limit: int) -> str:
    return f"{sum(one.steps <= limit and not one.cut for one in sessions) / len(sessions):.0%}"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["golden"]:
            print(table(golden()), end="")
        case ["foreign", *folder]:
            print(table(foreign(Path(folder[0])) if folder else foreign()), end="")
        case _:
            sys.exit(__doc__)
