"""A session that an older version had begun, cut at an event, and what must hold once this version has ended it."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from endstop import Engine, read_record
from endstop.decision import AssistantMessage, Outcome, ToolResult
from endstop.decision import events as ev
from endstop.providers import Scripted
from endstop.records.attachments import attachments_folder
from endstop.records.compression import read_blocks
from endstop.records.reader import RecordedRun, SessionRecord
from endstop.replay import replay
from endstop.testing import MemorySteps, check_transcript
from endstop.testing.faults.invariants import results
from msgspec.structs import replace

from .scenes import HAPPENED, NOT_HAPPENED, SCENES, WRITING, World, cancels, play

COMPLETIONS = {"finish_task", "task_done", "think_and_decide", "submit"}
RECORDS = Path(__file__).parents[1] / "records" / "upgrade"


@dataclass(frozen=True)
class Whole:
    """A session as the older version played it to its end."""

    lines: list[bytes]
    runs: list[RecordedRun]
    kept: list[tuple[str, int, str, str]]
    """What a durable engine kept: run, number of the latest event at that moment, key, result."""


@cache
def whole(name: str) -> Whole:
    path = RECORDS / f"{name}.jsonl.zst"
    kept = RECORDS / f"{name}.kept.json"
    return Whole(
        b"".join(read_blocks(path)).splitlines(keepends=True),
        read_record(path).runs,
        [tuple(entry) for entry in json.loads(kept.read_text())] if kept.exists() else [],
    )


@dataclass(frozen=True)
class Cut:
    """So many lines of a record are left. With a durable engine, so many results more than those lines tell of."""

    name: str
    lines: int
    ahead: int = 0

    def __str__(self) -> str:
        last = whole(self.name).lines[self.lines - 1][:70].decode()
        return f"{self.name}, cut after line {self.lines} ({last}), {self.ahead} results kept ahead of it"

    def read(self) -> list[RecordedRun]:
        """The runs that are left."""
        with tempfile.TemporaryDirectory() as folder:
            return self.write(Path(folder) / "r.jsonl")

    def write(self, path: Path) -> list[RecordedRun]:
        """Write what is left to a file, with its attachments. Returns the runs in it."""
        path.write_bytes(b"".join(whole(self.name).lines[: self.lines]))
        attached = attachments_folder(RECORDS / f"{self.name}.jsonl")
        if attached.exists():
            shutil.copytree(attached, attachments_folder(path), dirs_exist_ok=True)
        return read_record(path).runs

    def kept(self, left: Sequence[RecordedRun]) -> dict[str, str]:
        """What the durable engine had kept by then."""
        last = {run.started.run_id: run.events[-1].seq for run in left}
        entries = whole(self.name).kept
        before = [n for n, (run, seq, _, _) in enumerate(entries) if run in last and seq <= last[run]]
        latest = left[-1].started.run_id
        more = [n for n, (run, *_) in enumerate(entries) if n not in before and run == latest][: self.ahead]
        return {key: result for n, (_, _, key, result) in enumerate(entries) if n in (*before, *more)}


def cuts(name: str) -> list[Cut]:
    """All cuts of a session: after each of its lines from its first event on."""
    found = [Cut(name, lines) for lines in range(2, len(whole(name).lines) + 1)]
    if not whole(name).kept:
        return found
    begins = [b'"type":"RUN_STARTED"' in whole(name).lines[cut.lines - 1] for cut in found]
    return found + [Cut(name, cut.lines, ahead=1) for cut, first in zip(found, begins, strict=True) if not first]


async def take_up(cut: Cut, path: Path) -> bool:
    """Let this version bring the session to its end, and check it. Whether it ended as it would have uncut."""
    path.unlink(missing_ok=True)
    left = cut.write(path)
    return await end(cut.name, left, path, cut.kept(left))


async def take_up_twice(cut: Cut, path: Path) -> bool:
    """The same, with a second kill on the way; only if the first changes nothing, so that the second one shows."""
    if not await take_up(cut, path):
        return False
    first = cut.read()
    if accepted_last(first) or answer_lost(first):
        return True
    lines = path.read_bytes().splitlines(keepends=True)
    second = Random(cut.lines).randrange(min(cut.lines + 1, len(lines)), len(lines) + 1)
    path.write_bytes(b"".join(lines[:second]))
    left = read_record(path).runs
    return await end(cut.name, left, path, {})


async def end(name: str, left: Sequence[RecordedRun], path: Path, kept: dict[str, str]) -> bool:
    """Go on from the record at `path`, which holds what is left, and check what comes of it."""
    world = World(SCENES[name])
    session = world.session(name, path)
    session.load(left)
    if world.scene.durable:
        session.steps = MemorySteps(kept)
    await play(world, session, left)
    record = read_record(path)
    check_transcript(session.transcript.messages)
    same = check(name, left, record.runs, world, tuple(kept))
    await check_replay(record, left)
    return same


async def check_replay(record: SessionRecord, left: Sequence[RecordedRun]) -> None:
    """Every decision is made again, of the runs that were there and of those that are new."""
    report = await replay(record)
    excused = len(left) - 1 if answer_lost(left) else None
    differ = [run.divergence for place, run in enumerate(report.runs) if place != excused]
    assert not any(differ), f"the finished record replays otherwise: {differ}"


def check(
    name: str, left: Sequence[RecordedRun], now: Sequence[RecordedRun], world: World, kept: Sequence[str] = ()
) -> bool:
    """What holds for every session that was taken up. Whether it had to end as it would have uncut."""
    then = whole(name).runs
    check_ends(left, now)
    check_requests(left, world, kept)
    unknown = check_calls(left, now, world, kept)
    if unknown or cancellation_lost(left, world):
        return False
    if answer_lost(left):
        now = [*now[: len(left) - 1], *now[len(left) :]]
    if limit_cut_a_response(left):
        assert summary(now[-1])[:2] == summary(then[-1])[:2], "it ended otherwise"
        return False
    if asked(now) != asked(then):  # the user was asked what became of a call
        assert summary(now[-1])[:3] == summary(then[-1])[:3], "it ended otherwise"
        return False
    assert [summary(run) for run in now] == [summary(run) for run in then], "it ended otherwise"
    if limit_under_way(left):
        return False
    expected = reminders(name)
    for step, told in world.reminded.items():
        assert told == expected[step], f"the request of step {step} has another reminder"
    accepted = accepted_last(left)
    assert conversation(now, accepted) == conversation(then, accepted), "the transcript is another one"
    return True


# ---- cuts after which a session may go on otherwise, although no call's effect is unknown


def answer_lost(left: Sequence[RecordedRun]) -> bool:
    """A run with the user's answer began, and the answer is not recorded: it pauses again with the same question.

    Both events are written at once, so only a disk or a machine that fails leaves one of them.
    """
    return left[-1].started.continues is not None and len(left[-1].events) == 1


def cancellation_lost(left: Sequence[RecordedRun], world: World) -> bool:
    """Calls were told that they are cancelled, and the cancellation itself is not recorded."""
    if cancels not in world.scene.during.values():
        return False
    events = left[-1].events
    told = any(isinstance(e, ev.ToolCallResult) and e.status == "cancelled" for e in events)
    return told and not any(isinstance(e, ev.CancelRequested) for e in events)


def limit_cut_a_response(left: Sequence[RecordedRun]) -> bool:
    """A limit was reached in a response that had not come whole: nothing is left to request it again."""
    match since(left, ev.LimitReached):
        case [ev.LimitReached(attempt=attempt), *later] if attempt:
            return not any(isinstance(e, ev.ResponseFinished) for e in later)
        case _:
            return False


def limit_under_way(left: Sequence[RecordedRun]) -> bool:
    """A limit was reached beside calls, and what became of these is not recorded: they are not run any more."""
    events = since(left, ev.LimitReached)
    return bool(events) and not any(isinstance(e, ev.StepFinished) for e in events)


def accepted_last(left: Sequence[RecordedRun]) -> bool:
    """A completion was accepted, and its result is not recorded: the acceptance knows the answer, not that text."""
    return isinstance(left[-1].events[-1], ev.CompletionAccepted)


def since(left: Sequence[RecordedRun], kind: type) -> list[Any]:
    """The latest event of this kind in the latest run, and those after it."""
    events = left[-1].events
    places = [place for place, event in enumerate(events) if isinstance(event, kind)]
    return list(events[places[-1] :]) if places else []


# ---- checks


def check_ends(left: Sequence[RecordedRun], now: Sequence[RecordedRun]) -> None:
    """Every run has one end, numbers without a gap, and begins with all that was left of it."""
    for run in now:
        ends = [isinstance(event, ev.RunFinished) for event in run.events]
        assert ends.count(True) == 1, "a run has not one end"
        assert run.finished is not None, "something follows the end of a run"
        assert run.finished.outcome.stop_reason != "internal_error", run.finished.outcome.detail
        assert [event.seq for event in run.events] == list(range(1, len(run.events) + 1)), "numbers have a gap"
        assert [event.t for event in run.events] == sorted(event.t for event in run.events), "time goes back"
    for before, after in zip(left, now, strict=False):
        assert after.events[: len(before.events)] == before.events, "what stood in the record has changed"
    assert len(now) >= len(left)


def check_requests(left: Sequence[RecordedRun], world: World, kept: Sequence[str]) -> None:
    """No response that had come whole is requested again."""
    answered = {(prompt, e.step) for prompt, e in by_prompt(left) if isinstance(e, ev.ResponseFinished)}
    prompt = sum(run.started.prompt is not None for run in left)
    answered |= {
        (prompt, int(step))
        for run, step, call in (key.split("/", 2) for key in kept)
        if run == run_id(left) and not call
    }
    assert not answered & set(world.requested), "a finished response was requested again"


def check_calls(left: Sequence[RecordedRun], now: Sequence[RecordedRun], world: World, kept: Sequence[str]) -> set[str]:
    """Each call has one result, and ran no more often than it may. The ids of those whose effect is unknown."""
    finished = {e.call_id for run in left for e in run.events if isinstance(e, ev.ToolCallResult)}
    finished -= given_up(left)
    finished |= {call for _, _, call in (key.split("/", 2) for key in kept) if call}
    begun = {e.call_id: e.name for run in left for e in run.events if isinstance(e, ev.ToolExecutionStarted)}
    ran = [id for _, id, _ in world.ran]
    assert len(ran) == len(set(ran)), "a call ran twice in one process"
    assert not finished.intersection(ran), "a finished call was run again"
    once = WRITING - {NOT_HAPPENED}
    done = {what_of(id, left) for id in begun if begun[id] in once}
    twice = [name for name, _, arguments in world.ran if name in once and (name, arguments) in done]
    assert not twice, "a writing call that had begun was run again"
    for id, times in results([run.events for run in now]).items():
        assert times == 1, f"call {id} has {times} results"
    unknown = with_status(now, "unknown")
    settled = {call for call, name in begun.items() if name in (HAPPENED, NOT_HAPPENED) or name not in WRITING}
    then = whole(session_id(now)).runs
    uncut = {what_of(id, then) for id in with_status(then, "unknown")}
    lost = {id for id in unknown if what_of(id, now) not in uncut or id in begun.keys() - finished}
    assert not any("[redacted" in arguments for _, _, arguments in world.ran), "a call ran with what redaction put in"
    if not redacted(now):
        assert lost <= begun.keys() - finished - settled, "a result is unknown without need"
    told = {e.call_id: e.status for run in now for e in run.events if isinstance(e, ev.ToolCallResult)}
    unsure = {id for id in begun.keys() - finished - settled if told.get(id) in ("ok", "error", "cancelled", "skipped")}
    asked_about = {
        e.call_id
        for run in now
        for e in run.events
        if isinstance(e, ev.QuestionAsked | ev.CompletionAccepted | ev.CompletionRejected | ev.PhaseReported)
    }
    assert not unsure - asked_about, f"a writing call had begun, and its result says that it is {told}"
    return lost


@cache
def reminders(name: str) -> dict[tuple[int, int], list[str]]:
    """The reminders in each request of the session, by prompt and step, if nobody kills it."""
    world = World(SCENES[name])

    async def whole_session() -> None:
        with tempfile.TemporaryDirectory() as folder:
            await play(world, world.session(name, Path(folder) / "r.jsonl"))

    with ThreadPoolExecutor(1) as apart:  # a loop of its own, beside that of the test
        apart.submit(asyncio.run, whole_session()).result(60)
    return world.reminded


def session_id(runs: Sequence[RecordedRun]) -> str:
    return runs[0].started.session_id


def run_id(runs: Sequence[RecordedRun]) -> str:
    return runs[-1].started.run_id


def redacted(runs: Sequence[RecordedRun]) -> bool:
    return "redaction" in runs[0].started.functions


def by_prompt(runs: Sequence[RecordedRun]) -> list[tuple[int, Any]]:
    """Each event with the number of the prompt that its run is about."""
    found, prompt = [], 0
    for run in runs:
        prompt += run.started.prompt is not None
        found += [(prompt, event) for event in run.events]
    return found


def given_up(runs: Sequence[RecordedRun]) -> set[str]:
    """Calls of responses that did not come whole: nothing of them counts."""
    whole_calls = {
        call.id for run in runs for e in run.events if isinstance(e, ev.ResponseFinished) for call in e.message.calls
    }
    return {e.call_id for run in runs for e in run.events if isinstance(e, ev.ToolCallStart)} - whole_calls


def with_status(runs: Sequence[RecordedRun], status: str) -> set[str]:
    return {e.call_id for run in runs for e in run.events if isinstance(e, ev.ToolCallResult) and e.status == status}


def what_of(id: str, runs: Sequence[RecordedRun]) -> tuple[str, str]:
    """Tool and arguments of a call."""
    made = (call for run in runs for e in run.events if isinstance(e, ev.ResponseFinished) for call in e.message.calls)
    return next((call.name, call.arguments) for call in made if call.id == id)


def asked(runs: Sequence[RecordedRun]) -> list[str]:
    return [e.text for run in runs for e in run.events if isinstance(e, ev.QuestionAsked)]


def summary(run: RecordedRun) -> Any:
    """How a run ended. Not what it used: a response that was cut off is paid for twice."""
    assert run.finished is not None
    outcome: Outcome = run.finished.outcome
    phases = [phase["completion_percentage"] for phase in outcome.phases]
    questions = [question.text for question in outcome.questions]
    verdict = (outcome.verdict, outcome.evaluation)
    return (
        outcome.status,
        outcome.stop_reason,
        outcome.answer,
        outcome.steps,
        outcome.rounds,
        phases,
        questions,
        verdict,
    )


def conversation(runs: Sequence[RecordedRun], accepted: bool = False) -> list[Any]:
    """The transcript that a session has after these runs. Calls are numbered: one that is made again has a new id.

    accepted: without the text of the completion's result.
    """
    session = Engine(Scripted()).session("s")
    session.load(runs)
    numbers: dict[str, int] = {}
    found: list[Any] = []
    for message in session.transcript.messages:
        match message:
            case AssistantMessage(calls=calls):
                for call in calls:
                    numbers.setdefault(call.id, len(numbers))
                found.append(replace(message, calls=tuple(replace(call, id=str(numbers[call.id])) for call in calls)))
            case ToolResult():
                content = "" if accepted and message.name in COMPLETIONS else message.content
                found.append(replace(message, call_id=str(numbers[message.call_id]), content=content))
            case _:
                found.append(message)
    return found
