"""The public API as a strict user writes it. Never run: `test_exports` lets mypy read it, `make pyright` pyright."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, assert_type

from endstop import (
    Anthropic,
    Approve,
    Bus,
    Completion,
    Continue,
    Deny,
    Engine,
    Fleet,
    Gemini,
    Hooks,
    Image,
    Lagged,
    Observers,
    OpenAIResponses,
    Progress,
    ProgressUpdate,
    RaceResult,
    RecordOptions,
    Redaction,
    Run,
    Session,
    SessionRecord,
    Stdio,
    Summary,
    Task,
    TaskResult,
    Tool,
    mcp_tools,
    read_record,
    tool,
)
from endstop.decision import (
    POLICIES,
    RULES,
    STATUS_OF,
    AnyChunk,
    CutSavings,
    Decision,
    Event,
    Facts,
    FinishReport,
    GoOn,
    Limits,
    Message,
    Outcome,
    Pause,
    Policy,
    Rule,
    Status,
    Stop,
    SubagentUse,
    TextDelta,
    Usage,
    decide,
    fold,
    policy_from,
)
from endstop.decision.events import RunFinished
from endstop.observers import progress, traced
from endstop.providers import KINDS, OpenAICompatible, Provider, ProviderError, Record, Request, Scripted, call, say
from endstop.tools import ask_user, finish_task, think


@tool
async def read_file(path: str) -> str:
    """Read a text file."""
    return path


@tool(kind="completion")
def submit(report: str) -> Completion | Continue:
    """Hand in the report."""
    return Completion(answer=report)


assert_type(submit("Done."), Completion | Continue)
tools: list[Tool] = [read_file, submit, finish_task]


@tool(reads=True)
async def index(folder: str) -> AsyncIterator[ProgressUpdate | str]:
    """Index a folder."""
    yield ProgressUpdate("half", progress=1, total=2)
    yield folder


def shorter(messages: Sequence[Message], run: Progress[None]) -> list[Message]:
    """Keep the latest exchange."""
    return list(messages[-2:])


# ---- a policy, and rules of one's own


def _never(facts: Facts, policy: Policy) -> Decision | None:
    return Stop(rule="never", reason="custom:never", status="exhausted") if facts.steps > 3 else None


policy = Policy(limits=Limits(steps=30), guards=("invalid_calls", "never"))
never = Rule("guard", "never", "Stops after three steps.", ("steps",), _never)
assert_type(policy.limits.hard_steps, int)
assert_type(policy.replace(limits=policy.limits.replace(steps=50)), Policy)
assert_type(policy.limits.replace(steps=50), Limits)
assert_type(policy_from({"base": "strict"}), Policy)
assert_type(POLICIES["chat"], Policy)
assert_type(RULES, tuple[Rule, ...])
assert_type(STATUS_OF["completed"], Status)


# ---- a provider of one's own


class Echo:
    """A provider that says what it was told."""

    model = "echo"

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[AnyChunk], None]:
        """Say the last message's number."""
        yield self._chunks(len(request.messages))

    async def _chunks(self, number: int) -> AsyncIterator[AnyChunk]:
        yield TextDelta(str(number))
        yield FinishReport("stop")


echo: Provider = Echo()
stream: AbstractAsyncContextManager[AsyncIterator[AnyChunk]] = echo.stream(Request(messages=()))
assert_type(KINDS["auth"], type[ProviderError])


# ---- running it


def on_event(event: Event | Lagged, run: Run) -> None:
    """Note an event."""


async def on_completed(outcome: Outcome) -> None:
    """Note an outcome."""


async def main() -> None:
    """Every way to run."""
    assert_type(await read_file("a.txt"), str)
    assert_type((await Engine(echo).run("a")).to_dict(), dict[str, Any])
    provider = Scripted([say("I read it."), call("read_file", path="a.txt")], "done")
    engine = Engine(
        provider,
        tools=[read_file, submit, think, ask_user],
        policy=policy,
        hooks=Hooks(rules=[never], compactor=shorter),
        observers=Observers(subscribers=[on_event], on_completed=on_completed),
    )
    assert_type(await engine.run("Set the port to 8080"), Outcome)

    async with engine.start("Set the port to 8080", record="run.jsonl", drain=True) as run:
        async for event in run:
            assert_type(event, Event | Lagged)
            if isinstance(event, RunFinished):
                assert_type(event.outcome.usage, Usage)
        async for piece in run.text():
            assert_type(piece, str)
        assert_type(run.outcome.status, Status)
        assert_type(run.bus, Bus)
        run.cancel("timeout")

    session = engine.session("s", busy="queue")
    assert_type(session, Session)
    paused = await session.run("hello")
    for question in paused.questions:
        assert_type(await session.answer(question.call_id, "yes"), Outcome)
        assert_type(question.extends, int)
        assert_type(await session.extend(20, question.call_id), Outcome)
        assert_type(
            await session.answer(question.call_id, ["this one", Image(url="https://example.com/a.png")]), Outcome
        )

    def search(topic: str) -> str:
        return f"Find {topic}."

    helper = engine.as_tool("helper", "Helps.", prompt=search, timeout=60, approval=True)
    assert_type(helper, Tool)
    async with Engine(echo, tools=[helper]).start("go") as whole:
        async for of, one in whole.tree_events():
            assert_type(one, Event | Lagged)
            assert_type(of.finished, bool)
        assert_type(whole.outcome.subagents, SubagentUse | None)
        assert_type(whole.outcome.saved, CutSavings | None)

    async with engine.run_many(["a", Task("b", id="b", provider=echo)], providers=[echo], limit=5) as fleet:
        assert_type(fleet, Fleet)
        with progress(fleet):
            async for result in fleet:
                assert_type(result, TaskResult)
                assert_type(result.outcome, Outcome)
        assert_type(fleet.outcomes, tuple[Outcome, ...])
        assert_type(await fleet.wait(), Summary)
    race = await engine.with_provider(echo).race("a", [echo, echo], compare=True)
    assert_type(race, RaceResult)
    assert_type(race.winner, TaskResult | None)

    assert_type(read_record("run.jsonl"), SessionRecord)
    Hooks(compactor=echo)
    async with Engine(Record(echo, lambda exchange: None), tools=[index]):
        pass
    Engine(OpenAICompatible("model", api_base="http://127.0.0.1:8000/v1"))


def read(facts: Facts, event: Event) -> str:
    """Decisions and events are closed unions: this match needs no last resort."""
    match decide(fold(facts, event), policy):
        case GoOn(why=why):
            return why
        case Pause(questions=questions):
            return ", ".join(questions)
        case Stop(reason=reason):
            return reason


def redacting(provider: Provider) -> None:
    """A ready-made redaction, and a function in its place."""
    Engine(
        provider, record_options=RecordOptions(redact=Redaction(words=["Jane Doe"], patterns={"ticket": "T-[0-9]+"}))
    )
    Engine(provider, record_options=RecordOptions(redact=lambda text: text.replace("secret", "***"), attach_above=None))
    assert_type(Redaction()("text"), str)


@asynccontextmanager
async def announced(run: Run) -> AsyncGenerator[None, None]:
    """What goes on around a run."""
    print("begins", run.id)
    yield


async def extended(provider: Provider) -> None:
    """An engine that is traced, with the tools of MCP servers."""
    async with (
        mcp_tools(Stdio("python", "server.py"), kinds={"submit": "completion"}) as ours,
        mcp_tools("http://127.0.0.1:9000/mcp", headers={"x": "y"}, prefix="http_", timeout=None) as theirs,
    ):
        assert_type(ours, list[Tool])
        engine = Engine(provider, tools=[*ours, *theirs], observers=Observers(middleware=[announced]))
        assert_type(traced(engine, agent_name="porter", content=True), Engine)
        assert_type(engine.with_middleware(announced), Engine)


@tool(approval=True)
async def delete(path: str) -> str:
    "Delete a folder."
    return path


@tool(approval=lambda arguments: bool(arguments["amount"] > 100))
def pay(amount: int) -> str:
    "Pay."
    return str(amount)


def at_once(provider: Provider) -> None:
    """A program without `async`, and a session that goes on in its file."""
    engine = Engine(provider, tools=[pay])
    assert_type(engine.run_sync("Pay.", record="r.jsonl"), Outcome)
    assert_type(engine.resume("r.jsonl", busy="queue", drain=True), Session)
    Scripted(call("delete", {"id": "42"}, id="c1"), call("delete", path="a"))
    Engine(Anthropic("claude-sonnet-4-5"))
    Engine(Gemini("gemini-2.5-pro"))
    Engine(OpenAIResponses("gpt-5"))


async def approvals(provider: Provider) -> None:
    """Calls that wait for the user."""
    session = Engine(provider, tools=[delete, pay]).session(record="r.jsonl")
    paused = await session.run("Tidy up")
    for question in paused.questions:
        assert_type(question.tool, str | None)
        assert_type(question.arguments, dict[str, Any] | None)
    assert_type(await session.approve("c1", {"path": "a"}), Outcome[Any])
    assert_type((await session.deny("c2", "no")).status, Status)
    async with session.start_answers({"c3": Approve(), "c4": Deny("no"), "q": "text"}) as run:
        await run.wait()
