"""The schema of a tool's arguments, and what its function gets: from hints, `Field`, notes and docstrings."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import warnings
from typing import Annotated, Any, Literal

import pytest
from endstop import RunContext, Tool, WrongUse, tool
from pydantic import BaseModel, Field
from typing_extensions import Doc, TypedDict


def properties(made: Tool) -> Any:
    return made.spec.parameters["properties"]


@pytest.fixture(autouse=True)
def no_warnings() -> Any:
    """Whatever a parameter is called, pydantic's warnings about our model reach nobody."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_description_and_bounds_of_field_are_in_the_schema_and_hold() -> None:
    @tool
    def look(n: Annotated[int, Field(ge=1, le=5, description="how many", examples=[3])]) -> str:
        """Look."""
        return str(n)

    assert properties(look)["n"] == {
        "description": "how many",
        "examples": [3],
        "minimum": 1,
        "maximum": 5,
        "type": "integer",
    }
    assert look.parse('{"n": 4}') == {"n": 4}
    with pytest.raises(ValueError, match="n: Input should be less than or equal to 5"):
        look.parse('{"n": 9}')


def test_a_field_as_default_gives_the_function_its_value_and_not_the_field() -> None:
    @tool
    def look(
        k: int = Field(3, description="of which kind", le=5),
        made: list[int] = Field(default_factory=list),  # noqa: B008
        needed: str = Field(description="what for"),
        other: str = Field("x", alias="Other name"),
    ) -> str:
        """Look."""
        return ""

    assert look.spec.parameters["required"] == ["needed"]
    assert properties(look)["k"] == {"default": 3, "description": "of which kind", "maximum": 5, "type": "integer"}
    assert look.parse('{"needed": "a"}') == {"k": 3, "made": [], "needed": "a", "other": "x"}
    assert look.parse('{"needed": "a", "Other name": "b"}')["other"] == "b"


def test_what_stands_at_the_parameter_counts_before_the_docstring() -> None:
    @tool
    def look(
        first: Annotated[int, Field(description="from Field")],
        second: Annotated[int, Doc("from Doc")],
        third: Annotated[int, "from a text"],
        fourth: int,
        fifth: int = Field(1, description="from a default"),
    ) -> str:
        """Look.

        Args:
            first: from the docstring
            second: from the docstring
            third: from the docstring
            fourth: from the docstring
            fifth: from the docstring
        """
        return ""

    described = [one["description"] for one in properties(look).values()]
    assert described == ["from Field", "from Doc", "from a text", "from the docstring", "from a default"]


def test_any_name_that_python_allows_can_be_a_parameter() -> None:
    def look(
        copy: int, json: str, schema: str, model_config: int, model_fields: int, _private: int, validate: bool, id: str
    ) -> str:
        """Look."""
        return ""

    made = Tool(look)
    names = ["copy", "json", "schema", "model_config", "model_fields", "_private", "validate", "id"]
    assert list(properties(made)) == names
    given = '{"copy":1,"json":"a","schema":"b","model_config":2,"model_fields":3,"_private":4,"validate":true,"id":"7"}'
    assert list(made.parse(given)) == names
    with pytest.raises(ValueError, match="_private: Field required"):
        made.parse('{"copy":1,"json":"a","schema":"b","model_config":2,"model_fields":3,"validate":true,"id":"7"}')


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Box(TypedDict):
    wide: int


class City(BaseModel):
    name: str = Field(description="its name")


def test_types_of_all_kinds_arrive_as_they_are_declared() -> None:
    @tool
    def look(
        kind: Literal["a", "b"],
        colour: Colour,
        at: Point,
        box: Box,
        city: City,
        when: datetime.date,
        many: list[Point],
        maybe: int | None = None,
        either: int | str = 1,
        *,
        only: tuple[int, str] = (1, "a"),
    ) -> str:
        """Look."""
        return ""

    got = look.parse(
        '{"kind":"a","colour":"red","at":{"x":1},"box":{"wide":2},"city":{"name":"Rome"},"when":"2026-11-25",'
        '"many":[{"x":2,"y":3}],"only":[2,"b"]}'
    )
    assert got == {
        "kind": "a",
        "colour": Colour.RED,
        "at": Point(1),
        "box": {"wide": 2},
        "city": City(name="Rome"),
        "when": datetime.date(2026, 11, 25),
        "many": [Point(2, 3)],
        "maybe": None,
        "either": 1,
        "only": (2, "b"),
    }
    assert properties(look)["kind"]["enum"] == ["a", "b"]


def test_a_default_that_can_be_changed_is_new_for_each_call() -> None:
    @tool
    def collect(into: list[int] = []) -> str:  # noqa: B006
        """Collect."""
        return ""

    collect.parse("{}")["into"].append(1)
    assert collect.parse("{}") == {"into": []}


def test_methods_partials_and_objects_leave_out_what_is_bound() -> None:
    class Shop:
        def price(self, item: str) -> str:
            """Return a price."""
            return item

        def __call__(self, item: str) -> str:
            """Buy."""
            return item

        @staticmethod
        def hours(day: str) -> str:
            """Return the hours."""
            return day

    def send(to: str, body: str) -> str:
        """Send."""
        return to + body

    assert list(properties(tool(Shop().price))) == ["item"]
    assert list(properties(Tool(Shop(), name="buy", description="Buy."))) == ["item"]
    assert list(properties(tool(Shop.hours))) == ["day"]
    assert list(properties(Tool(functools.partial(send, "me"), name="send", description="Send."))) == ["body"]


def untyped(ctx, city: str) -> str:  # type: ignore[no-untyped-def]
    """Look."""
    return city


def foreign(name: str) -> type:
    return type(name, (), {"__module__": "another_library"})


WRONG = {
    "no type": untyped,
    "of another library": {"ctx": foreign("RunContextWrapper"), "city": str},
    "of another library with the same name": {"run": foreign("RunContext"), "city": str},
    "not the first": {"city": str, "runtime": foreign("ToolRuntime")},
    "injected by another library": {"city": str, "state": Annotated[dict[str, Any], foreign("InjectedState")()]},
}


@pytest.mark.parametrize("function", WRONG.values(), ids=WRONG)
def test_a_context_that_nobody_would_fill_is_told_where_the_tool_is_made(function: Any) -> None:
    if isinstance(function, dict):
        hints = function

        def function(*given: Any, **named: Any) -> str:
            """Look."""
            return ""

        import inspect

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(name, kind, annotation=hint) for name, hint in hints.items()]
        function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with pytest.raises(WrongUse, match=r": RunContext` \(from endstop\)"):
        tool(function)


def test_a_context_by_its_type_and_ordinary_arguments_with_such_names_are_fine() -> None:
    @tool
    def look(ctx: RunContext, context: str, wrapper: int = 1) -> str:
        """Look."""
        return ""

    assert list(properties(look)) == ["context", "wrapper"]


def test_what_has_no_schema_is_told_without_an_address() -> None:
    def look(at: object.__class__) -> str:  # type: ignore[name-defined]
        """Look."""
        return ""

    class Odd:
        pass

    look.__annotations__["at"] = Odd
    with pytest.raises(WrongUse, match="tool 'look': no schema can be made of its type hints") as error:
        _ = tool(look).spec
    assert "http" not in str(error.value)
