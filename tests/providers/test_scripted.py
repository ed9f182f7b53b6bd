"""`Scripted`: what a script of calls and texts becomes."""

from __future__ import annotations

from typing import Any

import pytest
from endstop import Engine, WrongUse, tool
from endstop.providers import Scripted, call


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


WRONG = {
    "a message of an API": ({"role": "assistant", "content": "x"}, "of type dict"),
    "a name with arguments": (("book", {"seats": 1}), "of type dict"),
    "nothing": (None, "of type NoneType"),
    "a number": (2.5, "of type float"),
    "a number in a list": (["x", 3], "a part of"),
    "the function `call`": (call, "write say('...') or call('name')"),
    "a class": (dict, "write say('...') or call('name')"),
    "several responses in a list": ([[call("a")], [call("b")]], "write Scripted(*responses)"),
    "a response and a text in a list": ([[call("a")], "ok"], "write Scripted(*responses)"),
}


@pytest.mark.parametrize(("response", "told"), WRONG.values(), ids=WRONG)
def test_what_is_no_response_is_refused_with_what_to_write(response: Any, told: str) -> None:
    with pytest.raises(WrongUse) as error:
        Scripted(response)
    assert told in str(error.value)


async def waits(request: object) -> str:
    return "x"


@pytest.mark.parametrize(
    ("function", "told"), [(waits, "is a coroutine"), (lambda request: None, "is None"), (lambda request: {}, "dict")]
)
async def test_a_function_that_returns_no_response_is_named(function: Any, told: str) -> None:
    outcome = await Engine(Scripted(function)).run("Hi")
    assert outcome.status == "failed"
    assert told in outcome.detail
