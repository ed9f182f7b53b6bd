"""`Scripted`: what a script of calls and texts becomes."""

from __future__ import annotations

from typing import Any

import pytest
from endstop import Engine, WrongUse, tool
from endstop.providers import RateLimited, Request, Scripted, call, say
from pydantic import BaseModel


@tool
def delete(id: str, pieces: int = 0) -> str:
    """Delete an entry."""
    return f"deleted {id} and {pieces}"


@pytest.mark.parametrize(
    ("chunks", "result"),
    [
        (call("delete", {"id": "42"}), "deleted 42 and 0"),
        (call("delete", {"id": "42", "pieces": 3}, id="c1"), "deleted 42 and 3"),
        (call("delete", {"id": "42", "pieces": 3}, pieces=4), "deleted 42 and 3"),
    ],
)
async def test_an_argument_may_have_the_name_of_an_option_of_call(chunks: Any, result: str) -> None:
    model = Scripted(chunks, "ok")
    assert (await Engine(model, tools=[delete]).run("x")).answer == "ok"
    assert model.requests[1].messages[-1].content == result


def test_keywords_and_a_mapping_are_joined() -> None:
    def arguments(chunks: list[Any]) -> str:
        return "".join(chunk.arguments for chunk in chunks[1:])

    assert arguments(call("a", {"id": 1}, id="c", b=2)) == '{"id":1,"b":2}' == arguments(call("a", {"id": 1, "b": 2}))
    assert arguments(call("a")) == "{}" == arguments(call("a", {}))


def test_wrong_arguments_of_a_call_are_told() -> None:
    with pytest.raises(WrongUse, match="b is given twice"):
        call("a", {"b": 1}, b=2)
    with pytest.raises(WrongUse, match=r"arguments are a mapping by name, as in call\('a', \{\.\.\.\}\)"):
        call("a", "b")  # type: ignore[arg-type]


class City(BaseModel):
    name: str


async def waiting(request: Request) -> str:
    return "x"


NO_RESPONSES: list[tuple[tuple[Any, ...], str]] = [
    (({"book": 1},), "response 1 of the script is a dict: write a text"),
    (("ok", None), "response 2 of the script is None"),
    ((3,), "response 1 of the script is an int"),
    ((b"x",), "response 1 of the script is a bytes"),
    (({"a", "b"},), "response 1 of the script is a set"),
    ((City,), "response 1 of the script is the class City"),
    ((ValueError,), "response 1 of the script is the class ValueError"),
    ((City(name="Rome"),), "response 1 of the script is a City"),
    ((("delete", {"id": "1"}),), "a part of response 1 of the script is a dict"),
    (([None],), "a part of response 1 of the script is None"),
    (([{"role": "assistant", "content": "x"}],), "a part of response 1 of the script is a dict"),
    (
        ([[call("delete", id="1")], "ok"],),
        r"response 1 of the script is a list of responses: .* Scripted\(\*responses\)",
    ),
    ((call,), r"is the function call itself: call it, as in call\('...'\)"),
    ((call, "ok"), "is the function call: .* the only response of a script"),
    ((lambda: "x",), "is called with the request alone: too many"),
    ((lambda messages, info: "x",), "is called with the request alone: missing"),
    ((waiting,), "is the function waiting, which is async"),
]


@pytest.mark.parametrize(("responses", "said"), NO_RESPONSES)
def test_what_is_no_response_is_refused_when_the_script_is_made(responses: tuple[Any, ...], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        Scripted(*responses)


@pytest.mark.parametrize("answer", [None, {"a": 1}, City, (part for part in [None])])
async def test_what_is_no_response_of_a_function_ends_the_run_with_the_same_text(answer: Any) -> None:
    outcome = await Engine(Scripted(lambda request: answer)).run("x")
    assert outcome.status == "failed"
    assert "response" in outcome.detail
    assert "WrongUse" in outcome.detail


@pytest.mark.parametrize(
    "response",
    ["x", ["x", " y"], ("x",), [say("x"), call("look")], iter(["x"]), RateLimited("slow"), [], lambda r: "x"],
)
def test_what_is_documented_as_a_response_is_taken(response: Any) -> None:
    Scripted(response)


def test_the_name_of_a_called_tool_is_a_text_that_comes_first() -> None:
    with pytest.raises(WrongUse, match=r"the function delete is not a name: write call\('delete', ...\)"):
        call(delete, id="1")  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match="it comes first, without a keyword"):
        call(name="delete")  # type: ignore[call-arg]
    with pytest.raises(WrongUse, match="missing a required"):
        call(id="1")  # type: ignore[call-arg]
    with pytest.raises(WrongUse, match="a model writes its arguments as JSON"):
        call("delete", at=object())
    assert call("delete", name="x")


@pytest.mark.parametrize(
    ("chunks", "output", "said"),
    [
        (call("delete", idd="1"), None, "the latest call, of delete, was answered (invalid): The arguments of delete"),
        (call("remove"), None, "the latest call, of remove, was answered (invalid): There is no tool 'remove'"),
        ("Rome", City, "the latest answer was followed by: "),
    ],
)
async def test_an_exhausted_script_tells_how_its_last_call_was_refused(chunks: Any, output: Any, said: str) -> None:
    outcome = await Engine(Scripted(chunks), tools=[delete], output=output).run("x")
    assert f"the script has 1 response, and one more was requested; {said}" in outcome.detail


async def test_an_exhausted_script_without_a_refusal_tells_no_more() -> None:
    outcome = await Engine(Scripted(call("delete", {"id": "1"})), tools=[delete]).run("x")
    assert outcome.detail.endswith("the script has 1 response, and one more was requested")
