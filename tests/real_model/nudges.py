"""What a nudge does: moments of real runs, each continued with the nudge and without it; prints the table.

    python tests/real_model/nudges.py http://127.0.0.1:PORT/v1 repetition [--only count,find] [--origins 0,1,2]
        [--seeds 1,2] [--presets] [--temperature 0.8]
    python tests/real_model/nudges.py --table repetition

A run is made until the moment at which the nudge would be sent, and ended there. The moment is then forked: one policy
sends the nudge, the other does not, and nothing else is different. Each continuation has a folder of its own, which is
as it was at the moment. Records, folders and rows lie in /tmp/endstop-nudges; what is there is not run again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import tasks
from endstop import Engine, Limits, Outcome, Policy, Session, read_record
from endstop.analysis.guarantee import binomial_tail, exact_interval
from endstop.decision import events as ev
from endstop.decision.policy import Echo, Patience, Prompts, Repetition, Stagnation
from endstop.providers import OpenAICompatible, Provider, Scripted, call
from endstop.providers.scripted import Response
from endstop.records.reader import RecordedRun
from endstop.tools import ask_user, finish_task, workspace_tools
from scripts import SCRIPTS, Call, Script

PLACE = Path("/tmp/endstop-nudges")
ENDS = ("right", "wrong", "asked", "same circle", "other calls", "error")
"""How a continuation ends: completed and right or wrong, a question to the user, stopped with no call that is new,
stopped after calls that are new, a provider's error."""
NO_NUDGE = "no nudge"
STEPS = Limits(steps=20)
"""A continuation is stopped by its guards long before, unless it does something new again and again."""


class Experiment(NamedTuple):
    """A nudge, and how it is taken away."""

    name: str
    until: Policy
    """Ends a run at the moment at which the nudge would be sent."""
    reached: Callable[[Outcome], bool]
    """Whether the run ended at such a moment."""
    arms: Mapping[str, Callable[[tasks.Task], Policy]]
    """The policies that continue it, by name; the first one nudges, and the last one does not."""
    script: Callable[[Script], Sequence[Response]] | None = None
    """What leads to the moment, if that is made up; else the model leads there by itself."""


class Moment(NamedTuple):
    """A run that ended where the nudge would be sent."""

    name: str
    task: tasks.Task
    record: Path
    folder: Path
    """Its folder as it was left at that moment."""


def plain(**settings: Any) -> Policy:
    """The policy `agent` with these settings, and with nothing else that speaks to the model."""
    alone = {"stagnation": Stagnation(nudge_at=None, stop_at=None), **settings}
    return Policy(limits=STEPS, max_inner_steps=1, closing=False, reminder=None, **alone)


WORDS = Prompts()
"""What `agent` says."""
OTHER_WORDS = Prompts(
    echo="You said what you will do, but made no call, so nothing has happened. Make the call now.",
    repetition="You have the results of these calls already, and the same calls will bring the same results again. If "
    "they answer the task, finish now and give the answer. If not, make another call.",
)
"""Other words for the same."""
ANOTHER_CALL = Prompts(
    repetition="You have made the same calls with the same results {count} times, so nothing new happened. Make "
    "another call now. If the task cannot be done, say what is missing.",
)
"""Words that ask for a call, as those after an announcement do."""


def answered(task: tasks.Task) -> Echo:
    """A filter that takes the right answer of this task for an announcement."""
    return Echo(announcements=(SCRIPTS[task.name].answer,))


def made(one: Call) -> Response:
    """A response with this call."""
    return call(one[0], **one[1])


def in_vain(script: Script) -> list[Call]:
    """The look, and attempts at the first change that all fail, none like another."""
    name, given = script.calls[0]
    ends = (";", " #", "!", "?", ",,", " ;", "//", "..")
    return [script.look, *((name, {**given, "old": given["old"] + end}) for end in ends)]


def with_task(task: tasks.Task, words: Prompts = WORDS) -> Prompts:
    """These prompts, with the task at the end of those that nudge."""
    again = f" The task is still: {task.prompt}"
    return Prompts(repetition=words.repetition + again, stagnation=words.stagnation + again, echo=words.echo + again)


CIRCLE = Experiment(
    "repetition",
    plain(repetition=Repetition(nudge_at=(), stop_at=3)),
    lambda outcome: outcome.stop_reason == "stuck",
    {
        "nudge": lambda task: plain(),
        "another call": lambda task: plain(prompts=ANOTHER_CALL),
        "nudge with the task": lambda task: plain(prompts=with_task(task)),
        "other words, with the task": lambda task: plain(prompts=with_task(task, OTHER_WORDS)),
        NO_NUDGE: lambda task: plain(repetition=Repetition(nudge_at=())),
    },
)
EXPERIMENTS = {
    one.name: one
    for one in (
        CIRCLE,
        CIRCLE._replace(name="circle", script=lambda script: [made(script.look) for _ in range(3)]),
        Experiment(
            "progress",
            plain(stagnation=Stagnation(nudge_at=None, stop_at=Stagnation().nudge_at)),
            lambda outcome: outcome.stop_reason == "stuck",
            {
                "nudge": lambda task: plain(stagnation=Stagnation()),
                "nudge with the task": lambda task: plain(stagnation=Stagnation(), prompts=with_task(task)),
                NO_NUDGE: lambda task: plain(stagnation=Stagnation(nudge_at=None)),
            },
            lambda script: [made(one) for one in in_vain(script)],
        ),
        Experiment(
            "announcement",
            plain(patience=Patience(announcements=None)),
            lambda outcome: outcome.stop_reason == "text_final",
            {
                "nudge": lambda task: plain(),
                "make the call": lambda task: plain(prompts=OTHER_WORDS),
                "make the call, with the task": lambda task: plain(prompts=with_task(task, OTHER_WORDS)),
                NO_NUDGE: lambda task: plain(patience=Patience(announcements=None)),
            },
            lambda script: [made(script.look), script.announcement],
        ),
        Experiment(
            "answer",
            plain(),
            lambda outcome: outcome.stop_reason == "text_final",
            {
                "nudge": lambda task: plain(echo=answered(task), patience=Patience(echoes=1)),
                NO_NUDGE: lambda task: plain(),
            },
            lambda script: [*map(made, (script.look, *script.calls)), script.answer],
        ),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--only", help="names of tasks, with commas; all of them by default")
    parser.add_argument("--origins", default="0", help="seeds of the runs up to the moment; 0: at temperature 0")
    parser.add_argument("--seeds", default="1", help="seeds of the continuations")
    parser.add_argument("--arms", help="names of policies, with semicolons; all of them by default")
    parser.add_argument("--temperature", default=0.8, type=float, help="of all but the origin 0")
    parser.add_argument("--parallel", default=6, type=int, help="moments at a time, as many as the server has slots")
    parser.add_argument("--presets", action="store_true", help="offer finish_task and ask_user; else a text ends a run")
    parser.add_argument("--table", action="store_true", help="run nothing, print the table of what is there")
    given = parser.parse_args()
    experiment = EXPERIMENTS[given.experiment]
    if not given.table:
        if given.url is None:
            parser.error("the server's URL is missing")
        asyncio.run(measure(experiment, given))
    print_table(experiment, read_rows(experiment))


async def measure(experiment: Experiment, given: argparse.Namespace) -> None:
    """Find moments and continue them, several at a time; what was done already is kept."""
    names = given.only.split(",") if given.only else list(SCRIPTS if experiment.script else tasks.TASKS)
    free = asyncio.Semaphore(given.parallel)
    async with asyncio.TaskGroup() as group:
        for origin in map(int, given.origins.split(",")):
            for name in names:
                group.create_task(follow(experiment, tasks.TASKS[name], origin, given, free))


async def follow(
    experiment: Experiment, task: tasks.Task, origin: int, given: argparse.Namespace, free: asyncio.Semaphore
) -> None:
    """Find one moment and continue it under each policy with each seed."""
    async with free:
        moment = await find_moment(experiment, task, origin, given)
        if moment is None:
            return
        done = {row["name"] for row in read_rows(experiment)}
        for seed in map(int, given.seeds.split(",")):
            for arm in given.arms.split(";") if given.arms else experiment.arms:
                if f"{moment.name}_{arm}_{seed}" not in done:
                    add_row(experiment, await continue_from(moment, experiment, arm, seed, given))


# ---- moments and continuations


def local(given: argparse.Namespace, temperature: float, seed: int) -> OpenAICompatible:
    """The local model."""
    settings = {"temperature": temperature, "seed": seed, "max_tokens": 160}
    return OpenAICompatible("local", given.url, settings=settings)


def engine(provider: Provider, folder: Path, policy: Policy, given: argparse.Namespace) -> Engine:
    """A model with the workspace tools of a folder."""
    presets = (finish_task, ask_user) if given.presets else ()
    return Engine(provider, tools=workspace_tools(folder), presets=presets, policy=policy)


async def find_moment(
    experiment: Experiment, task: tasks.Task, origin: int, given: argparse.Namespace
) -> Moment | None:
    """Run a task until the nudge would be sent; None if the run ends before."""
    name = f"{task.name}{'_presets' if given.presets else ''}_{origin}"
    place = PLACE / experiment.name / name
    moment = Moment(name, task, place / "origin.jsonl", place / "folder")
    if not (place / "origin.json").exists():
        shutil.rmtree(place, ignore_errors=True)
        tasks.put(task.before, moment.folder)
        provider: Provider = local(given, given.temperature if origin else 0, origin)
        if experiment.script is not None:
            provider = Scripted(*experiment.script(SCRIPTS[task.name]))
        async with engine(provider, moment.folder, experiment.until, given) as one:
            outcome = await one.run(task.prompt, record=moment.record)
        check_served(name, outcome)
        reached = experiment.reached(outcome)
        summary = {"reached": reached, "stop_reason": outcome.stop_reason, "steps": outcome.steps}
        (place / "origin.json").write_text(json.dumps(summary), encoding="utf-8")
        print(f"{name}: {outcome.stop_reason} after {outcome.steps} steps", flush=True)
    return moment if json.loads((place / "origin.json").read_text(encoding="utf-8"))["reached"] else None


async def continue_from(
    moment: Moment, experiment: Experiment, arm: str, seed: int, given: argparse.Namespace
) -> dict[str, Any]:
    """Continue a moment under one of the policies; gives the row."""
    name = f"{moment.name}_{arm}_{seed}"
    place = moment.record.parent / f"{arm}_{seed}".replace(" ", "_")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(moment.folder, place / "folder")
    source = read_record(moment.record)
    at = [event.seq for event in source.runs[-1].events if isinstance(event, ev.DecisionMade)][-1]
    provider = local(given, given.temperature, seed)
    async with engine(provider, place / "folder", experiment.arms[arm](moment.task), given) as one:
        forked: Session = one.session().fork(at=at, source=source, record=place / "record.jsonl")
        async with forked.start_fork() as run:
            outcome = await run.wait()
    check_served(name, outcome)
    recorded = read_record(place / "record.jsonl").runs[-1]
    row = {"name": name, "moment": moment.name, "task": moment.task.name, "arm": arm, "seed": seed}
    row |= describe(recorded, outcome, at, moment.task.right(place / "folder", outcome.answer or ""))
    if bool(row["nudges"]) == (arm == NO_NUDGE):
        raise SystemExit(f"{name}: {row['nudges']} nudges were sent")
    print(f"{name}: {row['end']}, {row['steps']} steps", flush=True)
    return row


def check_served(name: str, outcome: Outcome) -> None:
    """Raise SystemExit for a lost server: that is nothing which the model did."""
    if outcome.stop_reason == "provider_error" and "connect" in outcome.detail:
        raise SystemExit(f"{name}: {outcome.detail}")


def describe(run: RecordedRun, outcome: Outcome, at: int, right: bool) -> dict[str, Any]:
    """What came after the moment."""
    before = {call for event in run.events if event.seq < at for call in calls_of(event)}
    after = [event for event in run.events if event.seq >= at]
    steps = [event for event in after if isinstance(event, ev.ResponseFinished)]
    made = [call for event in steps for call in calls_of(event)]
    first = calls_of(steps[0]) if steps else []
    return {
        "end": name_end(outcome, right, new=any(call not in before for call in made)),
        "stop_reason": outcome.stop_reason,
        "right": right,
        "steps": len(steps),
        "nudges": sum(isinstance(event, ev.MessageAdded) and event.origin == "nudge" for event in after),
        "called": bool(first),
        "turned": bool(steps) and (not first or any(call not in before for call in first)),
        "answer": outcome.answer or "",
        "tokens": sum(event.usage.input_tokens + event.usage.output_tokens for event in steps),
    }


def calls_of(event: ev.Event) -> list[tuple[str, str]]:
    """The calls of a response, each with its arguments."""
    return (
        [(call.name, call.arguments) for call in event.message.calls] if isinstance(event, ev.ResponseFinished) else []
    )


def name_end(outcome: Outcome, right: bool, new: bool) -> str:
    """One of ENDS."""
    if outcome.status == "completed":
        return "right" if right else "wrong"
    if outcome.status == "awaiting_input":
        return "asked"
    if outcome.status == "exhausted":
        return "other calls" if new else "same circle"
    return "error"


# ---- rows and the table


def rows_of(experiment: Experiment) -> Path:
    """The file of rows."""
    return PLACE / experiment.name / "rows.jsonl"


def read_rows(experiment: Experiment) -> list[dict[str, Any]]:
    """What was measured so far."""
    path = rows_of(experiment)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def add_row(experiment: Experiment, row: Mapping[str, Any]) -> None:
    """Keep a row."""
    with rows_of(experiment).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def print_table(experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> None:
    """One column for each policy that was tried; below, whether more tasks ended right under one than under another."""
    arms = [arm for arm in experiment.arms if any(row["arm"] == arm for row in rows)]
    print("\n| | " + " | ".join(arms) + " |\n|---|" + "---|" * len(arms))
    for line in zip(*(column(rows, arm) for arm in arms), strict=True):
        print(f"| {line[0][0]} | " + " | ".join(cell for _, cell in line) + " |")
    print()
    for other, one in combinations(reversed(arms), 2):
        print(compare(rows, one, other))


def column(rows: Sequence[Mapping[str, Any]], arm: str) -> Iterator[tuple[str, str]]:
    """Names and values of one policy's column."""
    mine = [row for row in rows if row["arm"] == arm]
    yield "moments", str(len({row["moment"] for row in mine}))
    yield "tasks", str(len({row["task"] for row in mine}))
    yield "continuations", str(len(mine))
    ends = Counter(row["end"] for row in mine)
    for end in ENDS:
        yield end, share(ends[end], len(mine))
    yield "ended by a text, not by a call", share(sum(row["stop_reason"] == "text_final" for row in mine), len(mine))
    yield "a call in the next step", share(sum(row["called"] for row in mine), len(mine))
    yield "something else in the next step", share(sum(row["turned"] for row in mine), len(mine))
    yield "steps after the moment, mean", f"{sum(row['steps'] for row in mine) / max(1, len(mine)):.1f}"


def share(part: int, whole: int) -> str:
    """A count, with its share and exact 95 % interval."""
    interval = exact_interval(part, whole)
    if interval is None:
        return "0"
    return f"{part} ({interval.value:.0%}, {interval.low:.0%} to {interval.high:.0%})"


def compare(rows: Sequence[Mapping[str, Any]], one: str, other: str) -> str:
    """In how many tasks more continuations ended right under one policy, with a sign test over the tasks.

    Only what both continued counts: the same moment with the same seed.
    """
    right = {(row["arm"], row["task"], row["moment"], row["seed"]): row["end"] == "right" for row in rows}
    ahead: Counter[str] = Counter()
    for arm, *which in right:
        if arm == one and (other, *which) in right:
            ahead[which[0]] += right[one, *which] - right[other, *which]
    more, fewer = (sum(value * sign > 0 for value in ahead.values()) for sign in (1, -1))
    p = min(1.0, 2 * binomial_tail(min(more, fewer), more + fewer, 0.5))
    told = f"right more often in {more} of {len(ahead)} tasks, less often in {fewer}, p = {p:.2g}"
    return f"{one!r} against {other!r}: {told}"


if __name__ == "__main__":
    main()
