"""What the work of a job does in a case: steps, as data, so that any process can do it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ....durability import Job, LostRun, NotKept, StepKey, Steps
from .notes import Note, Notes, What


class Act(Struct, frozen=True, omit_defaults=True):
    """One step of a run. Its result names the process whose work it is, unless it is `bare`."""

    step: int
    call: str = ""
    value: Any = None
    size: int = 0
    """Instead of `value`: a text of so many letters."""
    bare: bool = False
    """The result is `value` itself."""
    before: str = ""
    """The gate before the step is asked for."""
    within: str = ""
    """The gate within the step's work."""

    @property
    def given(self) -> Any:
        """What its work gives."""
        return "x" * self.size if self.size else self.value


class Plan(Struct, frozen=True, omit_defaults=True):
    """A run: groups of steps one after another, those of a group at once."""

    groups: tuple[tuple[Act, ...], ...]
    raises: bool = False
    """The work raises at its end."""


class PlannedError(Exception):
    """What the work of a plan with `raises` raises."""


def job(run: str, acts: Sequence[Act | Sequence[Act]] = (), *, raises: bool = False) -> Job:
    """A job whose work is these steps."""
    groups = tuple((act,) if isinstance(act, Act) else tuple(act) for act in acts)
    text = msgspec.json.encode(Plan(groups, raises)).decode()
    return Job(run_id=run, session_id="session", agent="planned", opening="prompt", text=text)


def doing(process: str, notes: Notes) -> Callable[[Job, Steps], Awaitable[None]]:
    """The work of this process."""

    async def work(job: Job, steps: Steps) -> None:
        def note(what: What, text: str = "") -> None:
            notes.add(Note(process, what, job.run_id, text=text))

        note("taken")
        try:
            plan = msgspec.json.decode(job.text, type=Plan)
            for group in plan.groups:
                await asyncio.gather(*(_act(process, notes, job, steps, act) for act in group))
            if plan.raises:
                raise PlannedError("as planned")
        except LostRun:
            note("lost")
            raise
        except asyncio.CancelledError:
            note("cancelled")
            raise
        except BaseException as error:
            note("raised", repr(error))
            raise
        note("done")

    return work


async def _act(process: str, notes: Notes, job: Job, steps: Steps, act: Act) -> None:
    key = StepKey(job.session_id, job.run_id, act.step, act.call)

    def note(what: What, by: str = "", text: str = "") -> None:
        notes.add(Note(process, what, job.run_id, str(key), by, text))

    async def work() -> Any:
        note("began")
        if act.within:
            await notes.gate(act.within)
        note("ended")
        return act.given if act.bare else {"by": process, "value": act.given}

    if act.before:
        await notes.gate(act.before)
    try:
        result = await steps.step(key, work)
    except NotKept as error:
        note("not kept", text=str(error))
        return
    by, value = ("", result) if act.bare else (result["by"], result["value"])
    note("result", by, difference(value, act.given))


def difference(given: Any, expected: Any) -> str:
    """What is wrong with a result; empty if it is what it was. 1, 1.0 and True are three things, as in JSON."""
    if type(given) is not type(expected):
        return f"{_short(given)} instead of {_short(expected)}"
    if isinstance(expected, dict):
        if given.keys() != expected.keys():
            return f"keys {_short(sorted(given))} instead of {_short(sorted(expected))}"
        return next((wrong for name in expected if (wrong := difference(given[name], expected[name]))), "")
    if isinstance(expected, list):
        if len(given) != len(expected):
            return f"{_short(given)} instead of {_short(expected)}"
        return next((wrong for one, two in zip(given, expected, strict=True) if (wrong := difference(one, two))), "")
    same = repr(given) == repr(expected) if isinstance(expected, float) else given == expected
    return "" if same else f"{_short(given)} instead of {_short(expected)}"


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 100 else f"{said[:100]}... ({len(said)} letters)"
