"""`Run.text`: what the model says, in order, and always with the answer at its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from endstop import Answer, Engine, Hooks, Limits, Observers, Policy, Run, WrongUse, tool
from endstop.decision import ReasoningDelta
from endstop.providers import Fallback, RateLimited, Scripted, call, say
from endstop.tools import ask_user, finish_task, think
from endstop.tools.output import NAME as OUTPUT_TOOL
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel


async def read(run: Run[Any]) -> list[str]:
    return [piece async for piece in run.text()]


async def pieces_of(*responses: Any, **options: Any) -> tuple[list[str], str]:
    async with Engine(Scripted(*responses), **options).start("go") as run:
        pieces = await read(run)
    assert "".join(pieces).endswith(run.outcome.answer)
    assert all(pieces)
    return pieces, run.outcome.answer


async def test_pieces_are_what_the_model_writes_without_reasoning_and_arguments() -> None:
    pieces, answer = await pieces_of([ReasoningDelta("hm"), say("Good morning.", pieces=3)])
    assert (len(pieces), "".join(pieces), answer) == (3, "Good morning.", "Good morning.")


async def test_a_blank_line_stands_between_two_steps_that_say_something() -> None:
    thought = call("think", thought="a")
    pieces, _ = await pieces_of(["Let me look.\n", thought], ["\n", thought], "Here.", tools=[think])
    assert "".join(pieces) == "Let me look.\n\nHere."


async def test_white_space_at_the_end_is_the_answer_s() -> None:
    pieces, answer = await pieces_of(["Let me look. \n", call("think", thought="a")], "Here.\n", tools=[think])
    assert ("".join(pieces), answer) == ("Let me look.\n\nHere.\n", "Here.\n")


async def test_the_summary_of_a_completion_comes_last() -> None:
    pieces, _ = await pieces_of(["I set it.", call("finish_task", summary="The port is 8080.")])
    assert pieces == ["I set it.", "\n\nThe port is 8080."]
    pieces, _ = await pieces_of([call("finish_task", summary="The port is 8080.")])
    assert pieces == ["The port is 8080."]


async def test_an_answer_that_was_said_is_not_said_again() -> None:
    pieces, _ = await pieces_of(["All done.", call("finish_task", summary="All done.")])
    assert pieces == ["All done."]


async def test_a_retracted_attempt_is_followed_by_a_new_line() -> None:
    broken = Scripted(["It is", RateLimited("slow down")], model="a")
    async with Engine(Fallback(broken, Scripted("It is noon.", model="b"))).start("go") as run:
        assert "".join(await read(run)) == "It is\nIt is noon."


async def test_a_run_that_fails_in_the_middle_ends_with_its_partial_answer() -> None:
    pieces, answer = await pieces_of(["It is", RateLimited("slow down")])
    assert (pieces, answer) == (["It is"], "It is")


async def test_a_run_at_its_limit_ends_with_the_closing_words() -> None:
    policy = Policy(limits=Limits(steps=1))
    responses = (["One.", call("think", thought="a")], "Nothing left.")
    pieces, answer = await pieces_of(*responses, tools=[think], policy=policy)
    assert ("".join(pieces), answer) == ("One.\n\nNothing left.", "Nothing left.")


async def test_a_response_that_a_limit_cuts_ends_with_what_is_the_answer() -> None:
    policy = Policy(limits=Limits(output_tokens=40), closing=False)
    pieces, answer = await pieces_of(say("many words " * 400, pieces=200), policy=policy)
    assert answer
    assert len("".join(pieces)) < 1000


async def test_what_follows_a_completion_in_its_response_is_not_said() -> None:
    pieces, _ = await pieces_of(["Now.", call("finish_task", summary="Done."), say(" And more.")])
    assert pieces == ["Now.", "\n\nDone."]


async def test_the_answer_of_a_handler_and_of_a_typed_output_are_the_text() -> None:
    class City(BaseModel):
        name: str

    pieces, _ = await pieces_of([call(OUTPUT_TOOL, name="Rome")], output=City)
    assert pieces == ['{"name":"Rome"}']
    pieces, _ = await pieces_of(hooks=Hooks(prompt_handlers=[lambda prompt, run: Answer("42")]))
    assert pieces == ["42"]


async def test_a_run_that_asks_the_user_has_the_text_before_the_question() -> None:
    pieces, _ = await pieces_of(["Which one?", call("ask_user", question="Which one?")], tools=[ask_user])
    assert "".join(pieces) == "Which one?"


async def test_text_comes_while_a_tool_runs_and_two_readers_get_the_same() -> None:
    let = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await let.wait()
        return "waited"

    async with Engine(Scripted(["First.", call("wait")], "Then."), tools=[wait]).start("go") as run:
        stream = run.text()
        assert await anext(stream) == "First."
        assert run.facts.results == ()
        let.set()
        assert [piece async for piece in stream] == ["\n\nThen."]
        assert await read(run) == ["First.", "\n\nThen."]


async def test_leaving_early_cancels_the_run_when_its_block_is_left() -> None:
    async with Engine(Scripted(["First.", call("think", thought="a")], "Then.")).start("go") as run:
        async for _ in run.text():
            break
    assert run.outcome.status == "cancelled"


async def test_a_session_s_runs_and_a_resumed_answer_have_their_own_text() -> None:
    session = Engine(Scripted([call("ask_user", question="Which?")], "That one.", "Again."), tools=[ask_user]).session()
    paused = await session.run("go")
    async with session.start_answer(paused.questions[0].call_id, "the left") as run:
        assert await read(run) == ["That one."]
    async with session.start("and?") as run:
        assert await read(run) == ["Again."]


async def test_a_slow_reader_gets_the_rest_of_a_response_and_the_answer() -> None:
    text = " ".join(map(str, range(200)))
    async with Engine(Scripted(say(text, pieces=100)), observers=Observers(buffer=30)).start("go") as run:
        await run.wait()
        assert "".join(await read(run)) == text


async def test_the_text_of_a_run_that_nobody_entered_is_wrong_use() -> None:
    with pytest.raises(WrongUse, match="enter it, and read its text inside"):
        await read(Engine(Scripted("x")).start("go"))


_words = st.text(alphabet="ab \n.", max_size=12)
_response = st.one_of(
    _words.map(lambda text: [say(text, pieces=3)]),
    _words.map(lambda text: [text, call("think", thought="a")]),
    st.tuples(_words, _words).map(lambda both: [both[0], call("finish_task", summary=both[1] or "-")]),
    _words.map(lambda text: [text, RateLimited("slow down")]),
)


@given(st.lists(_response, min_size=1, max_size=5), st.sampled_from([3, 8, 4096]), st.booleans())
def test_the_joined_pieces_end_with_the_answer_whatever_the_model_does(
    responses: list[Any], buffer: int, late: bool
) -> None:
    async def both() -> None:
        provider = Fallback(Scripted(*responses), Scripted(*responses, model="b"))
        engine = Engine(provider, tools=[think, finish_task], observers=Observers(buffer=buffer))
        async with engine.start("go") as run:
            if late:
                await run.wait()
            pieces = await read(run)
        assert "".join(pieces).endswith(run.outcome.answer)
        assert all(pieces)

    asyncio.run(both())
