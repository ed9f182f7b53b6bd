"""What is said of an object that is given as a tool and is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from endstop import Engine, Toolbox, WrongUse, tool
from endstop.providers import Scripted


@tool
def look(city: str) -> str:
    """Look at a city."""
    return city


def plain(city: str) -> str:
    """Look at a city."""
    return city


async def waits() -> None:
    """Wait."""


class Other:
    """A tool as other libraries make it."""

    def __init__(self, **kept: Any) -> None:
        self.__dict__.update(kept)


def engine(tools: Any) -> Engine[Any, Any]:
    return Engine(Scripted("Done."), tools=tools)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (lambda: look("Bonn"), "'Bonn' is not a tool, but a text: give the tool itself, without quotes"),
        (lambda: None, "None is not a tool: leave it out"),
        (lambda: "look", "without quotes and without calling it: tools=[look]"),
        (lambda: {"type": "function", "function": {"name": "look"}}, "Tool(function, name=..., description=..., param"),
        (lambda: json, "but a module: give its tools one by one, as in tools=[json.look]"),
        (lambda: Other, "but a class: make tools of the methods of an object, as in tool(Other(...).look)"),
        (lambda: look.spec, "but the description of one: give the tool itself"),
        (lambda: engine([]), "but can be made one: write it.as_tool(...)"),
        (lambda: [look], "but several values: unpack them: tools=[*these, other]"),
        (lambda: tool, "but the decorator: put @tool"),
        (lambda: tool(reads=True), "but the decorator: put @tool"),
        (lambda: plain, "is not a tool: put @tool on the function"),
        (lambda: partial(plain, "Bonn"), "is not a tool: put @tool on the function"),
        (lambda: Other().__init__, "is not a tool: put @tool on the function"),  # type: ignore[misc]
        (
            lambda: Other(func=plain),
            "make one of its function, as in tool(other.func)",
        ),
        (lambda: Other(function=plain), "as in tool(other.function)"),
        (lambda: Other(on_invoke_tool=plain), "put @tool on a function, which may call it"),
        (lambda: 3, "but an object of class int: put @tool on a function"),
    ],
    ids=(
        "called none text schema module class spec engine list decorator unapplied function partial method func "
        "function_within invoked number"
    ).split(),
)
def test_what_is_no_tool_is_told_with_what_it_is_and_what_to_write(value: Callable[[], Any], said: str) -> None:
    for given in (engine, Toolbox):
        with pytest.raises(WrongUse) as caught:
            given([look, value()])
        assert "is not a tool" in str(caught.value)
        assert said in str(caught.value)


def test_the_result_of_a_call_that_nobody_awaits_is_told() -> None:
    result = waits()
    with pytest.raises(WrongUse, match="but the result of a call: give the tool itself"):
        engine([result])
    result.close()


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (look, "write tools=[look]"),
        (plain, "write tools=[plain]"),
        (None, "tools is None: leave it out"),
        ({"look": look}, "write tools=[*tools.values()]"),
        ({"type": "function"}, "but a mapping, as for the API of a vendor"),
        ("look", "but a text"),
        (json, "but a module"),
        (3, "but an object of class int"),
    ],
    ids="tool function none by_name schema text module number".split(),
)
def test_what_is_given_in_place_of_a_list_is_told(tools: Any, said: str) -> None:
    with pytest.raises(WrongUse) as caught:
        engine(tools)
    assert said in str(caught.value)
