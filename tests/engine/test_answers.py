"""Answers that cannot be used are told with what to write, before a run begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop import Approve, Deny, Engine, Tool
from endstop.decision import WrongUse
from endstop.providers import Scripted, call
from endstop.session import Session
from endstop.tools import ask_user


def engine(tool: str = "pay") -> Engine:
    def pay(amount: int, to: str = "a") -> str:
        return "paid"

    arguments: dict[str, Any] = {"amount": 5} if tool == "pay" else {"question": "Which?"}
    model = Scripted([call(tool, arguments, id="c1")], "Done.", "Done.")
    return Engine(model, tools=[Tool(pay, description="Pay.", approval=True)], presets=[ask_user])


async def paused(tool: str = "pay", record: Path | None = None) -> Session:
    session = engine(tool).session(record=record)
    assert (await session.run("go")).status == "awaiting_input"
    return session


@pytest.mark.parametrize(
    "wrong", [True, False, None, 1, Approve, Deny, {"amount": 5}, object()], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("give", [Session.answer, lambda session, call_id, given: session.answer_all({call_id: given})])
async def test_what_is_no_answer_to_an_approval_is_told_with_approve_and_deny(give: Any, wrong: Any) -> None:
    session = await paused()
    with pytest.raises(WrongUse, match=r"question 'c1' is .*: write Approve\(\) or Deny\('why'\)"):
        await give(session, "c1", wrong)
    assert [question.unclear for question in session.questions] == [0]


async def test_what_is_no_answer_to_a_question_of_the_model_is_told_with_a_text() -> None:
    session = await paused("ask_user")
    with pytest.raises(WrongUse, match="the answer to question 'c1' is 5: write a text"):
        await session.answer("c1", 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [[("c1", True)], "yes", True, Approve()], ids=str)
async def test_answers_that_are_no_mapping_are_told_with_one(wrong: Any) -> None:
    session = await paused()
    with pytest.raises(WrongUse, match=r"^the answers are .*: write a mapping from the ids of the questions"):
        await session.answer_all(wrong)


@pytest.mark.parametrize(
    "give",
    [
        lambda session, call_id: session.approve(call_id),
        lambda session, call_id: session.deny(call_id),
        lambda session, call_id: session.answer(call_id, "yes"),
        lambda session, call_id: session.extend(3, call_id),
    ],
    ids=["approve", "deny", "answer", "extend"],
)
async def test_a_question_or_a_list_in_place_of_an_id_is_told_with_call_id(give: Callable[[Session, Any], Any]) -> None:
    session = await paused()
    (question,) = session.questions
    with pytest.raises(WrongUse, match=r"write question\.call_id, which is 'c1'"):
        await give(session, question)
    for wrong in (["c1"], 1, {"call_id": "c1"}):
        with pytest.raises(WrongUse, match=r"the id of a question is a text, not .*question\.call_id"):
            await give(session, wrong)


async def test_a_question_as_a_key_is_told_with_its_id() -> None:
    session = await paused()
    with pytest.raises(WrongUse, match=r"write question\.call_id, which is 'c1'"):
        await session.answer_all({session.questions[0]: Approve()})  # type: ignore[dict-item]


async def test_arguments_that_do_not_fit_are_told_to_the_user_and_not_to_the_model() -> None:
    session = await paused()
    with pytest.raises(WrongUse, match=r"amount: Field required\. Give all arguments") as caught:
        await session.approve("c1", {"to": "b"})
    assert "call again" not in str(caught.value)


async def test_a_paused_session_that_is_resumed_as_interrupted_says_what_it_waits_for() -> None:
    session = await paused()
    with pytest.raises(WrongUse, match=r"It waits for answers \(c1\): session\.approve\(id\), session\.deny\(id\)"):
        session.start_resumed()


@pytest.mark.parametrize(
    "give",
    [
        lambda session: session.start_answer("c1", "yes"),
        lambda session: session.start_extend(3),
        lambda session: session.start_resumed(),
    ],
    ids=["answer", "extend", "resume"],
)
async def test_a_session_that_did_not_read_its_record_names_resume(give: Any, tmp_path: Path) -> None:
    path = tmp_path / "pay.jsonl"
    await paused(record=path)
    with pytest.raises(WrongUse, match=r"go on in its record with `engine\.resume\('.*pay\.jsonl'\)`"):
        give(engine().session(record=path))
    with pytest.raises(WrongUse) as caught:  # a new file holds nothing to go on with
        give(engine().session(record=tmp_path / "new.jsonl"))
    assert "engine.resume" not in str(caught.value)
