"""A function that is handed in is checked where it is written: it must bind what it will be called with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Hooks, Observers, RecordOptions, Runtime, Task, Tool, Until, WrongUse, tool
from endstop.decision import Rule
from endstop.follow import Follower
from endstop.providers import Scripted
from endstop.service import Service
from endstop.tools.function_roles import ROLES, check_functions
from endstop.tools.mcp import _check_approval
from endstop.web import web


def engine(**options: Any) -> Engine[Any, Any]:
    return Engine(Scripted("x"), **options)


def pay(amount: float, to: str = "") -> str:
    """Pay."""
    return f"{amount}{to}"


PLACES: dict[str, Callable[[Any], Any]] = {
    "gates": lambda function: Hooks(gates=[function]),
    "text_rule": lambda function: Hooks(text_rule=function),
    "judge": lambda function: Hooks(judge=function),
    "compactor": lambda function: Hooks(compactor=function),
    "evaluate": lambda function: Hooks(evaluate=function),
    "prompt_handlers": lambda function: Hooks(prompt_handlers=[function]),
    "rules": lambda function: Hooks(rules=[Rule("guard", "mine", "", (), function)]),
    "subscribers": lambda function: Observers(subscribers=[function]),
    "on_completed": lambda function: Observers(on_completed=function),
    "middleware": lambda function: Observers(middleware=[function]),
    "redact": lambda function: RecordOptions(redact=function),
    "system": lambda function: engine(system=function),
    "deps": lambda function: engine(deps=function),
    "until": lambda function: Until(function),
    "approval": lambda function: Tool(pay, approval=function),
    "final": lambda function: Tool(pay, final=function),
    "decide": lambda function: Runtime(decide=function),
    "decide_untraced": lambda function: Runtime(decide_untraced=function),
    "execute": lambda function: Runtime(execute=function),
    "on_event": lambda function: Follower(on_event=function),
    "on_record_loss": lambda function: Follower(on_record_loss=function),
}
SERVERS = {"server_approval", "auth"}
"""Roles that need a server; their functions are checked alone below."""


def test_every_role_has_a_place_here() -> None:
    assert PLACES.keys() | SERVERS == ROLES.keys()


def of_arity(count: int) -> Any:
    return eval(f"lambda {', '.join('abcdef'[:count])}: None")


class Object:
    """An object that can be called with two arguments."""

    def __call__(self, one: Any, two: Any) -> None: ...

    def method(self, one: Any, two: Any) -> None: ...

    @staticmethod
    def static(one: Any, two: Any) -> None: ...

    @classmethod
    def of_class(cls, one: Any, two: Any) -> None: ...


@pytest.mark.parametrize("role", PLACES)
def test_one_argument_too_few_or_too_many_is_refused_and_the_right_number_is_not(role: str) -> None:
    needed = len(ROLES[role].arguments)
    for count in (needed - 1, needed + 1):
        with pytest.raises(WrongUse) as refused:
            PLACES[role](of_arity(count))
        said = str(refused.value)
        assert said.startswith(f"{role}: <lambda>("), said
        assert f"takes {count or 'no'} argument" in said
        assert ROLES[role].call in said
    PLACES[role](of_arity(needed))


@pytest.mark.parametrize("role", PLACES)
def test_what_is_no_function_is_refused(role: str) -> None:
    for wrong in (3, {"a": 1}):
        with pytest.raises(WrongUse, match=rf"{role}: .* is not a function|Rule.judge is .*: use a function"):
            PLACES[role](wrong)


def test_the_text_of_the_example_says_all_of_it() -> None:
    def check(completion: Any) -> None: ...

    with pytest.raises(WrongUse) as refused:
        Hooks(gates=[check])
    assert str(refused.value) == (
        "gates: check(completion) takes 1 argument; a gate is called as gate(completion, run)"
    )


def logged(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **named: Any) -> Any:
        return function(*args, **named)

    return wrapper


def with_database(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(completion: Any, run: Any) -> Any:
        return function(completion, run, "database")

    return wrapper


GOOD: dict[str, Any] = {
    "an object": Object(),
    "a bound method": Object().method,
    "a static method": Object.static,
    "a class method": Object.of_class,
    "a partial": functools.partial(of_arity(3), 1),
    "a partial by name": functools.partial(lambda a, b, c: None, c=1),
    "any arguments": lambda *args: None,
    "any arguments and names": lambda *args, **named: None,
    "defaults": lambda a, b, c=1, *, d=2: None,
    "a builtin without a signature": max,
    "a decorated function": logged(of_arity(2)),
    "a decorator that gives more": with_database(of_arity(3)),
    "print": print,
}
BAD: dict[str, Any] = {
    "a method that is not bound": Object.method,
    "a partial that is full": functools.partial(of_arity(2), 1),
    "a parameter by name only": lambda a, *, b: None,
    "a required one by name": lambda a, b, *, c: None,
    "a decorated function": logged(of_arity(1)),
    "a class with a call": Object,
    "only names": lambda **named: None,
}


@pytest.mark.parametrize("what", GOOD)
def test_whatever_binds_two_arguments_is_a_gate(what: str) -> None:
    Hooks(gates=[GOOD[what]])


@pytest.mark.parametrize("what", BAD)
def test_whatever_does_not_bind_them_is_none(what: str) -> None:
    with pytest.raises(WrongUse, match="gates: "):
        Hooks(gates=[BAD[what]])


def test_a_class_of_context_managers_is_a_middleware() -> None:
    class Surrounding:
        def __init__(self, run: Any) -> None: ...

        def __call__(self) -> None: ...

    @asynccontextmanager
    async def no_parameters() -> Any:
        yield

    check_functions(middleware=Surrounding)
    with pytest.raises(WrongUse, match=r"middleware: no_parameters\(\) takes no arguments"):
        Observers(middleware=[no_parameters])


async def test_functions_for_servers_are_checked_where_they_are_handed_in(tmp_path: Path) -> None:
    service = Service(engine(), store=f"sqlite:///{tmp_path / 's.db'}")
    with pytest.raises(WrongUse, match=r"auth: <lambda>\(\) takes no arguments; .* auth\(request\)"):
        web(service, auth=of_arity(0))
    with pytest.raises(WrongUse, match=r"approval: <lambda>\(a\) takes 1 argument; .* approval\(tool, arguments\)"):
        _check_approval((), of_arity(1))


def test_the_evaluator_of_a_task_is_checked_with_the_task() -> None:
    with pytest.raises(WrongUse, match="evaluate: "):
        Task("go", evaluate=of_arity(2))


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (lambda amount: None, "to"),
        (lambda amount, to, more: None, "more"),
        (lambda: None, "amount"),
        ("check", "is not a function"),
    ],
)
def test_the_check_of_a_tool_takes_the_arguments_of_the_tool(check: Any, why: str) -> None:
    with pytest.raises(WrongUse, match=f"check: .*{why}"):
        Tool(pay, check=check)


def test_the_check_of_a_tool_with_a_schema_takes_the_members_of_the_schema() -> None:
    def send(**arguments: Any) -> str:
        """Send."""
        return ""

    schema: Mapping[str, Any] = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    Tool(send, parameters=schema, check=lambda to: None)
    with pytest.raises(WrongUse, match="check: "):
        Tool(send, parameters=schema, check=lambda whom: None)


def test_a_rule_that_no_policy_names_is_refused_with_the_list_to_put_it_in() -> None:
    for priority, place in (("guard", "guards"), ("P3", "rules")):
        rule = Rule(priority, "offline", "", (), lambda facts, policy: None)
        with pytest.raises(WrongUse, match=rf"'offline'.*Policy\({place}=\(\*Policy\(\)\.{place}, 'offline'\)\)"):
            engine(hooks=Hooks(rules=[rule]))


@pytest.mark.parametrize("name", ["copy", "json", "schema", "model_x", "model_fields", "validate", "dict"])
def test_a_parameter_may_be_called_like_an_attribute_of_pydantics_models(name: str) -> None:
    """Warnings are errors here."""
    namespace: dict[str, Any] = {}
    exec(f"def f({name}: str) -> str:\n    'F.'\n    return {name}", namespace)
    made = tool(namespace["f"])
    assert list(made.spec.parameters["properties"]) == [name]
    assert made.parse(f'{{"{name}": "x"}}') == {name: "x"}
