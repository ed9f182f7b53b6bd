"""A type of output: the schema that the model sees, and what is read and written."""

import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union

import msgspec
import pytest
from endstop import Engine, InvalidArguments, WrongUse
from endstop.decision.argument_types import describe_type, fits
from endstop.providers import Scripted
from endstop.tools.output import NAME, OutputTool, OutputType, output_type_of
from msgspec import Struct
from pydantic import BaseModel, Field, computed_field, field_validator
from typing_extensions import TypeAliasType


class Model(BaseModel):
    """The settings of a server."""

    host: str
    port: int = Field(gt=0, description="A TCP port.")


@dataclass
class Plain:
    host: str
    port: int


class Typed(TypedDict):
    """The settings of a server."""

    host: str
    port: int


class Inner(Struct):
    host: str


class Packed(Struct):
    """The settings of a server."""

    host: str
    port: Annotated[int, msgspec.Meta(gt=0)]
    inner: Inner | None = None


class Tree(BaseModel):
    name: str
    branches: "list[Tree]" = []


def tool_of(kind: Any) -> OutputTool:
    return OutputTool(OutputType(kind))


@pytest.mark.parametrize("kind", [Model, Plain, Typed, Packed])
def test_an_object_is_the_arguments_of_the_tool(kind: Any) -> None:
    spec = tool_of(kind).spec
    assert (spec.name, spec.kind) == (NAME, "completion")
    assert spec.parameters["type"] == "object"
    assert spec.parameters["required"] == ["host", "port"]
    assert spec.parameters["properties"]["port"]["type"] == "integer"
    assert "title" not in spec.parameters
    assert "description" not in spec.parameters, "it stands in the tool's own description"


@pytest.mark.parametrize("kind", [Model, Plain, Typed, Packed])
def test_an_object_is_read_and_written(kind: Any) -> None:
    output = OutputType(kind)
    value = output.read('{"host": "a", "port": 80}')
    assert value == kind(host="a", port=80)
    assert output.read(output.write(value, "")) == value


def test_the_docstring_of_the_type_is_the_description_of_the_tool() -> None:
    assert "The settings of a server." in tool_of(Model).spec.description
    assert "The settings of a server." in tool_of(Typed).spec.description
    assert "Plain(host" not in tool_of(Plain).spec.description
    assert "as Plain" in tool_of(Plain).spec.description
    assert "as list[Plain]" in tool_of(list[Plain]).spec.description


@pytest.mark.parametrize(
    ("kind", "argument", "value"),
    [
        (list[Model], [{"host": "a", "port": 80}], [Model(host="a", port=80)]),
        (list[Packed], [{"host": "a", "port": 80}], [Packed("a", 80)]),
        (Model | Tree, {"name": "oak"}, Tree(name="oak")),
        (int, 3, 3),
        (Literal["yes", "no"], "no", "no"),
    ],
)
def test_what_is_no_object_is_the_argument_result(kind: Any, argument: Any, value: Any) -> None:
    tool = tool_of(kind)
    assert list(tool.spec.parameters["properties"]) == ["result"]
    assert tool.parse(msgspec.json.encode({"result": argument}).decode())["output_value"] == value


def test_a_type_that_holds_itself_keeps_its_definition() -> None:
    spec = tool_of(Tree).spec
    assert spec.parameters["type"] == "object"
    assert set(spec.parameters["$defs"]) == {"Tree"}
    assert tool_of(Packed).spec.parameters["$defs"].keys() == {"Inner"}


@pytest.mark.parametrize(
    ("kind", "written", "says"),
    [
        (Model, '{"host": "a", "port": -1}', "port: Input should be greater than 0"),
        (Model, '{"host": "a"', "JSON"),
        (Packed, '{"host": "a", "port": -1}', "Expected `int` >= 1 - at `$.port`"),
        (list[Model], "{}", "result: it is missing"),
        (list[Model], "[]", "not a JSON object"),
        (list[Model], '{"result": [{}]}', "0.host: Field required"),
    ],
)
def test_what_does_not_fit_is_told_to_the_model(kind: Any, written: str, says: str) -> None:
    with pytest.raises(InvalidArguments, match=r"^The arguments of final_result are invalid\.") as caught:
        tool_of(kind).parse(written)
    assert says in str(caught.value)
    assert str(caught.value).endswith("Correct them and call again.")


def test_a_validator_that_raises_anything_is_an_error_of_the_model() -> None:
    class Odd(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def known(cls, name: str) -> str:
            return {"one": "1"}[name]

    with pytest.raises(InvalidArguments, match="KeyError: 'two'"):
        tool_of(Odd).parse('{"name": "two"}')


def test_the_type_alone_says_whether_a_text_may_be_empty() -> None:
    assert tool_of(Plain).parse('{"host": "", "port": 1}')["output_value"] == Plain("", 1)


def test_an_output_that_cannot_be_written_without_a_loss_is_what_the_model_wrote() -> None:
    class Hidden(BaseModel):
        name: str
        secret: str = Field(default="", exclude=True)

    class Counted(BaseModel, extra="forbid"):
        name: str = Field(alias="called")

        @computed_field
        def length(self) -> int:
            return len(self.name)

    written = '{"name": "a", "secret": "b"}'
    hidden, counted = OutputType(Hidden), OutputType(Counted)
    assert hidden.write(hidden.read(written), written) == written
    assert counted.write(counted.read('{"called": "a"}'), "") == '{"called":"a"}'


class Unknown:
    pass


@pytest.mark.parametrize("kind", [Unknown, Any, object, list[Unknown]])
def test_a_type_without_a_schema_is_wrong_use(kind: Any) -> None:
    with pytest.raises(WrongUse, match=r"^output is .*no JSON schema can be made: give a pydantic model"):
        output_type_of(kind)


class Undecorated:
    host: str


def summary(text: str) -> Plain:
    return Plain(text, 1)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ([Model, Plain], "a list with types: write output=Model | Plain for one of them, output=list[Model | Plain]"),
        ([Model], "a list with a type: write output=Model for one of them, output=list[Model] for many"),
        ((Plain, None | int), "a tuple with types: write output=Plain | None | int"),
        ("Model", "'Model', a text: write the type itself"),
        ({"type": "object"}, "{'type': 'object'}, a mapping: write a type"),
        (Plain("a", 1), "Plain(host='a', port=1), of type Plain: write a type, such as output=Plain"),
        (5, "5, of type int: write a type, such as output=int"),
        (
            summary,
            "the function summary: write the type of what a run returns, and check it with Hooks(gates=[summary])",
        ),
        (len, "the function len: "),
        (lambda: 1, "the function <lambda>: "),
        (Undecorated, "Undecorated, of which no JSON schema can be made: put @dataclass on the class"),
    ],
)
def test_what_is_no_type_is_told_with_what_to_write(written: Any, says: str) -> None:
    with pytest.raises(WrongUse) as caught:
        Engine(Scripted(), output=written)
    assert str(caught.value).startswith(f"output is {says}")


@pytest.mark.parametrize(
    "kind",
    [
        Model,
        list[Plain],
        dict[str, int],
        tuple[int, ...],
        Model | Plain,
        Union[Model, Plain],  # noqa: UP007  as people write it
        Optional[Model],  # noqa: UP045
        Literal["a", "b"],
        Annotated[int, Field(gt=0)],
        NewType("Name", str),
        int,
        TypeAliasType("Hosts", list[str]),
    ],
)
def test_an_engine_takes_each_kind_of_type(kind: Any) -> None:
    assert NAME in Engine(Scripted(), output=kind).config.toolbox


@pytest.mark.parametrize("kind", [Model, list[Plain], Union[Model, Plain], Literal["a"], Any, NewType("Name", str)])  # noqa: UP007
def test_a_parameter_for_types_takes_each_kind_of_type(kind: Any) -> None:
    assert fits(kind, type[Any] | types.UnionType | None)


@pytest.mark.parametrize("value", [5, "int", [int], Plain("a", 1), len])
def test_a_parameter_for_types_takes_nothing_else(value: Any) -> None:
    assert not fits(value, type[Any] | types.UnionType | None)
    assert describe_type(type[Any] | types.UnionType | None) == "a type, as in list[int] or A | B, or None"


def test_a_text_needs_no_tool() -> None:
    assert output_type_of(str) is None
    assert output_type_of(None) is None


@pytest.mark.parametrize(
    "form",
    [list[int], dict[str, int], Union[int, str], Optional[int], int | str, Literal["a", "b"]],  # noqa: UP007, UP045
    ids=str,
)
def test_each_form_of_a_type_is_taken(form: Any) -> None:
    assert Engine(Scripted("x"), output=form).config.output is not None
