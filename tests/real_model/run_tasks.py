"""Run the tasks with a real model, each through the real command line, and print what came of them.

    python tests/real_model/run_tasks.py http://127.0.0.1:PORT/v1 [--only port,hello] [--policy strict --as _strict]

Each works in a fresh folder below /tmp/endstop-tasks. There its record lies, NAME.jsonl, and beside it NAME.json: the
folder before and after, and the verdict.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tasks
from endstop import read_record
from endstop.cli.views.text import savings_of
from endstop.decision import UsageReport
from endstop.decision.events import UsageReported
from endstop.records.reader import RecordedRun

PLACE = Path("/tmp/endstop-tasks")
COLUMNS = ("task", "status", "stop_reason", "steps", "work", "seconds", "tokens in/out", "after the cut")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--only", help="names of tasks, with commas")
    parser.add_argument("--as", dest="suffix", default="", help="added to the names of records")
    parser.add_argument("--temperature", default="0")
    parser.add_argument("--seed")
    parser.add_argument("--max-steps", default="12")
    parser.add_argument("--policy", default="agent")
    parser.add_argument("--no-presets", action="store_true", help="without finish_task and ask_user")
    given = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    for name in given.only.split(",") if given.only else tasks.TASKS:
        row = run(tasks.TASKS[name], given)
        print("| " + " | ".join(str(row[column]) for column in COLUMNS) + " |", flush=True)


def run(task: tasks.Task, given: argparse.Namespace) -> dict[str, Any]:
    """Run one task; gives its row of the table."""
    name = task.name + given.suffix
    folder, record = PLACE / name, PLACE / f"{name}.jsonl"
    shutil.rmtree(folder, ignore_errors=True)
    record.unlink(missing_ok=True)
    tasks.put(task.before, folder)
    command = [sys.executable, "-m", "endstop.cli.main", "run", task.prompt]
    command += ["--model", "local", "--api-base", given.url, "--workspace", folder, "--record", record, "--drain"]
    command += ["--max-steps", given.max_steps, "--temperature", given.temperature, "--json"]
    command += ["--policy", given.policy]
    command += ["--seed", given.seed] if given.seed else []
    command += ["--no-presets"] if given.no_presets else []
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    if not done.stdout:
        sys.exit(f"{name}: exit code {done.returncode}\n{done.stderr}")
    outcome = json.loads(done.stdout)
    right = task.right(folder, outcome["answer"] or "")
    kept = {
        "task": task.name,
        "before": dict(task.before),
        "after": tasks.files_in(folder),
        "status": outcome["status"],
        "stop_reason": outcome["stop_reason"],
        "right": right,
    }
    (PLACE / f"{name}.json").write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    recorded = read_record(record).runs[-1]
    saved = savings_of(rest.chunk for rest in recorded.after_cut)
    return {
        "task": name,
        "status": outcome["status"],
        "stop_reason": outcome["stop_reason"],
        "steps": outcome["steps"],
        "work": "right" if right else "wrong" if outcome["status"] == "completed" else "not done",
        "seconds": f"{seconds:.0f}",
        "tokens in/out": "{:,} / {:,}".format(*counted(recorded)),
        "after the cut": str(saved) or "nothing",
    }


def counted(run: RecordedRun) -> tuple[int, int]:
    """Input and output tokens as the server counted them, what came after a cut included."""
    reports = [event.usage for event in run.events if isinstance(event, UsageReported)]
    reports += [rest.chunk.usage for rest in run.after_cut if isinstance(rest.chunk, UsageReport)]
    return sum(usage.input_tokens for usage in reports), sum(usage.output_tokens for usage in reports)


if __name__ == "__main__":
    main()
