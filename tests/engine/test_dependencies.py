"""`deps`, owner and metadata: what belongs to one run reaches every function of the user, and no record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from endstop import (
    Accept,
    Completion,
    Engine,
    EvaluationInput,
    Happened,
    Hooks,
    Progress,
    RunContext,
    Task,
    Verdict,
    WrongUse,
    read_record,
    this_call,
    tool,
)
from endstop.decision import Policy, ToolCall, ToolResult
from endstop.providers import Scripted, call, say
from endstop.replay import replay
from endstop.tools import ask_user, finish_task


@dataclass
class Deps:
    name: str
    token: str = "sesame"
    seen: list[Any] = field(default_factory=list)


@tool
async def note(ctx: RunContext[Deps], text: str) -> str:
    """Note a text."""
    ctx.deps.seen.append((text, ctx))
    return f"{ctx.deps.name} notes {text}"


@tool
def note_in_a_thread(text: str, here: RunContext) -> str:
    """Note a text."""
    here.deps.seen.append((text, here))
    return text


def script() -> Scripted:
    return Scripted([call("note", text="a", id="n1")], [call("finish_task", summary="done", id="f1")])


async def test_a_tool_gets_the_deps_of_its_run_by_annotation() -> None:
    deps = Deps("one")
    session = Engine(script(), tools=[note]).session("s", owner="jane", metadata={"plan": "free"})
    async with session.start("go", deps=deps) as run:
        await run.wait()
    ((text, seen),) = deps.seen
    assert text == "a"
    assert seen == RunContext("s", run.id, 1, "n1", deps=deps, owner="jane", metadata={"plan": "free"})
    assert seen.key == f"{run.id}/1/n1"


@pytest.mark.parametrize("made", [note, note_in_a_thread])
def test_the_model_does_not_see_the_context(made: Any) -> None:
    assert list(made.spec.parameters["properties"]) == ["text"]
    assert made.parse('{"text": "a", "ctx": 1, "here": 1}') == {"text": "a"}


def test_the_context_is_no_part_of_a_schema_that_is_given() -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    @tool(parameters=schema)
    async def told(ctx: RunContext[Deps], text: str) -> str:
        """Tell."""
        return text

    assert list(told.spec.parameters["properties"]) == ["text"]


async def test_the_function_of_a_tool_takes_a_context_of_a_test() -> None:
    deps = Deps("test")
    assert await note(RunContext(deps=deps), "b") == "test notes b"


async def test_a_sync_function_and_this_call_get_the_same() -> None:
    found: list[Any] = []

    @tool
    def asks() -> str:
        """Ask."""
        found.append(this_call())
        return "asked"

    deps = Deps("one")
    provider = Scripted([call("note_in_a_thread", text="a", id="n1"), call("asks", id="a1")], "done")
    await Engine(provider, tools=[note_in_a_thread, asks]).run("go", deps=deps)
    assert deps.seen[0][1].call_id == "n1"
    assert found[0].deps is deps
    assert isinstance(found[0], RunContext)


async def test_gates_judge_handlers_and_evaluator_get_the_deps() -> None:
    roles: dict[str, RunContext[Deps]] = {}

    def handler(prompt: str, run: Progress[Deps]) -> None:
        roles["handler"] = run.context

    async def judge(run: Progress[Deps]) -> Verdict:
        roles["judge"] = run.context
        return Verdict("incomplete")

    def gate(completion: Completion, run: Progress[Deps]) -> Accept:
        roles["gate"] = run.context
        return Accept()

    def evaluate(evaluated: EvaluationInput[Deps]) -> bool:
        roles["evaluator"] = evaluated.context
        return True

    deps = Deps("one")
    hooks = Hooks(gates=[gate], judge=judge, evaluate=evaluate, prompt_handlers=[handler])
    engine = Engine(script(), tools=[note], hooks=hooks, policy=Policy(max_inner_steps=1))
    await engine.session(owner="jane").run("go", deps=deps)
    assert {role: (seen.deps.name, seen.owner, seen.call_id) for role, seen in roles.items()} == {
        "handler": ("one", "jane", ""),
        "judge": ("one", "jane", ""),
        "gate": ("one", "jane", "f1"),
        "evaluator": ("one", "jane", ""),
    }


async def test_a_text_rule_gets_the_context_if_a_third_parameter_is_annotated_so(tmp_path: Path) -> None:
    seen: list[RunContext[Deps]] = []

    def named(text: str, calls: Sequence[ToolCall], run: RunContext[Deps]) -> bool:
        seen.append(run)
        return run.deps.name in text

    class Rule:
        async def __call__(self, text: str, calls: Sequence[ToolCall], run: RunContext[Deps]) -> bool:
            return named(text, calls, run)

    for rule in (named, Rule()):
        record = tmp_path / f"{len(seen)}.jsonl"
        engine = Engine(Scripted("Let me see.", "Yours, one."), hooks=Hooks(text_rule=rule))
        session = engine.session(owner="jane", metadata={"plan": "free"}, record=record)
        outcome = await session.run("go", deps=Deps("one"))
        assert (outcome.answer, outcome.steps) == ("Yours, one.", 2)
        assert [(one.owner, one.metadata, one.step, one.run_id) for one in seen[-2:]] == [
            ("jane", {"plan": "free"}, step, outcome.run_id) for step in (1, 2)
        ]
        assert (await replay(record)).same
    assert len(seen) == 4, "a replay asks nobody"


def takes_one(text: str) -> bool:
    return True


def takes_four(text: str, calls: Any, run: RunContext[Deps], more: int) -> bool:
    return True


def takes_it_first(run: RunContext[Deps], text: str, calls: Any) -> bool:
    return True


def takes_it_by_name(text: str, calls: Any, *, run: RunContext[Deps]) -> bool:
    return True


@pytest.mark.parametrize("rule", [takes_one, takes_four, takes_it_first, takes_it_by_name])
def test_a_text_rule_that_could_not_be_called_is_refused(rule: Any) -> None:
    with pytest.raises(
        WrongUse, match=rf"text_rule: {rule.__name__}\(.*\) takes .*; a text rule is called as text_rule\(text, calls\)"
    ):
        Hooks(text_rule=rule)


@pytest.mark.parametrize("rule", [lambda text, calls: True, lambda text, calls, longest=3: True, lambda *both: True])
async def test_a_text_rule_without_that_parameter_gets_text_and_calls(rule: Any) -> None:
    assert (await Engine(Scripted("Yes."), hooks=Hooks(text_rule=rule)).run("go")).stop_reason == "text_final"


async def test_runs_at_the_same_time_have_their_own() -> None:
    both = [Deps("one"), Deps("two")]

    def answer(request: Any) -> Any:
        last = request.messages[-1]
        return call("finish_task", summary=last.content) if hasattr(last, "content") else call("note", text=last.text)

    engine = Engine(Scripted(answer), tools=[note])
    async with engine.run_many([Task(deps.name, deps=deps) for deps in both], limit=2) as fleet:
        answers = sorted([result.outcome.answer async for result in fleet])
    assert answers == ["one notes one", "two notes two"]
    raced = await engine.race("go", [Scripted(answer), Scripted(answer)], deps=both[0], compare=True)
    assert {result.outcome.answer for result in raced.results} == {"one notes go"}


async def test_a_factory_makes_them_for_each_run_that_is_given_none() -> None:
    made: list[Deps] = []

    async def factory(ctx: RunContext[None]) -> Deps:
        made.append(Deps(f"{ctx.owner}'s"))
        return made[-1]

    engine = Engine(script(), tools=[note], deps=factory)
    await engine.session(owner="jane").run("go")
    assert made[0].seen[0][0] == "a"
    given = Deps("given")
    await engine.with_provider(script()).run("go", deps=given)
    assert (len(made), len(given.seen)) == (1, 1)


@pytest.mark.parametrize("decorated", [True, False])
async def test_a_factory_that_yields_is_closed_when_the_run_has_ended(decorated: bool) -> None:
    course: list[str] = []

    async def factory(ctx: RunContext[None]) -> AsyncIterator[Deps]:
        course.append("opened")
        yield Deps("one", seen=course)
        course.append("closed")

    engine = Engine(script(), tools=[note], deps=asynccontextmanager(factory) if decorated else factory)
    await engine.run("go")
    assert [course[0], course[-1], len(course)] == ["opened", "closed", 3]


async def test_what_a_factory_made_is_closed_when_the_run_is_cancelled() -> None:
    course: list[str] = []

    async def factory(ctx: RunContext[None]) -> AsyncIterator[Deps]:
        yield Deps("one")
        course.append("closed")

    @tool
    async def hangs(ctx: RunContext[Deps]) -> str:
        """Hang."""
        course.append("running")
        run.cancel()
        await asyncio.Event().wait()
        return "never"

    engine = Engine(Scripted([call("hangs")]), tools=[hangs], deps=factory)
    async with engine.start("go") as run:
        assert (await run.wait()).status == "cancelled"
    assert course == ["running", "closed"]


async def test_a_factory_that_fails_begins_no_run_and_says_why(tmp_path: Path) -> None:
    def factory(ctx: RunContext[None]) -> Deps:
        raise ConnectionError("no database")

    path = tmp_path / "run.jsonl"
    with pytest.raises(RuntimeError, match=r"deps: the factory failed, so run run_\w+ cannot begin: .*no database"):
        await Engine(script(), tools=[note], deps=factory).run("go", record=path)
    assert not path.exists()


async def test_a_factory_that_fails_after_the_run_leaves_the_outcome() -> None:
    async def factory(ctx: RunContext[None]) -> AsyncIterator[Deps]:
        yield Deps("one")
        raise ConnectionError("gone")

    outcome = await Engine(script(), tools=[note], deps=factory).run("go")
    assert outcome.status == "completed"


@pytest.mark.parametrize("wrong", [Deps, Deps("one"), lambda: Deps("one"), lambda one, two: None])
def test_a_factory_takes_the_context(wrong: Any) -> None:
    with pytest.raises(WrongUse, match=r"^deps"):
        Engine(script(), deps=wrong)


async def test_no_record_holds_them_and_a_resumed_run_is_given_them_again(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    await Engine(script(), tools=[note]).run("go", deps=Deps("first"), record=whole)
    assert b"sesame" not in whole.read_bytes()
    lines = whole.read_bytes().splitlines(keepends=True)
    cut = next(n for n, line in enumerate(lines) if b"TOOL_EXECUTION_STARTED" in line)
    path = tmp_path / "cut.jsonl"
    path.write_bytes(b"".join(lines[: cut + 1]))

    def happened(ctx: RunContext[Deps], text: str) -> Happened:
        return Happened(f"{ctx.deps.name} knows {text}: {ctx.again}")

    checked = tool(name="note", check=happened)(note.function)
    record, again = read_record(path), Deps("two")
    provider = Scripted([call("finish_task", summary="done")])
    session = Engine(provider, tools=[checked]).session(record.header.session_id, record=path)
    session.load(record.runs)
    async with session.start_resumed(deps=again) as run:
        await run.wait()
    assert again.seen == []
    assert "two knows a: True" in path.read_text(encoding="utf-8")


async def test_an_answer_goes_on_with_deps() -> None:
    before, deps = Deps("before"), Deps("one")
    provider = Scripted(
        [call("ask_user", question="Which?", id="q")], [call("note", text="b")], [call("finish_task", summary="x")]
    )
    session = Engine(provider, tools=[note], presets=[finish_task, ask_user]).session()
    assert (await session.run("go", deps=before)).status == "awaiting_input"
    assert before.seen == []
    assert (await session.answer("q", "that one", deps=deps)).status == "completed"
    assert [text for text, _ in deps.seen] == ["b"]


def calls_and_repeats(name: str, **arguments: Any) -> Scripted:
    """A model that makes this call, and then says what came of it."""

    def respond(request: Any) -> Any:
        last = request.messages[-1]
        return [say(last.content)] if isinstance(last, ToolResult) else [call(name, **arguments)]

    return Scripted(respond)


async def test_a_sub_agent_gets_what_belongs_to_the_calling_run_unless_it_makes_its_own() -> None:
    deps = Deps("parent")
    for makes, expected in ((None, "parent"), (lambda ctx: Deps("own"), "own")):
        engine = Engine(calls_and_repeats("note", text="a"), tools=[note], deps=makes)
        parent = Engine(calls_and_repeats("helper", prompt="go"), tools=[engine.as_tool("helper", "Helps.")])
        assert (await parent.run("go", deps=deps)).answer == f"{expected} notes a"


async def test_a_tool_that_yields_gets_the_context() -> None:
    @tool
    async def counts(ctx: RunContext[Deps], to: int) -> AsyncIterator[str]:
        """Count."""
        for number in range(to):
            yield f"{ctx.deps.name} {number}"

    engine = Engine(calls_and_repeats("counts", to=2), tools=[counts])
    assert (await engine.run("go", deps=Deps("one"))).answer == "one 1"


async def test_an_approval_function_may_ask_for_whom_the_call_is() -> None:
    @tool(approval=lambda arguments: this_call().deps.name != "boss")
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    engine = Engine(calls_and_repeats("pay", amount=1), tools=[pay])
    assert (await engine.run("go", deps=Deps("boss"))).answer == "paid 1"
    assert (await engine.run("go", deps=Deps("clerk"))).status == "awaiting_input"


@pytest.mark.parametrize("wrong", [{"owner": 5}, {"metadata": ["free"]}])
def test_owner_is_a_text_and_metadata_a_mapping(wrong: dict[str, Any]) -> None:
    with pytest.raises(WrongUse, match=next(iter(wrong))):
        Engine(script()).session(**wrong)


@tool
async def read(ctx: RunContext[Deps]) -> str:
    """Read."""
    return ctx.deps.name


async def test_a_run_without_the_dependencies_that_a_tool_takes_is_refused_before_the_first_request() -> None:
    model = Scripted("never asked")
    engine = Engine(model, tools=[read])
    with pytest.raises(WrongUse, match=r"tool 'read' takes a RunContext\[Deps\], and this run has no dependencies"):
        await engine.run("go")
    with pytest.raises(WrongUse, match="has no dependencies"):
        engine.session().start("go")
    assert model.requests == []
    assert (await engine.run("go", deps=Deps("a"))).status == "completed"


async def test_a_tool_that_takes_any_dependencies_or_none_runs_without() -> None:
    def look(ctx: Any) -> str:
        """Look."""
        return "seen"

    for hint in (RunContext, RunContext[None], RunContext[Any], RunContext[Deps | None], RunContext[object]):
        look.__annotations__["ctx"] = hint
        model = Scripted([call("look")], "ok")
        await Engine(model, tools=[tool(look)]).run("go")
        assert model.requests[1].messages[-1].content == "seen"


class Named(Protocol):
    name: str


async def test_dependencies_of_another_class_than_a_tool_takes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def call_by_name(ctx: RunContext[Named]) -> str:
        """Call by its name."""
        return ctx.deps.name

    async def made(ctx: RunContext[None]) -> Any:
        return {"name": "a"}

    for engine, deps in (
        (Engine(Scripted("x"), tools=[read, call_by_name]), {"name": "a"}),
        (Engine(Scripted("x"), tools=[read, call_by_name], deps=made), None),
    ):
        await engine.run("go", deps=deps)
        texts = [record.__dict__["event"] for record in caplog.records]
        assert texts == ["the dependencies of a run are of type dict, and tools take a RunContext[Deps]"]
        caplog.clear()
    await Engine(Scripted("x"), tools=[read, call_by_name]).run("go", deps=Deps("a"))
    assert caplog.messages == []
