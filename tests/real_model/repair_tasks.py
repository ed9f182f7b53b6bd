"""Small programs with a failing test, repaired by a real model in three ways; prints two tables.

    python tests/real_model/repair_tasks.py http://127.0.0.1:PORT/v1 [--only average,slices] [--seeds 1,2]
        [--ways claim,until] [--minutes 50] [--folder /tmp/endstop-repairs]
    python tests/real_model/repair_tasks.py --table

`claim`: a run ends when the model says that it is done. `gate`: the claim is accepted only if `pytest -q` passes.
`until`: the run ends as soon as `pytest -q` passes. Everything else is the same. The folder has, for each run, what the
model left, NAME.jsonl with the record, and a line of rows.jsonl; what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from endstop import read_record
from endstop.decision import events as ev
from endstop.records.reader import RecordedRun
from repairs import CHECK, PLAIN_PYTEST, REPAIRS, environment, is_repaired, text_of, write
from run_tasks import counted

PLACE = Path("/tmp/endstop-repairs")
WAYS = {"claim": [], "gate": ["--gate", CHECK], "until": ["--until", CHECK]}
OPTIONS = ["--allow-run", "--no-closing", "--drain", "--json", "--max-steps", "8", "--max-tokens", "200"]
"""The same in all ways. A response may have more tokens than any of the programs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--only", help="names of programs, with commas; all of them by default")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--temperature", default="0.7")
    parser.add_argument("--minutes", type=float, default=50, help="begin no run after that")
    parser.add_argument("--folder", type=Path, default=PLACE)
    parser.add_argument("--table", action="store_true", help="run nothing, print the tables of what is there")
    given = parser.parse_args()
    if not given.table:
        if given.url is None:
            parser.error("the server's URL is missing")
        measure(given)
    print_tables(read_rows(given.folder))


def measure(given: argparse.Namespace) -> None:
    """Run what is not there yet."""
    began = time.monotonic()
    done = {row["name"] for row in read_rows(given.folder)}
    names = given.only.split(",") if given.only else list(REPAIRS)
    for seed, task, way in product(given.seeds.split(","), names, given.ways.split(",")):
        name = f"{task}_{way}_{seed}"
        if name in done:
            continue
        if time.monotonic() - began > 60 * given.minutes:
            print(f"{given.minutes:g} minutes are over before {name}", flush=True)
            return
        row = {"name": name, "task": task, "way": way, "seed": seed, **run(name, task, way, seed, given)}
        with (given.folder / "rows.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


def run(name: str, program: str, way: str, seed: str, given: argparse.Namespace) -> dict[str, Any]:
    """Repair one program in one way; gives what came of it."""
    task = REPAIRS[program]
    work, record = given.folder / name, given.folder / f"{name}.jsonl"
    shutil.rmtree(work, ignore_errors=True)
    record.unlink(missing_ok=True)
    write(task.files, work)
    command = [sys.executable, "-m", "endstop.cli.main", "run", task.prompt, "--model", "local"]
    command += ["--api-base", given.url, "--workspace", str(work), "--record", str(record)]
    command += ["--temperature", given.temperature, "--seed", model_seed(program, seed)]
    command += ["--env", PLAIN_PYTEST, *OPTIONS, *WAYS[way]]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment())
    seconds = time.monotonic() - began
    if not done.stdout:
        sys.exit(f"{name}: exit code {done.returncode}\n{done.stderr}")
    outcome = json.loads(done.stdout)
    recorded = read_record(record).runs[-1]
    tokens_in, tokens_out = counted(recorded)
    return {
        "stop_reason": outcome["stop_reason"],
        "said_done": outcome["status"] == "completed",
        "work": outcome["work"],
        "solved": is_repaired(task, work),
        "tests_changed": any(text != text_of(work / test) for test, text in task.tests.items()),
        "steps": outcome["steps"],
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "seconds": round(seconds, 1),
        "checks": count_checks(recorded),
    }


def model_seed(task: str, seed: str) -> str:
    """The seed that the model gets: the same in all ways, and another one for each program.

    With one seed for all programs the same draw decides the first call of each run, since the prompts are alike.
    """
    return str(100 * int(seed) + list(REPAIRS).index(task))


def count_checks(recorded: RecordedRun) -> int:
    """How often `pytest -q` was run for a gate or for `until`, and not by the model."""
    gates = recorded.started.functions.get("gate", ())
    gated = sum(isinstance(event, ev.CompletionRejected) and event.by in gates for event in recorded.events)
    accepted = sum(isinstance(event, ev.CompletionAccepted) for event in recorded.events) if gates else 0
    return gated + accepted + sum(isinstance(event, ev.CheckStarted) for event in recorded.events)


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """What was measured so far."""
    path = folder / "rows.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def print_tables(rows: Sequence[Mapping[str, Any]]) -> None:
    """The sums of each way over the runs that all ways have, then how each of these runs ended."""
    ways = [way for way in WAYS if any(row["way"] == way for row in rows)]
    by_run: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_run.setdefault((row["task"], row["seed"]), {})[row["way"]] = row
    whole = {key: found for key, found in by_run.items() if len(found) == len(ways)}
    print("| way | runs | solved | said done and wrong | steps | tokens in / out | seconds | checks |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for way in ways:
        print("| " + " | ".join([way, *sums([found[way] for found in whole.values()])]) + " |")
    print("\n| task | seed | " + " | ".join(ways) + " |\n|---|--:|" + "---|" * len(ways))
    for (task, seed), found in whole.items():
        print(f"| {task} | {seed} | " + " | ".join(describe(found[way]) for way in ways) + " |")


def sums(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The cells of one way."""
    wrong = sum(row["said_done"] and not row["solved"] for row in rows)
    totals = {
        key: sum(row[key] for row in rows)
        for key in ("solved", "steps", "tokens_in", "tokens_out", "seconds", "checks")
    }
    tokens = f"{totals['tokens_in']:,} / {totals['tokens_out']:,}"
    numbers = [
        len(rows),
        totals["solved"],
        wrong,
        totals["steps"],
        tokens,
        f"{totals['seconds']:.0f}",
        totals["checks"],
    ]
    return list(map(str, numbers))


def describe(row: Mapping[str, Any]) -> str:
    """How one run ended."""
    work = "right" if row["solved"] else "**wrong**" if row["said_done"] else "not done"
    return f"{row['stop_reason']}, {row['steps']}, {work}"


if __name__ == "__main__":
    main()
