"""Scripted sessions that cover what a run can hold, and `World`: one process that plays one of them.

A response belongs to its step and not to its turn, so any process that asks for step 3 gets the same one. Ids of calls
begin with the letter of their tool: `w` writes, `r` reads, and so on (`WRITING`, `HAPPENED`, `NOT_HAPPENED`).

This file knows nothing of tests: `make.py` runs it with the version that the records are to come from.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio.lowlevel
from endstop import Budget, Completion, Engine, Hooks, RecordOptions, Runtime, Session, Tool, tool
from endstop.context import execute_here
from endstop.decision import (
    Compaction,
    FinishReport,
    Image,
    Limits,
    Patience,
    Policy,
    Price,
    Prompts,
    ReasoningDelta,
    SessionLimits,
    ToolCall,
    Usage,
    UsageReport,
)
from endstop.decision.events import (
    MessageAdded,
    QuestionAnswered,
    QuestionAsked,
    ResponseFinished,
    ToolExecutionStarted,
)
from endstop.decision.policy import Echo, Repetition
from endstop.evaluation import Evaluation, EvaluationInput
from endstop.hooks import Accept, Answer, Prepare, Progress, Reject, Verdict
from endstop.plan_execute_think import plan_execute_think
from endstop.providers import Fallback, Interrupted, Prices, RateLimited, Retry, Scripted, Unavailable, call, say
from endstop.records.reader import RecordedRun
from endstop.records.redaction import Redaction
from endstop.service.service import Service
from endstop.testing import FakeClock, settle
from endstop.tools import ask_user, finish_task, task_done, think
from endstop.tools.results import Happened, NotHappened, Unclear

KEY = b"a key of the tests, 32 bytes lon"
SECRET = "sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8x"
PICTURE = bytes(range(256)) * 3

# ---- tools


async def _read(path: str) -> str:
    for _ in range(len(path) % 3):
        await anyio.lowlevel.checkpoint()
    return f"read {path}"


async def _write(path: str) -> str:
    return f"wrote {path}"


async def _fail(path: str) -> str:
    raise OSError(f"no such file: {path}")


async def _look(path: str) -> Any:
    return [f"the picture {path}", Image(data=PICTURE, media_type="image/png")]


async def _long(path: str) -> str:
    return f"{path} holds: " + "line of a file\n" * 60


READ = Tool(_read, name="read", description="Read.", reads=True)
WRITE = Tool(_write, name="write", description="Write.")
TOOLS = (
    READ,
    WRITE,
    Tool(_write, name="note", description="Note.", check=lambda path: Happened(f"wrote {path}")),
    Tool(_write, name="post", description="Post.", check=lambda path: NotHappened()),
    Tool(_write, name="guess", description="Guess.", check=lambda path: Unclear("nobody knows")),
    Tool(_fail, name="fail", description="Fail.", reads=True),
    Tool(_look, name="look", description="Look.", reads=True),
    Tool(_long, name="long", description="Read much.", reads=True),
    Tool(_read, name="poll", description="Poll.", reads=True, polls=True),
    finish_task,
    task_done,
    ask_user,
    think,
)
WRITING = frozenset({"write", "note", "post", "guess", "plan_and_execute", "think_and_decide", "submit"})
"""Tools of which a call that has begun must not run again, unless their check says that nothing has happened."""
HAPPENED, NOT_HAPPENED = "note", "post"
"""Tools whose check can settle a call that had begun."""


@tool(kind="completion")
async def submit(report: str) -> Completion:
    """Hand in the report."""
    return Completion(answer=report)


# ---- one process


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A scripted session."""

    scripts: tuple[tuple[Any, ...], ...]
    """For each prompt, the responses by step. A function gets the world, and how often this process has asked."""
    options: Callable[[World], Mapping[str, Any]] = lambda world: {}
    """Options of the engine. `wrap` wraps the provider, `make` makes the engine."""
    answers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What the user answers, in order, by a word of the question."""
    during: Mapping[str, Callable[[World], Awaitable[None] | None]] = field(default_factory=dict)
    """What else happens in the process while a call runs, by its tool and path."""
    says: str = ""
    """What the user says while a call runs; the call is in `during`."""
    drain: bool = False
    durable: bool = False
    aside: str = ""
    """The answer to a request beside the steps: a summary, a judgement."""


HELP = "It has happened."
"""What the user answers to any other question, such as what became of a call."""
SAID = "message_1"
"""Id of what the user says."""


class World:
    """One process: an engine, and what was asked of its model and run by its tools."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.clock = FakeClock()
        self.prompt = 0
        """Number of the prompt that is answered now, from 1."""
        self.requested: list[tuple[int, int]] = []
        """Prompt and step of each request."""
        self.reminded: dict[tuple[int, int], list[str]] = {}
        """What each request said that does not become part of the transcript."""
        self.ran: list[tuple[str, str, str]] = []
        """Tool, id and arguments of each call that was run."""
        self.budget: Budget | None = None
        self.run: Any = None
        self.say: Callable[[str], Any] = self._say
        self.cancel: Callable[[], Any] = self._cancel
        self.engine = self._engine()

    @property
    def no_prompt_left(self) -> bool:
        """Whether the user's last prompt was given."""
        return self.prompt == len(self.scene.scripts)

    def _engine(self) -> Engine:
        options = {"tools": TOOLS, "presets": (), **self.scene.options(self)}
        wrap, make = options.pop("wrap", lambda provider: provider), options.pop("make", Engine)
        if make is not Engine:
            options.pop("presets")
        self.budget = options.get("budget")
        runtime = Runtime(clock=self.clock, execute=self._execute)
        engine: Engine = make(wrap(Scripted(self._respond)), runtime=runtime, **options)
        return engine

    def session(self, session_id: str, record: Any = None) -> Session:
        return self.engine.session(session_id, record=record, drain=self.scene.drain)

    def _respond(self, request: Any) -> Any:
        if request.attempt == "aside":
            return self.scene.aside
        step = int(request.attempt.partition(".")[0])
        self.requested.append((self.prompt, step))
        self.reminded[self.prompt, step] = [message.text for message in request.ephemeral]
        script = self.scene.scripts[self.prompt - 1]
        response = script[step - 1] if step <= len(script) else "The end."
        return response(self, self.requested.count((self.prompt, step))) if callable(response) else response

    async def _execute(self, made: ToolCall, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        self.ran.append((tool.name, made.id, made.arguments))
        if (about := f"{tool.name} {arguments.get('path')}") in self.scene.during:
            result = self.scene.during[about](self)
            if result is not None:
                await result
        return await execute_here(made, tool, arguments)

    def _say(self, text: str) -> None:
        self.run.say(text, id=SAID)

    def _cancel(self) -> None:
        self.run.cancel("caller")


class Turns:
    """Stands in a response for a moment in which other tasks run, such as a reading call that begins early."""

    async def wait(self) -> None:
        """Let the event loop turn."""
        await settle()


TURNS = Turns()


class Passing:
    """Stands in a response for seconds that go by."""

    def __init__(self, world: World, seconds: float) -> None:
        self._world, self._seconds = world, seconds

    async def wait(self) -> None:
        """Advance the clock."""
        await self._world.clock.advance(self._seconds)


def passes(seconds: float) -> Callable[[World], Awaitable[None]]:
    return lambda world: world.clock.advance(seconds)


async def says(world: World) -> None:
    """The user says it."""
    result = world.say(world.scene.says)
    if result is not None:
        await result


async def cancels(world: World) -> None:
    """The caller cancels the run."""
    result = world.cancel()
    if result is not None:
        await result


def others_spend(world: World) -> None:
    """Other runs use up the budget that is shared with them."""
    assert world.budget is not None
    world.budget.spend(Usage(output_tokens=1000))


# ---- hooks


async def tested(completion: Completion, run: Progress) -> Accept | Reject:
    return Accept() if "tested" in completion.answer else Reject("not tested")


def broken_gate(completion: Completion, run: Progress) -> Accept | Reject:
    if "broken" in completion.answer:
        raise ValueError("the gate is broken")
    return Accept()


async def judged(run: Progress) -> Verdict:
    return Verdict("complete" if run.facts.steps >= 4 else "incomplete", usage=Usage(input_tokens=3, output_tokens=1))


def prepared(prompt: str, run: Progress) -> Prepare:
    return Prepare(message="The workspace is empty.")


def unprompted(prompt: str, run: Progress) -> Prepare:
    return Prepare(next_step=False)


def greeted(prompt: str, run: Progress) -> Answer | None:
    return Answer("Hello!") if "hello" in prompt else None


def braces(text: str, calls: Any) -> bool | None:
    return True if text == "{}" else False if text == "[]" else None


def evaluated(given: EvaluationInput) -> Evaluation:
    return Evaluation(passed=bool(given.outcome.answer), details={"length": len(given.outcome.answer)})


def broken_evaluation(given: EvaluationInput) -> Evaluation:
    raise ValueError("the evaluator is broken")


# ---- responses


def finish(summary: str = "done and tested", id: str = "f1") -> list[Any]:
    return call("finish_task", summary=summary, id=id, pieces=3)


def used(input_tokens: int, output_tokens: int = 5) -> UsageReport:
    return UsageReport(Usage(input_tokens=input_tokens, output_tokens=output_tokens))


def plan(id: str, *steps: tuple[str, str]) -> list[Any]:
    made = [{"tool": name, "arguments": {"path": path}} for name, path in steps]
    return call("plan_and_execute", id=id, steps=made, pieces=2)


def decide(id: str, decision: str, summary: str, **more: Any) -> list[Any]:
    return call("think_and_decide", id=id, summary=summary, decision=decision, **more)


def flaky(*failures: Any, then: Any) -> Callable[[World, int], Any]:
    """Fails at the first attempts of the step, in each process anew."""
    return lambda world, attempt: failures[attempt - 1] if attempt <= len(failures) else then


def patient(provider: Any) -> Any:
    return Retry(provider, times={"interrupted": 2, "server": 2, "rate_limit": 1}, first_wait=0.0)


def two_steps_each(**more: Any) -> Policy:
    return Policy(max_inner_steps=2, prompts=Prompts(next_step="What is next?"), **more)


SCENES: dict[str, Scene] = {
    "calls": Scene(
        scripts=(
            (
                [
                    say("I look around.", 3),
                    call("read", path="a", id="r1"),
                    TURNS,
                    call("read", path="bb", id="r2", pieces=2),
                    call("write", path="a", id="w1", pieces=2),
                    call("note", path="b", id="n1"),
                    call("read", path="c", id="r3"),
                    call("post", path="c", id="p1"),
                ],
                [call("guess", path="d", id="g1"), call("read", path="d", id="r4"), call("write", path="e", id="w2")],
                [ReasoningDelta("Hm. "), ReasoningDelta("A file is missing."), call("fail", path="x", id="x1")],
                [say("All is there."), call("write", path="f", id="w3"), finish()],
            ),
        )
    ),
    "verdicts": Scene(
        scripts=(
            (
                [say("I begin."), call("read", path="a", id="r1"), call("write", path="a", id="w1")],
                "I am done.",
                [finish("done", "f1")],
                [call("think", thought="test it", id="t1"), call("write", path="b", id="w2")],
                [call("write", path="c", id="w3"), finish("done and tested", "f2")],
            ),
        ),
        options=lambda world: {
            "policy": two_steps_each(limits=Limits(steps=6), completion="required", text="nudge"),
            "hooks": Hooks(
                gates=[broken_gate, tested],
                judge=judged,
                prompt_handlers=[greeted, prepared],
                text_rule=braces,
                evaluate=evaluated,
            ),
        },
    ),
    "unprompted": Scene(
        scripts=(
            (
                [call("read", path="a", id="r1")],
                [call("write", path="b", id="w1")],
                [call("read", path="c", id="r2")],
                [finish("broken", "f1")],
                "[]",
                "{}",
            ),
        ),
        options=lambda world: {
            "policy": two_steps_each(),
            "hooks": Hooks(
                gates=[broken_gate],
                prompt_handlers=[greeted, unprompted, prepared],
                text_rule=braces,
                evaluate=broken_evaluation,
            ),
        },
    ),
    "handled": Scene(
        scripts=((),),
        options=lambda world: {"hooks": Hooks(prompt_handlers=[unprompted, lambda prompt, run: Answer("Hello!")])},
    ),
    "judged": Scene(
        scripts=(
            (
                [call("read", path="a", id="r1")],
                [call("read", path="b", id="r2")],
                [call("write", path="c", id="w1")],
                [call("read", path="d", id="r3")],
                "never",
            ),
        ),
        options=lambda world: {"policy": two_steps_each(), "hooks": Hooks(judge=judged)},
    ),
    "asking": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                [
                    call("ask_user", question="Which?", id="q1"),
                    call("write", path="b", id="w2"),
                    call("ask_user", question="When?", id="q2"),
                ],
                [call("write", path="c", id="w3"), call("ask_user", question="Sure?", id="q3")],
                [finish()],
            ),
        ),
        answers={"Which": ["this one"], "When": ["today"], "Sure": ["yes"]},
        options=lambda world: {"policy": two_steps_each(), "hooks": Hooks(evaluate=evaluated)},
    ),
    "confirming": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                [call("task_done", summary="half", completion_percentage=50, next_phase="rest", id="d1")],
                [call("task_done", summary="first", requires_user_confirmation=True, id="d2")],
                [call("write", path="b", id="w2")],
                [
                    call(
                        "task_done", summary="better", requires_user_confirmation=True, pending_issues=["docs"], id="d3"
                    )
                ],
            ),
        ),
        answers={"first": ["No, there is a file missing"], "better": ["hm, well", "yes"]},
    ),
    "nudged": Scene(
        scripts=(
            (
                "I look into it",
                [],
                [say("A long "), FinishReport("length", "length")],
                [FinishReport("content_filter", "content_filter")],
                [say("a bit"), FinishReport("pause", "pause_turn")],
                [call("read", path="a", id="r1")],
                [call("read", path="a", id="r2")],
                [call("read", path="a", id="r3")],
                [call("think", thought="enough", id="t1"), call("poll", path="a", id="o1")],
                [call("poll", path="a", id="o2")],
                [finish()],
            ),
        ),
        options=lambda world: {
            "policy": Policy(
                limits=Limits(steps=13, soft_steps=6),
                text="nudge",
                max_inner_steps=3,
                echo=Echo(announcements=("I look",)),
                repetition=Repetition(nudge_at=(2, 3), stop_at=6),
                patience=Patience(empty_answers=2, truncated=2, refusals=2, echoes=2),
            )
        },
    ),
    "exhausted": Scene(
        scripts=(
            (
                *[[call("write", path=str(number), id=f"w{number}")] for number in range(1, 6)],
                [say("Half of it is ", 2), say("written."), call("write", path="late", id="w9")],
            ),
        ),
        options=lambda world: {
            "policy": two_steps_each(limits=Limits(steps=5)),
            "hooks": Hooks(evaluate=evaluated),
        },
    ),
    "compacted": Scene(
        scripts=(
            (
                [call("long", path="a", id="l1"), used(100)],
                [call("long", path="b", id="l2"), used(950)],
                [call("write", path="c", id="w1"), used(300)],
                [call("long", path="d", id="l3"), used(950)],
                [call("write", path="e", id="w2"), used(960)],
                [finish(), used(200)],
            ),
        ),
        aside="The files a and b were read, c was written.",
        options=lambda world: {
            "policy": Policy(
                max_inner_steps=2,
                compaction=Compaction(
                    window=1000,
                    strategies=("shorten_results", "summarise", "drop_oldest"),
                    keep_results=1,
                    keep_messages=2,
                ),
            )
        },
    ),
    "summarised": Scene(
        scripts=(
            (
                [call("long", path="a", id="l1"), used(100)],
                [call("write", path="b", id="w1"), used(950)],
                [call("long", path="c", id="l2"), used(990)],
                [call("write", path="d", id="w2"), used(300)],
                [finish(), used(200)],
            ),
        ),
        aside="The file a was read, b was written.",
        options=lambda world: {
            "policy": Policy(compaction=Compaction(window=1000, strategies=("summarise",), keep_messages=1))
        },
    ),
    "attempts": Scene(
        scripts=(
            (
                flaky(
                    [say("I wi"), Interrupted("cut")],
                    Unavailable("overloaded"),
                    then=[say("I will."), call("write", path="a", id="w1"), call("read", path="a", id="r1")],
                ),
                flaky(
                    [call("read", path="b", id="r2"), TURNS, call("write", path="half", id="w8"), Interrupted("cut")],
                    then=[call("read", path="b", id="r2"), call("write", path="b", id="w2")],
                ),
                flaky(RateLimited("slow down"), then=[call("write", path="c", id="w3"), finish()]),
            ),
        ),
        options=lambda world: {"wrap": patient},
    ),
    "failing": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                lambda world, attempt: [say("I "), Interrupted("cut")],
            ),
        ),
        options=lambda world: {
            "wrap": lambda provider: Fallback(Retry(provider, times={"interrupted": 1}, first_wait=0.0), provider)
        },
    ),
    "out_of_time": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                lambda world, attempt: [say("I go on"), Passing(world, 61), call("write", path="b", id="w2")],
                "Half of it is done.",
            ),
        ),
        options=lambda world: {"policy": Policy(limits=Limits(seconds=60))},
    ),
    "out_of_time_in_a_call": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                [call("read", path="a", id="r1"), call("read", path="b", id="r2"), call("write", path="b", id="w2")],
                "Half of it is done.",
            ),
        ),
        during={"read a": passes(61)},
        options=lambda world: {"policy": Policy(limits=Limits(seconds=60), closing=False)},
    ),
    "out_of_time_in_the_end": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                [call("write", path="b", id="w2"), call("read", path="b", id="r1")],
                [call("write", path="c", id="w3")],
                "Half of it is done.",
            ),
        ),
        during={"write a": passes(25), "write b": passes(25), "write c": passes(25)},
        options=lambda world: {"policy": Policy(limits=Limits(seconds=60), reminder=0.8)},
    ),
    "out_of_tokens": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                [call("read", path="b", id="r1")],
                [say("word " * 60, 20), call("write", path="b", id="w2")],
                "Half of it is done.",
            ),
        ),
        options=lambda world: {"policy": Policy(limits=Limits(output_tokens=40), reminder=0.2)},
    ),
    "out_of_money": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                [call("write", path="b", id="w2"), used(10, 200)],
                [say("word " * 40, 20), call("write", path="c", id="w3")],
                "Half of it is done.",
            ),
        ),
        options=lambda world: {
            "policy": Policy(limits=Limits(cost_usd=0.0015)),
            "prices": Prices({"scripted": Price(input=1.0, output=6.0)}, listed=False),
        },
    ),
    "refused": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                [call("write", path="b", id="w2"), call("read", path="b", id="r1")],
                "never",
            ),
        ),
        during={"write b": others_spend},
        options=lambda world: {"budget": Budget(output_tokens=1000), "policy": Policy(closing=False)},
    ),
    "cancelled": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                [call("write", path="b", id="w2"), call("read", path="b", id="r1"), call("write", path="c", id="w3")],
                [finish()],
            ),
        ),
        during={"write b": cancels},
        options=lambda world: {"hooks": Hooks(evaluate=evaluated)},
    ),
    "spoken_to": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1"), call("read", path="a", id="r1")],
                [call("write", path="b", id="w2")],
                [finish()],
            ),
        ),
        during={"write a": says},
        says="Mind the tests.",
    ),
    "planned": Scene(
        scripts=(
            (
                plan("a1", ("read", "a"), ("read", "b"), ("write", "a")),
                decide("k1", "go on", "Two of three.", next_goal="the third", completion_percentage=60),
                plan("a2", ("write", "c"), ("fail", "x"), ("write", "never")),
                decide("k2", "go on", "One failed."),
                plan("a3", ("read", "c")),
                decide("k3", "done", "All is done and tested."),
            ),
        ),
        options=lambda world: {"make": plan_execute_think, "tools": [*TOOLS[:8], ask_user]},
    ),
    "redacted": Scene(
        scripts=(
            (
                [say(f"The key is {SECRET}.", 4), call("read", path="a", id="r1")],
                [
                    call("write", path=SECRET, id="w1", pieces=3),
                    call("write", path="plain", id="w2"),
                    call("read", path=SECRET, id="r2"),
                ],
                [call("write", path="b", id="w3")],
                [finish(f"done and tested with {SECRET}")],
            ),
        ),
        options=lambda world: {
            "record_options": RecordOptions(redact=Redaction(key=KEY)),
            "hooks": Hooks(gates=[tested]),
        },
    ),
    "images": Scene(
        scripts=(
            (
                [call("look", path="a", id="i1"), call("write", path="a", id="w1")],
                [call("long", path="b", id="l1"), call("look", path="b", id="i2")],
                [finish()],
            ),
        ),
        options=lambda world: {"record_options": RecordOptions(attach_above=700)},
    ),
    "several_prompts": Scene(
        scripts=(
            ([call("write", path="a", id="w1")], "The first is done."),
            ([call("write", path="b", id="w2")], [call("write", path="c", id="w3")], [finish("the second", "f1")]),
            ([call("write", path="d", id="w4")], [call("write", path="e", id="w5")], "The third."),
        ),
        options=lambda world: {"policy": Policy(session_limits=SessionLimits(steps=7))},
    ),
    "beside_the_end": Scene(
        scripts=(
            (
                [call("read", path="a", id="r1"), say("Well.")],
                [call("write", path="a", id="w1"), finish("not yet", "f1"), call("write", path="b", id="w2")],
                [call("fail", path="x", id="x1"), finish("too early", "f2")],
                [
                    call("write", path="c", id="w3"),
                    finish("done and tested", "f3"),
                    call("read", path="late", id="r2"),
                    call("write", path="late", id="w9"),
                ],
            ),
        ),
        options=lambda world: {"policy": Policy(mixed="all"), "hooks": Hooks(gates=[tested])},
    ),
    "drained": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                [call("write", path="b", id="w2"), finish(), say("never read"), call("write", path="c", id="w9")],
            ),
        ),
        drain=True,
    ),
    "drained_for_its_usage": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                [call("write", path="b", id="w2"), finish(), say("never read"), call("write", path="c", id="w9")],
            ),
        ),
        options=lambda world: {"policy": Policy(drain_seconds=5)},
    ),
    "broken_calls": Scene(
        scripts=(
            (
                [call("nobody", path="a", id="z1"), call("write", path="a", id="w1"), call("read", other="a", id="r1")],
                [call("write", path="b", id="w1"), call("write", path="c", id="w2")],
                [call("write", path="d" * 40, id="w3", pieces=4)[:3], FinishReport("length", "length")],
                [call("write", path="e", id="w4"), finish()],
            ),
        ),
    ),
    "submitted": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1")],
                [call("submit", report="early", id="s1")],
                [call("submit", report="tested", id="s2")],
            ),
        ),
        options=lambda world: {
            "tools": [WRITE, READ, submit],
            "hooks": Hooks(gates=[tested], evaluate=evaluated),
        },
    ),
    "asked_back": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1"), call("guess", path="b", id="g1"), call("read", path="b", id="r1")],
                [call("post", path="c", id="p1"), finish()],
            ),
        ),
        options=lambda world: {"policy": Policy(interrupted_calls="ask")},
    ),
    "durable": Scene(
        scripts=(
            (
                [say("I will ", 2), call("write", path="a", id="w1", pieces=3), call("read", path="a", id="r1")],
                flaky(
                    [say("No"), Interrupted("cut")],
                    then=[call("look", path="b", id="i1"), call("write", path="b", id="w2")],
                ),
                [call("task_done", summary="half", completion_percentage=50, id="d1"), call("fail", path="x", id="x1")],
                [finish("done", "f1")],
                [
                    call("note", path="c", id="n1"),
                    finish("done and tested", "f2"),
                    say("never"),
                    call("write", path="d", id="w9"),
                ],
            ),
        ),
        durable=True,
        options=lambda world: {"wrap": patient, "hooks": Hooks(gates=[tested]), "policy": two_steps_each()},
    ),
    "durable_to_the_limit": Scene(
        scripts=(
            (
                [call("write", path="a", id="w1"), call("write", path="b", id="w2")],
                [call("ask_user", question="Which?", id="q1"), call("write", path="c", id="w3")],
                [call("write", path="d", id="w4")],
                "Half is done.",
            ),
        ),
        answers={"Which": ["this one"]},
        durable=True,
        options=lambda world: {"policy": two_steps_each(limits=Limits(steps=3))},
    ),
}
PROMPTS = ("Set the port", "Once more, please", "And again")


# ---- playing a scene


async def play(
    world: World, session: Session, past: Sequence[RecordedRun] = (), begin: Callable[[Any], None] | None = None
) -> None:
    """Bring the session to its end, from wherever its runs so far (`past`) have left it.

    begin: called with each run before it is entered.
    """
    world.prompt = prompts_of(past)
    answers = answers_left(world.scene, past)
    runs = len(past)

    async def enter(run: Any, late: bool = False) -> None:
        world.run = run
        if begin is not None:
            begin(run)
        if late:
            await says(world)
        async with run:
            await run.wait()

    if session.interrupted:
        await enter(session.start_resumed(), take_up(world, past))
    while True:
        runs += 1
        run_id = f"run_{session.id}_{runs}"
        if session.questions:
            question = session.questions[0]
            await enter(session.start_answer(question.call_id, answer_to(question.text, answers), run_id=run_id))
        elif not world.no_prompt_left:
            world.prompt += 1
            await enter(session.start(PROMPTS[world.prompt - 1], run_id=run_id))
        else:
            return


async def play_in(service: Service, name: str, world: World, past: Sequence[RecordedRun] = ()) -> None:
    """The same in a service. A session with a past was interrupted in it."""
    world.say = lambda text: service.send_message(name, text)
    world.cancel = lambda: service.cancel(name)
    world.prompt = prompts_of(past)
    answers = answers_left(world.scene, past)
    if past:
        take_up(world, past)
        session = await service.resume(name)
    else:
        world.prompt = 1
        session = await service.start(PROMPTS[0], agent=name, session_id=name)
    while True:
        await service.outcome(session.run_id or "", wait=30)
        session = await service.session_at_rest(name)
        if session.status == "awaiting_input":
            question = session.questions[0]
            session = await service.answer(name, answer_to(question.text, answers), call_id=question.call_id)
        elif not world.no_prompt_left:
            world.prompt += 1
            session = await service.start_run(name, PROMPTS[world.prompt - 1])
        else:
            return


def prompts_of(past: Sequence[RecordedRun]) -> int:
    """How many prompts these runs answer."""
    return sum(run.started.prompt is not None for run in past)


def answers_left(scene: Scene, past: Sequence[RecordedRun]) -> dict[str, list[str]]:
    """What the user has not answered yet."""
    answers = {about: list(texts) for about, texts in scene.answers.items()}
    for run in past:
        for event in run.events:
            if isinstance(event, QuestionAnswered):
                answer_to(text_of(event.call_id, past), answers)
    return answers


def answer_to(question: str, answers: dict[str, list[str]]) -> str:
    """The user's next answer to this question."""
    return next((texts.pop(0) for about, texts in answers.items() if about in question), HELP)


def text_of(call_id: str, past: Sequence[RecordedRun]) -> str:
    """The question of this call."""
    return next(e.text for run in past for e in run.events if isinstance(e, QuestionAsked) and e.call_id == call_id)


def take_up(world: World, past: Sequence[RecordedRun]) -> bool:
    """Put back what was around the run when its process died; whether the user's message is still to be delivered.

    Others have spent what they had spent, and what the user had said is stored until it is part of the run.
    """
    if others_spend in happened(world.scene, past):
        others_spend(world)
    return may_be_undelivered(world.scene, past)


def may_be_undelivered(scene: Scene, past: Sequence[RecordedRun]) -> bool:
    """Whether the user had spoken, and the run does not know it yet."""
    heard = any(isinstance(e, MessageAdded) and e.text == scene.says for e in past[-1].events)
    return says in happened(scene, past) and not heard


def happened(scene: Scene, past: Sequence[RecordedRun]) -> list[Any]:
    """What happened during writing calls that had begun. That of reading calls happens again with them."""
    events = past[-1].events
    begun = {e.call_id for e in events if isinstance(e, ToolExecutionStarted)}
    made = [call for e in events if isinstance(e, ResponseFinished) for call in e.message.calls if call.name == "write"]
    told = [f"{call.name} {json.loads(call.arguments)['path']}" for call in made if call.id in begun]
    return [scene.during[about] for about in told if about in scene.during]
