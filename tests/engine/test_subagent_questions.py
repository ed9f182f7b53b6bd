"""Questions of sub-agents: the caller pauses with them, and the answers let the sub-agent go on where it stood."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop import Deny, Engine, Extend, Tool, read_record
from endstop.cli.question_prompt import ask_questions
from endstop.cli.views.styled_lines import Line, plain_text
from endstop.decision import AssistantMessage, Limits, Policy, ToolResult, UserMessage, WrongUse
from endstop.decision import events as ev
from endstop.engine import RecordOptions
from endstop.providers import Scripted, call, say
from endstop.replay import replay
from endstop.session import Session
from endstop.testing import FakeClock, check_transcript
from endstop.tools import ask_user, task_done

from ..engine_options import grouped
from ..record_lines import line_of
from .payer import DONE, by_step, pay, write


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


def told(request: Any) -> str:
    """The prompt of a request."""
    return next(message.text for message in request.messages if isinstance(message, UserMessage))


def paying(**options: Any) -> Tool:
    """A sub-agent that writes, then pays whom its prompt names, then answers."""

    def respond(request: Any) -> Any:
        steps = sum(isinstance(message, AssistantMessage) for message in request.messages)
        who = told(request)
        return [[call("write", id="w", path=who)], [call("pay", id="p", to=who)], say(f"{who} is paid.")][steps]

    return Engine(Scripted(respond), tools=[pay, write], **grouped(**options)).as_tool("payer", "Pays somebody.")


def caller(sub: Tool, *responses: Any, tools: tuple[Tool, ...] = (write,), **options: Any) -> Engine:
    script = responses or ([call("payer", id="h", prompt="Ann")], "All done.")
    return Engine(by_step(*script), tools=[sub, *tools], **grouped(**options))


def results(session: Session) -> dict[str, ToolResult]:
    return {m.call_id: m for m in session.transcript.messages if isinstance(m, ToolResult)}


def loaded(engine: Engine, record: Path) -> Session:
    session = engine.resume(record)
    return session


async def replayed(record: Path) -> None:
    for one in (await replay(record)).runs:
        assert one.divergence is None


# ---- the pause


async def test_the_callers_run_pauses_with_the_sub_agents_call(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    outcome = await caller(paying()).run("go", record=record)
    assert outcome.status == "awaiting_input"
    (question,) = outcome.questions
    assert (question.call_id, question.tool, question.arguments) == ("h/p", "pay", {"to": "Ann"})
    assert question.text == 'payer: May pay run with {"to":"Ann"}?'
    assert question.asker is not None
    assert (question.asker.call_id, question.asker.names) == ("h", ("payer",))
    assert DONE == ["wrote Ann"]
    (started,) = [e for e in read_record(record).runs[0].events if isinstance(e, ev.SubagentStarted)]
    assert (question.asker.run_id, question.asker.session_id) == (started.run_id, started.session_id)
    await replayed(record)


@pytest.mark.parametrize("from_records", [False, True])
async def test_an_approval_lets_the_sub_agent_go_on_and_then_the_caller(tmp_path: Path, from_records: bool) -> None:
    record = tmp_path / "run.jsonl"
    engine = caller(paying())
    session = engine.session(record=record)
    await session.run("go")
    if from_records:
        session = loaded(engine, record)
    outcome = await session.approve("h/p")
    assert (outcome.status, outcome.answer, DONE) == ("completed", "All done.", ["wrote Ann", "paid Ann"])
    assert results(session)["h"].content == "Ann is paid."
    assert outcome.subagents is not None
    assert (outcome.subagents.runs, outcome.subagents.requests, outcome.requests) == (1, 3, 2)
    assert outcome.usage.input_tokens == 50
    check_transcript(session.transcript.messages)
    (below,) = tmp_path.rglob("payer-*.jsonl")
    first, second = read_record(below).runs
    assert second.started.continues == first.started.run_id
    await replayed(record)
    await replayed(below)


async def test_without_a_record_the_answer_finds_the_sub_agent_in_its_callers_session() -> None:
    session = caller(paying()).session()
    await session.run("go")
    outcome = await session.approve("h/p")
    assert (outcome.answer, DONE) == ("All done.", ["wrote Ann", "paid Ann"])


async def test_a_denial_is_what_the_sub_agents_model_reads(tmp_path: Path) -> None:
    session = caller(paying()).session(record=tmp_path / "run.jsonl")
    await session.run("go")
    outcome = await session.deny("h/p", "too much")
    assert (outcome.status, DONE) == ("completed", ["wrote Ann"])
    (below,) = tmp_path.rglob("payer-*.jsonl")
    (denied,) = [e for e in read_record(below).runs[1].events if isinstance(e, ev.ToolCallResult)]
    assert (denied.status, denied.content) == ("denied", "Not run: the user did not approve it and said: too much")
    await replayed(tmp_path / "run.jsonl")


async def test_arguments_are_edited_and_checked_by_the_sub_agents_tool(tmp_path: Path) -> None:
    session = caller(paying()).session(record=tmp_path / "run.jsonl")
    await session.run("go")
    with pytest.raises(WrongUse, match="has no argument 'too'"):
        await session.approve("h/p", {"to": "Bob", "too": 1})
    await session.approve("h/p", {"to": "Bob"})
    assert DONE == ["wrote Ann", "paid Bob"]
    await replayed(tmp_path / "run.jsonl")


async def test_the_sub_agents_id_alone_is_no_question_of_the_caller() -> None:
    session = caller(paying()).session()
    await session.run("go")
    for id in ("p", "h"):
        with pytest.raises(WrongUse, match=r"no question '.' is open .*\(open: h/p\)"):
            await session.approve(id)
    assert DONE == ["wrote Ann"]


async def test_the_terminal_asks_about_it_and_checks_edited_arguments() -> None:
    engine = caller(paying())
    session = engine.session()
    paused = await session.run("go")
    lines, shown = iter(["e", '{"x": 1}', '{"to": "Bob"}']), list[Line]()
    answers = ask_questions(paused.questions, engine.config.toolbox, shown.extend, lambda prompt: next(lines))
    assert 'pay {"to": "Ann"}' in map(plain_text, shown)
    assert answers is not None
    await session.answer_all(answers)
    assert DONE == ["wrote Ann", "paid Bob"]


# ---- other questions


def asking(*responses: Any, tools: tuple[Tool, ...], **options: Any) -> Tool:
    return Engine(by_step(*responses), tools=tools, **grouped(**options)).as_tool("payer", "Pays somebody.")


async def test_a_question_in_words_is_answered_in_words(tmp_path: Path) -> None:
    inner = by_step([call("ask_user", id="q", question="Which one?")], say("Blue it is."))
    sub = Engine(inner, tools=[ask_user]).as_tool("payer", "Pays somebody.")
    session = caller(sub).session(record=tmp_path / "run.jsonl")
    (question,) = (await session.run("go")).questions
    assert (question.call_id, question.text, question.tool) == ("h/q", "payer: Which one?", None)
    outcome = await session.answer("h/q", "the blue one")
    assert outcome.status == "completed"
    assert inner.requests[-1].messages[-1] == ToolResult("q", "ask_user", "the blue one")
    assert results(session)["h"].content == "Blue it is."
    await replayed(tmp_path / "run.jsonl")


async def test_a_confirmation_ends_the_sub_agent_and_not_its_caller(tmp_path: Path) -> None:
    done = call("task_done", id="f", summary="The house is red.", requires_user_confirmation=True)
    session = caller(asking([done], tools=(task_done,))).session(record=tmp_path / "run.jsonl")
    (question,) = (await session.run("go")).questions
    assert (question.call_id, question.confirms) == ("h/f", "The house is red.")
    again = await session.answer("h/f", "perhaps")
    assert (again.status, [one.unclear for one in again.questions]) == ("awaiting_input", [1])
    outcome = await session.answer("h/f", "yes")
    assert (outcome.status, outcome.answer) == ("completed", "All done.")
    assert results(session)["h"].content == "The house is red."
    await replayed(tmp_path / "run.jsonl")


async def test_an_approval_that_comes_too_late_denies_the_sub_agents_call() -> None:
    clock = FakeClock()
    session = caller(paying(policy=Policy(approval_seconds=60), clock=clock), clock=clock).session()
    await session.run("go")
    await clock.advance(61)
    outcome = await session.approve("h/p")
    assert (outcome.status, DONE) == ("completed", ["wrote Ann"])


async def test_a_sub_agent_may_ask_again_in_the_run_that_goes_on(tmp_path: Path) -> None:
    sub = asking([call("pay", id="a", to="Ann")], [call("pay", id="b", to="Bob")], "Both paid.", tools=(pay,))
    session = caller(sub).session(record=tmp_path / "run.jsonl")
    await session.run("go")
    (second,) = (await session.approve("h/a")).questions
    assert (second.call_id, DONE) == ("h/b", ["paid Ann"])
    outcome = await loaded(caller(sub), tmp_path / "run.jsonl").approve("h/b")
    assert (outcome.answer, DONE) == ("All done.", ["paid Ann", "paid Bob"])
    assert outcome.subagents is not None
    assert (outcome.subagents.runs, outcome.subagents.requests) == (1, 3)
    await replayed(tmp_path / "run.jsonl")


# ---- several, and deeper


@pytest.mark.parametrize("from_records", [False, True])
async def test_two_levels_deep_the_question_names_the_way(tmp_path: Path, from_records: bool) -> None:
    middle = Engine(by_step([call("payer", id="m", prompt="Ann")], "passed on"), tools=[paying()])
    sub = middle.as_tool("office", "Has somebody pay.")
    engine = caller(sub, [call("office", id="h", prompt="x")], "All done.")
    record = tmp_path / "run.jsonl"
    session = engine.session(record=record)
    (question,) = (await session.run("go")).questions
    assert (question.call_id, question.tool) == ("h/m/p", "pay")
    assert question.asker is not None
    assert (question.asker.call_id, question.asker.names) == ("h", ("office", "payer"))
    assert question.text.startswith("office: payer: May pay run")
    if from_records:
        session = loaded(engine, record)
    with pytest.raises(WrongUse, match="pay has no argument 'x'"):
        await session.approve("h/m/p", {"to": "A", "x": 1})
    outcome = await session.approve("h/m/p", {"to": "Bob"})
    assert (outcome.answer, DONE) == ("All done.", ["wrote Ann", "paid Bob"])
    for path in tmp_path.rglob("*.jsonl"):
        await replayed(path)
    assert len(list(tmp_path.rglob("*.jsonl"))) == 3


@pytest.mark.parametrize("together", [False, True])
async def test_several_at_the_same_time_each_ask(tmp_path: Path, together: bool) -> None:
    calls = [call("payer", id=id, prompt=who) for id, who in (("1", "Ann"), ("2", "Bob"), ("3", "Cid"))]
    engine = caller(paying(), calls, "All done.")
    record = tmp_path / "run.jsonl"
    session = engine.session(record=record)
    asked = {question.call_id for question in (await session.run("go")).questions}
    assert asked == {"1/p", "2/p", "3/p"}
    DONE.clear()
    if together:
        outcome = await session.answer_all({"1/p": "yes", "2/p": Deny("no"), "3/p": "yes"})
    else:
        assert (await session.approve("3/p")).status == "awaiting_input"
        assert DONE == []  # until the last answer
        session = loaded(engine, record)
        assert (await session.deny("2/p")).status == "awaiting_input"
        outcome = await session.approve("1/p")
    assert (outcome.status, sorted(DONE)) == ("completed", ["paid Ann", "paid Cid"])
    assert [results(session)[id].content for id in "123"] == ["Ann is paid.", "Bob is paid.", "Cid is paid."]
    check_transcript(session.transcript.messages)
    await replayed(record)


async def test_a_writing_call_behind_a_sub_agent_that_asks_waits_with_it(tmp_path: Path) -> None:
    calls = [call("payer", id="h", prompt="Ann"), call("write", id="later", path="after")]
    session = caller(paying(), calls, "All done.").session(record=tmp_path / "run.jsonl")
    await session.run("go")
    assert DONE == ["wrote Ann"]
    await session.approve("h/p")
    assert DONE == ["wrote Ann", "paid Ann", "wrote after"]
    await replayed(tmp_path / "run.jsonl")


async def test_a_sub_agent_that_is_approved_itself_asks_then_for_its_own_call(tmp_path: Path) -> None:
    sub = paying()
    sub.approval = True
    engine = caller(sub)
    session = engine.session(record=tmp_path / "run.jsonl")
    assert [one.call_id for one in (await session.run("go")).questions] == ["h"]
    paused = await session.approve("h", {"prompt": "Bob"})
    assert [(one.call_id, one.arguments) for one in paused.questions] == [("h/p", {"to": "Bob"})]
    outcome = await loaded(engine, tmp_path / "run.jsonl").approve("h/p")
    assert (outcome.status, DONE) == ("completed", ["wrote Bob", "paid Bob"])
    await replayed(tmp_path / "run.jsonl")


# ---- what else may come


async def test_a_new_prompt_leaves_the_sub_agent_and_says_so() -> None:
    engine = caller(paying(), [call("payer", id="h", prompt="Ann")], "Never mind.")
    session = engine.session()
    await session.run("go")
    outcome = await session.run("Stop that.")
    assert (outcome.answer, DONE) == ("Never mind.", ["wrote Ann"])
    assert results(session)["h"].status == "unanswered"
    assert "sub-agent had asked the user" in results(session)["h"].content
    with pytest.raises(WrongUse, match="no question"):
        await session.approve("h/p")


async def test_a_record_of_the_sub_agent_that_is_gone_is_an_error_for_the_model(tmp_path: Path) -> None:
    engine = caller(paying())
    await engine.run("go", record=tmp_path / "run.jsonl")
    (below,) = tmp_path.rglob("payer-*.jsonl")
    below.unlink()
    session = loaded(engine, tmp_path / "run.jsonl")
    outcome = await session.approve("h/p")
    assert (outcome.status, DONE) == ("completed", ["wrote Ann"])
    assert results(session)["h"].status == "error"
    assert "nothing is kept of it" in results(session)["h"].content


async def test_redacted_arguments_of_a_sub_agents_call_have_to_be_given_again(tmp_path: Path) -> None:
    def redact(text: str) -> str:
        return text.replace("Ann", "[name]")

    engine = caller(paying(), record_options=RecordOptions(redact=redact))
    record = tmp_path / "run.jsonl"
    await engine.run("go", record=record)
    assert all("Ann" not in path.read_text() for path in tmp_path.rglob("*.jsonl"))
    session = loaded(engine, record)
    with pytest.raises(WrongUse, match="only in redacted form"):
        await session.approve("h/p")
    assert (await session.approve("h/p", {"to": "Ann"})).status == "completed"
    assert DONE == ["wrote Ann", "paid Ann"]


# ---- kills


def cut(record: Path, lines: int) -> None:
    """Leave so many lines of a record; none: remove it."""
    kept = record.read_bytes().splitlines(keepends=True)[:lines]
    record.write_bytes(b"".join(kept)) if kept else record.unlink()


def number_of(path: Path, run: int, belongs: Callable[[Any], bool]) -> int:
    """The line, from 1, of the first such event of a run; the header is line 1."""
    return line_of(path, run, next(event.seq for event in read_record(path).runs[run].events if belongs(event)))


async def test_a_kill_anywhere_in_the_pause_or_after_the_answer_repeats_nothing(tmp_path: Path) -> None:
    """Every pair of places where the two records may end, once the sub-agent waits."""
    whole = tmp_path / "whole"
    whole.mkdir()
    engine = caller(paying())
    session = engine.session(record=whole / "run.jsonl")
    await session.run("go")
    await session.approve("h/p")
    (below,) = whole.rglob("payer-*.jsonl")
    above_lines = len((whole / "run.jsonl").read_bytes().splitlines())
    below_lines = len(below.read_bytes().splitlines())
    paused = number_of(below, 0, lambda event: isinstance(event, ev.RunFinished))
    paid = number_of(below, 1, lambda event: isinstance(event, ev.ToolExecutionStarted))
    settled = number_of(below, 1, lambda event: isinstance(event, ev.ToolCallResult))
    asked = number_of(whole / "run.jsonl", 0, lambda event: isinstance(event, ev.QuestionAsked))
    began = number_of(whole / "run.jsonl", 1, lambda event: isinstance(event, ev.ToolExecutionStarted))
    resulted = number_of(whole / "run.jsonl", 1, lambda event: isinstance(event, ev.ToolCallResult))
    trials = 0
    for of_caller in range(asked - 1, above_lines):
        if of_caller < began:
            places = [paused]
        elif of_caller < resulted:
            places = list(range(paused, below_lines + 1))
        else:
            places = [below_lines]
        for of_child in places:
            DONE[:] = ["wrote Ann", *(["paid Ann"] if of_child >= paid else [])]
            trials += 1
            folder = tmp_path / str(trials)
            (folder / "run.subagents").mkdir(parents=True)
            for path, lines in ((whole / "run.jsonl", of_caller), (below, of_child)):
                copy = folder / path.relative_to(whole)
                copy.write_bytes(path.read_bytes())
                cut(copy, lines)
            outcome = await carried_on(engine, folder / "run.jsonl")
            where = (of_caller, of_child)
            assert (outcome.status, outcome.answer, DONE) == ("completed", "All done.", ["wrote Ann", "paid Ann"]), (
                where
            )
            assert outcome.subagents is not None
            assert outcome.subagents.runs == 1, where
            (again,) = folder.rglob("payer-*.jsonl")
            (last,) = [e for e in read_record(again).runs[-1].events if isinstance(e, ev.ToolCallResult)]
            assert last.status == ("unknown" if paid <= of_child < settled else "ok"), where
            await replayed(folder / "run.jsonl")
    assert trials > 30


async def carried_on(engine: Engine, record: Path) -> Any:
    """The outcome of a session that is resumed after a kill, and whose question is approved if it is open."""
    session = loaded(engine, record)
    if session.interrupted:
        async with session.start_resumed() as run:
            outcome = await run.wait()
        if outcome.status != "awaiting_input":
            return outcome
    return await session.approve("h/p")


# ---- more steps


def longer_by_asking() -> Tool:
    """A sub-agent that needs three steps, and asks for more than one."""

    def respond(request: Any) -> Any:
        if any("The run ends here" in message.text for message in request.ephemeral):
            return "Only one is written."
        steps = sum(isinstance(message, AssistantMessage) for message in request.messages)
        return [[call("write", id="w1", path="a")], [call("write", id="w2", path="b")], say("Both are written.")][steps]

    policy = Policy(limits=Limits(steps=1, extend=Extend(by=1, when="ask")), reminder=None)
    return Engine(Scripted(respond), tools=[write], policy=policy).as_tool("writer", "Writes.")


async def test_a_sub_agent_asks_for_more_steps_through_its_caller(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    engine = caller(longer_by_asking(), [call("writer", id="h", prompt="go")], "All done.")
    session = engine.session(record=record)
    (question,) = (await session.run("go")).questions
    assert (question.call_id, question.extends) == ("h/limits.steps.1", 1)
    assert question.text == "writer: 1 of 1 steps are used. May the run make 1 more?"
    again = await session.answer(question.call_id, "as you like")
    assert again.questions[0].text.startswith("That was neither a yes nor a no. writer: 1 of 1 steps")
    outcome = await loaded(engine, record).extend(7)
    assert (outcome.status, DONE) == ("completed", ["wrote a", "wrote b"])
    (below,) = (tmp_path / "run.subagents").glob("*.jsonl")
    granted = [e for run in read_record(below).runs for e in run.events if isinstance(e, ev.LimitExtended)]
    assert [(one.by, one.allowed) for one in granted] == [(7, 8)]
    assert not [e for run in read_record(record).runs for e in run.events if isinstance(e, ev.LimitExtended)]
    await replayed(record)


async def test_a_sub_agent_that_gets_no_more_steps_tells_its_caller_so() -> None:
    session = caller(longer_by_asking(), [call("writer", id="h", prompt="go")], "All done.").session()
    await session.run("go")
    outcome = await session.answer("h/limits.steps.1", "no")
    assert (outcome.status, DONE) == ("completed", ["wrote a"])
    assert "Only one is written." in results(session)["h"].content
    assert "step_limit" in results(session)["h"].content


async def test_where_two_sub_agents_ask_it_is_said_which_gets_more_steps() -> None:
    calls = [call("writer", id="h1", prompt="go"), call("writer", id="h2", prompt="go")]
    session = caller(longer_by_asking(), calls, "All done.").session()
    await session.run("go")
    with pytest.raises(WrongUse, match=r"say which with call_id \(h1/limits\.steps\.1, h2/limits\.steps\.1\)"):
        session.start_extend(5)
    with pytest.raises(WrongUse, match=r"no question 'limits\.steps\.1' in session .* asks for more steps"):
        session.start_extend(5, "limits.steps.1")
    assert (await session.extend(5, "h2/limits.steps.1")).status == "awaiting_input"
    assert (await session.extend(5)).status == "completed"
