"""Runs whose records are of different shape, to be cut: those of the upgrade tests, and what they lack."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from endstop import Approve, Engine, Extend, Hooks, Run, Tool, read_record
from endstop.decision import (
    AnyChunk,
    Limits,
    Policy,
    Prompts,
    Question,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)
from endstop.decision import events as ev
from endstop.providers import Race, Request, Scripted, call, say
from endstop.testing.conformance.providers import Behaviour
from endstop.testing.faults import SideEffects, by_step
from endstop.testing.faults.cut_records import Begin, MakeEngine

from ...promises.cut_short import WIRES, Wire, calls
from ...upgrade.scenes import HELP, SCENES, World, answer_to


@dataclass(frozen=True, kw_only=True)
class CutScene:
    """What `check_cut_records` gets."""

    make_engine: MakeEngine
    prompt: str = "Set the port"
    begin: Begin | None = None
    answer: Callable[[Question], Any] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """As keyword arguments."""
        return {"prompt": self.prompt, "begin": self.begin, "answer": self.answer}


# ---- the sessions of the upgrade tests that have one prompt and need no clock of their own

OF_UPGRADES = (
    "calls",
    "verdicts",
    "unprompted",
    "judged",
    "asking",
    "confirming",
    "nudged",
    "exhausted",
    "compacted",
    "summarised",
    "attempts",
    "failing",
    "out_of_tokens",
    "out_of_money",
    "planned",
    "redacted",
    "images",
    "beside_the_end",
    "drained_for_its_usage",
    "broken_calls",
    "submitted",
    "asked_back",
)


class _World(World):
    """One process that plays a scene; what `write` and `plan_and_execute` do are the effects."""

    def __init__(self, name: str, effects: SideEffects) -> None:
        self._effects = effects
        super().__init__(SCENES[name])
        self.prompt = 1

    async def _execute(self, made: ToolCall, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        result = await super()._execute(made, tool, arguments)
        if tool.name in ("write", "plan_and_execute"):
            self._effects.add(f"{tool.name} {arguments}")
        return result


def _of_upgrades(name: str) -> CutScene:
    def answer(question: Question) -> str:
        said = {about: list(texts) for about, texts in SCENES[name].answers.items()}
        if question.unclear:
            said = {about: texts[1:] for about, texts in said.items()}
        return answer_to(question.text, said)

    return CutScene(make_engine=lambda effects: _World(name, effects).engine, answer=answer)


# ---- what they lack


def tools(effects: SideEffects, **options: Any) -> list[Tool]:
    """One tool that writes and one that reads; each takes time."""

    async def put(n: int) -> str:
        await asyncio.sleep(0.01)
        effects.add(f"put {n}")
        await asyncio.sleep(0.01)
        return f"put {n}"

    async def look(n: int) -> str:
        await asyncio.sleep(0.01)
        return f"seen {n}"

    return [Tool(put, description="Put.", **options), Tool(look, description="Look.", reads=True)]


def scripted(*script: Any, **options: Any) -> MakeEngine:
    return lambda effects: Engine(Scripted(by_step(*script)), tools=tools(effects), **options)


DONE = call("finish_task", summary="done", id="z")


def with_subagents(effects: SideEffects) -> Engine:
    """Two sub-agents at once, each of which writes twice; the caller writes beside them."""

    def below(request: Request) -> Any:
        first = 10 if "first" in str(request.messages[0]) + str(request.messages[1:2]) else 20
        script = ([call("put", n=first), call("look", n=1)], [call("put", n=first + 1)], [say("It is put.")])
        return by_step(*script)(request)

    helper = Engine(Scripted(below), tools=tools(effects)).as_tool("helper", "Helps.")
    script = (
        [call("helper", prompt="the first", id="h1"), call("helper", prompt="the second", id="h2")],
        [call("put", n=1, id="p1"), DONE],
        [call("finish_task", summary="done all the same", id="z2")],
    )
    return Engine(Scripted(by_step(*script)), tools=[*tools(effects), helper])


def with_a_subagent_that_asks(effects: SideEffects) -> Engine:
    """A sub-agent asks the user, and has a call approved."""
    script = ([call("put", n=10, id="p")], [say("It is put.")])
    helper = Engine(Scripted(by_step(*script)), tools=tools(effects, approval=True)).as_tool("helper", "Helps.")
    above = ([call("helper", prompt="put ten", id="h")], [call("put", n=1, id="p1")], [DONE])
    return Engine(Scripted(by_step(*above)), tools=[*tools(effects), helper])


def with_approvals(effects: SideEffects) -> Engine:
    script = (
        [call("put", n=1, id="p1"), call("look", n=1, id="l1"), call("put", n=2, id="p2")],
        [call("put", n=3, id="p3")],
        [DONE],
    )
    return Engine(Scripted(by_step(*script)), tools=tools(effects, approval=True))


def allowed(question: Question) -> Any:
    """Yes to each approval."""
    return Approve() if question.tool else HELP


def raced(effects: SideEffects) -> Engine:
    script = ([say("One"), call("put", n=1, id="a")], [call("put", n=2, id="b")], [DONE])
    slow = by_step(*script)

    def late(request: Request) -> Any:
        return [asyncio.Event(), slow(request)]

    return Engine(Race(Scripted(late), Scripted(by_step(*script))), tools=tools(effects))


@dataclass
class Port:
    """A typed answer."""

    number: int


def typed(effects: SideEffects) -> Engine[Any, Any]:
    script = ([call("put", n=1, id="a")], "no JSON", [call("final_result", number=8080, id="z")])
    return Engine(Scripted(by_step(*script)), tools=tools(effects), output=Port)


async def out_of_time(n: int) -> str:
    await asyncio.sleep(100)
    return "late"


def limited(when: Any, *, by: int = 2) -> MakeEngine:
    """A limit of two steps, which is extended."""
    script = (
        [call("put", n=1, id="a")],
        [call("put", n=2, id="b")],
        [call("put", n=3, id="c")],
        [DONE],
        "Two are put.",
    )

    def respond(request: Request) -> Any:
        closing = any("The run ends here" in message.text for message in request.ephemeral)  # type: ignore[union-attr]
        return by_step(*script[-1:] * 9 if closing else script)(request)

    policy = Policy(limits=Limits(steps=2, extend=Extend(by=by, when=when)), reminder=None)
    return lambda effects: Engine(Scripted(respond), tools=tools(effects), policy=policy)


def with_a_subagent_that_asks_for_steps(effects: SideEffects) -> Engine:
    helper = limited("ask", by=1)(effects).as_tool("helper", "Helps.")
    above = ([call("helper", prompt="put three", id="h")], [call("put", n=9, id="p1")], [DONE])
    return Engine(Scripted(by_step(*above)), tools=[*tools(effects), helper])


def timed_out(effects: SideEffects) -> Engine:
    waits = Tool(out_of_time, name="wait", description="Wait.", reads=True, timeout=None)
    script = ([call("put", n=1, id="a")], [call("wait", n=1, id="b"), call("put", n=2, id="c")], "Half is done.")
    return Engine(Scripted(by_step(*script)), tools=[*tools(effects), waits], policy=Policy(limits=Limits(seconds=60)))


def degenerate(effects: SideEffects) -> Engine:
    script = ([call("put", n=1, id="a")], [say("na na na " * 400, 80)], [call("put", n=2, id="b")], [DONE])
    return Engine(Scripted(by_step(*script)), tools=tools(effects))


class OverWire:
    """A provider over real HTTP, with a server of its own for each response."""

    model = "over wire"

    def __init__(self, wire: Wire, script: Sequence[tuple[AnyChunk, ...]]) -> None:
        self._wire, self._script = wire, script

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        says = self._script[int(request.attempt.partition(".")[0]) - 1]
        async with self._wire.endpoint([Behaviour(says=says)]) as server:
            client: Any = self._wire.client(server)
            async with client, client.stream(request) as chunks:
                yield chunks


SPOKEN = (
    (
        ReasoningDelta("Hm."),
        TextDelta("I look"),
        TextDelta(" at it."),
        *calls(1, ("look", {"n": 1}), ("put", {"n": 1})),
    ),
    calls(2, ("put", {"n": 2})),
    calls(3, ("finish_task", {"summary": "done"})),
)


def over(wire: Wire) -> MakeEngine:
    return lambda effects: Engine(OverWire(wire, SPOKEN), tools=tools(effects))


# ---- runs that are no prompt to a new session

STORY = (
    [call("look", n=1, id="a"), call("put", n=1, id="b")],
    [call("put", n=2, id="c"), call("put", n=3, id="d")],
    [DONE],
)


def _story(effects: SideEffects) -> Engine:
    rounds = Policy(max_inner_steps=1, prompts=Prompts(next_step="What is next?"))
    return Engine(Scripted(by_step(*STORY)), tools=tools(effects), policy=rounds)


@asynccontextmanager
async def _fork(effects: SideEffects) -> AsyncIterator[Run]:
    """A fork at the second decision of a finished run, whose effects are no part of this world."""
    with TemporaryDirectory() as folder:
        origin = Path(folder) / "origin.jsonl"
        session = _story(SideEffects(origin)).session("origin", record=origin)
        await session.run("Set the port")
        decided = [e.seq for e in read_record(origin).runs[0].events if isinstance(e, ev.DecisionMade)]
        forked = session.fork(at=decided[0], engine=_story(effects), record=effects.record)
        async with forked.start_fork() as run:
            yield run


@asynccontextmanager
async def _killed(effects: SideEffects) -> AsyncIterator[Run]:
    """A run whose process was killed while its second step was streamed, and which is resumed."""
    with TemporaryDirectory() as folder:
        origin = Path(folder) / "origin.jsonl"
        await _story(SideEffects(origin)).session("killed", record=origin).run("Set the port")
        lines = origin.read_bytes().splitlines(keepends=True)
    begins = next(n for n, line in enumerate(lines) if b'"STEP_STARTED"' in line and b'"step":2' in line)
    for line in lines[: begins + 3]:
        with effects.record.open("ab") as file:
            file.write(line)
        if b'"TOOL_EXECUTION_STARTED"' in line and b'"b"' in line:
            effects.add("put 1")
    session = _story(effects).session("killed", record=effects.record)
    session.load(read_record(effects.record).runs)
    async with session.start_resumed() as run:
        yield run


def begun(begin: Callable[[SideEffects], AbstractAsyncContextManager[Run]]) -> CutScene:
    return CutScene(make_engine=_story, begin=begin)


def _hooks() -> Hooks:
    return Hooks(evaluate=lambda looked_at: True)


CUT_SCENES: dict[str, CutScene] = {
    "story": CutScene(make_engine=scripted(*STORY, hooks=_hooks())),
    **{name: _of_upgrades(name) for name in OF_UPGRADES},
    "subagents": CutScene(make_engine=with_subagents),
    "subagent_asks": CutScene(make_engine=with_a_subagent_that_asks, answer=allowed),
    "approvals": CutScene(make_engine=with_approvals, answer=allowed),
    "race": CutScene(make_engine=raced),
    "typed": CutScene(make_engine=typed),
    "timed_out": CutScene(make_engine=timed_out),
    "degenerate": CutScene(make_engine=degenerate),
    **{f"over_{name}": CutScene(make_engine=over(wire)) for name, wire in WIRES.items()},
    "extended": CutScene(make_engine=limited("progress", by=1)),
    "asked_for_steps": CutScene(make_engine=limited("ask", by=1), answer=lambda question: "yes"),
    "refused_steps": CutScene(make_engine=limited("ask"), answer=lambda question: "no"),
    "subagent_asks_for_steps": CutScene(make_engine=with_a_subagent_that_asks_for_steps, answer=lambda question: "1"),
    "fork": begun(_fork),
    "killed": begun(_killed),
}
