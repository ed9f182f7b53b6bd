"""What holds for a run whose process is killed anywhere, with and without a durable engine beside its journal.

The run is made once, and all that it does is written down in order: events, flushes, kept results, tools that ran. A
kill is a place in that list. What survives it are the events up to there, of which those since the latest flush may be
lost, and every result that a durable engine had kept.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from endstop import Tool, read_record, this_call
from endstop.decision import Event, Policy, ToolCall
from endstop.decision import events as ev
from endstop.option_groups import execute_here
from endstop.providers import Request
from endstop.records.recorder import RecordWriter
from endstop.replay import replay
from endstop.session import Session
from endstop.testing import MemorySteps, check_transcript
from hypothesis import given
from hypothesis import strategies as st

from .scripts import POLICIES, SCRIPTS, World

READS = ("look", "think", "ask_user", "finish_task", "task_done")


@dataclass
class Life:
    """All that one process did, in order. A journal, and what runs the tools."""

    script: Any
    policy: Policy
    done: list[tuple[str, Any]] = field(default_factory=list)
    path: str | None = None

    def __post_init__(self) -> None:
        self.requested: list[int] = []

    @cached_property
    def world(self) -> World:
        """What runs in it; a life of which only the list is looked at needs none."""
        return World([self._response], self.policy, execute=self._execute)

    def _response(self, request: Request) -> Any:
        """That of the step that it is made for, whichever process asks."""
        step = int(request.attempt.partition(".")[0])
        self.requested.append(step)
        return self.script[step - 1] if step <= len(self.script) else "The end."

    async def _execute(self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        assert this_call().call_id == call.id
        self.done.append(("ran", (tool.name, call.id)))
        return await execute_here(call, tool, arguments)

    def write(self, event: Any) -> None:
        self.done.append(("event", event))

    async def flush(self) -> None:
        self.done.append(("flush", None))

    def close(self) -> None:
        pass

    def events(self) -> list[Event]:
        return [value for kind, value in self.done if kind == "event"]

    def ran(self) -> list[tuple[str, str]]:
        return [value for kind, value in self.done if kind == "ran"]


class Watched(MemorySteps):
    """Says when a result is kept."""

    def __init__(self, life: Life, kept: dict[str, str] | None = None) -> None:
        super().__init__(kept)
        self._life = life

    async def step(self, key: Any, work: Any) -> Any:
        known = str(key) in self.kept
        result = await super().step(key, work)
        if not known:
            self._life.done.append(("kept", (str(key), self.kept[str(key)])))
        return result


def drive(session: Session, life: Life, *, resumed: bool = False) -> Any:
    """The outcome."""

    async def main() -> Any:
        async with session.start_resumed() if resumed else session.start("go") as run:
            return await run.wait()

    return asyncio.run(main())


def live(script: Any, policy: Policy, durable: bool) -> tuple[Life, Any]:
    """A whole life, and the outcome of its run."""
    life = Life(script, policy)
    session = life.world.engine.session("s", record=life)
    session.steps = Watched(life) if durable else None
    return life, drive(session, life)


def killed(life: Life, place: float, kept_of_the_rest: float) -> tuple[Life, list[Event]]:
    """The life up to a place, and the events that survive it. At least the first flush was made."""
    first = life.done.index(("flush", None))
    last = next(n for n, (_, value) in enumerate(life.done) if isinstance(value, ev.RunFinished))
    end = first + 1 + int(place * (last - first - 1))
    lived = Life(life.script, life.policy, life.done[:end])
    flushed = max(n for n, (kind, _) in enumerate(lived.done) if kind == "flush")
    sure = [value for kind, value in lived.done[:flushed] if kind == "event"]
    unsure = [value for kind, value in lived.done[flushed:] if kind == "event"]
    return lived, sure + unsure[: round(kept_of_the_rest * len(unsure))]


def resumed(lived: Life, survivors: list[Event], path: Path, durable: bool) -> tuple[Life, Any, Session]:
    """The next process: it has the record and what was kept, and nothing else."""
    writer = RecordWriter(path, "s", "", "")
    for event in survivors:
        writer.write(event)
    writer.close()
    life = Life(lived.script, lived.policy)
    session = life.world.engine.session("s", record=path)
    session.load(read_record(path).runs)
    kept = dict(value for kind, value in lived.done if kind == "kept")
    session.steps = MemorySteps(kept) if durable else None
    return life, drive(session, life, resumed=True), session


def check(whole: Life, expected: Any, place: float, rest: float, durable: bool) -> None:
    """Kill the run there, and let the next process take it up."""
    lived, survivors = killed(whole, place, rest)
    kept = {value[0] for kind, value in lived.done if kind == "kept"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        life, outcome, session = resumed(lived, survivors, path, durable)
        (recorded,) = read_record(path).runs
        report = asyncio.run(replay(str(path)))
    assert report.same, [run.divergence for run in report.runs]
    assert [run.difference for run in report.runs if run.difference is not None] == []
    check_transcript(session.transcript.messages, [question.call_id for question in session.questions])
    assert isinstance(recorded.events[-1], ev.RunFinished)
    assert [event for event in recorded.events if isinstance(event, ev.ResumeDiverged)] == []
    assert outcome.stop_reason != "internal_error", outcome.detail

    answered = {e.step for e in survivors if isinstance(e, ev.ResponseFinished)}
    answered |= {int(key.split("/")[1]) for key in kept if key.endswith("/")}
    assert not answered.intersection(life.requested), "a finished response was requested again"

    finished = {e.call_id for e in survivors if isinstance(e, ev.ToolCallResult)}
    finished |= {key.split("/", 2)[2] for key in kept if not key.endswith("/")}
    before, after = dict(map(reversed, lived.ran())), dict(map(reversed, life.ran()))
    assert not finished & after.keys(), "a finished call was run again"
    twice = before.keys() & after.keys()
    assert all(before[call_id] in READS for call_id in twice), "a writing call was run a second time"
    assert len(life.ran()) == len(after), "a call ran twice in one process"

    results = {e.call_id: e for e in recorded.events if isinstance(e, ev.ToolCallResult)}
    unknown = {id for id, result in results.items() if result.status == "unknown"}
    begun = {e.call_id for e in survivors if isinstance(e, ev.ToolExecutionStarted)}
    assert before.keys() <= begun, "it is written that a call begins before it does"
    assert unknown <= begun - finished, "unknown is only what had begun, and of which nothing is kept"
    if not unknown:
        assert summed_up(outcome) == summed_up(expected)


def summed_up(outcome: Any) -> Any:
    return outcome.stop_reason, outcome.answer, outcome.steps, outcome.rounds, len(outcome.questions)


@given(SCRIPTS, POLICIES, st.floats(0, 1), st.floats(0, 1))
def test_a_killed_run_repeats_nothing_that_is_finished_and_no_writing_call(
    script: Any, policy: Policy, place: float, rest: float
) -> None:
    """With a durable engine, a kept result outlives events that were not flushed; the engine changes no decision."""
    alone, without = live(script, policy, durable=False)
    beside, with_engine = live(script, policy, durable=True)
    assert summed_up(with_engine) == summed_up(without)
    check(alone, without, place, rest, durable=False)
    check(beside, with_engine, place, rest, durable=True)
