"""Row A3: what is known of a run's work is one of three words, and nothing that nobody checked is called done."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Engine, Hooks, Tool, read_record
from endstop.decision import Facts, Limits, Outcome, Policy, ToolSpec, fold
from endstop.decision import events as ev
from endstop.formats import export_atif as to_atif
from endstop.formats import export_openai as to_openai
from endstop.hooks import Accept
from endstop.providers import Scripted, Unavailable, call
from endstop.tools import ask_user, finish_task, task_done

from ..engine.web.site import site

RECORDS = Path(__file__).parents[1] / "records"
DONE = [call("finish_task", summary="The port is 8080 now.")]


async def edit(path: str) -> str:
    if "missing" in path:
        raise FileNotFoundError(f"there is no {path}")
    return "edited"


async def read(path: str) -> str:
    if "missing" in path:
        raise FileNotFoundError(f"there is no {path}")
    return "port = 3000"


TOOLS = [Tool(edit, description="Edit."), Tool(read, description="Read.", reads=True)]


async def run_of(*script: Any, **options: Any) -> tuple[list[Any], Outcome]:
    options = {"tools": TOOLS, "presets": (finish_task, task_done, ask_user), **options}
    async with Engine(Scripted(*script), **options).start("go") as run:
        events = [event async for event in run]
    return events, run.outcome


# ---- the three words


@pytest.mark.parametrize(
    ("script", "passes", "expected"),
    [
        ([DONE], None, ("completed", "said")),
        (["It is 8080."], None, ("completed", "said")),
        ([DONE], True, ("completed", "checked")),
        ([DONE], False, ("completed", "wrong")),
        ([[call("read", path=str(n))] for n in range(9)], None, ("exhausted", None)),
        ([[call("read", path=str(n))] for n in range(9)], True, ("exhausted", "checked")),
        ([[call("read", path=str(n))] for n in range(9)], False, ("exhausted", "wrong")),
        ([[call("ask_user", question="Which port?")]], True, ("awaiting_input", None)),
        ([Unavailable("down")], True, ("failed", None)),
    ],
)
async def test_A3_work_is_said_checked_or_wrong_by_the_end_and_the_verdict(
    script: Sequence[Any], passes: bool | None, expected: tuple[str, str | None]
) -> None:
    evaluate = None if passes is None else lambda evaluated: passes
    _, outcome = await run_of(*script, hooks=Hooks(evaluate=evaluate), policy=Policy(limits=Limits(steps=3)))
    assert (outcome.status, outcome.work) == expected


def test_A3_what_is_given_as_work_cannot_contradict_the_verdict() -> None:
    outcome = Outcome(run_id="r", session_id="s", status="completed", stop_reason="completed", work="checked")
    assert outcome.work == "said"
    assert msgspec.structs.replace(outcome, verdict="failed").work == "wrong"


@pytest.mark.parametrize("path", sorted(RECORDS.glob("**/*.jsonl")), ids=lambda path: path.stem)
def test_A3_records_that_were_made_before_the_word_have_it_derived(path: Path) -> None:
    for run in read_record(path).runs:
        for event in run.events:
            if isinstance(event, ev.RunFinished):
                assert event.outcome.work == ("said" if event.outcome.status == "completed" else None)


def test_A3_an_old_line_of_json_has_it_derived_and_a_new_one_says_it() -> None:
    old = b'{"run_id":"r","session_id":"s","status":"completed","stop_reason":"completed","verdict":"passed"}'
    outcome = msgspec.json.decode(old, type=Outcome)
    assert json.loads(msgspec.json.encode(outcome))["work"] == "checked"


# ---- wherever an outcome goes


async def test_A3_the_http_api_and_its_description_have_the_word() -> None:
    async with site(provider=Scripted(DONE)) as at:
        session = await at.start()
        outcome = await at.outcome(session["run_id"])
        described = (await at.client.get("/openapi.json")).json()
    assert outcome["work"] == "said"
    words = json.dumps(described["components"]["schemas"]["Outcome"]["properties"]["work"])
    assert all(f'"{word}"' in words for word in ("said", "checked", "wrong"))


async def test_A3_exports_have_the_word() -> None:
    events, _ = await run_of(DONE, hooks=Hooks(evaluate=lambda evaluated: False))
    atif, _ = to_atif.export("s", events)
    openai, _ = to_openai.export("s", events)
    assert '"work":"wrong"' in msgspec.json.encode(atif).decode()
    assert openai["metadata"] == {"work": "wrong"}


# ---- who accepted it, which is no evaluation


async def test_A3_gates_and_the_user_who_accepted_it_are_named() -> None:
    def tests_pass(completion: Any, progress: Any) -> Accept:
        return Accept()

    _, outcome = await run_of(DONE, hooks=Hooks(gates=[tests_pass]))
    assert outcome.work == "said"
    assert [name.rpartition(":")[2].rpartition(".")[2] for name in outcome.accepted_by] == ["tests_pass"]

    engine = Engine(
        Scripted([call("task_done", summary="The port is 8080.", requires_user_confirmation=True)]),
        presets=(task_done,),
    )
    session = engine.session()
    asked = await session.run("go")
    assert asked.accepted_by == ()
    answered = await session.answer(asked.questions[0].call_id, "yes")
    assert (answered.work, answered.accepted_by) == ("said", ("user",))


# ---- calls that failed before it


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([["edit", "missing"]], ("edit",)),
        ([["read", "missing"]], ("read",)),
        ([["edit", "missing"], ["edit", "a"]], ()),
        ([["read", "missing"], ["read", "a"]], ()),
        ([["edit", "missing"], ["read", "a"]], ("edit",)),  # what was read did not make up for the edit
        ([["edit", "a"], ["edit", "missing"]], ("edit",)),
        ([["edit", "a"], ["read", "a"]], ()),
        ([["no_such_tool", "a"]], ("no_such_tool",)),
        ([["no_such_tool", "a"], ["read", "a"]], ()),
    ],
)
async def test_A3_a_failure_that_nothing_made_up_for_is_named(calls: Any, expected: tuple[str, ...]) -> None:
    _, outcome = await run_of(*[[call(name, path=path)] for name, path in calls], DONE)
    assert (outcome.work, outcome.failed_calls) == ("said", expected)


async def test_A3_a_success_of_the_same_response_does_not_make_up_for_a_failure() -> None:
    _, outcome = await run_of([call("edit", path="missing"), call("edit", path="a")], DONE)
    assert outcome.failed_calls == ("edit",)


async def test_A3_completions_thoughts_and_questions_are_no_work() -> None:
    _, outcome = await run_of([call("finish_task")], DONE)
    assert outcome.failed_calls == ()


def test_A3_failures_do_not_depend_on_the_order_of_parallel_calls() -> None:
    def spec(name: str, *, reads: bool = False) -> ToolSpec:
        return ToolSpec(name=name, description="", parameters={}, reads=reads)

    tools = (spec("edit"), spec("read", reads=True))
    start = ev.RunStarted(run_id="r", session_id="s", policy=Policy(), tools=tools)

    def failed(*statuses: tuple[str, str]) -> tuple[str, ...]:
        facts = fold(fold(Facts(), start), ev.StepStarted(step=1, round=1))
        facts = fold(facts, ev.ToolCallResult(call_id="0", name="edit", content="", status="error"))
        facts = fold(facts, ev.StepStarted(step=2, round=1))
        for number, (name, status) in enumerate(statuses):
            facts = fold(facts, ev.ToolCallResult(call_id=str(number), name=name, content="", status=status))  # type: ignore[arg-type]
        return facts.failures.names

    both = [("read", "error"), ("edit", "ok")]
    assert failed(*both) == failed(*reversed(both)) == ("read",)


def test_A3_what_is_kept_of_failures_is_bounded() -> None:
    facts = fold(Facts(), ev.RunStarted(run_id="r", session_id="s", policy=Policy()))
    for number in range(1000):
        facts = fold(facts, ev.StepStarted(step=number, round=1))
        facts = fold(facts, ev.ToolCallResult(call_id="c", name=f"tool_{number}", content="", status="invalid"))
    assert len(facts.failures.names) <= 16
