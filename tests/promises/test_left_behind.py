"""Rows B3, B7 and a clause of F15: what does not end when it is told to is left behind, and named."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Hooks, Run, Runtime, Tool, read_record, tool
from endstop.decision import AnyChunk, FinishReport, Policy, TextDelta, WrongUse
from endstop.decision import events as ev
from endstop.hooks import Accept, ModelJudge
from endstop.providers import Provider, Request, Scripted, call
from endstop.replay import replay
from endstop.testing import FakeClock
from endstop.tools import loop_watchdog
from pydantic import BaseModel

from ..captured_logs import capture_logs

BOUND = 30
"""Seconds that nothing here takes; what is left behind would go on for ever."""
DONE = call("finish_task", summary="done", id="end")


class Stubborn:
    """Goes on whatever it is told, and lets the event loop turn. The test ends it."""

    def __init__(self) -> None:
        self.begun, self.over = asyncio.Event(), asyncio.Event()

    async def __call__(self, *given: Any) -> bool:
        self.begun.set()
        while not self.over.is_set():
            with suppress(asyncio.CancelledError):
                await self.over.wait()
        return True

    async def work(self) -> str:
        await self()
        return "late"


@pytest.fixture
async def stubborn() -> AsyncIterator[Stubborn]:
    made = Stubborn()
    yield made
    made.over.set()
    for _ in range(20):
        await asyncio.sleep(0)


def results(run: Run) -> dict[str, tuple[str, str]]:
    """Status and content of each call's result."""
    assert run.context is not None
    return {m.call_id: (m.status, m.content) for m in run.context.transcript.messages if hasattr(m, "call_id")}


@pytest.mark.parametrize("reads", [True, False])
async def test_B3_a_tool_that_swallows_the_cancel_is_left_behind_and_named(
    tmp_path: Path, stubborn: Stubborn, reads: bool
) -> None:
    path = tmp_path / "r.jsonl"
    stuck = Tool(stubborn.work, name="stuck", description="Stuck.", reads=reads)
    with capture_logs() as logs:
        async with Engine(Scripted([call("stuck", id="s")]), tools=[stuck]).start("go", record=path) as run:
            await asyncio.wait_for(stubborn.begun.wait(), BOUND)
            run.cancel()
            outcome = await asyncio.wait_for(run.wait(), BOUND)
    assert outcome.status == "cancelled"
    (line,) = [line for line in logs if "left behind" in line["event"]]
    assert (line["event"].split()[0], line["call_id"], line["run_id"]) == ("stuck", "s", run.id)
    events = read_record(path).runs[0].events
    (result,) = [event for event in events if isinstance(event, ev.ToolCallResult)]
    assert (result.status, "left behind" in result.content) == ("cancelled", True)
    assert isinstance(events[-1], ev.RunFinished)
    assert (await replay(path)).same


@pytest.mark.parametrize("reads", [True, False])
async def test_B3_a_tool_that_swallows_its_timeout_is_left_behind_and_the_run_goes_on(
    stubborn: Stubborn, reads: bool
) -> None:
    stuck = Tool(stubborn.work, name="stuck", description="Stuck.", reads=reads, timeout=0.01)
    with capture_logs() as logs:
        async with Engine(Scripted([call("stuck", id="s")], [DONE]), tools=[stuck]).start("go") as run:
            outcome = await asyncio.wait_for(run.wait(), BOUND)
    assert outcome.status == "completed"
    status, content = results(run)["s"]
    assert (status, "stopped after 0.01 seconds" in content, "left behind" in content) == ("error", True, True)
    assert [line["event"].split()[0] for line in logs] == ["stuck"]


async def test_B3_a_thread_that_goes_on_after_its_timeout_is_named() -> None:
    begun, over, clock = threading.Event(), threading.Event(), FakeClock()

    def wait() -> None:
        begun.set()
        over.wait(BOUND)

    slow = Tool(wait, name="slow", description="Slow.", timeout=5)
    engine = Engine(Scripted([call("slow", id="s")], [DONE]), tools=[slow], runtime=Runtime(clock=clock))
    with capture_logs() as logs:
        async with engine.start("go") as run:
            while not begun.is_set():
                await asyncio.sleep(0)
            await clock.advance(6)
            outcome = await asyncio.wait_for(run.wait(), BOUND)
    over.set()
    assert outcome.status == "completed"
    assert "left behind" in results(run)["s"][1]
    assert [line["event"].split()[0] for line in logs] == ["slow"]


@pytest.mark.parametrize("role", ["gates", "judge", "text_rule", "prompt_handlers", "evaluate"])
async def test_B3_no_function_of_a_users_keeps_a_cancelled_run(stubborn: Stubborn, role: str) -> None:
    function: Any = [stubborn] if role in ("gates", "prompt_handlers") else stubborn
    script = [[call("finish_task", summary="done", completion_percentage=0)]] if role == "judge" else [DONE]
    work = Tool(lambda: "done", name="work", description="Work.")
    if role == "judge":
        script = [[call("work")]]
    engine = Engine(Scripted(*script), tools=[work], policy=Policy(max_inner_steps=1), hooks=Hooks(**{role: function}))
    with capture_logs() as logs:
        async with engine.start("go") as run:
            await asyncio.wait_for(stubborn.begun.wait(), BOUND)
            run.cancel()
            await asyncio.wait_for(run.wait(), BOUND)
    assert run.outcome.status == ("completed" if role == "evaluate" else "cancelled")
    assert any("left behind" in line["event"] and line.get("run_id") == run.id for line in logs)


async def test_B3_a_tool_that_ends_in_time_is_neither_left_behind_nor_named() -> None:
    tidied: list[str] = []

    @tool
    async def tidy() -> str:
        """Tidy up when it is cancelled."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tidied.append("up")
        return ""

    begun = asyncio.Event()
    with capture_logs() as logs:
        async with Engine(Scripted([call("tidy", id="t")]), tools=[tidy]).start("go") as run:
            await asyncio.wait_for(begun.wait(), BOUND)
            run.cancel()
            await asyncio.wait_for(run.wait(), BOUND)
    assert (tidied, logs) == (["up"], [])
    assert results(run)["t"] == ("cancelled", "Cancelled while it was running or waiting to run.")


async def test_B3_a_tool_that_blocks_the_event_loop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    named = threading.Event()
    lines: list[tuple[str, dict[str, object]]] = []

    def log_warning(what: str, **about: object) -> None:
        lines.append((what, about))
        named.set()

    monkeypatch.setattr(loop_watchdog, "log_warning", log_warning)
    monkeypatch.setattr(loop_watchdog, "BLOCKED_SECONDS", 0.01)

    @tool
    async def block() -> str:
        """Block."""
        assert named.wait(BOUND), "nobody named it"
        return "at last"

    async with Engine(Scripted([call("block", id="b")], [DONE]), tools=[block]).start("go") as run:
        await run.wait()
    assert results(run)["b"] == ("ok", "at last")
    what, about = lines[0]
    assert (what.split()[0], about["call_id"], about["run_id"]) == ("block", "b", run.id)


# ---- results without an end


@dataclass
class Rows:
    rows: Any


class Model(BaseModel):
    rows: Any


ENDLESS: dict[str, Callable[[], Any]] = {
    "count": itertools.count,
    "generator": lambda: (n for n in itertools.count()),
    "cycle of texts": lambda: itertools.cycle(["x" * 1000]),
    "in a mapping": lambda: {"rows": itertools.count(), "name": "rows"},
    "in a list of mappings": lambda: [{"rows": {"all": itertools.repeat("row")}}],
    "in a dataclass": lambda: Rows(itertools.count()),
    "in a model": lambda: Model(rows=itertools.count()),
    "of endless ones": lambda: (itertools.count() for _ in itertools.count()),
}


@pytest.mark.parametrize("what", ENDLESS)
@pytest.mark.parametrize("is_async", [True, False])
async def test_B3_an_endless_iterator_as_a_result_is_read_so_far_and_no_further(what: str, is_async: bool) -> None:
    async def later() -> Any:
        return ENDLESS[what]()

    rows = Tool(later if is_async else ENDLESS[what], name="rows", description="Rows.")
    async with Engine(Scripted([call("rows", id="r")], [DONE]), tools=[rows]).start("go") as run:
        outcome = await asyncio.wait_for(run.wait(), BOUND)
    assert outcome.status == "completed"
    status, content = results(run)["r"]
    assert (status, len(content) <= 100_000, "not read any further" in content) == ("ok", True, True)


async def test_B3_an_iterator_that_never_gives_anything_ends_with_the_tools_timeout() -> None:
    over = threading.Event()

    def nothing() -> Iterator[int]:
        over.wait(BOUND)
        yield 1

    rows = Tool(lambda: nothing(), name="rows", description="Rows.", timeout=0.01)
    async with Engine(Scripted([call("rows", id="r")], [DONE]), tools=[rows]).start("go") as run:
        outcome = await asyncio.wait_for(run.wait(), BOUND)
    over.set()
    assert outcome.status == "completed"
    assert results(run)["r"][0] == "error"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (lambda: iter([1, 2]), "[1,2]"),
        (lambda: {"a": map(str, [1])}, '{"a":["1"]}'),
        (lambda: Rows(iter("ab")), '{"rows":["a","b"]}'),
        (lambda: Model(rows=iter("ab")), '{"rows":["a","b"]}'),
        (lambda: [iter(()), 1], "[[],1]"),
    ],
)
async def test_B3_an_iterator_with_an_end_is_a_list(value: Callable[[], Any], read: str) -> None:
    rows = Tool(value, name="rows", description="Rows.")
    async with Engine(Scripted([call("rows", id="r")], [DONE]), tools=[rows]).start("go") as run:
        await asyncio.wait_for(run.wait(), BOUND)
    assert results(run)["r"] == ("ok", read)


# ---- B7


async def iterate(run: Run) -> None:
    async for _ in run:
        pass


async def read(run: Run) -> None:
    run.events(after=3)


@pytest.mark.parametrize("use", [Run.wait, iterate, read])
async def test_B7_a_run_that_nobody_entered_says_at_once_what_to_write(use: Callable[[Run], Any]) -> None:
    run = Engine(Scripted([DONE])).start("go")
    with pytest.raises(WrongUse, match=r"async with engine\.start\(prompt\) as run:"):
        await asyncio.wait_for(use(run), BOUND)
    async with run:  # it can still be entered
        assert (await run.wait()).status == "completed"


# ---- F15: nobody waits for a close


class NeverCloses:
    """A provider of which one part or the other never closes."""

    model = "never closes"

    def __init__(self, *, stream: bool, itself: bool, says: list[AnyChunk]) -> None:
        self.over = asyncio.Event()
        self._stream, self._itself, self._says = stream, itself, says

    async def __aenter__(self) -> NeverCloses:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._itself:
            await Stubborn.__call__(self)  # type: ignore[arg-type]

    begun = asyncio.Event()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        chunks = self._play()
        try:
            yield chunks
        finally:
            if self._stream:
                await Stubborn.__call__(self)  # type: ignore[arg-type]

    async def _play(self) -> Any:
        for chunk in self._says:
            yield chunk
        yield FinishReport("stop", "stop")


@pytest.mark.parametrize("part", ["stream", "itself"])
@pytest.mark.parametrize("says", ["text", "completion"])
async def test_F15_the_outcome_does_not_wait_for_a_close(part: str, says: str) -> None:
    chunks: list[AnyChunk] = [TextDelta("done")] if says == "text" else DONE
    provider = NeverCloses(stream=part == "stream", itself=part == "itself", says=chunks)
    with capture_logs() as logs:
        outcome = await asyncio.wait_for(Engine(provider).run("go"), BOUND)
    provider.over.set()
    assert (outcome.status, outcome.answer) == ("completed", "done")
    assert any("never closes" in str(line.values()) for line in logs)


async def test_F15_a_cancelled_run_does_not_wait_for_a_close() -> None:
    waits = asyncio.Event()
    provider = NeverCloses(stream=True, itself=True, says=[TextDelta("a")])

    async def wait(*given: Any) -> Accept:
        waits.set()
        await asyncio.Event().wait()
        return Accept()

    async with Engine(provider, hooks=Hooks(gates=[wait])).start("go") as run:
        await asyncio.wait_for(waits.wait(), BOUND)
        run.cancel()
        outcome = await asyncio.wait_for(run.wait(), BOUND)
    provider.over.set()
    assert outcome.status == "cancelled"


async def test_F15_a_judge_whose_stream_never_closes_has_its_say() -> None:
    judging = NeverCloses(stream=True, itself=False, says=[TextDelta("YES")])
    work = Tool(lambda: "done", name="work", description="Work.")
    provider: Provider = Scripted([call("work")], "never asked for")
    engine = Engine(provider, tools=[work], hooks=Hooks(judge=ModelJudge(judging)), policy=Policy(max_inner_steps=1))
    outcome = await asyncio.wait_for(engine.run("go"), BOUND)
    judging.over.set()
    assert outcome.stop_reason == "judged"


def test_B3_the_process_ends_although_a_tool_was_left_behind() -> None:
    """asyncio's own end cancels it once more; what swallows that as well keeps the loop, as it would without us."""
    began = time.monotonic()

    async def program() -> str:
        @tool
        async def twice() -> str:
            """Swallow the first cancel."""
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.Event().wait()
            return ""

        async with Engine(Scripted([call("twice", id="t")]), tools=[twice]).start("go") as run:
            while not run.facts.calls:
                await asyncio.sleep(0)
            run.cancel()
            return (await run.wait()).status

    assert asyncio.run(program()) == "cancelled"
    assert time.monotonic() - began < BOUND
