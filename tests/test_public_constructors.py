"""What each public class and function says of a wrong name, and each constructor of a wrong type.

The classes and functions are listed from the packages themselves, so that a new one is tried, too.
"""

from __future__ import annotations

import importlib
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from endstop import Engine, RunContext, read_record
from endstop.decision import Facts, Policy, Stop, build_outcome
from endstop.decision.argument_types import annotations_of
from endstop.decision.errors import WrongAttribute, WrongCall, WrongUse
from endstop.providers import Scripted
from endstop.testing.conformance.providers import CASES
from msgspec import Struct

from .test_exports import PUBLIC

MADE_IN_C = {
    "made for each chunk": "TextDelta ReasoningDelta ToolCallDelta UsageReport FinishReport ModelSelected "
    "ProviderToolReport AttemptEnded Frame Gap EventBatch Page",
    "made for each step": "GoOn Pause Stop TraceEntry Facts LimitUse RunContext Request Assembler",
}
"""Classes that do not explain a wrong call, where a constructor in Python would be felt, by why."""

TYPES_NOT_CHECKED = {
    "made for each step": "AssistantMessage Reasoning ToolCall ToolResult Usage StepKey Exchange",
    "made by the library, and only read": "Outcome Asker CutSavings SubagentUse Question Lagged SessionRecord Summary "
    "ProviderSummary ReplayReport ReplayedRun FoundSession SkippedSession FileFailure RecordedError Passed",
    "made from rows of a database": "NewSession Orphan Overview Process QueuedRun StoredMessage StoredProcess "
    "StoredRun StoredSession Job JobAnswer GivenRun",
    "made for each message of an imported session": "ImportedMessage ImportedSession",
    "decoded from JSON, which checks it": "AgUiInput RunAgentInput",
    "told when it is given as an answer, with the call that it is for": "Approve",
}
"""Classes whose constructors tell a wrong type only where it causes an error inside of them, by why."""

ANY_VALUE = {
    ("Completion", "output"): "the schema of the output says what it is",
    ("Happened", "result"): "what a tool may return",
    ("Task", "deps"): "the user's own",
    ("Proxy", "tracer"): "its class is imported for type checkers alone: it needs an extra",
}
"""Parameters that take any value, and why."""

ATTRIBUTES_NOT_TOLD = {
    "read many times in each step": "Facts Bus Transcript Assembler",
    "read for each chunk": "TextDelta ReasoningDelta ToolCallDelta UsageReport FinishReport ModelSelected "
    "ProviderToolReport AttemptEnded",
}
"""Classes whose objects do not tell a wrong attribute, because `__getattr__` would be felt, by why."""

NEUTRAL = {"endstop.decision.events": "events are read, and made by the engine alone"}


def words(by_reason: dict[str, str]) -> set[str]:
    return set(" ".join(by_reason.values()).split())


HOT_FUNCTIONS = ("decide", "fold", "classify_text")
"""Called for each event or step."""


def public() -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for package in PUBLIC.keys() - NEUTRAL.keys():
        module = importlib.import_module(package)
        for name in PUBLIC[package].split():
            value = getattr(module, name)
            if id(value) not in seen and getattr(value, "__module__", "").startswith("endstop"):
                seen.add(id(value))
                yield f"{package}.{name}", value


def is_constructor(value: Any) -> bool:
    return (
        isinstance(value, type)
        and not issubclass(value, BaseException)
        and not getattr(value, "_is_protocol", False)
        and value.__name__ not in words(MADE_IN_C)
    )


CALLABLES = {
    name: value
    for name, value in public()
    if is_constructor(value) or (inspect.isfunction(value) and value.__name__ not in HOT_FUNCTIONS)
}
CONSTRUCTORS = {name: value for name, value in CALLABLES.items() if isinstance(value, type)}


def parameters(called: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return {
        name: one
        for name, one in inspect.signature(called).parameters.items()
        if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)
    }


def misspelt(word: str) -> str:
    return word[:-1] + "qx" if len(word) > 3 else word + "_qx"


async def told(called: Any, /, *args: Any, **keywords: Any) -> BaseException | None:
    try:
        made = called(*args, **keywords)
        if inspect.iscoroutine(made):
            await made
    except Exception as error:
        return error
    return None


async def test_every_public_class_and_function_tells_a_misspelt_argument_with_the_right_one() -> None:
    wrong = []
    for name, called in CALLABLES.items():
        for right in parameters(called):
            error = await told(called, **{misspelt(right): None})
            text = str(error)
            if not (isinstance(error, WrongCall) and called.__name__ in text and repr(right)[1:-1] in text):
                wrong.append((name, right, repr(error)[:150]))
    assert wrong == []


def example(kind: Any) -> Any:
    """Return a value of this type."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if type(None) in parts else example(parts[0])
    if origin is Literal:
        return parts[0]
    if origin is Annotated:
        return example(parts[0])
    if getattr(kind, "__name__", "") == "Provider":
        return Scripted("Done.")
    of = origin or kind
    if of is Callable:
        return lambda *_: None
    if not isinstance(of, type):
        return "a"
    if issubclass(of, Mapping):
        return {}
    if of in (tuple, list, set, frozenset) or of.__module__ == "collections.abc":
        return ()
    if of in (int, float, str, bytes, bool):
        return of(1) if of is not str else "a"
    if of.__name__ in ONES:
        return ONES[of.__name__]()
    return of(*POSITIONAL.get(of.__name__, ()), **required(of))


ONES: dict[str, Callable[[], Any]] = {
    "Outcome": lambda: build_outcome(Facts(), Policy(), Stop(rule="control_flow", reason="completed")),
    "Facts": Facts,
    "RunContext": RunContext,
    "RunConfig": lambda: Engine(Scripted("Done.")).config,
    "Header": lambda: read_record(RECORD).header,
    "ProviderCase": lambda: CASES[0],
}
RECORD = next((Path(__file__).parent / "records").glob("*.jsonl"))


def required(made: Any, but: str = "") -> dict[str, Any]:
    """Return values for the parameters of a constructor that have no default."""
    kinds = annotations_of(made if issubclass(made, Struct) else inspect.unwrap(made.__init__))
    return {
        name: WORKING.get((made.__name__, name), partial(example, kinds.get(name, Any)))()
        for name, one in parameters(made).items()
        if one.default is one.empty and name != but
    }


POSITIONAL: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("Fallback", "Hedge", "Race"), (Scripted("Done."), Scripted("Done."))),
    "Until": ("true",),
}
"""Values without a name, for constructors that take any number of them."""


def work() -> None:
    """Do some work."""


WORKING: dict[tuple[str, str], Callable[[], Any]] = {
    ("OpenAICompatible", "api_base"): lambda: "http://127.0.0.1/v1",
    ("Tool", "function"): lambda: work,
    ("Replay", "exchanges"): list,
    ("Stop", "reason"): lambda: "completed",
}


def wrong_values(kind: Any) -> list[Any]:
    values: list[Any] = [object()]
    parts = get_args(kind) or (kind,)
    if any(part in (int, float, bool) for part in parts) and str not in parts:
        values.append("text")
    if str in parts and int not in parts:
        values.append(5)
    return values


def parts_of(kind: Any) -> tuple[Any, ...]:
    return (
        tuple(chain.from_iterable(map(parts_of, get_args(kind)))) if get_origin(kind) in (Union, UnionType) else (kind,)
    )


async def wrong_answers(made: Any, parameter: str, values: list[Any]) -> list[tuple[str, str, str]]:
    """Return what a constructor says of these values of a parameter, unless it is WrongUse that names the parameter."""
    wrong = []
    for value in values:
        others = required(made, but=parameter)
        error = await told(made, *POSITIONAL.get(made.__name__, ()), **others, **{parameter: value})
        if not isinstance(error, WrongUse) or parameter not in str(error):
            wrong.append((made.__name__, parameter, repr(error)[:120]))
    return wrong


async def test_every_public_constructor_names_the_parameter_of_a_value_of_no_use() -> None:
    wrong = []
    for made in CONSTRUCTORS.values():
        kinds = annotations_of(made if issubclass(made, Struct) else inspect.unwrap(made.__init__))
        for parameter in parameters(made):
            if made.__name__ not in words(TYPES_NOT_CHECKED) and (made.__name__, parameter) not in ANY_VALUE:
                wrong += await wrong_answers(made, parameter, wrong_values(kinds.get(parameter, Any)))
    assert wrong == []


async def test_no_public_constructor_answers_a_wrong_type_from_inside() -> None:
    wrong = []
    for made in CONSTRUCTORS.values():
        for parameter in parameters(made):
            if (made.__name__, parameter) not in ANY_VALUE:
                wrong += await wrong_answers(made, parameter, [object()])
    assert [row for row in wrong if row[2] != "None"] == []


def instance(kind: type) -> Any:
    """Return an object of a class, without its constructor where the class allows it."""
    try:
        return object.__new__(kind)
    except TypeError:  # a struct, an exception or another class made in C
        if kind.__name__ in ONES:
            return ONES[kind.__name__]()
        return kind.__new__(kind) if issubclass(kind, BaseException) else example(kind)


def classes() -> dict[str, type]:
    """Return all public classes, with events, errors, and what is made in C."""
    return {
        f"{package}.{name}": value
        for package in PUBLIC
        for name in PUBLIC[package].split()
        if isinstance(value := getattr(importlib.import_module(package), name), type)
        and value.__module__.startswith("endstop")
        and not getattr(value, "_is_protocol", False)
    }


def test_an_object_of_every_public_class_tells_a_misspelt_attribute_with_the_right_one() -> None:
    wrong = []
    for name, kind in classes().items():
        made = instance(kind)
        for right in [known for known in dir(made) if not known.startswith("_")] or ["answer"]:
            asked = right + right[-1]
            assert getattr(made, asked, None) is None
            with pytest.raises(AttributeError) as caught:
                getattr(made, asked)
            text = str(caught.value)
            told = isinstance(caught.value, WrongAttribute) and text.startswith(f"{kind.__name__} has no attribute")
            named = right in text.removeprefix(f"{kind.__name__} has no attribute {asked!r}") or right == "answer"
            if (told and named) == (kind.__name__ in words(ATTRIBUTES_NOT_TOLD)):
                wrong.append((name, right, text))
    assert wrong == []


def test_each_reason_is_needed() -> None:
    everything = {value.__name__ for _, value in public() if isinstance(value, type)}
    assert (
        words(MADE_IN_C) | words(TYPES_NOT_CHECKED) | words(ATTRIBUTES_NOT_TOLD) | {name for name, _ in ANY_VALUE}
        <= everything
    )


def test_one_public_name_means_one_thing() -> None:
    """The suites of `endstop.testing.conformance` are alike on purpose: `check` and `CASES` of each are its own."""
    meanings: dict[str, set[int]] = defaultdict(set)
    for package in PUBLIC:
        if not package.startswith("endstop.testing.conformance"):
            module = importlib.import_module(package)
            for name in PUBLIC[package].split():
                meanings[name].add(id(getattr(module, name)))
    assert [name for name, meant in meanings.items() if len(meant) > 1] == []
