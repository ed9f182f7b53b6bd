"""Each entry of `other_names.toml` is tried: the wrong name is told with the entry, and what the entry names exists."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import endstop
import pytest
from endstop import (
    Engine,
    Progress,
    RaceResult,
    RunContext,
    TaskResult,
    WrongUse,
    decision,
    observers,
    providers,
    tools,
)
from endstop.cli.commands import build_whole_parser
from endstop.decision import AssistantMessage, Question, ToolCall, ToolResult, UserMessage
from endstop.decision.errors import WrongAttribute, WrongCall, WrongName
from endstop.decision.word_tables import word_tables
from endstop.providers import Scripted
from endstop.service import Frame, Service
from endstop.store.base import StoredRun, StoredSession

TABLE = word_tables("other_names")
ENTRIES = [
    (owner, name, said)
    for owners, names in TABLE.items()
    for owner in owners.split(", ")
    for name, said in names.items()
]
ARGUMENTS = [
    entry
    for entry in ENTRIES
    if entry[0][0].isupper() | (entry[0] in ("tool", "call")) and not re.search(r"\.$| ", entry[0])
]
ATTRIBUTES = [(owner[:-1], *entry) for owner, *entry in ENTRIES if owner.endswith(".")]
USES = [(owner.removeprefix("use of "), *entry) for owner, *entry in ENTRIES if owner.startswith("use of ")]
PLACES = [(*owner.split(" to "), said) for owner, _, said in ENTRIES if " to " in owner]
NAMES = [(name, said) for owner, name, said in ENTRIES if owner == "endstop"]
OPTIONS = [(name, said) for owner, name, said in ENTRIES if owner == "command line"]

GIVEN = set(
    """Deps api_base asyncio async_for base64 ctx deps description event fleet model name outcome piece
    call_id function json owner Path path prompt provider raise reason result
    run run_id server session session_id tasks text tools engine kind metadata call_id isinstance message error
    frames str""".split()
)
"""Names in code that a reader has, or puts in."""


async def objects() -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    if loop not in _MADE:
        _MADE[loop] = await make_objects()
    return _MADE[loop]


_MADE: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Any]] = WeakKeyDictionary()


async def make_objects() -> dict[str, Any]:
    engine: Engine[Any, Any] = Engine(Scripted("Done.", "Done."))
    session = engine.session()
    async with session.start("x") as run:
        outcome = await run.wait()
        text = run.text()
    fleet = engine.run_many(["x"])
    return {
        "engine": engine,
        "session": session,
        "run": run,
        "outcome": outcome,
        "ctx": RunContext(),
        "fleet": fleet,
        "race": RaceResult(results=(), winner=None, summary=fleet.summary()),
        "frame": Frame("r", 1, b"{}"),
        "service": Service(engine, store="never_opened.db"),
        "stored": stored_session(),
        "tool_call": ToolCall("c1", "look", "{}"),
        "question": Question("c1", "May it?", tool="pay"),
        "usage": outcome.usage,
        "run.text()": text,
    }


def stored_session() -> StoredSession:
    texts = dict.fromkeys(("id", "owner", "agent", "title", "created_at", "updated_at", "run_id"), "a")
    return StoredSession(**texts, status="ended", stop_reason=None, runs=1, steps=1)  # type: ignore[arg-type]


def owners(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object of each class with a table of attributes."""
    run = found["run"]
    return {
        **{name: found[name.lower()] for name in ("Engine", "Session", "Run", "Outcome", "Question", "Usage")},
        "RunContext": found["ctx"],
        "Tool": tools.think,
        "RaceResult": found["race"],
        "TaskResult": TaskResult(number=0, id="a", provider="m", outcome=run.outcome),
        "Frame": found["frame"],
        "Progress": Progress(facts=run.facts, messages=[]),
        "Service": found["service"],
        "StoredSession": found["stored"],
        "StoredRun": StoredRun(
            **dict.fromkeys(("id", "session_id", "prompt", "started_at"), "a"),
            **dict.fromkeys(("stop_reason", "finished_at", "outcome")),
            **dict.fromkeys(("number", "last_seq"), 1),
            status="ended",
        ),  # type: ignore[arg-type]
        "ToolCall": found["tool_call"],
        "ToolResult": ToolResult("c1", "look", "fine"),
        "UserMessage": UserMessage("x"),
        "AssistantMessage": AssistantMessage("x"),
        "WrongUse": WrongUse("x"),
        "ProviderError": providers.ProviderError("x"),
    }


def resolved(name: str) -> Any:
    """Return a public class or function of any package."""
    for package in (endstop, decision, providers, tools, observers):
        if name in package.__all__:
            return getattr(package, name)
    return None


def owner_of(owner: str) -> Any:
    made, _, method = owner.partition(".")
    return getattr(resolved(made), method) if method else resolved(made)


def parameters(called: Any) -> set[str]:
    called = endstop.Tool if called is endstop.tool else called
    if isinstance(called, type) and issubclass(called, Exception):
        return set()
    names = set(inspect.signature(called).parameters)
    options = {"connect_timeout", "read_timeout", "first_timeout", "settings"} if "options" in names else set()
    return names | options


class Reader(ast.NodeVisitor):
    """Collects what code names and does not exist."""

    def __init__(self, found: dict[str, Any], own: set[str]) -> None:
        self.found, self.own, self.wrong = found, own, list[str]()

    def kind_of(self, node: ast.expr) -> Any:
        """Return the object, class or function that an expression stands for; None if it is not known."""
        match node:
            case ast.Name(id=id):
                return self.found.get(id, resolved(id))
            case ast.Attribute(value=value, attr=attr):
                of = self.owner(value)
                return None if of is None else getattr(of, attr, None)
            case ast.Call(func=func):
                called = self.kind_of(func)
                results = {
                    "Engine": "engine",
                    "session": "session",
                    "start": "run",
                    "wait": "outcome",
                    "with_provider": "engine",
                }
                name = getattr(called, "__name__", "")
                is_run = name == "run" and not isinstance(func, ast.Name)
                return self.found.get("outcome" if is_run else results.get(name, ""))
            case ast.Await(value=value):
                return self.kind_of(value)
        return None

    def owner(self, node: ast.expr) -> Any:
        """Return what an attribute is read from: `tool` is then a tool, and not the decorator."""
        return tools.think if isinstance(node, ast.Name) and node.id == "tool" else self.kind_of(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id not in self.own | GIVEN and node.id not in self.found and resolved(node.id) is None:
            self.wrong.append(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        of = self.owner(node.value)
        if of is not None and not hasattr(of, node.attr):
            self.wrong.append(f"{ast.unparse(node)}")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = self.kind_of(node.func)
        if called is not None:
            known = parameters(called)
            self.wrong += [f"{ast.unparse(node.func)}({one.arg}=)" for one in node.keywords if one.arg not in known]
        self.generic_visit(node)


def read(code: str) -> Iterator[ast.AST]:
    """Yield the syntax of an expression, a statement, or keywords of a call."""
    code = code.removeprefix("@").removesuffix(":")
    for form in ("async def f():\n {}", "async def f():\n {}: ...", "OWNER({})"):
        try:
            yield ast.parse(form.format(code))
            return
        except SyntaxError:
            continue
    raise AssertionError(f"no code: {code}")


async def missing(said: str, called: Any, **others: Any) -> list[str]:
    """Return what a text names and does not exist. called: the owner, whose parameters a text may name."""
    own = set() if called is None else parameters(called)
    found = await objects() | {"OWNER": called} | others
    wrong: list[str] = []
    for code in re.findall("`([^`]+)`", said):
        reader = Reader(found, own)
        if code.startswith("endstop."):
            assert __import__(code)
            continue
        if re.fullmatch(r"\w+=[^=].*", code) and called is not None:
            code = f"OWNER({code})"
        for tree in read(code):
            reader.visit(tree)
        wrong += reader.wrong
    return wrong


async def error_of(call: Callable[[], Any]) -> str:
    try:
        made = call()
        if inspect.isawaitable(made):
            await made
    except (WrongCall, WrongAttribute, WrongName) as error:
        return str(error)
    raise AssertionError("nothing was told")


async def test_every_argument_of_another_library_is_told_with_a_parameter_that_exists() -> None:
    wrong = []
    found = await objects()
    for owner, name, said in ARGUMENTS:
        made, _, method = owner.partition(".")
        called = getattr(found[made.lower()], method) if method else owner_of(owner)
        text = await error_of(lambda called=called, name=name: called(**{name: None}))  # type: ignore[misc]
        if owner not in text or said not in text or (lacks := await missing(said, owner_of(owner))):
            wrong.append((owner, name, said, text, lacks))
    assert wrong == []


async def test_every_attribute_of_another_library_is_told_with_one_that_exists() -> None:
    wrong = []
    examples = owners(await objects())
    for owner, name, said in ATTRIBUTES:
        one = examples[owner]
        text = await error_of(lambda one=one, name=name: getattr(one, name))  # type: ignore[misc]
        others = {"run": one} if owner == "Progress" else {}  # as hooks call it
        if owner not in text or said not in text or (lacks := await missing(said, None, **others)):
            wrong.append((owner, name, said, text, lacks))
        assert not hasattr(one, name)
    assert wrong == []


async def test_every_name_of_another_library_is_told_with_one_that_exists() -> None:
    wrong = []
    for name, said in NAMES:
        text = await error_of(lambda name=name: getattr(endstop, name))  # type: ignore[misc]
        with pytest.raises(WrongName, match=re.escape(text)):
            exec(f"from endstop import {name}")
        if said not in text or (lacks := await missing(said, None)):
            wrong.append((name, said, text, lacks))
    assert wrong == []


async def used(one: Any, use: str) -> None:
    match use:
        case "await":
            await one
        case "for":
            for _ in one:
                pass
        case "async for":
            async for _ in one:
                pass
        case "with":
            with one:
                pass
        case "async with":
            async with one:
                pass
        case "()":
            one()
        case "[]":
            one["answer"]


async def test_every_wrong_use_is_told_with_a_right_one() -> None:
    wrong = []
    found = await objects()
    for owner, use, said in USES:
        with pytest.raises(WrongCall) as caught:
            await used(found[owner.lower()], use)
        if said not in str(caught.value) or (lacks := await missing(said, None)):
            wrong.append((owner, use, str(caught.value), lacks))
    assert wrong == []


async def test_what_another_object_of_ours_has_is_told_with_the_way_to_it() -> None:
    found = await objects()
    wrong = []
    kinds = {name: type(found[name.lower()]) for name in ("Engine", "Session", "Run", "Outcome")}
    for owner, other, place in PLACES:
        for name in set(dir(kinds[other])) - set(dir(found[owner.lower()])):
            if name.startswith("_"):
                continue
            text = await error_of(lambda owner=owner, name=name: getattr(found[owner.lower()], name))  # type: ignore[misc]
            if owner not in text or (name not in text and name not in TABLE.get(f"{owner}.", {})):
                wrong.append((owner, name, text, place))
    assert wrong == []


def test_every_option_of_another_program_is_told_with_one_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    whole = build_whole_parser()
    for name, said in OPTIONS:
        known = {command: command._option_string_actions for command in whole.commands().values()}
        command = next(one for one, options in known.items() if said.strip("`") in options and name not in options)
        with pytest.raises(SystemExit):
            command.parse_args([name])
        assert f"{name}: write {said}" in capsys.readouterr().err


def test_every_table_is_tried() -> None:
    assert len(ENTRIES) == sum(map(len, (ARGUMENTS, ATTRIBUTES, USES, PLACES, NAMES, OPTIONS)))
