"""What each public class and function says of a wrong name, and each constructor of a wrong type.

The classes and functions are listed from the packages themselves, so that a new one is tried, too.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from endstop import Engine, RunContext, read_record
from endstop.decision import Facts, Policy, Stop, build_outcome
from endstop.decision.argument_types import annotations_of
from endstop.decision.errors import WrongCall, WrongUse
from endstop.providers import Scripted
from endstop.testing.conformance.providers import CASES
from msgspec import Struct

from .test_exports import PUBLIC

MADE_IN_C = dict.fromkeys(
    """\n        TextDelta ReasoningDelta ToolCallDelta UsageReport FinishReport ModelSelected ProviderToolReport AttemptEnded\n        GoOn Pause Stop TraceEntry Facts LimitUse RunContext Frame Gap EventBatch Page\n    """.split(),
    "made for each chunk, step or decision, where a constructor in Python would be felt",
) | {"Request": "made for each step", "Assembler": "made for each response"}
"""Classes that do not explain a wrong call."""

TYPES_NOT_CHECKED: dict[str, str] = {}
"""Classes whose constructors take a value of any type."""

NEUTRAL = {"endstop.decision.events": "events are read, and made by the engine alone"}


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
        and value.__name__ not in MADE_IN_C
    )


CALLABLES = {
    name: value
    for name, value in public()
    if is_constructor(value)
    or (inspect.isfunction(value) and name.split(".")[-1] not in ("decide", "fold", "classify_text"))
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
    ("Replay", "record"): lambda: RECORD,
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


async def test_every_public_constructor_names_the_parameter_of_a_value_of_no_use() -> None:
    silent, unclear, tried = [], [], 0
    for name, made in CONSTRUCTORS.items():
        if made.__name__ in TYPES_NOT_CHECKED:
            continue
        kinds = annotations_of(made if issubclass(made, Struct) else inspect.unwrap(made.__init__))
        for parameter in parameters(made):
            for value in wrong_values(kinds.get(parameter, Any)):
                others = required(made, but=parameter)
                tried += 1
                error = await told(made, *POSITIONAL.get(made.__name__, ()), **others, **{parameter: value})
                if error is None:
                    silent.append((made.__name__, parameter, kinds.get(parameter), type(value)))
                elif not isinstance(error, WrongUse) or parameter not in str(error):
                    unclear.append((name, parameter, repr(error)[:120]))
    for row in silent:
        print("SILENT", row)
    for row in unclear:
        print("UNCLEAR", row)
    print(tried, len(silent), len(unclear))
    assert 0
