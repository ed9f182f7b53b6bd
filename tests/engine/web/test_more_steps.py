"""A limit that asks, over HTTP and AG-UI: the user grants more steps, or ends the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Extend, read_record, tool
from endstop.decision import Limits, Policy
from endstop.providers import Scripted, call
from endstop.service.service import Service

from .ag_ui_reader import Reader
from .site import Event, Site, site


@tool(reads=True)
def look(n: int) -> str:
    "Look."
    return f"seen {n}"


def service(path: Path, steps: int = 9, by: int = 4) -> Service:
    """Its runs look, and ask for `by` more steps each time that a limit of two is reached."""
    policy = Policy(limits=Limits(steps=2, extend=Extend(by=by, when="ask")), closing=False, reminder=None)
    script = [*[call("look", n=n, id=f"l{n}") for n in range(steps)], call("finish_task", summary="Seen.", id="f")]
    return Service(Engine(Scripted(*script), tools=[look], policy=policy), store=str(path / "s.db"), grace=0)


async def test_steps_are_granted_over_http(tmp_path: Path) -> None:
    async with site(service(tmp_path, steps=5)) as at:
        session = await at.start()
        paused = await at.outcome(session["run_id"])
        assert (paused["status"], paused["questions"][0]["extends"]) == ("awaiting_input", 4)
        (question,) = (await at.client.get(f"/sessions/{session['id']}")).json()["questions"]
        text = "2 of 2 steps are used. May the run make 4 more?"
        assert question == {"call_id": "limits.steps.2", "text": text, "extends": 4}
        path = f"/sessions/{session['id']}/answers"
        answer = {"call_id": "limits.steps.2", "text": "1"}
        granted = await at.client.post(path, json=answer)
        assert granted.status_code == 201
        again = await at.outcome(granted.json()["run_id"])
        assert (again["steps"], again["questions"][0]["call_id"]) == (3, "limits.steps.3")
        late = await at.client.post(path, json=answer)
        assert (late.status_code, late.json()["code"]) == (409, "answered"), "it is no answer to the second question"
        wrong = {"call_id": "limits.steps.3", "approved": True}
        refused = await at.client.post(f"/sessions/{session['id']}/approvals", json=wrong)
        assert (refused.status_code, "does not ask for approval" in refused.json()["detail"]) == (422, True)
        granted = await at.client.post(path, json={"text": "20"})
        ended = await at.outcome(granted.json()["run_id"])
        assert (ended["status"], ended["steps"], ended["limits"]["steps"]["allowed"]) == ("completed", 6, 23)


async def test_what_is_neither_a_number_nor_a_yes_or_no_asks_again_and_a_no_ends_it(tmp_path: Path) -> None:
    async with site(service(tmp_path)) as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        path = f"/sessions/{session['id']}/answers"
        unclear = (await at.client.post(path, json={"text": "some"})).json()
        (question,) = (await at.outcome(unclear["run_id"]))["questions"]
        assert question["text"].startswith("That was neither a yes nor a no. 2 of 2 steps")
        ended = (await at.client.post(path, json={"text": "no"})).json()
        outcome = await at.outcome(ended["run_id"])
        assert (outcome["status"], outcome["stop_reason"]) == ("exhausted", "step_limit")


async def test_a_question_for_steps_is_kept_over_a_restart(tmp_path: Path) -> None:
    async with service(tmp_path) as before:
        session = await before.start("Look")
        await before.outcome(session.run_id or "", wait=10)
    async with service(tmp_path, steps=3) as after:
        (question,) = (await after.session(session.id)).questions
        assert (question.call_id, question.extends) == ("limits.steps.2", 4)
        session = await after.answer(session.id, "yes")
        outcome = await after.outcome(session.run_id or "", wait=10)
        assert outcome is not None
        assert (outcome.status, outcome.steps, outcome.limits["steps"].allowed) == ("completed", 6, 6)
        record = tmp_path / "r.jsonl"
        record.write_bytes(b"".join([piece async for piece in after.record(await after.session(session.id))]))
    assert [run.finished is not None for run in read_record(record).runs] == [True, True]


def body(run: str, **more: Any) -> dict[str, Any]:
    return {"threadId": "t", "runId": run, "messages": [], "tools": [], "context": [], "state": None, **more}


async def told(at: Site, given: dict[str, Any]) -> list[Event]:
    async with at.stream("/ag-ui", method="POST", json=given) as events:
        return await events.all()


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        ({"status": "resolved", "payload": 7}, 9),
        ({"status": "resolved", "payload": "7"}, 9),
        ({"status": "resolved", "payload": {"answer": "7"}}, 9),
        ({"status": "resolved", "payload": True}, 6),
        ({"status": "resolved", "payload": False}, None),
        ({"status": "resolved", "payload": {"approved": False, "reason": "7 would be too many"}}, None),
        ({"status": "cancelled"}, None),
    ],
)
async def test_in_ag_ui_it_is_an_interrupt_of_no_call(
    entry: dict[str, Any], allowed: int | None, tmp_path: Path
) -> None:
    async with site(service(tmp_path, steps=3)) as at:
        first = await told(at, body("run-1", messages=[{"id": "m1", "role": "user", "content": "Look"}]))
        (interrupt,) = first[-1].data["outcome"]["interrupts"]
        assert interrupt == {
            "id": "limits.steps.2",
            "reason": "confirmation",
            "message": "2 of 2 steps are used. May the run make 4 more?",
            "responseSchema": {"type": ["boolean", "integer", "string"], "minimum": 1},
            "metadata": {"endstop": {"extends": 4}},
        }
        second = await told(at, body("run-2", resume=[{"interruptId": "limits.steps.2", **entry}]))
        assert "limits.steps.2" not in [event.data.get("toolCallId") for event in (*first, *second)]
        outcome = next(e.data["value"]["outcome"] for e in second if e.data.get("name") == "endstop.run_finished")
        if allowed is None:
            assert outcome["stop_reason"] == "step_limit"
        else:
            assert (outcome["status"], outcome["limits"]["steps"]["allowed"]) == ("completed", allowed)


async def test_a_stream_of_both_runs_keeps_the_protocols_order(tmp_path: Path) -> None:
    async with site(service(tmp_path, steps=3)) as at:
        reader = Reader()
        for given in (
            body("run-1", messages=[{"id": "m1", "role": "user", "content": "Look"}]),
            body("run-2", resume=[{"interruptId": "limits.steps.2", "status": "resolved", "payload": 3}]),
        ):
            async with at.client.stream("POST", "/ag-ui", json=given) as response:
                lines = [line async for line in response.aiter_lines()]
            reader.read([line.removeprefix("data: ").encode() for line in lines if line.startswith("data: ")])
        assert set(reader.results) == {"l0", "l1", "l2", "f"}, "and each of them once"
        assert [end.outcome.type for end in reader.of("RUN_FINISHED")] == ["interrupt", "success"]
