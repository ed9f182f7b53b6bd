"""Each check of the kit finds the defect that it is for: the mend is taken out, and it reports just this."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Engine, Observers, Run, Runtime, Subscriber, Tool, WrongUse
from endstop.cancel_scope import RoundScope
from endstop.decision import AnyChunk, FinishReport, Limits, Policy, TextDelta
from endstop.decision.policy import Degeneration
from endstop.hard_limits import NO_DEADLINE, HardLimits
from endstop.providers import OpenAICompatible, Provider, Request, Scripted, SystemClock, call
from endstop.providers.http_provider import HTTPProvider
from endstop.providers.timeouts import Watchdog
from endstop.records.files import line_batches
from endstop.records.recorder import RecordWriter
from endstop.testing import LoopClock
from endstop.testing.faults import (
    FaultReport,
    SideEffects,
    by_step,
    check_cancel_points,
    check_cut_records,
    check_hostile_subscribers,
    check_hostile_tools,
    check_leaks,
    check_store,
)

Taken = tuple[Any, str, Any]
"""An object or module, the name of its function that carries a mend, and what stands in its place without it."""
DONE = call("finish_task", summary="done", id="z")


def broken(report: FaultReport) -> set[str]:
    return {violation.invariant for violation in report.violations}


def check(make: Callable[[], FaultReport], taken: list[Taken], invariants: set[str]) -> None:
    """With the mend nothing is broken; without it these invariants are, and no other."""
    report = make()
    assert report.ok, report
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, instead in taken:
            patch.setattr(owner, name, instead) if owner else patch.setattr(name, instead)
        report = make()
    assert broken(report) == invariants, report


async def _work(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "worked"


WORK = Tool(_work, name="work", description="Work.", timeout=None)


def of_engine(make_engine: Callable[[], Engine], **options: Any) -> Callable[[], FaultReport]:
    return lambda: check_cancel_points(lambda record: make_engine().start("go", record=record), **options)


# ---- B1


async def _no_checkpoint(self: RoundScope) -> None:
    pass


def test_B1_a_step_that_begins_after_the_cancel_is_found() -> None:
    def engine() -> Engine:
        return Engine(Scripted([call("work", seconds=5, id="a")], [DONE]), tools=[WORK])

    check(of_engine(engine, ways=["run"]), [(RoundScope, "checkpoint", _no_checkpoint)], {"nothing_after_cancel"})


# ---- B2


class Drips:
    """A response of 2,000 words, one every 20 milliseconds; or as one burst."""

    model = "drips"

    def __init__(self, every: float = 0.02) -> None:
        self._every = every

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        yield self._play()

    async def _play(self) -> AsyncIterator[AnyChunk]:
        for _ in range(200):
            if self._every:
                await asyncio.sleep(10 * self._every)
            yield TextDelta("word " * 10)
        yield FinishReport("stop", "stop")


def limited(make_provider: Callable[[], Provider], **limits: Any) -> Callable[[], FaultReport]:
    """The run has these limits, and its clock is that of the simulated loop."""
    policy = Policy(limits=Limits(**limits), closing=False)
    runtime = Runtime(clock=LoopClock())
    return of_engine(lambda: Engine(make_provider(), tools=[WORK], policy=policy, runtime=runtime), points=2)


def slow_tool() -> Provider:
    return Scripted([call("work", seconds=8, id="a")], [DONE])


NO_TIME_IN_TOOLS = (HardLimits, "deadline", lambda self: NO_DEADLINE)
NO_TIME_IN_STREAMS = (HardLimits, "milliseconds_due", lambda self: inf)


@pytest.mark.parametrize(
    ("provider", "limits", "taken"),
    [
        (slow_tool, {"seconds": 1}, [NO_TIME_IN_TOOLS]),
        (Drips, {"seconds": 1}, [NO_TIME_IN_TOOLS, NO_TIME_IN_STREAMS]),
        (Drips, {"output_tokens": 50}, [(HardLimits, "response_limits", lambda self: ())]),
        (lambda: Drips(every=0), {"output_tokens": 50}, [(HardLimits, "response_limits", lambda self: ())]),
    ],
    ids=["seconds in a tool", "seconds in a response", "tokens in a response", "tokens in a burst"],
)
def test_B2_what_goes_on_past_a_hard_limit_is_found(provider: Any, limits: dict[str, Any], taken: list[Taken]) -> None:
    check(limited(provider, **limits), taken, {"within_limits"})


def test_B2_a_limit_on_time_without_the_loops_clock_is_not_said_to_be_broken() -> None:
    """Simulated seconds pass in no time on the system's clock: nothing can be said of the limit."""
    policy = Policy(limits=Limits(seconds=10), closing=False)
    script = [[call("work", seconds=8, id=str(n))] for n in range(3)]
    report = of_engine(lambda: Engine(Scripted(*script, [DONE]), tools=[WORK], policy=policy), points=1)()
    assert report.ok, report


# ---- B3


def hostile_tool(*only: str, points: int = 2) -> Callable[[], FaultReport]:
    def make(record: Path, tool: Tool) -> Run:
        return Engine(Scripted([call("hostile", id="a")], [DONE]), tools=[tool]).start("go", record=record)

    return lambda: check_hostile_tools(make, only=only, points=points, size=1_000_000)


async def _wait_on(task: asyncio.Task[Any], seconds: float) -> None:
    """Wait for a task however long it takes, and whoever is cancelled."""
    with anyio.CancelScope(shield=True):
        await asyncio.wait([task])


async def _just_call(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    value = function(*arguments, **named)
    return await value if inspect.isawaitable(value) else value


async def _just_await(work: Any, *about: Any, **fields: Any) -> Any:
    return await work


def _first_argument(error: BaseException) -> str:
    return str(error.args[0]).encode().decode()


def _first_line(error: BaseException) -> str:
    if isinstance(error, ExceptionGroup):
        raise TypeError("what is the text of a group?")
    return str(error)


JUST_CALL = ("", "endstop.tools.tool.call_user_function", _just_call)
TEXT_OF_ERRORS = ("", "endstop.tool_execution.describe_error")


@pytest.mark.parametrize(
    ("hostile", "taken", "invariants"),
    [
        ("swallows_cancellation", [("", "endstop.tools.user_functions.wait_shielded", _wait_on)], {"ends"}),
        ("never_ends", [(SystemClock, "deadline", lambda self, seconds: anyio.CancelScope())], {"ends"}),
        ("returns_endless", [("", "endstop.tools.tool.consume_iterators", list)], {"bounded"}),
        ("raises_control_characters", [(*TEXT_OF_ERRORS, _first_argument)], {"no_crash"}),
        ("raises_unprintable", [(*TEXT_OF_ERRORS, str)], {"no_crash"}),
        ("raises_group", [(*TEXT_OF_ERRORS, _first_line)], {"no_crash"}),
        ("raises_stop_iteration", [(*TEXT_OF_ERRORS, _first_argument)], {"no_crash"}),
        (
            "raises_cancelled",
            [JUST_CALL, ("", "endstop.tool_execution.run_in_own_task", _just_await)],
            {"not_cancelled", "passed_on"},
        ),
        ("raises_generator_exit", [JUST_CALL], {"no_crash", "passed_on"}),
        ("raises_keyboard_interrupt", [JUST_CALL], {"no_crash", "passed_on"}),
        ("raises_exit", [JUST_CALL], {"no_crash", "passed_on"}),
    ],
)
def test_B3_a_tool_that_the_engine_does_not_stand_is_found(
    hostile: str, taken: list[Taken], invariants: set[str]
) -> None:
    check(hostile_tool(hostile), taken, invariants)


class Impatient:
    """Takes an event loop that was blocked for a dead connection. patience: real seconds."""

    model = "impatient"

    def __init__(self, patience: float, *script: Any) -> None:
        self._patience, self._began = patience, time.monotonic()
        self._inner = Scripted(*script)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        if time.monotonic() - self._began > self._patience:
            raise ValueError("the connection is dead")
        async with self._inner.stream(request) as chunks:
            yield chunks


def test_a_provider_that_does_not_stand_a_blocked_event_loop_is_found() -> None:
    """There is no mend of the engine's to take out: what a function blocks, it blocks."""

    def tools(patience: float) -> FaultReport:
        def make(record: Path, tool: Tool) -> Run:
            provider = Impatient(patience, [call("hostile", id="a")], [DONE])
            return Engine(provider, tools=[tool]).start("go", record=record)

        return check_hostile_tools(make, only=["blocks_loop"], points=1, ways=["run"], blocks=0.2)

    def subscribers(patience: float) -> FaultReport:
        def make(record: Path, subscriber: Subscriber) -> Run:
            provider = Impatient(patience, [call("work", seconds=1, id="a")], [DONE])
            watching = Observers(subscribers=[subscriber])
            return Engine(provider, tools=[WORK], observers=watching).start("go", record=record)

        return check_hostile_subscribers(make, only=["blocks_loop"], points=1, ways=["run"], blocks=0.1)

    for report in (tools, subscribers):
        assert report(60).ok
        assert broken(report(0.1)) == {"no_crash"}


# ---- subscribers


def hostile_subscriber(only: str) -> Callable[[], FaultReport]:
    def make(record: Path, subscriber: Subscriber) -> Run:
        script = Scripted([call("work", seconds=1, id="a")], [DONE])
        watching = Observers(subscribers=[subscriber])
        return Engine(script, tools=[WORK], observers=watching).start("go", record=record)

    return lambda: check_hostile_subscribers(make, only=[only], points=2)


async def _wait_for_subscribers(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


async def _deliver(subscribers: Any, run: Run) -> None:
    async for event in run:
        for subscriber in subscribers:
            await subscriber(event, run)


@asynccontextmanager
async def _in_the_runs_task_group(subscribers: Any, run: Run) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        group.create_task(_deliver(subscribers, run))
        yield


@asynccontextmanager
async def _and_awaits_them(subscribers: Any, run: Run) -> AsyncIterator[None]:
    delivered = asyncio.create_task(_deliver(subscribers, run))
    yield
    await delivered


NO_BOUND = ("", "endstop.subscribers._let_catch_up", _wait_for_subscribers)
TOGETHER = ("", "endstop.session.notify_subscribers", _in_the_runs_task_group)


@pytest.mark.parametrize(
    ("hostile", "taken", "invariants"),
    [
        ("swallows_cancellation", NO_BOUND, {"ends"}),
        ("never_ends", NO_BOUND, {"ends"}),
        ("raises_control_characters", TOGETHER, {"not_cancelled"}),
        ("raises_unprintable", TOGETHER, {"not_cancelled"}),
        ("raises_group", TOGETHER, {"not_cancelled"}),
        ("raises_stop_iteration", TOGETHER, {"not_cancelled"}),
        ("raises_cancelled", ("", "endstop.session.notify_subscribers", _and_awaits_them), {"passed_on"}),
    ],
)
def test_a_subscriber_that_the_engine_does_not_stand_is_found(hostile: str, taken: Taken, invariants: set[str]) -> None:
    check(hostile_subscriber(hostile), [taken], invariants)


# ---- B7


def test_B7_a_run_that_nobody_entered_and_that_would_hang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def make_run(record: Path) -> AsyncIterator[Run]:
        run = Engine(Scripted([DONE])).start("go", record=record)
        async for _ in run:  # as in a program that forgot `async with`
            pass
        yield run

    with pytest.raises(WrongUse, match="has not begun"):
        check_cancel_points(make_run)
    monkeypatch.setattr(Run, "_entered", lambda self, to: self._task)
    assert broken(check_cancel_points(make_run)) == {"ends"}


# ---- a cut record


def test_a_resume_that_changes_what_stood_in_the_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def make_engine(effects: SideEffects) -> Engine:
        async def put(n: int) -> str:
            effects.add(f"put {n}")
            return "put"

        script = by_step([call("put", n=1, id="a")], [call("put", n=2, id="b")], [DONE])
        return Engine(Scripted(script), tools=[Tool(put, description="Put it down.")])

    open_for_appending = RecordWriter._open

    def rewrites(self: RecordWriter) -> Any:
        if self.path.exists():
            self.path.write_bytes(self.path.read_bytes().replace(b"Put it down.", b"Put it there"))
        return open_for_appending(self)

    assert check_cut_records(make_engine, at="lines").ok
    monkeypatch.setattr(RecordWriter, "_open", rewrites)
    assert broken(check_cut_records(make_engine, at="lines")) == {"keeps_record"}


# ---- B4, B5, B6: an endpoint on loopback, whose time is simulated, too

OFF = Degeneration(text=None, reasoning=None, arguments=None)

Serve = Callable[[asyncio.StreamWriter], Any]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"


async def comments(writer: asyncio.StreamWriter) -> None:
    """Comments, and nothing else, for ever."""
    writer.write(HEAD + b"\r\n")
    while True:
        writer.write(b": ping\n\n")
        await writer.drain()
        await asyncio.sleep(1)


async def redirect(writer: asyncio.StreamWriter) -> None:
    """A redirect to the same host."""
    writer.write(b"HTTP/1.1 307 X\r\nlocation: /again\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")


async def gzip_bomb(writer: asyncio.StreamWriter) -> None:
    """A few kilobytes that are a response of five megabytes."""
    said = [{"index": 0, "delta": {"content": "A" * 5_000_000}}]
    end = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    chunks = "".join(f"data: {json.dumps({'choices': choices})}\n\n" for choices in (said, end))
    writer.write(HEAD + b"content-encoding: gzip\r\n\r\n" + gzip.compress(f"{chunks}data: [DONE]\n\n".encode()))


def over_http(serve: Serve) -> Callable[[], FaultReport]:
    """A run whose provider asks an endpoint that does this."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
            await serve(writer)
            await writer.drain()
        writer.close()

    @asynccontextmanager
    async def make_run(record: Path) -> AsyncIterator[Run]:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            provider = OpenAICompatible("m", url, api_key="none", read_timeout=5, largest_response=1_000_000)
            async with Engine(provider, policy=Policy(closing=False, degeneration=OFF)).start(
                "go", record=record
            ) as run:
                yield run
        finally:
            server.close()

    return lambda: check_cancel_points(make_run, points=1, ways=["run"])


WAIT_FOR = Watchdog.wait_for


async def _for_each_byte(self: Watchdog, awaited: Any) -> Any:
    """Each wait has all the seconds, whatever the one before it brought."""
    try:
        return await WAIT_FOR(self, awaited)
    finally:
        self._left = self.seconds


async def _any_size(self: HTTPProvider, response: Any, watchdog: Watchdog, taken: int) -> bytes:
    return bytes(await watchdog.wait_for(response.content.readany()))


@pytest.mark.parametrize(
    ("serve", "taken", "invariant"),
    [
        (comments, (Watchdog, "wait_for", _for_each_byte), "ends"),
        (redirect, ("", "endstop.providers.http_provider.MOST_REDIRECTS", 10**9), "ends"),
        (gzip_bomb, (HTTPProvider, "_block", _any_size), "readable"),
    ],
)
def test_B4_B5_B6_an_endpoint_that_the_provider_does_not_stand_is_found(
    serve: Serve, taken: Taken, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("endstop.testing.faults.simulated_loop.MOST_TURNS", 1_000)
    monkeypatch.setattr("endstop.testing.faults.simulated_loop.OUTSIDE_SECONDS", 0.02)
    monkeypatch.setattr(line_batches, "__defaults__", (2_000_000,))  # a line of a record that is read at most, in bytes
    report = over_http(serve)()
    assert report.ok, report
    owner, name, instead = taken
    monkeypatch.setattr(owner, name, instead) if owner else monkeypatch.setattr(name, instead)
    report = over_http(serve)()
    assert report.violations[0].invariant == invariant, report


async def a_coroutine(record: Path) -> Run:
    return Engine(Scripted([DONE])).start("go", record=record)


async def two_arguments(provider: Provider, tool: Tool) -> Engine:
    return Engine(provider, tools=[tool])


def test_what_cannot_be_tried_is_told_with_what_to_write() -> None:
    with pytest.raises(WrongUse, match=r"make_run is an async function.*write `def make_run\("):
        check_cancel_points(a_coroutine)  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match=r"make_engine is an async function"):
        check_cut_records(a_coroutine)  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match=r"make_engine is an async function"):
        check_leaks(two_arguments)  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match=r"make_store is an async function"):
        check_store(a_coroutine)  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match=r"points is \[1000000\], but there are only the points 1 to"):
        check_cancel_points(lambda record: Engine(Scripted([DONE])).start("go", record=record), points=[1_000_000])
