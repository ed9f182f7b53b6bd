"""A fork goes on from a decision of a recorded run, in a session and a record of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop import Redaction, Session, read_record
from endstop.analysis.policy_simulation import backtest
from endstop.analysis.scoring import label_run
from endstop.decision import Limits, Policy, ToolResult, UserMessage, WrongUse
from endstop.decision import events as ev
from endstop.providers import call
from endstop.replay import replay
from endstop.testing import check_transcript
from msgspec.structs import replace

from ..record_lines import lines_before
from .test_resume import Script, check, checked, checking, eventful, exhausting, killed_after, pausing

STEPWISE = Policy(max_inner_steps=1)
READ = [call("read", path="a", id="r1")]
WRITE = [call("write", path="b", id="w1")]
END = [call("finish_task", summary="done and tested", id="end")]


def decisions(path: Path, run: int = -1) -> list[ev.DecisionMade]:
    return [e for e in read_record(path).runs[run].events if isinstance(e, ev.DecisionMade)]


def comparable(made: ev.DecisionMade) -> tuple[int, Any]:
    """The decision without its trace, which holds times."""
    return made.round, replace(made.decision, trace=())


def done_at(events: list[ev.Event], seq: int) -> int:
    """How many responses came before this event."""
    return sum(isinstance(e, ev.ResponseFinished) and e.seq < seq for e in events)


async def finish(forked: Session) -> Any:
    async with forked.start_fork() as run:
        return await run.wait()


async def recorded(path: Path, *responses: Any, **options: Any) -> Script:
    script = Script(*responses)
    await script.engine(0, **{"policy": STEPWISE, **options}).run("go", record=path)
    return script


async def test_a_fork_goes_on_from_the_decision_in_a_record_of_its_own(tmp_path: Path) -> None:
    origin, path = tmp_path / "origin.jsonl", tmp_path / "fork.jsonl"
    script = await recorded(origin, READ, WRITE, END)
    before = origin.read_bytes()
    at = decisions(origin)[1].seq
    session = script.engine(0).session(record=origin)
    other = Script(READ, WRITE, [call("write", path="c", id="w2")], END)
    forked = session.fork(at=at, engine=other.engine(2, policy=STEPWISE), record=path)
    assert not path.exists()
    assert (session.copies, [type(event) for event in forked.copies[:1]]) == ((), [ev.RunStarted])
    outcome = await finish(forked)
    assert forked.copies == (), "it has begun"
    assert (outcome.status, outcome.steps, outcome.session_id) == ("completed", 4, forked.id)
    assert other.done == ["c"]
    assert origin.read_bytes() == before
    record = read_record(path)
    (run,) = record.runs
    old = read_record(origin).runs[0]
    assert record.header.session_id == run.started.session_id == forked.id != old.started.session_id
    assert run.started.run_id != old.started.run_id
    assert run.started.origin == ev.Origin(
        session_id=old.started.session_id, run_id=old.started.run_id, at=at, edited=(), changed=()
    )
    assert run.events[1 : at - 1] == old.events[1 : at - 1]
    assert isinstance(run.events[at - 1], ev.DecisionMade)
    assert [e.seq for e in run.events] == list(range(1, len(run.events) + 1))
    times = [e.t for e in run.events]
    assert times == sorted(times)
    check_transcript(forked.transcript.messages, ())
    assert (await replay(path)).same


@pytest.mark.parametrize("scene", [eventful, exhausting, pausing, checking])
async def test_an_unchanged_fork_at_any_decision_ends_like_its_origin(
    scene: Callable[[], tuple[Script, dict[str, Any]]], tmp_path: Path
) -> None:
    script, options = scene()
    origin = tmp_path / "origin.jsonl"
    expected = await script.engine(0, **options).run("go", record=origin)
    events = read_record(origin).runs[0].events
    for decision in decisions(origin):
        path = tmp_path / f"{decision.seq}.jsonl"
        again, options = scene()
        engine = again.engine(done_at(events, decision.seq), **options)
        outcome = await finish(engine.session(record=origin).fork(at=decision.seq, record=path))
        assert (outcome.status, outcome.stop_reason, outcome.answer, outcome.steps) == (
            expected.status,
            expected.stop_reason,
            expected.answer,
            expected.steps,
        )
        assert [comparable(d) for d in decisions(path)] == [comparable(d) for d in decisions(origin)]
        report = await replay(path)
        assert report.same, [run.divergence for run in report.runs]
        assert [run.difference for run in report.runs if run.difference is not None] == []


async def test_another_policy_decides_at_the_fork(tmp_path: Path) -> None:
    origin, path = tmp_path / "origin.jsonl", tmp_path / "fork.jsonl"
    script = await recorded(origin, READ, WRITE, END)
    limited = Policy(limits=Limits(steps=2), closing=False, max_inner_steps=1)
    forked = (
        script.engine(0)
        .session(record=origin)
        .fork(at=decisions(origin)[1].seq, engine=script.engine(2, policy=limited), record=path)
    )
    outcome = await finish(forked)
    assert (outcome.stop_reason, outcome.steps) == ("step_limit", 2)
    started = read_record(path).runs[0].started
    assert started.policy == limited
    assert started.origin is not None
    assert started.origin.changed == ("policy",)
    assert (await replay(path)).same


async def test_another_prompt_and_an_edited_result_are_what_the_model_reads(tmp_path: Path) -> None:
    origin, path = tmp_path / "origin.jsonl", tmp_path / "fork.jsonl"
    script = await recorded(origin, READ, WRITE, END)
    session = script.engine(2, policy=STEPWISE).session(record=origin)
    forked = session.fork(at=decisions(origin)[1].seq, prompt="go elsewhere", results={"r1": "a is empty"}, record=path)
    messages = forked.transcript.messages
    assert [m.text for m in messages if isinstance(m, UserMessage)] == ["go elsewhere"]
    assert [m.content for m in messages if isinstance(m, ToolResult)] == ["a is empty", "wrote b"]
    await finish(forked)
    run = read_record(path).runs[0]
    results = {e.call_id: e for e in run.events if isinstance(e, ev.ToolCallResult)}
    then = {e.call_id: e for e in read_record(origin).runs[0].events if isinstance(e, ev.ToolCallResult)}
    assert results["r1"].content == "a is empty"
    assert results["r1"].fingerprint not in ("", then["r1"].fingerprint)
    assert results["w1"] == then["w1"]
    assert run.started.origin is not None
    assert (run.started.origin.edited, run.started.origin.changed) == (("r1",), ("prompt",))
    assert (await replay(path)).same


async def test_a_fork_takes_the_earlier_runs_with_it_and_goes_on_as_a_session(tmp_path: Path) -> None:
    origin, path = tmp_path / "origin.jsonl", tmp_path / "fork.jsonl"
    script = Script(END, READ, [call("finish_task", summary="done and tested", id="e2")], "Next.")
    engine = script.engine(0, policy=STEPWISE)
    session = engine.session(record=origin)
    await session.run("one")
    await session.run("two")
    at = decisions(origin)[0].seq
    again = Script(END, READ, [call("finish_task", summary="done and tested", id="e2")], "Next.")
    forked = again.engine(2, policy=STEPWISE).session(record=origin).fork(at=at, record=path)
    assert (await finish(forked)).status == "completed"
    await forked.run("three")
    runs = read_record(path).runs
    first = read_record(origin).runs[0]
    assert [run.is_copy for run in runs] == [True, False, False]
    assert runs[0].events[1:] == first.events[1:]
    assert runs[0].started.run_id == first.started.run_id
    assert runs[1].started.before == read_record(origin).runs[1].started.before
    assert [run.started.session_id for run in runs] == [forked.id] * 3
    assert runs[2].started.origin is None
    report = await replay(path)
    assert report.same
    assert [run.run_id for run in report.runs] == [runs[1].started.run_id, runs[2].started.run_id]
    loaded = again.engine(4).session()
    loaded.load(runs)
    assert loaded.transcript.messages == forked.transcript.messages


async def test_a_fork_of_a_fork_begins_with_what_the_first_one_did(tmp_path: Path) -> None:
    origin, one, two = (tmp_path / f"{name}.jsonl" for name in ("origin", "one", "two"))
    script = await recorded(origin, READ, WRITE, END)
    first = decisions(origin)[0].seq
    forked = script.engine(1, policy=STEPWISE).session(record=origin).fork(at=first, record=one)
    await finish(forked)
    second = decisions(one)[1].seq
    assert second > first
    again = script.engine(2, policy=STEPWISE).session(record=one).fork(at=second, record=two)
    assert (await finish(again)).status == "completed"
    came_from = read_record(two).runs[0].started.origin
    assert came_from is not None
    assert (came_from.session_id, came_from.at) == (forked.id, second)
    assert (await replay(two)).same
    lines = two.read_bytes().splitlines(keepends=True)
    for kept in range(len(lines_before(two, second)), len(lines)):
        given = sum(b'"RESPONSE_FINISHED"' in line for line in lines[:kept])
        two.write_bytes(b"".join(lines[:kept]))
        session = script.engine(given, policy=STEPWISE).session(again.id, record=two)
        session.load(read_record(two).runs)
        async with session.start_resumed() as run:
            assert (await run.wait()).status == "completed", kept
        assert (await replay(two)).same, kept


@pytest.mark.parametrize("scene", [eventful, exhausting])
async def test_a_fork_that_was_killed_is_resumed_like_any_run(
    scene: Callable[[], tuple[Script, dict[str, Any]]], tmp_path: Path
) -> None:
    script, options = scene()
    origin, whole, cut = (tmp_path / f"{name}.jsonl" for name in ("origin", "whole", "cut"))
    await script.engine(0, **options).run("go", record=origin)
    events = read_record(origin).runs[0].events
    at = decisions(origin)[len(decisions(origin)) // 2].seq
    again, options = scene()
    expected = await finish(
        again.engine(done_at(events, at), **options).session(record=origin).fork(at=at, record=whole)
    )
    lines = whole.read_bytes().splitlines(keepends=True)
    for kept in range(len(lines_before(whole, at)), len(lines)):  # from the whole copy to all but its last event
        again, options = scene()
        outcome, session = await killed_after(cut, lines[:kept], again, options)
        lost = any(m.status == "unknown" for m in session.transcript.messages if isinstance(m, ToolResult))
        if not lost:
            same = (outcome.stop_reason, outcome.answer, outcome.steps, outcome.rounds)
            assert same == (expected.stop_reason, expected.answer, expected.steps, expected.rounds), kept
        check(read_record(cut).runs[0].events, session, expected.run_id, str(kept))
        report = await replay(cut)
        assert report.same, (kept, [run.divergence for run in report.runs])


async def test_a_fork_that_was_killed_inside_its_copy_is_made_again(tmp_path: Path) -> None:
    origin, path = tmp_path / "origin.jsonl", tmp_path / "fork.jsonl"
    script = await recorded(origin, READ, WRITE, END)
    at = decisions(origin)[1].seq
    await finish(script.engine(2, policy=STEPWISE).session(record=origin).fork(at=at, record=path))
    lines = path.read_bytes().splitlines(keepends=True)
    copied = len(lines_before(path, at))
    for kept in range(2, copied):
        path.write_bytes(b"".join(lines[:kept]))
        session = script.engine(2, policy=STEPWISE).session(record=path)
        runs = read_record(path).runs
        session.load(runs)
        last = runs[0].events[-1].seq
        with pytest.raises(WrongUse, match=rf"killed before it had copied its origin \(event {last} of {at - 1}\)"):
            session.start_resumed()
    assert path.read_bytes() == b"".join(lines[: copied - 1])


async def test_an_event_that_is_no_decision_names_the_decisions_around_it(tmp_path: Path) -> None:
    origin, path = tmp_path / "origin.jsonl", tmp_path / "fork.jsonl"
    script = await recorded(origin, READ, WRITE, END)
    first, second, *_ = (d.seq for d in decisions(origin))
    session = script.engine(0).session(record=origin)
    between = f"is not a decision, but [A-Z_]+; the last one before it is {first}, the next one is {second}"
    with pytest.raises(WrongUse, match=between):
        session.fork(at=first + 1, record=path)
    with pytest.raises(WrongUse, match=r"at is '7': write the number"):
        session.fork(at="7", record=path)  # type: ignore[arg-type]
    with pytest.raises(
        WrongUse, match=f"event 999 is not a decision; the last one before it is {decisions(origin)[-1].seq}"
    ):
        session.fork(at=999, record=path)
    assert not path.exists()


async def test_a_decision_of_another_run_is_named_and_so_is_a_run_that_is_not_there(tmp_path: Path) -> None:
    origin = tmp_path / "origin.jsonl"
    script = Script(READ, WRITE, END, "A text.")
    session = script.engine(0, policy=STEPWISE).session(record=origin)
    await session.run("one")
    await session.run("two")
    at = decisions(origin, 0)[2].seq
    with pytest.raises(WrongUse, match=r"run 2: event .*; it is one in run 1: name that run"):
        session.fork(at=at)
    with pytest.raises(WrongUse, match=r"has no run 3: its runs are 1 \(run_\w+\), 2 \(run_\w+\)"):
        session.fork(at=at, run=3)
    assert session.fork(at=at, run=1).id != session.fork(at=at, run=read_record(origin).runs[0].started.run_id).id


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ({"nobody": "x"}, "no call of this id has a result before decision .*; those that have: r1"),
        ({"w1": "x"}, "it came after decision"),
        ({"end": "x"}, "it came after decision"),
    ],
)
async def test_a_result_that_is_not_in_the_copy_cannot_be_edited(
    results: dict[str, str], says: str, tmp_path: Path
) -> None:
    origin = tmp_path / "origin.jsonl"
    script = await recorded(origin, READ, WRITE, END)
    with pytest.raises(WrongUse, match=f"result of {next(iter(results))}: {says}"):
        script.engine(0).session(record=origin).fork(at=decisions(origin)[0].seq, results=results)


async def test_a_completion_and_a_call_that_never_ran_cannot_be_edited(tmp_path: Path) -> None:
    origin = tmp_path / "origin.jsonl"
    script = await recorded(origin, [call("write", nothing=1, id="bad")], END)
    session, last = script.engine(0).session(record=origin), decisions(origin)[-1].seq
    with pytest.raises(WrongUse, match="result of end: it is one of finish_task, a completion tool"):
        session.fork(at=last, results={"end": "x"})
    with pytest.raises(WrongUse, match="result of bad: its tool did not run"):
        session.fork(at=last, results={"bad": "x"})


async def test_what_an_engine_must_bring_is_checked(tmp_path: Path) -> None:
    origin = tmp_path / "origin.jsonl"
    script, options = eventful()
    await script.engine(0, **options).run("go", record=origin)
    at = decisions(origin)[0].seq
    del options["gates"]
    with pytest.raises(WrongUse, match="the run began with a gate"):
        script.engine(0).session(record=origin).fork(at=at, engine=script.engine(0, **options))


async def test_a_redacted_record_cannot_be_forked(tmp_path: Path) -> None:
    origin = tmp_path / "origin.jsonl"
    script = await recorded(origin, READ, END, redact=Redaction())
    with pytest.raises(WrongUse, match="is redacted: its texts are not what was said"):
        script.engine(0).session(record=origin).fork(at=decisions(origin)[0].seq)


async def test_a_record_that_is_there_already_is_left_alone(tmp_path: Path) -> None:
    origin = tmp_path / "origin.jsonl"
    script = await recorded(origin, READ, END)
    before = origin.read_bytes()
    with pytest.raises(WrongUse, match="exists already: a fork is a new session"):
        script.engine(0).session(record=origin).fork(at=decisions(origin)[0].seq, record=origin)
    assert origin.read_bytes() == before


async def test_events_that_are_missing_before_the_decision_are_named(tmp_path: Path) -> None:
    origin = tmp_path / "origin.jsonl"
    script = await recorded(origin, READ, WRITE, END)
    first, second, *_ = (d.seq for d in decisions(origin))
    lines = origin.read_bytes().splitlines(keepends=True)
    kept = lines_before(origin, first + 1)
    origin.write_bytes(b"".join([*kept, *lines[len(kept) + 1 :]]))
    session = script.engine(0).session(record=origin)
    with pytest.raises(WrongUse, match=rf"events {first + 1} to {first + 1} of run run_\w+ cannot be read"):
        session.fork(at=second)
    assert session.fork(at=first).questions == ()


async def test_what_was_wasted_before_the_fork_is_not_wasted_by_it(tmp_path: Path) -> None:
    origin, path = tmp_path / "origin.jsonl", tmp_path / "fork.jsonl"
    claims = [call("finish_task", summary=f"done {number}", id=f"f{number}") for number in range(3)]
    accepted = [call("finish_task", summary="done and tested", id="last")]
    script = await recorded(origin, READ, *[[claim] for claim in claims], accepted, gates=[checked])
    at = decisions(origin)[3].seq  # after the second claim that was handed back
    await finish(script.engine(4, policy=STEPWISE, gates=[checked]).session(record=origin).fork(at=at, record=path))
    runs = [label_run(next(backtest(read_record(one).runs[0].events, ())).digest) for one in (origin, path)]
    assert [run.waste.steps for run in runs if run.waste is not None] == [3, 1]
    assert [run.digest.rejections for run in runs] == [3, 0]
    assert [run.digest.used.steps for run in runs] == [5, 1]


async def test_a_session_without_a_record_says_what_it_needs() -> None:
    session = Script(END).engine(0).session()
    await session.run("go")
    with pytest.raises(WrongUse, match="has no record file to fork: give it one"):
        session.fork(at=5)


async def test_a_fork_begins_with_its_own_run_and_only_once(tmp_path: Path) -> None:
    origin = tmp_path / "origin.jsonl"
    script = await recorded(origin, READ, END)
    session = script.engine(1, policy=STEPWISE).session(record=origin)
    forked = session.fork(at=decisions(origin)[0].seq)
    with pytest.raises(WrongUse, match="is a fork that has not begun: `start_fork` comes first"):
        forked.start("something else")
    assert not forked.interrupted
    assert (await finish(forked)).status == "completed"
    for one in (forked, session):
        with pytest.raises(WrongUse, match="is not a fork that can begin"):
            one.start_fork()


async def test_a_cancellation_is_no_decision_to_fork_at(tmp_path: Path) -> None:
    origin = tmp_path / "origin.jsonl"
    engine = Script(READ, WRITE, END).engine(0, policy=STEPWISE)
    session = engine.session(record=origin)
    async with session.start("go") as run:
        async for event in run:
            if isinstance(event, ev.DecisionMade):
                run.cancel()
                break
    first, *_, last = decisions(origin)
    assert last.decision.rule == "cancelled"
    with pytest.raises(WrongUse, match=f"event {last.seq} was not made by the policy: .*; the last one before it is"):
        session.fork(at=last.seq)
    assert session.fork(at=first.seq).id


async def test_a_run_without_a_decision_says_why_there_is_none(tmp_path: Path) -> None:
    origin = tmp_path / "origin.jsonl"
    script = await recorded(origin, READ, END)
    origin.write_bytes(b"".join(lines_before(origin, decisions(origin)[0].seq)))
    session = script.engine(0).session(record=origin)
    with pytest.raises(WrongUse, match="run 1 holds no decision to fork at: it ended or was killed before one"):
        session.fork(at=5)
    imported = origin.read_bytes().replace(b'"engine":"', b'"engine":"import:openai')
    origin.write_bytes(imported)
    with pytest.raises(WrongUse, match="run 1 holds no decision to fork at: it was imported, and a policy never"):
        session.fork(at=5)


async def test_a_long_result_is_attached_to_the_forks_own_record(tmp_path: Path) -> None:
    origin, path = tmp_path / "origin.jsonl", tmp_path / "fork.jsonl"
    await recorded(origin, READ, END, attach_above=3)
    at = decisions(origin)[0].seq
    engine = Script(READ, END).engine(1, policy=STEPWISE, attach_above=3)
    await finish(engine.session(record=origin).fork(at=at, record=path))
    for file in tmp_path.glob("origin*/*"):
        file.unlink()
    record = read_record(path)
    (result,) = [e for e in record.runs[0].events if isinstance(e, ev.ToolCallResult) and e.call_id == "r1"]
    assert (result.content, record.missing) == ("read a", [])
    assert len(list(tmp_path.glob("fork*/*"))) == 2


async def test_a_fork_at_a_pause_is_answered_and_a_fork_after_the_answer_keeps_it(tmp_path: Path) -> None:
    origin, one, two = (tmp_path / f"{name}.jsonl" for name in ("origin", "one", "two"))
    asked, read = [call("ask_user", question="Which?", id="q1")], [call("read", path="b", id="r2")]
    script = Script(asked, read, "It is b.")
    session = script.engine(0, policy=STEPWISE).session(record=origin)
    await session.run("go")
    await session.answer("q1", "b")
    paused, after = decisions(origin, 0)[-1].seq, decisions(origin)[0].seq
    forked = script.engine(1, policy=STEPWISE).session(record=origin).fork(at=paused, run=1, record=one)
    assert (await finish(forked)).status == "awaiting_input"
    assert (await forked.answer("q1", "another")).answer == "It is b."
    assert [m.content for m in forked.transcript.messages if isinstance(m, ToolResult)] == ["another", "read b"]
    later = script.engine(2, policy=STEPWISE).session(record=origin).fork(at=after, record=two)
    outcome = await finish(later)
    assert (outcome.status, outcome.answer, outcome.steps) == ("completed", "It is b.", 3)
    assert [m.content for m in later.transcript.messages if isinstance(m, ToolResult)] == ["b", "read b"]
    for path in (one, two):
        assert (await replay(path)).same
    with pytest.raises(WrongUse, match="began with the answer to a question, so there is no prompt to replace"):
        session.fork(at=after, prompt="another")
    with pytest.raises(WrongUse, match="result of q1: "):
        session.fork(at=after, results={"q1": "x"})
