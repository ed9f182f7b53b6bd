"""Every task that endstop starts has a name that says whose it is, for reports of what was left behind."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest
from endstop import Engine, Observers, Run
from endstop.decision import POLICIES, Event
from endstop.providers import Scripted, say
from endstop.subscribers import Subscriber
from endstop.testing.faults import check_cancel_points

ROOT = Path(__file__).parents[2]


def unnamed_tasks(path: Path) -> list[int]:
    """The lines on which a task is made without a name."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    made = [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == "create_task"]
    return [one.lineno for one in made if not any(keyword.arg == "name" for keyword in one.keywords)]


@pytest.mark.parametrize("room", ["engine", "providers"])
def test_no_task_is_made_without_a_name(room: str) -> None:
    found = {str(path.relative_to(ROOT)): unnamed_tasks(path) for path in sorted((ROOT / room).rglob("*.py"))}
    assert len(found) > 10
    assert {path: lines for path, lines in found.items() if lines} == {}


class Stubborn:
    """A subscriber that does not let itself be cancelled."""

    async def __call__(self, event: Event, run: Run) -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue


async def stubborn_function(event: Event, run: Run) -> None:
    await Stubborn()(event, run)


@pytest.mark.parametrize(("subscriber", "named"), [(Stubborn(), "Stubborn"), (stubborn_function, "stubborn_function")])
def test_the_fault_kit_names_a_subscriber_that_swallows_its_cancellation(subscriber: Subscriber, named: str) -> None:
    def make_run(record: Path) -> Run:
        engine = Engine(Scripted([say("Hi.")]), policy=POLICIES["chat"], observers=Observers(subscribers=[subscriber]))
        return engine.start("Hello", record=record)

    report = check_cancel_points(make_run, points=[1])
    assert f"endstop subscriber {named} of run run_" in str(report.violations)
