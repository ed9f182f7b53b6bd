"""`check_cancel_points`: each of its checks is shown to fail, on a defect that is planted for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from endstop import Engine, Observers, Run, Tool, WrongUse
from endstop.cancel_scope import RoundScope
from endstop.providers import Request, Scripted, call
from endstop.testing.faults import INVARIANTS, FaultReport, check_cancel_points
from endstop.testing.faults.cancel_points import _name

DONE = call("finish_task", summary="done", id="z")


async def put() -> str:
    await asyncio.sleep(5)
    return "put"


def engine(work: Callable[[], Any] = put, provider: Any = None, **options: Any) -> Engine:
    """One call of a tool, and the end."""
    tool = Tool(work, name="put", description="Put.")
    return Engine(provider or Scripted([call("put", id="a")], [DONE]), tools=[tool], **options)


def tried(make: Callable[[], Engine], **options: Any) -> FaultReport:
    return check_cancel_points(lambda record: make().start("go", record=record), **options)


def broken(report: FaultReport) -> set[str]:
    """The invariants that did not hold. Each is told with how to repeat it."""
    assert not report.ok
    assert all(violation.repeat in str(report) and violation.seen for violation in report.violations)
    return {violation.invariant for violation in report.violations}


def test_an_agent_without_a_defect_breaks_nothing_and_makes_the_same_points_each_time() -> None:
    first, second = tried(engine, seed=1), tried(engine, seed=2)
    assert first.ok, first
    assert (first.tried, first.of, first.ends) == (second.tried, second.of, second.ends)
    assert first.tried == first.of > 50
    assert min(first.ends["cancelled"], first.ends["completed"]) > 10


def test_time_is_simulated() -> None:
    async def day() -> str:
        await asyncio.sleep(86_400)
        return "put"

    began = time.monotonic()
    assert tried(lambda: engine(day), points=3).ok
    assert time.monotonic() - began < 60


def test_what_has_nothing_to_do_holds_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for work, and a connection within the loop: thirty waits that are simulated all the same."""
    monkeypatch.setattr("endstop.testing.faults.simulated_loop.OUTSIDE_SECONDS", 10.0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1))
        await reader.read()
        writer.close()

    async def day() -> str:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            await asyncio.to_thread(int)
            await anyio.to_thread.run_sync(int)
            for _ in range(30):
                await asyncio.sleep(60)
            writer.write(b"x")
            return str(await reader.readexactly(1))
        finally:
            writer.close()
            server.close()

    without = Tool(day, name="put", description="Put.", timeout=None)
    began = time.monotonic()
    report = check_cancel_points(
        lambda record: Engine(Scripted([call("put", id="a")], [DONE]), tools=[without]).start("go", record=record),
        points=[1],
        ways=["run"],
    )
    assert report.ok, report
    assert time.monotonic() - began < 150


async def swallow(seconds: float) -> None:
    """Wait so long, whoever cancels it."""
    ends = asyncio.get_running_loop().time() + seconds
    while (left := ends - asyncio.get_running_loop().time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(left)


def test_a_tool_that_swallows_the_cancellation_is_found() -> None:
    async def stubborn() -> str:
        await swallow(100)
        return "put"

    report = tried(lambda: engine(stubborn), ways=["run"])
    assert broken(report) == {"nothing_left"}
    assert "task 'put'" in report.violations[0].seen
    again = tried(lambda: engine(stubborn), ways=["run"], points=[report.violations[0].point])
    assert again.violations == report.violations[:1], "what a violation says repeats it"


class Swallows:
    """A provider that goes on for a minute whatever it is told."""

    model = "swallows"

    def __init__(self) -> None:
        self._inner = Scripted([call("put", id="a")], [DONE])

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        async with self._inner.stream(request) as chunks:
            yield self._slow(chunks)

    async def _slow(self, chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
        await swallow(60)
        async for chunk in chunks:
            yield chunk


def test_a_provider_that_swallows_the_cancellation_is_found() -> None:
    report = tried(lambda: engine(provider=Swallows()))
    assert broken(report) == {"nothing_left"}
    assert "task 'stream of swallows'" in report.violations[0].seen


def test_a_run_that_takes_long_to_end_is_found() -> None:
    @asynccontextmanager
    async def slow(run: Run) -> AsyncIterator[None]:
        yield
        await asyncio.sleep(8)

    def make() -> Engine:
        return engine(observers=Observers(middleware=[slow]))

    assert tried(make, ways=["caller"]).ok
    assert broken(tried(make, ways=["caller"], within=5)) == {"ends"}


def test_a_subscriber_that_leaves_a_task_is_found() -> None:
    kept = []

    def leaves(event: object, run: Run) -> None:
        kept.append(asyncio.ensure_future(asyncio.sleep(86_400)))

    report = tried(lambda: engine(observers=Observers(subscribers=[leaves])))
    assert broken(report) == {"nothing_left"}
    assert (report.tried, report.violations[0].fault) == (0, "no cancel"), "it needs no cancel"


def test_a_thread_that_is_left_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endstop.testing.faults.simulated_loop.THREAD_SECONDS", 0.01)
    over = threading.Event()

    async def starts() -> str:
        threading.Thread(target=over.wait, name="left", daemon=True).start()
        return "put"

    try:
        report = tried(lambda: engine(starts))
    finally:
        over.set()
    assert broken(report) == {"nothing_left"}
    assert "thread 'left'" in report.violations[0].seen


@pytest.mark.parametrize("begun_before", [True, False])
def test_a_pool_of_the_whole_process_may_grow_and_one_that_the_run_began_is_left(
    monkeypatch: pytest.MonkeyPatch, begun_before: bool
) -> None:
    monkeypatch.setattr("endstop.testing.faults.simulated_loop.THREAD_SECONDS", 0.01)
    with ThreadPoolExecutor(2, thread_name_prefix="shared") as pool:
        if begun_before:
            pool.submit(int).result()
        both = threading.Barrier(2, timeout=60)

        async def share() -> str:
            loop = asyncio.get_running_loop()
            await asyncio.gather(*(loop.run_in_executor(pool, both.wait) for _ in range(2)))
            return "put"

        report = tried(lambda: engine(share), points=[1])
        assert {"shared_0", "shared_1"} <= {thread.name for thread in threading.enumerate()}
    assert report.ok is begun_before, report
    assert begun_before or broken(report) == {"nothing_left"}


def leaves_open(kept: list[Any], *, reads: bool) -> Callable[[], Any]:
    """A tool that connects to a server which is closed when the tool ends, and leaves the connection."""

    async def connect() -> str:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            kept.append(writer)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        if not reads:
            writer.transport.pause_reading()
        kept.append(writer)
        await asyncio.sleep(1)
        server.close()
        return "put"

    return connect


@pytest.mark.parametrize("reads", [True, False])
def test_a_connection_that_is_left_is_found(reads: bool) -> None:
    kept: list[Any] = []
    report = tried(lambda: engine(leaves_open(kept, reads=reads)))
    assert broken(report) == {"nothing_left"}
    assert "connection from ('127.0.0.1'" in report.violations[0].seen


def test_a_tool_that_waits_for_nothing_is_found() -> None:
    async def forever() -> str:
        await asyncio.Event().wait()
        return ""

    without = Tool(forever, name="put", description="Put.", timeout=None)
    report = tried(lambda: Engine(Scripted([call("put", id="a")], [DONE]), tools=[without]))
    assert broken(report) >= {"ends"}
    assert "nothing is left that could wake it up" in report.violations[0].seen


def test_an_exception_in_place_of_the_cancellation_is_found() -> None:
    @asynccontextmanager
    async def make_run(record: Path) -> AsyncIterator[Run]:
        async with engine().start("go", record=record) as run:
            try:
                yield run
            except asyncio.CancelledError:
                raise ValueError("lost") from None

    report = check_cancel_points(make_run, ways=["caller"])
    assert broken(report) == {"passed_on"}
    assert "ValueError: lost" in report.violations[0].seen


def test_a_defect_of_the_engine_is_found_a_run_whose_task_is_cancelled_before_its_first_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Run, "_not_begun", lambda self, task: None)
    report = tried(engine, ways=["task"])
    assert broken(report) == {"ends"}


def test_a_defect_of_the_engine_is_found_a_step_that_begins_after_the_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row B1 of the promises, with its mend taken out: the cancel is looked for only where something waits."""

    async def nothing(self: RoundScope) -> None:
        pass

    monkeypatch.setattr(RoundScope, "checkpoint", nothing)
    report = tried(engine, ways=["run"])
    print(report)
    assert not report.ok


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ways": "run"}, "give a list of some of run, caller, scope, task, shutdown"),
        ({"ways": ["nobody"]}, "give a list of some of"),
        ({"ways": []}, "give a list of some of"),
        ({"points": 0}, "give a number of points"),
        ({"points": True}, "give a number of points"),
        ({"points": "3"}, "whole numbers"),
        ({"points": [0]}, "whole numbers"),
        ({"seconds": 0}, "above 0"),
        ({"within": -1}, "0 or more"),
    ],
)
def test_arguments_that_cannot_work_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        tried(engine, **options)


def no_schema(what: threading.Thread) -> str:
    return ""


@pytest.mark.parametrize(
    ("make_run", "said"),
    [
        (lambda record: engine(), "make_run gave"),
        (lambda record: None, "make_run returned None, which is not a run"),
        (lambda record: Engine(7).start("go", record=record), "has no method `stream`"),
        (lambda record: Engine(object()).start("go", record=record), "has no method `stream`"),
        (lambda record: engine(no_schema).start("go", record=record), "no schema can be made"),
        (lambda record: engine().start("", record=record), "empty"),
    ],
)
def test_a_run_that_cannot_be_made_is_refused_and_is_no_violation(make_run: Any, said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        check_cancel_points(make_run)


async def test_inside_a_running_loop_it_says_what_to_write() -> None:
    with pytest.raises(WrongUse, match=r"asyncio\.to_thread\(check_cancel_points"):
        tried(engine)
    report = await asyncio.to_thread(tried, engine, points=1)
    assert report.ok, report


def test_a_time_bound_ends_it_early_and_the_report_says_so() -> None:
    report = tried(engine, seconds=1e-9)
    assert report.tried < report.of
    assert f"{report.tried} of {report.of}" in str(report)


def test_every_invariant_has_a_sentence() -> None:
    assert all(len(said) > 20 for said in INVARIANTS.values())


async def test_a_task_that_closes_a_generator_is_named_by_it() -> None:
    async def generator() -> AsyncIterator[int]:
        yield 1

    numbers = generator()
    await anext(numbers)
    task = asyncio.ensure_future(numbers.aclose())  # type: ignore[attr-defined]
    assert _name(task) == f"it closes {generator.__qualname__}"
    await task


def test_a_check_that_failed_raises_the_whole_report() -> None:
    report = FaultReport("check_policy", of=2, tried=2)
    report.check()
    report.add("broken", 1, [("not_repeated", "paid " + "twice " * 200)], "points=[1]")
    report.add("broken", 2, [("not_leaked", "a key")], "points=[2]")
    with pytest.raises(AssertionError) as raised:
        report.check()
    assert str(raised.value) == str(report)
    assert "points=[2]" in str(raised.value)
