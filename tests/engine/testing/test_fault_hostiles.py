"""`check_hostile_tools` and `check_hostile_subscribers`: the engine stands them, and a planted defect is found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Observers, Run, Subscriber, Tool, WrongUse
from endstop.decision import ToolResult
from endstop.providers import Request, Scripted, call
from endstop.testing.faults import FaultReport, by_step, check_hostile_subscribers, check_hostile_tools

LONG = pytest.mark.long
DONE = call("finish_task", summary="done", id="z")


def with_tool(record: Path, tool: Tool, **options: Any) -> Run:
    return Engine(Scripted([call("hostile", id="a")], [DONE]), tools=[tool], **options).start("go", record=record)


def with_subscriber(record: Path, subscriber: Subscriber) -> Run:
    async def put() -> str:
        await asyncio.sleep(1)
        return "put"

    tool = Tool(put, description="Put.")
    watching = Observers(subscribers=[subscriber])
    return Engine(Scripted([call("put", id="a")], [DONE]), tools=[tool], observers=watching).start("go", record=record)


def broken(report: FaultReport) -> set[str]:
    assert not report.ok
    return {violation.invariant for violation in report.violations}


@pytest.mark.parametrize(("points", "size"), [(2, 1_000_000), pytest.param(None, 1_000_000, marks=LONG)])
def test_no_hostile_tool_breaks_a_run(points: int | None, size: int) -> None:
    report = check_hostile_tools(with_tool, points=points, size=size)
    print(report)
    assert report.ok, report
    assert report.tried >= 100
    assert min(report.ends["completed"], report.ends["cancelled"]) > 0


@LONG
def test_a_tool_that_returns_100_MB_does_not_break_a_run() -> None:
    report = check_hostile_tools(with_tool, only=["returns_much"], ways=["run"], points=3)
    assert report.ok, report


@pytest.mark.parametrize("points", [2, pytest.param(None, marks=LONG)])
def test_no_hostile_subscriber_breaks_a_run(points: int | None) -> None:
    report = check_hostile_subscribers(with_subscriber, points=points)
    print(report)
    assert report.ok, report
    assert report.tried >= 60


def test_a_provider_that_cannot_take_much_is_found() -> None:
    def respond(request: Request) -> Any:
        if any(len(message.content) > 5_000 for message in request.messages if isinstance(message, ToolResult)):
            raise ValueError("too much")
        return by_step([call("hostile", id="a")], [DONE])(request)

    def make(record: Path, tool: Tool) -> Run:
        return Engine(Scripted(respond), tools=[tool]).start("go", record=record)

    report = check_hostile_tools(make, only=["never_ends", "returns_much"], size=100_000, points=1, ways=["run"])
    assert "no_crash" in broken(report)
    assert {violation.fault for violation in report.violations} == {"returns_much, no cancel"}


def test_a_program_that_waits_for_a_tool_that_never_ends_is_found() -> None:
    """It waits for the tool itself, and not for the run."""

    @asynccontextmanager
    async def make(record: Path, tool: Tool) -> AsyncIterator[Run]:
        waits = asyncio.ensure_future(tool.function())
        async with with_tool(record, tool) as run:
            yield run
        await waits

    report = check_hostile_tools(make, only=["never_ends"], points=1, ways=["run"])
    assert broken(report) == {"ends"}


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (with_tool, {"only": ["nobody"]}, "give a list of some of swallows_cancellation"),
        (with_tool, {"only": "never_ends"}, "give a list of some of"),
        (with_tool, {"ways": []}, "give a list of some of run"),
        (lambda record, tool: Engine(Scripted([DONE]), tools=[tool]).start("go", record=record), {}, "never called"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        check_hostile_tools(make, points=1, **options)
