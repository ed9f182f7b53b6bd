"""What `explained`, `checked` and the bases of structs add to a call that fails; all else they leave as it was."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import pydoc
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import endstop
import msgspec
import pytest
from endstop import Engine, Limits, Policy, Run
from endstop.decision import Facts, Outcome, Question, Stop, build_outcome, events
from endstop.decision.argument_types import describe_type, fits
from endstop.decision.errors import WrongAttribute, WrongCall, WrongUse
from endstop.decision.wrong_attributes import explained_attributes
from endstop.decision.wrong_calls import CheckedStruct, checked, explained
from endstop.providers import Scripted
from endstop.session import Session
from hypothesis import given
from hypothesis import strategies as st


@checked
@dataclass(frozen=True, slots=True)
class Box:
    """A box."""

    width: int
    names: Sequence[str] = ()
    kind: Literal["a", "b"] = "a"

    def area(self, *, height: int = 1) -> int:
        """Return the area."""
        return self.width * height


class Named(CheckedStruct, frozen=True):
    """A struct."""

    name: str
    size: float = 1.0


@explained
async def waits(text: str, *, times: int = 1) -> str:
    """Repeat a text."""
    await asyncio.sleep(0)
    return text * times


@explained
def broken(number: int) -> int:
    """Fail with an error of its own."""
    raise TypeError("inside")


class Small(Box):
    """A class of a user without a constructor."""


class Own(Box):
    """A class of a user with a constructor."""

    def __init__(self, size: int) -> None:
        super().__init__(width=size, hight=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Box(3, name=["a"]), "Box has no parameter 'name' (did you mean 'names'?)"),
        (lambda: Box(), "Box: missing a required argument: 'width'"),
        (lambda: Box(1, (), "a", 4), "Box is given too many values without a name: write Box(width=..., names=..."),
        (lambda: Box(1, width=1), "Box is given 'width' twice, once without its name: write Box(width=...)"),
        (lambda: Box(1).area(heigt=2), "Box.area has no parameter 'heigt' (did you mean 'height'?)"),
        (lambda: Small(1, name=()), "Small has no parameter 'name'"),
        (lambda: Own(1), "Box has no parameter 'hight'"),
        (lambda: Named(nam="x"), "Named has no parameter 'nam' (did you mean 'name'?)"),
        (lambda: replace(Box(1), witdh=2), "Box has no parameter 'witdh' (did you mean 'width'?)"),
        (lambda: Engine(Scripted("x"), gates=[]), "Engine has no parameter 'gates': write `hooks=Hooks(gates=...)`"),
        (lambda: Engine(Scripted("x"), steps=3), "write `policy=Policy(limits=Limits(steps=...))`"),
        (lambda: asyncio.run(waits("a", time=2)), "waits has no parameter 'time' (did you mean 'times'?)"),
    ],
)
def test_a_wrong_call_is_told_with_its_owner_and_the_right_name(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(WrongCall) as caught:
        call()
    assert said in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Box("1"), "Box.width is '1': use a whole number"),
        (lambda: Box(True), "Box.width is True"),
        (lambda: Box(1, "ab"), "Box.names is 'ab': use a list of texts"),
        (lambda: Box(1, [1]), "Box.names is [1]: use a list of texts"),
        (lambda: Box(1, kind="c"), "Box.kind is 'c': use 'a' or 'b'"),
        (lambda: Named(5), "Named.name is 5: use a text"),
        (lambda: Named("x", size="1"), "Named.size is '1': use a number"),
        (lambda: endstop.Budget(cost_usd="1"), "Budget.cost_usd is '1': use a number, or None"),
    ],
)
def test_a_value_of_a_wrong_type_is_told_with_its_parameter(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(WrongUse) as caught:
        call()
    assert said in str(caught.value)


def test_an_error_from_inside_stays_as_it_is() -> None:
    with pytest.raises(TypeError, match=r"^inside$") as caught:
        broken(1)
    assert not isinstance(caught.value, WrongUse)


def test_an_error_from_inside_that_a_wrong_type_explains_is_told_and_kept_as_the_cause() -> None:
    with pytest.raises(WrongUse, match=r"broken.number is 'x'") as caught:
        broken("x")  # type: ignore[arg-type]
    assert str(caught.value.__cause__) == "inside"


def test_a_value_whose_repr_raises_is_told_all_the_same() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(WrongUse, match=r"Box.width is a Hostile"):
        Box(Hostile())  # type: ignore[arg-type]


def test_signatures_pickles_copies_and_help_are_those_of_the_class_and_function() -> None:
    assert (
        str(inspect.signature(Box))
        == "(width: 'int', names: 'Sequence[str]' = (), kind: \"Literal['a', 'b']\" = 'a') -> None"
    )
    assert list(inspect.signature(Limits).parameters)[:2] == ["steps", "rounds"]
    assert inspect.iscoroutinefunction(waits)
    assert inspect.iscoroutinefunction(Engine.run)
    assert not inspect.iscoroutinefunction(Engine.start)
    for value in (Box(3, ["a"]), Named("x"), Limits(steps=3), Policy()):
        assert pickle.loads(pickle.dumps(value)) == value == copy.copy(value) == copy.deepcopy(value)
    assert "Return the area" in pydoc.render_doc(Box)
    assert msgspec.json.decode(b'{"name": "x"}', type=Named) == Named("x")


@pytest.fixture(name="run")
def _run() -> Run[Any]:
    return Engine(Scripted("Done.")).start("x")


@pytest.fixture(name="outcome")
def _outcome() -> Outcome[Any]:
    return build_outcome(Facts(), Policy(), Stop(rule="control_flow", reason="completed"))


def test_attributes_that_others_ask_for_are_not_there(run: Run[Any], outcome: Outcome[Any]) -> None:
    for one in (run, outcome, Engine(Scripted("x")), Engine(Scripted("x")).session()):
        for asked in (
            "_repr_html_",
            "_ipython_display_",
            "__fspath__",
            "shape",
            "__array__",
            "final_output",
        ):
            assert not hasattr(one, asked)
            assert getattr(one, asked, None) is None
    assert pickle.loads(pickle.dumps(outcome)) == outcome == copy.copy(outcome)
    assert copy.copy(run).id == run.id


def test_a_private_attribute_gets_the_error_of_python(run: Run[Any]) -> None:
    with pytest.raises(AttributeError, match="'Run' object has no attribute '_nothing'"):
        run._nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_guess_of_python_does_not_follow_a_told_attribute(outcome: Outcome[Any]) -> None:
    with pytest.raises(WrongAttribute) as caught:
        outcome.final_output  # type: ignore[attr-defined]  # noqa: B018
    shown = "".join(traceback.format_exception_only(caught.value))
    assert "Did you mean" not in shown
    assert "`outcome.output`" in shown


def test_an_error_of_a_property_is_not_hidden() -> None:
    @explained_attributes
    class Thing:
        @property
        def broken(self) -> int:
            raise AttributeError("of the property")

    with pytest.raises(AttributeError, match="of the property"):
        Thing().broken  # noqa: B018


def test_a_public_name_of_another_package_is_told_with_its_home() -> None:
    with pytest.raises(ImportError, match=r"from endstop.tools import finish_task"):
        exec("from endstop import finish_task")
    assert not hasattr(endstop, "Agent")


class Takes(Protocol):
    """A protocol."""

    def take(self) -> None:
        """Take."""


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (int, [1], [True, "1", 1.0, None]),
        (float, [1, 1.5], ["1", True]),
        (int | None, [1, None], ["1"]),
        (tuple[str, ...], [(), ["a"], ("a",)], ["a", [1], 5]),
        (tuple[int, str], [(1, "a")], [(1,), ("a", 1)]),
        (Mapping[str, Any], [{}], [[], "a"]),
        (Callable[[int], int], [len], [5]),
        (type[int], [int], [5]),
        (Takes, [type("T", (), {"take": print})()], [5]),
        (Any, [5, None], []),
        (None, [None], [5]),
    ],
)
def test_what_fits_a_type(kind: Any, right: list[Any], wrong: list[Any]) -> None:
    assert [value for value in right if not fits(value, kind)] == []
    assert [value for value in wrong if fits(value, kind)] == []
    assert describe_type(kind)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_what_msgspec_converts_to_a_type_fits_it(value: Any) -> None:
    for kind in (int, float, str, bool, int | None, tuple[str, ...], list[int], Literal["a", "b"]):
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            continue
        assert fits(value, kind)


@pytest.mark.parametrize("name", ["type", "event_kind", "delta", "part"])
def test_an_attribute_that_an_event_lacks_is_told_with_the_way_to_tell_events_apart(name: str) -> None:
    event = events.RoundStarted(round=1)
    with pytest.raises(WrongAttribute, match=f"^RoundStarted has no attribute '{name}': .*`match event:`"):
        getattr(event, name)
    assert getattr(event, name, "none") == "none"
    assert copy.copy(event) == event == pickle.loads(pickle.dumps(event))


def test_help_lists_what_a_run_and_a_session_refuse_after_their_methods() -> None:
    for public in (Run, Session, Outcome):
        shown = pydoc.plain(pydoc.render_doc(public))
        assert "_dataclass_getstate" not in shown
        assert shown.index("Methods defined here") < shown.index("<refused: await>")
        assert "refuse(self" not in shown


def test_help_shows_no_marks_of_redaction_in_a_signature() -> None:
    assert "Redacted" not in str(inspect.signature(Question))
    assert "call_id: str" in str(inspect.signature(Question))


@pytest.mark.parametrize("name", ["Engine", "Run", "Session", "Outcome", "Policy", "Limits", "Hooks", "tool", "Fleet"])
def test_the_first_screen_of_help_says_what_a_name_is_for_and_how_it_is_used(name: str) -> None:
    shown = pydoc.plain(pydoc.render_doc(getattr(endstop, name)))
    lines = [line[at : at + 80] for line in shown.splitlines() for at in range(0, max(len(line), 1), 80)][:24]
    said = (inspect.getdoc(getattr(endstop, name)) or "").splitlines()[0]
    assert any(said[:70] in line for line in lines)
    assert not any("__getattr__" in line for line in lines)
