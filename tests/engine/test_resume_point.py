"""A run that was killed in the middle of a step goes on there: what is settled stays, the rest happens once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from endstop import Completion, Engine, Happened, NotHappened, Redaction, Tool, Unclear, read_record, this_call, tool
from endstop.decision import Policy, ToolCallDelta, UserMessage, WrongUse
from endstop.decision import events as ev
from endstop.hooks import Accept, Progress
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.session import Session
from endstop.testing import FakeClock, check_transcript, settle
from endstop.tools import ask_user, finish_task, task_done, think

from ..engine_options import grouped

END = [call("finish_task", summary="done", id="end")]


class Shop:
    """Tools that note what they do. `dies` names the call during which the process is killed."""

    def __init__(self, path: Path, *responses: Any, **options: Any) -> None:
        self.path = path
        self.done: list[str] = []
        self.keys: list[str] = []
        self.again: list[str] = []
        self.responses, self.options = responses, options
        self.check: Callable[..., Any] | None = None

    def tools(self) -> list[Tool]:
        def noted(tool: str) -> str:
            here = this_call()
            self.done.append(here.call_id)
            self.keys.append(here.key)
            if here.again:
                self.again.append(here.call_id)
            return f"{tool} {here.call_id}"

        async def write(path: str) -> str:
            return noted("wrote")

        async def read(path: str) -> str:
            return noted("read")

        return [
            Tool(write, description="Write.", check=self.check),
            Tool(read, description="Read.", reads=True),
        ]

    def engine(self, *responses: Any) -> Engine:
        presets = [finish_task, task_done, ask_user, think]
        return Engine(Scripted(*responses), tools=self.tools(), presets=presets, **grouped(**self.options))

    async def whole(self) -> list[bytes]:
        """Make the run as if nothing happened; the lines of its record."""
        await self.engine(*self.responses).run("go", record=self.path)
        self.done.clear()
        return self.path.read_bytes().splitlines(keepends=True)

    async def resume(self, lines: Sequence[bytes], *then: Any) -> tuple[Any, Session]:
        """The next process, which has these lines; the model says `then` to it."""
        self.path.write_bytes(b"".join(lines))
        engine = self.engine(*then)
        session = engine.session(read_record(self.path).header.session_id, record=self.path)
        session.load(read_record(self.path).runs)
        async with session.start_resumed() as run:
            outcome = await run.wait()
        report = await replay(str(self.path))
        assert report.same, report.runs[0].divergence
        assert not any(isinstance(e, ev.ResumeDiverged) for e in read_record(self.path).runs[-1].events)
        return outcome, session

    def results(self) -> dict[str, tuple[str, str]]:
        """Status and content of each call's result, in the last run."""
        events = read_record(self.path).runs[-1].events
        return {e.call_id: (e.status, e.content) for e in events if isinstance(e, ev.ToolCallResult)}

    def begun(self) -> list[str]:
        events = read_record(self.path).runs[-1].events
        return [e.call_id for e in events if isinstance(e, ev.ToolExecutionStarted)]


def up_to(lines: Sequence[bytes], *marks: str) -> list[bytes]:
    """The lines up to the first one that holds all these."""
    for number, line in enumerate(lines):
        if all(mark.encode() in line for mark in marks):
            return list(lines[: number + 1])
    raise AssertionError(f"no line holds {marks}")


THREE = [call("write", path="a", id="w1"), call("write", path="b", id="w2"), call("write", path="c", id="w3")]


# ---- ordinary calls


async def test_a_finished_call_keeps_its_result_a_begun_one_is_unknown_and_one_that_never_began_runs(
    tmp_path: Path,
) -> None:
    shop = Shop(tmp_path / "r.jsonl", THREE, END)
    lines = await shop.whole()
    outcome, session = await shop.resume(up_to(lines, "TOOL_EXECUTION_STARTED", '"w2"'), END)
    assert outcome.status == "completed"
    assert shop.done == ["w3"]
    results = shop.results()
    assert results["w1"] == ("ok", "wrote w1")
    assert results["w2"][0] == "unknown"
    assert results["w3"] == ("ok", "wrote w3")
    check_transcript(session.transcript.messages)


async def test_a_response_that_was_whole_is_not_requested_again(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "r.jsonl", THREE, END)
    lines = await shop.whole()
    outcome, _ = await shop.resume(up_to(lines, "RESPONSE_FINISHED"), END)
    assert (outcome.status, outcome.steps, shop.done) == ("completed", 2, ["w1", "w2", "w3"])
    (run,) = read_record(shop.path).runs
    assert [e.interrupted_step for e in run.events if isinstance(e, ev.RunResumed)] == [None]
    assert sum(isinstance(e, ev.StepStarted) for e in run.events) == 2


async def test_calls_are_offered_in_the_order_in_which_they_were_complete(tmp_path: Path) -> None:
    """A call without arguments is complete only when the response ends: here after the completion behind it."""
    empty_first = [ToolCallDelta(1, "r1", "read"), *END[0]]
    shop = Shop(tmp_path / "r.jsonl", empty_first, policy=Policy(mixed="none"))
    lines = await shop.whole()
    whole = shop.results()
    assert {id: status for id, (status, _) in whole.items()} == {"r1": "skipped", "end": "ok"}
    await shop.resume(up_to(lines, "RESPONSE_FINISHED"))
    assert shop.results() == whole


async def test_a_reading_call_that_had_begun_runs_again(tmp_path: Path) -> None:
    reads = [call("read", path="a", id="r1"), call("read", path="b", id="r2"), call("write", path="c", id="w1")]
    shop = Shop(tmp_path / "r.jsonl", reads, END)
    lines = await shop.whole()
    outcome, _ = await shop.resume(up_to(lines, "RESPONSE_FINISHED"), END)  # they begin before it is whole
    assert outcome.status == "completed"
    assert "r2" in shop.done
    assert shop.done[-1] == "w1"
    assert "r2" in shop.again
    assert shop.begun().count("r2") == 2, "the record tells both times"
    assert {status for status, _ in shop.results().values()} == {"ok"}


async def test_a_step_that_is_killed_twice_is_entered_twice(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "r.jsonl", THREE, END)
    lines = await shop.whole()
    await shop.resume(up_to(lines, "TOOL_EXECUTION_STARTED", '"w2"'), END)
    again = shop.path.read_bytes().splitlines(keepends=True)
    shop.done.clear()
    outcome, _ = await shop.resume(up_to(again, "TOOL_EXECUTION_STARTED", '"w3"'), END)
    assert (outcome.status, shop.done) == ("completed", [])
    assert [shop.results()[id][0] for id in ("w1", "w2", "w3")] == ["ok", "unknown", "unknown"]


async def test_a_call_whose_arguments_broke_off_is_answered_so_and_runs_no_more_than_before(tmp_path: Path) -> None:
    from endstop.decision import FinishReport, ToolCallDelta

    broken = [call("write", path="a", id="w1"), ToolCallDelta(9, "w2", "write", '{"path":'), FinishReport("length", "")]
    shop = Shop(tmp_path / "r.jsonl", broken, END)
    lines = await shop.whole()
    await shop.resume(up_to(lines, "RESPONSE_FINISHED"), END)
    assert shop.done == ["w1"]
    assert shop.results()["w2"][0] == "truncated"


@pytest.mark.parametrize("mixed", ["before", "all", "none"])
@pytest.mark.parametrize("mark", ["RESPONSE_FINISHED", "TOOL_CALL_RESULT", "COMPLETION_ACCEPTED"])
async def test_what_runs_beside_a_completion_is_the_policys_after_a_kill_too(
    tmp_path: Path, mixed: Any, mark: str
) -> None:
    both = [call("read", path="a", id="r1"), call("write", path="b", id="w1"), *END, call("write", path="c", id="w2")]
    policy = Policy(mixed=mixed, inner_cancel=mixed != "all")
    shop = Shop(tmp_path / "r.jsonl", both, policy=policy)
    whole = await shop.whole()
    expected = shop.results()
    outcome, _ = await shop.resume(up_to(whole, mark))
    assert (outcome.stop_reason, outcome.answer) == ("completed", "done")
    assert {id: status for id, (status, _) in shop.results().items()} == {
        id: status for id, (status, _) in expected.items()
    }


async def test_a_completion_beside_a_call_whose_effect_is_unknown_is_handed_back(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "r.jsonl", [call("write", path="a", id="w1"), *END], END)
    lines = await shop.whole()
    outcome, _ = await shop.resume(
        up_to(lines, "TOOL_EXECUTION_STARTED", '"w1"'), [call("finish_task", summary="looked", id="e2")]
    )
    assert (outcome.answer, outcome.steps) == ("looked", 2)
    assert shop.results()["end"][0] == "rejected"
    assert "not known" in shop.results()["end"][1]


# ---- the other kinds


async def test_thoughts_phases_and_questions_are_not_repeated_and_stand_once(tmp_path: Path) -> None:
    mixed = [
        call("think", thought="first", id="t1"),
        call("task_done", summary="half", completion_percentage=50, id="p1"),
        call("ask_user", question="Which?", id="q1"),
        call("write", path="a", id="w1"),
    ]
    shop = Shop(tmp_path / "r.jsonl", mixed)
    lines = await shop.whole()
    first = next(n for n, line in enumerate(lines) if b"RESPONSE_FINISHED" in line)
    last = next(n for n, line in enumerate(lines) if b"STEP_FINISHED" in line)
    for kept in range(first + 1, last + 1):
        outcome, session = await shop.resume(lines[:kept])
        assert outcome.status == "awaiting_input", kept
        events = read_record(shop.path).runs[0].events
        for kind in (ev.ThoughtRecorded, ev.PhaseReported, ev.QuestionAsked):
            assert sum(isinstance(e, kind) for e in events) == 1, (kept, kind)
        assert [q.call_id for q in session.questions] == ["q1"]
        check_transcript(session.transcript.messages, ["q1"])
        assert shop.results()["p1"] == ("ok", "Noted: 50 % done. Go on.")


async def test_gates_that_were_asked_are_not_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def one(completion: Completion, run: Progress) -> Accept:
        asked.append("one")
        return Accept()

    def two(completion: Completion, run: Progress) -> Accept:
        asked.append("two")
        return Accept()

    shop = Shop(tmp_path / "r.jsonl", END, gates=[one, two])
    lines = await shop.whole()
    asked.clear()
    outcome, _ = await shop.resume(up_to(lines, "VERDICT_GIVEN", '"gate"'))
    assert (outcome.stop_reason, asked) == ("completed", ["two"])


async def test_the_last_phase_is_reported_once_though_its_acceptance_was_not_written(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "r.jsonl", [call("task_done", summary="all", id="p1")])
    lines = await shop.whole()
    outcome, _ = await shop.resume(up_to(lines, "PHASE_REPORTED"))
    assert (outcome.stop_reason, outcome.answer) == ("completed", "all")
    assert [phase["completion_percentage"] for phase in outcome.phases] == [100]


async def test_a_users_own_completion_that_had_begun_is_unknown_unless_it_only_reads(tmp_path: Path) -> None:
    handed_in: list[str] = []

    @tool(kind="completion")
    async def submit(report: str) -> str:
        """Hand in."""
        handed_in.append(report)
        return report

    path = tmp_path / "r.jsonl"
    response = [call("submit", report="x", id="s1")]
    await Engine(Scripted(response), tools=[submit]).run("go", record=path)
    lines = up_to(path.read_bytes().splitlines(keepends=True), "TOOL_EXECUTION_STARTED")
    shop = Shop(path)
    shop.tools = lambda: [submit]  # type: ignore[method-assign]
    shop.engine = lambda *then: Engine(Scripted(*then), tools=[submit])  # type: ignore[method-assign]
    outcome, _ = await shop.resume(lines, [call("submit", report="y", id="s2")])
    assert (outcome.answer, outcome.steps, handed_in) == ("y", 2, ["x", "y"])
    assert shop.results()["s1"][0] == "unknown"


async def test_a_run_that_was_cancelled_before_the_kill_runs_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "r.jsonl", THREE, END)
    lines = up_to(await shop.whole(), "TOOL_EXECUTION_STARTED", '"w2"')
    seq = len(lines)
    lines.append(b'{"type":"CANCEL_REQUESTED","seq":%d,"t":1,"cause":"caller"}\n' % seq)
    outcome, session = await shop.resume(lines)
    assert (outcome.status, shop.done) == ("cancelled", [])
    assert [shop.results()[id][0] for id in ("w1", "w2", "w3")] == ["ok", "cancelled", "cancelled"]
    check_transcript(session.transcript.messages)


async def test_a_resumed_run_that_is_cancelled_at_once_runs_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "r.jsonl", THREE, END)
    lines = up_to(await shop.whole(), "RESPONSE_FINISHED")
    shop.path.write_bytes(b"".join(lines))
    session = shop.engine().resume(shop.path)
    run = session.start_resumed()
    run.cancel("caller")
    async with run:
        assert (await run.wait()).status == "cancelled"
    assert shop.done == []
    check_transcript(session.transcript.messages)


# ---- who a call is


async def test_the_key_of_a_call_is_the_same_in_the_next_process(tmp_path: Path) -> None:
    reads = [call("read", path="a", id="r1")]
    shop = Shop(tmp_path / "r.jsonl", reads, END)
    lines = await shop.whole()
    (key,) = shop.keys
    assert key == f"{read_record(shop.path).runs[0].started.run_id}/1/r1"
    await shop.resume(up_to(lines, "RESPONSE_FINISHED"), END)
    assert (shop.keys, shop.again) == ([key, key], ["r1"])


# ---- checks


@pytest.mark.parametrize(
    ("check", "status", "done", "said"),
    [
        (lambda path: Happened(f"found {path}"), "ok", [], "happened"),
        (lambda path: NotHappened(), "ok", ["w1"], "not_happened"),
        (lambda path: Unclear("the bank is closed"), "unknown", [], "unclear"),
        (lambda path: 1 / 0, "unknown", [], "failed"),
        (lambda path: True, "unknown", [], "failed"),
    ],
)
async def test_a_check_says_what_became_of_a_writing_call(
    tmp_path: Path, check: Any, status: str, done: list[str], said: str
) -> None:
    shop = Shop(tmp_path / "r.jsonl", [call("write", path="a", id="w1")], END)
    lines = await shop.whole()
    shop.check = check
    outcome, _ = await shop.resume(up_to(lines, "TOOL_EXECUTION_STARTED"), END)
    assert outcome.status == "completed"
    assert shop.done == done
    assert shop.results()["w1"][0] == status
    if said == "happened":
        assert shop.results()["w1"][1] == "found a"
    (verdict,) = [e for e in read_record(shop.path).runs[0].events if isinstance(e, ev.VerdictGiven)]
    assert (verdict.role, verdict.said, verdict.call_id) == ("check", said, "w1")


async def test_a_check_knows_which_call_it_is_for_and_is_not_asked_about_one_that_never_began(tmp_path: Path) -> None:
    keys: list[str] = []

    def check(path: str) -> Happened:
        keys.append(this_call().key)
        return Happened("yes")

    shop = Shop(tmp_path / "r.jsonl", THREE, END)
    lines = await shop.whole()
    shop.check = check
    await shop.resume(up_to(lines, "TOOL_EXECUTION_STARTED", '"w2"'), END)
    run_id = read_record(shop.path).runs[0].started.run_id
    assert (keys, shop.done) == ([f"{run_id}/1/w2"], ["w3"])


async def test_a_check_that_takes_longer_than_the_tool_may_is_unclear(tmp_path: Path) -> None:
    async def never(path: str) -> Happened:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("cancelled before")

    clock = FakeClock()
    shop = Shop(tmp_path / "r.jsonl", [call("write", path="a", id="w1")], END, clock=clock)
    lines = await shop.whole()
    shop.check = never
    task = asyncio.create_task(shop.resume(up_to(lines, "TOOL_EXECUTION_STARTED"), END))
    await settle()
    await clock.advance(121)
    await task
    assert shop.results()["w1"][0] == "unknown"


# ---- the user is asked


async def test_the_user_is_asked_where_the_policy_wants_it_and_the_answer_is_the_calls_result(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "r.jsonl", THREE, END, policy=Policy(interrupted_calls="ask"))
    lines = await shop.whole()
    outcome, session = await shop.resume(up_to(lines, "TOOL_EXECUTION_STARTED", '"w2"'))
    assert (outcome.status, shop.done) == ("awaiting_input", []), "what stands after the question is not run"
    (question,) = outcome.questions
    assert question.call_id == "w2"
    assert "write" in question.text
    assert '"path":"b"' in question.text
    check_transcript(session.transcript.messages, ["w2"])

    engine = shop.engine(END)
    session = engine.session(session.id, record=shop.path)
    session.load(read_record(shop.path).runs)
    assert (await session.answer("w2", "It is written.")).status == "completed"
    told = {m.call_id: m.content for m in session.transcript.messages if hasattr(m, "call_id")}
    assert told["w2"] == "It is written."
    check_transcript(session.transcript.messages)
    report = await replay(str(shop.path))
    assert report.same, [run.divergence for run in report.runs]


async def test_a_completion_beside_such_a_question_waits_for_its_answer(tmp_path: Path) -> None:
    policy = Policy(interrupted_calls="ask")
    shop = Shop(tmp_path / "r.jsonl", [call("write", path="a", id="w1"), *END], policy=policy)
    lines = await shop.whole()
    outcome, _ = await shop.resume(up_to(lines, "TOOL_EXECUTION_STARTED", '"w1"'))
    assert outcome.status == "awaiting_input"
    assert shop.results()["end"][0] == "rejected"


# ---- the tools of the run


async def test_a_tool_that_is_gone_or_changed_is_refused_by_name(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "r.jsonl", THREE, END)
    lines = up_to(await shop.whole(), "RESPONSE_FINISHED")
    shop.path.write_bytes(b"".join(lines))

    async def write(path: int) -> str:
        return ""

    async def read(path: str) -> str:
        return ""

    brought: dict[str, list[Tool]] = {
        "missing now: write, read": [],
        "'write' has changed .* parameters": [
            Tool(write, description="Write."),
            Tool(read, description="Read.", reads=True),
        ],
        "'read' has changed .* reads": [*shop.tools()[:1], Tool(read, description="Read.")],
        "'read' has changed .* kind": [*shop.tools()[:1], Tool(read, description="Read.", reads=True, kind="think")],
    }
    for words, tools in brought.items():
        engine = Engine(Scripted(), tools=tools, presets=[finish_task, task_done, ask_user, think])
        session = engine.resume(shop.path)
        with pytest.raises(WrongUse, match=words):
            session.start_resumed()


async def test_a_paused_run_refuses_changed_tools_and_offers_added_ones_to_the_run_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await Engine(Scripted([call("ask_user", question="?", id="q")]), presets=[ask_user]).run("go", record=path)
    session = Engine(Scripted(), presets=[think]).resume(path)
    with pytest.raises(WrongUse, match="missing now: ask_user"):
        session.start_answer("q", "yes")
    provider = Scripted("fine")
    session = Engine(provider, presets=[ask_user, think]).resume(path)
    await session.answer("q", "yes")
    assert [spec.name for spec in provider.requests[0].tools] == ["ask_user", "think"]


async def test_a_killed_run_goes_on_with_the_tools_that_it_began_with(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "r.jsonl", THREE, END)
    lines = up_to(await shop.whole(), "RESPONSE_FINISHED")
    began_with = [spec.name for spec in read_record(shop.path).runs[0].started.tools]
    shop.path.write_bytes(b"".join(lines))

    @tool
    async def added() -> str:
        """Added since."""
        return ""

    provider = Scripted(END)
    engine = Engine(provider, tools=[added, *shop.tools()], presets=[finish_task, task_done, ask_user, think])
    session = engine.resume(shop.path)
    async with session.start_resumed() as run:
        await run.wait()
    assert [spec.name for spec in provider.requests[0].tools] == began_with
    assert (await replay(str(shop.path))).same


# ---- the end of a run


async def test_a_call_in_the_closing_step_is_not_run_after_a_kill_either(tmp_path: Path) -> None:
    from endstop.decision import Limits

    policy = Policy(limits=Limits(steps=1), closing=True)
    shop = Shop(tmp_path / "r.jsonl", THREE, [call("write", path="late", id="late")], policy=policy)
    lines = await shop.whole()
    kept = [n for n, line in enumerate(lines) if b"RESPONSE_FINISHED" in line][1]
    outcome, session = await shop.resume(lines[: kept + 1])
    assert (outcome.stop_reason, shop.done) == ("step_limit", [])
    assert shop.results()["late"][0] == "skipped"
    assert not any(isinstance(m, UserMessage) and "limit" in m.text for m in session.transcript.messages)


# ---- what a record may not hold


@pytest.mark.parametrize("own", [False, True])
async def test_a_call_whose_arguments_were_redacted_is_not_run_with_what_stands_in_their_place(
    tmp_path: Path, own: bool
) -> None:
    redact = (lambda text: text.replace("jane@example.com", "somebody")) if own else Redaction()
    calls = [call("write", path="jane@example.com", id="w1"), call("write", path="harmless", id="w2")]
    shop = Shop(tmp_path / "r.jsonl", calls, END, redact=redact)
    lines = await shop.whole()
    outcome, _ = await shop.resume(up_to(lines, "RESPONSE_FINISHED"), END)
    assert outcome.status == "completed"
    assert shop.done == ([] if own else ["w2"]), "of another redaction nobody knows what it leaves"
    assert shop.results()["w1"][0] == "unknown"


async def test_two_resume_one_run_and_the_second_is_refused_while_the_first_goes_on_and_after_it(
    tmp_path: Path,
) -> None:
    shop = Shop(tmp_path / "r.jsonl", THREE, END)
    shop.path.write_bytes(b"".join(up_to(await shop.whole(), "TOOL_CALL_RESULT", '"w1"')))
    asked, gone = asyncio.Event(), asyncio.Event()

    async def write(path: str) -> str:
        asked.set()
        await gone.wait()
        return "wrote"

    def session() -> Session:
        tools = [Tool(write, description="Write."), shop.tools()[1]]
        made = Engine(Scripted(END), tools=tools, presets=[finish_task, task_done, ask_user, think]).resume(shop.path)
        return made

    first, second = session(), session()
    async with first.start_resumed() as run:
        await asked.wait()
        with pytest.raises(WrongUse, match="is being written by another run"):
            async with second.start_resumed():
                raise AssertionError("it must not begin")
        gone.set()
        assert (await run.wait()).status == "completed"
    content = shop.path.read_bytes()
    with pytest.raises(WrongUse, match=r"has changed since it was read: its last event is \d+"):
        async with second.start_resumed():
            raise AssertionError("it must not begin")
    assert shop.path.read_bytes() == content
