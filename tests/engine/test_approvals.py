"""Calls of a tool with `approval=` run only after the user's yes, once, and say so in record and transcript."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from endstop import (
    Approve,
    Completion,
    Deny,
    Engine,
    Happened,
    NotHappened,
    RecordOptions,
    Redaction,
    Tool,
    read_record,
    tool,
)
from endstop.decision import Policy, ToolResult, WrongUse
from endstop.decision import events as ev
from endstop.option_groups import Runtime
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.session import Session
from endstop.testing import FakeClock, check_transcript
from endstop.tools import ask_user, finish_task

DONE = [call("finish_task", summary="done")]
WHY_NOT = "Not run: the user did not approve it and said: "


class Shop:
    """Tools that note what they do."""

    def __init__(self, *responses: Any, record: Path | None = None, **options: Any) -> None:
        self.done: list[str] = []
        self.asked: list[Mapping[str, Any]] = []
        self.provider = Scripted(*responses, *[DONE] * 3)
        self.record = record
        self.options = options

    def tools(self) -> list[Tool]:
        def delete(path: str, force: bool = False) -> str:
            self.done.append(f"delete {path}{' by force' if force else ''}")
            return f"{path} is gone"

        def pay(amount: int) -> str:
            self.done.append(f"pay {amount}")
            return "paid"

        def is_large(arguments: Mapping[str, Any]) -> bool:
            self.asked.append(arguments)
            return bool(arguments["amount"] > 100)

        def write(path: str) -> str:
            self.done.append(f"write {path}")
            return "written"

        def read(path: str) -> str:
            self.done.append(f"read {path}")
            return "text"

        def secret(path: str) -> str:
            self.done.append(f"secret {path}")
            return "secret"

        async def plan(steps: str) -> Completion:
            self.done.append(f"plan {steps}")
            return Completion(answer="planned")

        return [
            Tool(delete, description="Delete.", approval=True),
            Tool(pay, description="Pay.", approval=is_large),
            Tool(write, description="Write."),
            Tool(read, description="Read.", reads=True),
            Tool(secret, description="Read a secret.", reads=True, approval=True),
            Tool(plan, description="Plan.", completes=True),
        ]

    def engine(self) -> Engine:
        return Engine(self.provider, tools=self.tools(), presets=[finish_task, ask_user], **self.options)

    def session(self) -> Session:
        return self.engine().session(record=self.record)

    def again(self) -> Session:
        """The session as another process takes it up from its record."""
        assert self.record is not None
        session = self.engine().session(read_record(self.record).header.session_id, record=self.record)
        session.load(read_record(self.record).runs)
        return session

    def results(self) -> dict[str, tuple[str, str]]:
        """What the model read in its latest request, by call id."""
        messages = self.provider.requests[-1].messages
        return {m.call_id: (m.status, m.content) for m in messages if isinstance(m, ToolResult)}


async def test_a_call_that_needs_approval_waits_with_name_and_arguments_and_runs_after_the_yes(tmp_path: Path) -> None:
    shop = Shop([call("delete", path="prod", id="c1")], record=tmp_path / "r.jsonl")
    session = shop.session()
    paused = await session.run("clean up")
    assert (paused.status, paused.stop_reason, shop.done) == ("awaiting_input", "awaiting_input", [])
    (question,) = paused.questions
    assert (question.call_id, question.tool, question.arguments) == ("c1", "delete", {"path": "prod"})
    assert question.text == 'May delete run with {"path":"prod"}?'
    outcome = await session.approve("c1")
    assert (outcome.status, outcome.steps, shop.done) == ("completed", 2, ["delete prod"])
    assert shop.results() == {"c1": ("ok", "prod is gone")}
    check_transcript(session.transcript.messages)
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_a_denied_call_never_runs_and_the_model_reads_the_reason(tmp_path: Path) -> None:
    shop = Shop([call("delete", path="prod", id="c1")], record=tmp_path / "r.jsonl")
    session = shop.session()
    await session.run("clean up")
    assert (await session.deny("c1", "use the test folder")).status == "completed"
    assert (shop.done, shop.results()) == ([], {"c1": ("denied", WHY_NOT + "use the test folder")})
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_edited_arguments_run_instead_and_the_model_and_the_record_see_it(tmp_path: Path) -> None:
    shop = Shop([call("delete", path="prod", id="c1")], record=tmp_path / "r.jsonl")
    session = shop.session()
    await session.run("clean up")
    await session.approve("c1", {"path": "test", "force": True})
    assert shop.done == ["delete test by force"]
    note = '[The user changed the arguments of this call. It ran with {"path":"test","force":true}]\n'
    assert shop.results() == {"c1": ("ok", note + "test is gone")}
    answered = next(e for e in read_record(tmp_path / "r.jsonl").runs[1].events if isinstance(e, ev.QuestionAnswered))
    assert (answered.says, answered.arguments) == ("yes", {"path": "test", "force": True})
    assert (await replay(str(tmp_path / "r.jsonl"))).same
    again = shop.again()
    assert again.transcript.messages == session.transcript.messages


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"path": 7}, "path: Input should be a valid string"),
        ({}, "path: Field required"),
        ({"path": "a", "forse": True}, "has no argument 'forse' (did you mean 'force'?)"),
        (["a"], "use a mapping from names to values, not list"),
        ({"path": object()}, "cannot be written as JSON"),
    ],
)
async def test_edited_arguments_that_do_not_fit_are_refused_before_anything_runs(arguments: Any, why: str) -> None:
    shop = Shop([call("delete", path="prod", id="c1")])
    session = shop.session()
    await session.run("clean up")
    with pytest.raises(WrongUse, match="approve") as refused:
        await session.approve("c1", arguments)
    assert why in str(refused.value)
    assert [q.call_id for q in session.questions] == ["c1"]
    assert (await session.approve("c1")).status == "completed"
    assert shop.done == ["delete prod"]


async def test_a_function_decides_once_for_each_call_and_its_answer_is_recorded(tmp_path: Path) -> None:
    shop = Shop([call("pay", amount=5, id="c1"), call("pay", amount=500, id="c2")], record=tmp_path / "r.jsonl")
    session = shop.session()
    paused = await session.run("pay")
    assert (shop.done, [q.call_id for q in paused.questions]) == (["pay 5"], ["c2"])
    await session.approve("c2")
    assert (shop.done, shop.asked) == (["pay 5", "pay 500"], [{"amount": 5}, {"amount": 500}])
    events = read_record(tmp_path / "r.jsonl").runs[0].events
    verdicts = [(e.role, e.said, e.call_id) for e in events if isinstance(e, ev.VerdictGiven)]
    assert verdicts == [("approval", "not_needed", "c1"), ("approval", "needed", "c2")]
    assert (await replay(str(tmp_path / "r.jsonl"))).same
    assert len(shop.asked) == 2


@pytest.mark.parametrize("bad", [lambda arguments: 1 / 0, lambda arguments: None])
async def test_a_function_that_fails_or_says_neither_means_that_the_user_is_asked(bad: Any) -> None:
    done: list[str] = []
    tool = Tool(lambda: done.append("x"), name="act", description="Act.", approval=bad)
    outcome = await Engine(Scripted([call("act", id="c1")]), tools=[tool]).run("go")
    assert (outcome.status, done) == ("awaiting_input", [])


async def test_reading_calls_run_beside_it_and_later_writing_calls_wait_and_run_in_order(tmp_path: Path) -> None:
    response = [
        call("read", path="a", id="r1"),
        call("write", path="b", id="w1"),
        call("delete", path="c", id="d1"),
        call("write", path="d", id="w2"),
        call("read", path="e", id="r2"),
        call("delete", path="f", id="d2"),
        call("write", path="g", id="w3"),
    ]
    shop = Shop(response, record=tmp_path / "r.jsonl")
    session = shop.session()
    paused = await session.run("go")
    assert sorted(shop.done) == ["read a", "read e", "write b"]
    assert [q.call_id for q in paused.questions] == ["d1", "d2"]
    shop.done.clear()
    second = await session.approve("d2")
    assert (second.status, [q.call_id for q in second.questions], shop.done) == ("awaiting_input", ["d1"], [])
    assert len(shop.provider.requests) == 1
    await session.deny("d1")
    assert shop.done == ["write d", "delete f", "write g"]
    assert [shop.results()[id][0] for id in ("r1", "w1", "d1", "w2", "r2", "d2", "w3")] == [
        "ok",
        "ok",
        "denied",
        "ok",
        "ok",
        "ok",
        "ok",
    ]
    check_transcript(session.transcript.messages)
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_several_approvals_are_answered_together_beside_a_question(tmp_path: Path) -> None:
    response = [
        call("delete", path="a", id="d1"),
        call("delete", path="b", id="d2"),
        call("ask_user", question="When?", id="q"),
    ]
    shop = Shop(response, record=tmp_path / "r.jsonl")
    session = shop.session()
    assert len((await session.run("go")).questions) == 3
    outcome = await session.answer_all({"d2": Approve(), "q": "today", "d1": Deny("keep it")})
    assert (outcome.status, shop.done) == ("completed", ["delete b"])
    contents = [content for _, content in shop.results().values()]
    assert contents == [WHY_NOT + "keep it", "b is gone", "today"]
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_a_reading_tool_may_need_approval_too_and_never_starts_early() -> None:
    shop = Shop([call("secret", path="key", id="s"), call("read", path="a", id="r")])
    session = shop.session()
    await session.run("go")
    assert shop.done == ["read a"]
    await session.approve("s")
    assert shop.done == ["read a", "secret key"]


async def test_a_reply_in_words_is_a_yes_a_no_or_asks_again() -> None:
    shop = Shop([call("delete", path="a", id="d1"), call("delete", path="b", id="d2")])
    session = shop.session()
    await session.run("go")
    unclear = await session.answer("d1", "hm, perhaps?")
    assert [q.unclear for q in unclear.questions if q.call_id == "d1"] == [1]
    await session.answer("d1", "yes")
    await session.answer("d2", "no, that one is needed")
    assert shop.done == ["delete a"]
    assert shop.results()["d2"] == ("denied", WHY_NOT + "no, that one is needed")


@pytest.mark.parametrize(
    "text",
    [
        "approve d2",
        "yes to D2",
        "deny d2",
        "Approve(arguments={'path': 'test'})",
        '{"path": "test"}',
        "yes, path=test",
        "ok, 5 euros of it",
        "approve d9",
        "yes to all of them",
        "session.approve('d1')",
    ],
)
async def test_a_reply_that_says_more_than_yes_or_names_another_call_pays_nothing_and_is_asked_again(text: str) -> None:
    shop = Shop([call("delete", path="a", id="d1"), call("delete", path="b", id="d2")])
    session = shop.session()
    await session.run("go")
    paused = await session.answer("d1", text)
    assert [(q.call_id, q.unclear) for q in paused.questions] == [("d1", 1), ("d2", 0)]
    await session.deny("d2")
    assert shop.done == []


@pytest.mark.parametrize("text", ["yes", "Approve()", "approve d1", "yes, please", "OK d1!", "好的", "ja, mach das"])
async def test_a_plain_yes_in_words_may_name_its_own_call(text: str) -> None:
    shop = Shop([call("delete", path="a", id="d1"), call("delete", path="b", id="d2")])
    session = shop.session()
    await session.run("go")
    await session.answer("d1", text)
    await session.deny("d2")
    assert shop.done == ["delete a"]


@pytest.mark.parametrize("id", ["yes", "1", "ok"])
async def test_a_call_whose_id_is_a_word_for_yes_is_approved_by_that_word(id: str) -> None:
    shop = Shop([call("delete", path="a", id=id)])
    session = shop.session()
    await session.run("go")
    await session.answer(id, id)
    assert shop.done == ["delete a"]


async def test_a_completion_after_a_call_that_waits_is_handed_back() -> None:
    shop = Shop([call("delete", path="a", id="d1"), call("finish_task", summary="all deleted", id="f")])
    session = shop.session()
    assert (await session.run("go")).status == "awaiting_input"
    outcome = await session.approve("d1")
    assert (outcome.answer, shop.done) == ("done", ["delete a"])
    assert shop.results()["f"][0] == "rejected"


async def test_a_tool_that_completes_waits_behind_an_approval_and_completes_the_run_after_it(tmp_path: Path) -> None:
    shop = Shop([call("delete", path="a", id="d1"), call("plan", steps="x", id="p")], record=tmp_path / "r.jsonl")
    session = shop.session()
    await session.run("go")
    assert shop.done == []
    outcome = await session.approve("d1")
    assert (outcome.answer, outcome.steps, shop.done) == ("planned", 1, ["delete a", "plan x"])
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_a_tool_that_completes_does_not_complete_after_a_denied_call() -> None:
    shop = Shop([call("delete", path="a", id="d1"), call("plan", steps="x", id="p")])
    session = shop.session()
    await session.run("go")
    outcome = await session.deny("d1")
    assert (outcome.answer, outcome.steps) == ("done", 2)
    assert shop.results()["p"][0] == "rejected"


async def test_a_new_prompt_closes_what_waits_and_nothing_of_it_runs(tmp_path: Path) -> None:
    response = [call("delete", path="a", id="d1"), call("write", path="b", id="w"), call("delete", path="c", id="d2")]
    shop = Shop(response, record=tmp_path / "r.jsonl")
    session = shop.session()
    await session.run("go")
    await session.deny("d2", "never")
    await session.run("something else")
    assert shop.done == []
    assert {id: status for id, (status, _) in shop.results().items()} == {
        "d1": "unanswered",
        "w": "unanswered",
        "d2": "denied",
    }
    check_transcript(session.transcript.messages)
    assert (await replay(str(tmp_path / "r.jsonl"))).same
    with pytest.raises(WrongUse, match="no question 'd1' is open"):
        await session.approve("d1")


async def test_a_run_that_is_cancelled_while_it_asks_leaves_nothing_to_approve(tmp_path: Path) -> None:
    slow = asyncio.Event()

    async def look() -> str:
        slow.set()
        await asyncio.sleep(3600)
        return ""

    shop = Shop(record=tmp_path / "r.jsonl")
    provider = Scripted([call("delete", path="a", id="d1"), call("write", path="b", id="w"), call("look", id="l")])
    tools = [*shop.tools(), Tool(look, description="Look.", reads=True)]
    session = Engine(provider, tools=tools).session(record=tmp_path / "r.jsonl")
    async with session.start("go") as run:
        await slow.wait()
        run.cancel()
        outcome = await run.wait()
    assert (outcome.status, outcome.questions, session.questions) == ("cancelled", (), ())
    results = {m.call_id: m.status for m in session.transcript.messages if isinstance(m, ToolResult)}
    assert results == {"d1": "cancelled", "w": "cancelled", "l": "cancelled"}
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_cancelling_after_the_yes_stops_what_has_not_begun(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def slow(path: str) -> str:
        began.set()
        await asyncio.sleep(3600)
        return ""

    shop = Shop(record=tmp_path / "r.jsonl")
    provider = Scripted([call("slow", path="a", id="s"), call("write", path="b", id="w")])
    tools = [*shop.tools(), Tool(slow, description="Slow.", approval=True)]
    session = Engine(provider, tools=tools).session(record=tmp_path / "r.jsonl")
    await session.run("go")
    async with session.start_answers({"s": Approve()}) as run:
        await began.wait()
        run.cancel()
        outcome = await run.wait()
    assert (outcome.status, shop.done) == ("cancelled", [])
    results = {m.call_id: m.status for m in session.transcript.messages if isinstance(m, ToolResult)}
    assert results == {"s": "cancelled", "w": "cancelled"}
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_an_approval_after_its_deadline_is_a_denial(tmp_path: Path) -> None:
    clock = FakeClock()
    shop = Shop(
        [call("delete", path="a", id="d1"), call("delete", path="b", id="d2")],
        record=tmp_path / "r.jsonl",
        policy=Policy(approval_seconds=60),
        runtime=Runtime(clock=clock),
    )
    session = shop.session()
    paused = await session.run("go")
    assert all(question.expires_at for question in paused.questions)
    await clock.advance(59)
    assert (await session.approve("d1")).status == "awaiting_input"
    await clock.advance(2)
    await session.approve("d2")
    assert shop.done == ["delete a"]
    assert shop.results()["d2"] == (
        "denied",
        "Not run: it needs the user's approval, and no approval came within 60 seconds.",
    )
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_what_was_not_answered_in_time_is_denied_with_the_next_answer() -> None:
    clock = FakeClock()
    shop = Shop(
        [call("delete", path="a", id="d1"), call("ask_user", question="When?", id="q")],
        policy=Policy(approval_seconds=60),
        runtime=Runtime(clock=clock),
    )
    session = shop.session()
    await session.run("go")
    await clock.advance(61)
    assert (await session.answer("q", "now")).status == "completed"
    assert (shop.done, shop.results()["d1"][0]) == ([], "denied")


async def test_wrong_answers_say_what_is_wrong() -> None:
    shop = Shop([call("delete", path="a", id="d1"), call("ask_user", question="When?", id="q")])
    session, other = shop.session(), shop.session()
    with pytest.raises(WrongUse, match="no question 'd1' is open"):
        await session.approve("d1")
    await session.run("go")
    with pytest.raises(WrongUse, match=r"no question 'x' is open in session .* \(open: d1, q\)"):
        await session.approve("x")
    with pytest.raises(WrongUse, match="no question 'd1' is open"):
        await other.deny("d1")
    with pytest.raises(WrongUse, match="does not ask for approval: use answer"):
        await session.approve("q")
    with pytest.raises(WrongUse, match="no answer is given"):
        await session.answer_all({})
    await session.answer_all({"d1": Approve(), "q": "now"})
    with pytest.raises(WrongUse, match="no question 'd1' is open"):
        await session.approve("d1")
    assert shop.done == ["delete a"]


@pytest.mark.parametrize(("busy", "why"), [("refuse", "is busy with another run"), ("queue", "has just been answered")])
async def test_of_two_approvals_at_once_one_is_refused(busy: Any, why: str) -> None:
    shop = Shop([call("delete", path="a", id="d1")])
    session = shop.engine().session(busy=busy)
    await session.run("go")
    first, second = await asyncio.gather(session.approve("d1"), session.approve("d1"), return_exceptions=True)
    assert not isinstance(first, BaseException), first
    assert isinstance(second, WrongUse)
    assert why in str(second)
    assert shop.done == ["delete a"]


@pytest.mark.parametrize("kind", ["completion", "question", "think"])
def test_only_tools_that_work_can_have_an_approval(kind: Any) -> None:
    def act(text: str) -> str:
        return text

    with pytest.raises(WrongUse, match="cannot have an approval"):
        Tool(act, description="Act.", kind=kind, approval=True)
    with pytest.raises(WrongUse, match="approval"):
        Tool(act, description="Act.", approval="yes")  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match="approval is None"):
        Tool(act, description="Act.", approval=None)  # type: ignore[arg-type]


# ---- another process


async def test_it_is_approved_in_another_process_from_the_record(tmp_path: Path) -> None:
    shop = Shop([call("delete", path="a", id="d1"), call("write", path="b", id="w")], record=tmp_path / "r.jsonl")
    await shop.session().run("go")
    outcome = await shop.again().approve("d1")
    assert (outcome.status, shop.done) == ("completed", ["delete a", "write b"])
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_a_session_that_was_read_before_somebody_else_approved_is_refused(tmp_path: Path) -> None:
    shop = Shop([call("delete", path="a", id="d1")], record=tmp_path / "r.jsonl")
    await shop.session().run("go")
    one, two = shop.again(), shop.again()
    await one.approve("d1")
    with pytest.raises(WrongUse, match="has changed since it was read"):
        await two.approve("d1")
    assert shop.done == ["delete a"]


async def test_arguments_that_the_record_has_redacted_have_to_be_given_again(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "a1B2c3D4" * 10
    shop = Shop(
        [call("delete", path=secret, id="d1"), call("write", path=secret, id="w")],
        record=tmp_path / "r.jsonl",
        record_options=RecordOptions(redact=Redaction()),
    )
    await shop.session().run("go")
    assert secret not in (tmp_path / "r.jsonl").read_text()
    session = shop.again()
    with pytest.raises(WrongUse, match="only in redacted form"):
        await session.approve("d1")
    with pytest.raises(WrongUse, match="only in redacted form"):
        await session.answer("d1", "yes")
    await session.approve("d1", {"path": secret})
    assert shop.done == [f"delete {secret}"]
    assert shop.results()["w"][0] == "invalid"


class Killed:
    """A session that was paused and approved, and the lines of its record, to be cut anywhere after the yes."""

    def __init__(self, path: Path, check: Any = None) -> None:
        self.path = path
        self.done: list[str] = []
        self.check = check

    def engine(self, *responses: Any) -> Engine:
        def delete(path: str) -> str:
            self.done.append(path)
            return "gone"

        tool = Tool(delete, description="Delete.", approval=True, check=self.check)
        return Engine(Scripted(*responses), tools=[tool], presets=[finish_task])

    async def whole(self) -> tuple[list[bytes], int]:
        """The lines of a whole session, and how many of them there are before the yes."""
        session = self.engine([call("delete", path="a", id="d1"), call("delete", path="b", id="d2")], DONE).session(
            record=self.path
        )
        await session.run("go")
        await session.answer_all({"d1": Approve(), "d2": Approve()})
        lines = self.path.read_bytes().splitlines(keepends=True)
        runs = [n for n, line in enumerate(lines) if b'"RUN_STARTED"' in line]
        return lines, runs[1]


@pytest.mark.parametrize("check", [None, lambda path: NotHappened(), lambda path: Happened("it was gone")])
async def test_killed_anywhere_after_the_yes_no_effect_is_lost_and_none_is_done_twice(
    tmp_path: Path, check: Any
) -> None:
    path = tmp_path / "r.jsonl"
    lines, begin = await Killed(path).whole()
    for cut in range(begin + 1, len(lines)):
        path.write_bytes(b"".join(lines[:cut]))
        killed = Killed(path, check)
        session = killed.engine(DONE).session(read_record(path).header.session_id, record=path)
        session.load(read_record(path).runs)
        kept = lines[begin:cut]
        answered = sum(b'"QUESTION_ANSWERED"' in line for line in kept)
        begun = sum(b'"TOOL_EXECUTION_STARTED"' in line and b'"delete"' in line for line in kept)
        ended = sum(b'"TOOL_CALL_RESULT"' in line and b'"delete"' in line for line in kept)
        async with session.start_resumed() as run:
            outcome = await run.wait()
        if answered < 2:
            assert (outcome.status, killed.done) == ("awaiting_input", []), cut
            assert len(outcome.questions) == 2 - answered
            outcome = await session.answer_all({question.call_id: Approve() for question in outcome.questions})
        assert outcome.status == "completed", cut
        again = 0 if check is None or check("") != NotHappened() else min(1, begun - ended)
        ran_here = [name for number, name in enumerate("ab") if number >= begun - again and number >= ended]
        assert killed.done == ran_here, cut
        statuses = [m.status for m in session.transcript.messages if isinstance(m, ToolResult)][:2]
        unknown = check is None and begun > ended
        assert statuses.count("unknown") == unknown, cut
        check_transcript(session.transcript.messages)
        assert (await replay(str(path))).same, cut


async def test_killed_while_it_asks_the_function_is_not_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    shop = Shop([call("pay", amount=500, id="c1")], record=path)
    await shop.session().run("go")
    lines = path.read_bytes().splitlines(keepends=True)
    asked = next(n for n, line in enumerate(lines) if b'"QUESTION_ASKED"' in line)
    for cut in (asked, asked + 1, asked + 2):
        path.write_bytes(b"".join(lines[:cut]))
        session = shop.again()
        async with session.start_resumed() as run:
            outcome = await run.wait()
        assert ([q.call_id for q in outcome.questions], len(shop.asked), shop.done) == (["c1"], 1, [])
        assert (await replay(str(path))).same


@tool(approval=True)
def transfer(amount: int) -> str:
    """Transfer an amount."""
    return f"{amount} transferred"


async def waiting() -> Any:
    model = Scripted([call("transfer", amount=5, id="c1"), call("transfer", amount=9, id="c2")], "Done.", "Done.")
    session = Engine(model, tools=[transfer]).session()
    assert (await session.run("Pay")).status == "awaiting_input"
    return session


@pytest.mark.parametrize(
    "text", ["approve c2", "yes, c2", "Approve(arguments={'amount': 1})", "ok, amount=1", "yes (both)"]
)
async def test_a_yes_that_says_more_than_yes_is_asked_again_and_runs_nothing(text: str) -> None:
    session = await waiting()
    outcome = await session.answer("c1", text)
    assert outcome.status == "awaiting_input"
    assert {question.call_id for question in session.questions} == {"c1", "c2"}


@pytest.mark.parametrize("text", ["yes", "ok", "approve c1", "Yes, please.", "1"])
async def test_a_plain_yes_approves(text: str) -> None:
    session = await waiting()
    await session.answer("c1", text)
    assert [question.call_id for question in session.questions] == ["c2"]


@pytest.mark.parametrize("given", [True, False, Approve, Deny])
async def test_what_another_library_answers_is_told_with_what_to_write(given: Any) -> None:
    session = await waiting()
    with pytest.raises(WrongUse, match=r"write Approve\(\) or Deny\('why'\)"):
        await session.answer_all({"c1": given})
    with pytest.raises(WrongUse, match=r"question\.call_id"):
        await session.approve(session.questions[0])
    with pytest.raises(WrongUse, match=r"waits for answers \(c1, c2\)"):
        session.start_resumed()
