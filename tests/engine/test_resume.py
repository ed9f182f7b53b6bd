"""A run whose process was killed goes on from its record: under its own id, with nothing done twice."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from endstop import Completion, Engine, Tool, read_record, tool
from endstop.decision import Limits, Policy, Prompts, SessionLimits, ToolResult, UserMessage, WrongUse
from endstop.decision import events as ev
from endstop.evaluation import EvaluationInput
from endstop.hooks import Accept, Prepare, Progress, Reject, Verdict
from endstop.providers import Scripted, call, say
from endstop.replay import replay
from endstop.session import Session
from endstop.testing import check_transcript
from endstop.tools import ask_user, finish_task, task_done, think

from ..engine_options import grouped

POLICY = Policy(
    limits=Limits(steps=6),
    max_inner_steps=2,
    closing=True,
    completion="required",
    text="nudge",
    prompts=Prompts(next_step="What is next?"),
)


async def checked(completion: Completion, run: Progress) -> Accept | Reject:
    return Accept() if "tested" in completion.answer else Reject("not tested")


async def judged(run: Progress) -> Verdict:
    return Verdict("incomplete")


def prepared(prompt: str, run: Progress) -> Prepare:
    return Prepare(message="The workspace is empty.")


def no_rule(text: str, calls: Sequence[Any]) -> None:
    return None


EVALUATIONS: list[str] = []


def evaluated(looked_at: EvaluationInput) -> bool:
    EVALUATIONS.append(looked_at.outcome.answer)
    return True


class Script:
    """The n-th step's response, whichever process asks for it: a killed step gets the same one again."""

    def __init__(self, *responses: Any) -> None:
        self._responses = responses
        self.done: list[str] = []

    def engine(self, given: int, **options: Any) -> Engine:
        """An engine whose provider goes on after so many responses that came whole."""

        @tool
        async def write(path: str) -> str:
            """Write."""
            self.done.append(path)
            return f"wrote {path}"

        @tool(reads=True)
        async def read(path: str) -> str:
            """Read."""
            return f"read {path}"

        @tool
        async def upload(path: str) -> AsyncIterator[str]:
            """Upload."""
            yield f"half of {path}"
            self.done.append(path)
            yield f"uploaded {path}"

        @tool(reads=True)
        async def index(path: str) -> AsyncIterator[str]:
            """Index."""
            yield "one"
            yield "two"

        provider = Scripted(*self._responses[given:])
        tools = [write, read, upload, index, finish_task, task_done, ask_user, think]
        return Engine(provider, tools=tools, presets=(), **grouped(**options))


def eventful() -> tuple[Script, dict[str, Any]]:
    """Calls, a nudge, a rejection by a gate, a thought, a reminder and a completion."""
    script = Script(
        [say("I begin."), call("read", path="a", id="r1"), call("write", path="a", id="w1")],
        "I am done.",
        [call("finish_task", summary="done", id="f1")],
        [call("think", thought="test it", id="t1"), call("write", path="b", id="w2")],
        [call("write", path="c", id="w3"), call("finish_task", summary="done and tested", id="f2")],
    )
    options = {
        "policy": POLICY,
        "gates": [checked],
        "judge": judged,
        "prompt_handlers": [prepared],
        "text_rule": no_rule,
        "evaluate": evaluated,
    }
    EVALUATIONS.clear()
    return script, options


def exhausting() -> tuple[Script, dict[str, Any]]:
    """Ends at its limit, with a closing step."""
    script = Script(
        *[[call("write", path=str(number), id=f"w{number}")] for number in range(6)], "Half of it is written."
    )
    return script, {"policy": POLICY}


def pausing() -> tuple[Script, dict[str, Any]]:
    """Pauses with a question beside a call."""
    script = Script(
        [call("write", path="a", id="w1")],
        [call("ask_user", question="Which?", id="q1"), call("write", path="b", id="w2")],
    )
    return script, {"policy": POLICY}


def checking() -> tuple[Script, dict[str, Any]]:
    """Plain text that a gate hands back, and text that it accepts."""
    script = Script([call("write", path="a", id="w1")], "done", "done and tested")
    return script, {"policy": Policy(), "gates": [checked], "text_rule": no_rule}


def reporting() -> tuple[Script, dict[str, Any]]:
    """Calls that report their progress, two of them at once."""
    script = Script(
        [call("index", path="a", id="r1"), call("index", path="b", id="r2"), call("upload", path="a", id="w1")],
        [call("index", path="c", id="r3"), call("finish_task", summary="done and tested", id="f1")],
    )
    return script, {"policy": POLICY, "gates": [checked]}


def confirming() -> tuple[Script, dict[str, Any]]:
    """Ends once the user has confirmed the completion, which another run had asked for."""
    script = Script(
        [call("write", path="a", id="w1")],
        [call("task_done", summary="done", requires_user_confirmation=True, id="f1")],
        [call("task_done", summary="asked again", id="f2")],
    )
    return script, {"policy": POLICY}


def finished_responses(lines: Sequence[bytes]) -> int:
    return sum(b'"type":"RESPONSE_FINISHED"' in line for line in lines)


async def killed_after(path: Path, lines: Sequence[bytes], script: Script, options: dict[str, Any]) -> Any:
    """Go on from these lines in a fresh session; its outcome and the session."""
    path.write_bytes(b"".join(lines))
    record = read_record(path)
    engine = script.engine(finished_responses(lines), **options)
    session = engine.session(record.header.session_id, record=path)
    session.load(record.runs)
    async with session.start_resumed() as run:
        outcome = await run.wait()
    return outcome, session


@pytest.mark.parametrize("make", [eventful, exhausting, pausing, checking, reporting])
async def test_a_run_killed_after_any_of_its_events_goes_on_to_the_same_end(tmp_path: Path, make: Any) -> None:
    whole = tmp_path / "whole.jsonl"
    script, options = make()
    expected = await script.engine(0, **options).run("go", record=whole)
    assert expected.stop_reason in ("completed", "text_final", "step_limit", "awaiting_input"), expected.detail
    lines = whole.read_bytes().splitlines(keepends=True)
    (unbroken,) = read_record(whole).runs
    run_id, compared = unbroken.started.run_id, 0
    path = tmp_path / "killed.jsonl"
    for kept in range(2, len(lines)):
        where = f"killed after {lines[kept - 1][:60]!r} ({kept} of {len(lines)})"
        again, options = make()
        outcome, session = await killed_after(path, lines[:kept], again, options)
        same_end = (outcome.stop_reason, outcome.answer, outcome.steps) == (
            expected.stop_reason,
            expected.answer,
            expected.steps,
        )
        lost = any(m.status == "unknown" for m in session.transcript.messages if isinstance(m, ToolResult))
        if not lost:
            assert same_end, (where, outcome)
            assert outcome.rounds == expected.rounds, where
        (run,) = read_record(path).runs
        if results_of(run.events) == results_of(unbroken.events):
            assert brought(run.events) == brought(unbroken.events), where
            compared += 1
        check(run.events, session, run_id, where)
        report = await replay(str(path))
        assert report.same, (where, report.runs[0].divergence)
    assert compared > len(lines) / 2


def results_of(events: Sequence[Any]) -> dict[str, Any]:
    """What each call returned."""
    return {e.call_id: (e.status, e.content) for e in events if isinstance(e, ev.ToolCallResult)}


def brought(events: Sequence[Any]) -> list[Any]:
    """What each step brought, which depends on what is remembered of those before."""
    return [event.judged for event in events if isinstance(event, ev.StepFinished)]


def check(events: Sequence[Any], session: Session, run_id: str, where: str) -> None:
    """What holds for every resumed run."""
    assert events[0].run_id == events[-1].outcome.run_id == run_id, where
    assert [isinstance(event, ev.RunFinished) for event in events].count(True) == 1, where
    assert [event for event in events if isinstance(event, ev.ResumeDiverged)] == [], where
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), where
    check_transcript(session.transcript.messages, [question.call_id for question in session.questions])
    results = [event.call_id for event in events if isinstance(event, ev.ToolCallResult)]
    writes = [call_id for call_id in results if call_id.startswith(("w", "f"))]
    assert len(set(writes)) == len(writes), (where, "a call was answered twice")
    begun = [e.call_id for e in events if isinstance(e, ev.ToolExecutionStarted) and e.call_id.startswith("w")]
    assert len(set(begun)) == len(begun), (where, "a call was run twice")
    reminders = [e.topics for e in events if isinstance(e, ev.MessageAdded) and e.origin == "reminder"]
    assert len(set(reminders)) == len(reminders), where
    stages = [e.stage for e in events if isinstance(e, ev.StageFinished)]
    assert stages == ["prepare", "run", "evaluate"], where
    verdicts = [e.verdict for e in events if isinstance(e, ev.EvaluationFinished)]
    assert len(verdicts) <= 1, where
    texts = [m.text for m in session.transcript.messages if isinstance(m, UserMessage)]
    assert texts.count("What is next?") <= 2, (where, texts)
    assert texts.count("The workspace is empty.") <= 1, where


async def test_a_run_killed_after_its_evaluation_is_not_evaluated_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    script, options = eventful()
    await script.engine(0, **options).run("go", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    done = next(number for number, line in enumerate(lines) if b"EVALUATION_FINISHED" in line)
    assert EVALUATIONS == ["done and tested"]
    outcome, _ = await killed_after(path, lines[: done + 1], script, options)
    assert (outcome.verdict, EVALUATIONS) == ("passed", ["done and tested"])


async def test_a_run_killed_before_its_message_was_added_still_gets_what_a_handler_prepared(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    script, options = eventful()
    await script.engine(0, **options).run("go", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    heard = next(number for number, line in enumerate(lines) if b'"role":"handler"' in line)
    _, session = await killed_after(path, lines[: heard + 1], script, options)
    texts = [m.text for m in session.transcript.messages if isinstance(m, UserMessage)]
    assert texts.count("The workspace is empty.") == 1


async def test_a_run_killed_between_the_users_yes_and_the_acceptance_is_completed_by_it(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    script, options = confirming()
    session = script.engine(0, **options).session(record=path)
    paused = await session.run("go")
    await session.answer(paused.questions[0].call_id, "yes")
    lines = path.read_bytes().splitlines(keepends=True)
    yes = next(number for number, line in enumerate(lines) if b"QUESTION_ANSWERED" in line)
    for kept in range(yes + 1, len(lines)):
        outcome, again = await killed_after(path, lines[:kept], script, options)
        assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("completed", "done", 2), kept
        check_transcript(again.transcript.messages)
        assert (await replay(str(path))).same, kept


async def test_a_run_that_is_killed_again_and_again_goes_on_each_time(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    script, options = exhausting()
    await script.engine(0, **options).run("go", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    kept, kills = 4, 0
    while kept < len(lines) and kills < 60:
        outcome, session = await killed_after(path, lines[:kept], *exhausting())
        lines = path.read_bytes().splitlines(keepends=True)
        kept, kills = kept + 3, kills + 1
    check_transcript(session.transcript.messages)
    assert (outcome.stop_reason, outcome.steps) == ("step_limit", 6)
    assert (await replay(str(path))).same


async def test_the_resumed_request_shows_the_reminder_that_the_killed_one_had(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    script, options = exhausting()
    await script.engine(0, **options).run("go", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    reminded = next(number for number, line in enumerate(lines) if b'"origin":"reminder"' in line)
    path.write_bytes(b"".join(lines[: reminded + 4]))
    provider = Scripted([call("finish_task", summary="done")])
    engine = script.engine(0, **options).with_provider(provider)
    session = engine.resume(path)
    async with session.start_resumed() as run:
        await run.wait()
    assert "5 of 6 steps" in provider.requests[0].ephemeral[0].text  # type: ignore[union-attr]


async def test_a_session_whose_latest_run_has_an_end_has_nothing_to_resume(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await Engine(Scripted("fine")).run("go", record=path)
    session = Engine(Scripted()).session()
    session.load(read_record(path).runs)
    assert not session.interrupted
    with pytest.raises(WrongUse, match="no interrupted run"):
        session.start_resumed()


# ---- questions


async def test_several_questions_of_one_step_are_answered_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    provider = Scripted(
        [call("ask_user", question="Which?", id="q1"), call("ask_user", question="When?", id="q2")],
        [call("finish_task", summary="this one, today")],
    )
    session = Engine(provider, presets=[finish_task, ask_user]).session(record=path)
    first = await session.run("go")
    assert [question.text for question in first.questions] == ["Which?", "When?"]
    second = await session.answer("q2", "today")
    assert (second.status, [question.call_id for question in second.questions]) == ("awaiting_input", ["q1"])
    assert len(provider.requests) == 1, "nothing is asked of the model before all answers are there"
    third = await session.answer("q1", "this one")
    assert (third.answer, third.steps) == ("this one, today", 2)
    answers = [m.content for m in provider.requests[1].messages if isinstance(m, ToolResult)]
    assert answers == ["this one", "today"], "in the order of the calls"
    assert (await replay(str(path))).same


async def test_a_question_is_answered_in_another_process_from_the_record(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    ask = [call("ask_user", question="Which?", id="q1")]
    await Engine(Scripted(ask), presets=[finish_task, ask_user]).run("go", record=path)
    session = Engine(Scripted([call("finish_task", summary="this")]), presets=[finish_task, ask_user]).resume(path)
    outcome = await session.answer("q1", "this one")
    assert (outcome.answer, outcome.steps) == ("this", 2)
    assert read_record(path).runs[1].started.continues == read_record(path).runs[0].started.run_id


async def test_a_question_lets_the_writing_calls_before_it_run_and_none_after_it() -> None:
    done: list[str] = []

    async def write(path: str) -> str:
        done.append(path)
        return "ok"

    script = [call("write", path="a"), call("ask_user", question="?", id="q"), call("write", path="b")]
    engine = Engine(Scripted(script, "thanks"), tools=[Tool(write, description="Write.")], presets=[ask_user])
    session = engine.session()
    outcome = await session.run("go")
    assert (outcome.status, done) == ("awaiting_input", ["a"])
    assert (await session.answer("q", "yes")).answer == "thanks"
    assert done == ["a"]
    check_transcript(session.transcript.messages)


async def test_an_answer_does_not_renew_the_limits_of_the_run_that_asked() -> None:
    policy = Policy(limits=Limits(steps=1))
    provider = Scripted([call("ask_user", question="?", id="q")], "never asked for")
    session = Engine(provider, policy=policy, presets=[ask_user]).session()
    await session.run("go")
    outcome = await session.answer("q", "yes")
    assert (outcome.stop_reason, outcome.steps, len(provider.requests)) == ("step_limit", 1, 1)


# ---- limits of a session


async def test_the_limits_of_a_session_count_over_several_runs_and_after_it_is_recalled(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    policy = Policy(session_limits=SessionLimits(steps=3), guards=("step_limit", "token_limit"), closing=False)
    session = Engine(Scripted("one", "two"), policy=policy).session(record=path)
    outcomes = [await session.run("go") for _ in range(2)]
    assert [outcome.limits["session_steps"].used for outcome in outcomes] == [1, 2]
    provider = Scripted([call("nobody")], "never asked for")
    recalled = Engine(provider, policy=policy).resume(path)
    third = await recalled.run("go")
    assert (third.stop_reason, third.limits["session_steps"].used) == ("step_limit", 3)
    fourth = await recalled.run("go")
    assert (fourth.stop_reason, fourth.steps, fourth.limits["session_steps"].used) == ("step_limit", 0, 3)
    assert len(provider.requests) == 1, "a session that is used up makes no request any more"
    check_transcript(recalled.transcript.messages)
    assert (await replay(str(path))).same


async def test_the_limits_of_a_session_count_a_run_and_its_continuation_once() -> None:
    policy = Policy(session_limits=SessionLimits(output_tokens=1000))
    provider = Scripted([call("ask_user", question="?", id="q")], "thanks", "more")
    session = Engine(provider, policy=policy, presets=[ask_user]).session()
    await session.run("go")
    assert (await session.answer("q", "yes")).limits["session_output_tokens"].used == 10
    assert (await session.run("again")).limits["session_output_tokens"].used == 15
