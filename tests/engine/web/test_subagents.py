"""Sub-agents in a server: sessions of their own in the store, which readers follow and whose questions callers ask."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Tool, read_record
from endstop.providers import call, say
from endstop.replay import replay
from endstop.service.service import Service

from ..payer import DONE, by_step, pay, write
from .site import Gate, Site, site


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


def office(*, deep: bool = False, gate: Gate | None = None) -> Engine:
    """An agent whose sub-agent writes and pays; if `deep`, with another one between them."""
    second: Any = [call("pay", id="p", to="Ann")]
    third: Any = say("Ann is paid.")
    steps = ([call("write", id="w", path="a")], second, third)
    if gate is not None:
        steps = ([call("write", id="w", path="a")], [gate, say("It is written.")], third)
    sub: Tool = Engine(by_step(*steps), tools=[write, pay]).as_tool("payer", "Pays somebody.")
    if deep:
        middle = Engine(by_step([call("payer", id="m", prompt="Pay Ann.")], say("Passed on.")), tools=[sub])
        sub = middle.as_tool("clerk", "Has somebody pay.")
    name = "clerk" if deep else "payer"
    return Engine(by_step([call(name, id="h", prompt="Pay Ann.")], say("All done.")), tools=[sub])


def service(path: Path, engine: Engine) -> Service:
    return Service(engine, store=str(path / "s.db"), grace=0)


async def children(at: Site, session_id: str) -> list[Any]:
    return (await at.client.get("/sessions", params={"parent": session_id})).json()["sessions"]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_sub_agents_approval_is_given_to_its_caller(tmp_path: Path, restarted: bool) -> None:
    async with site(service(tmp_path, office())) as at:
        session = await at.start()
        paused = await at.outcome(session["run_id"])
        assert paused["status"] == "awaiting_input"
        (question,) = (await at.client.get(f"/sessions/{session['id']}")).json()["questions"]
        assert (question["call_id"], question["tool"], question["arguments"]) == ("h/p", "pay", {"to": "Ann"})
        assert question["asker"]["names"] == ["payer"]
        (child,) = await children(at, session["id"])
        assert (child["id"], child["status"]) == (question["asker"]["session_id"], "awaiting_input")
        if not restarted:
            await approved(at, session["id"])
    if restarted:
        async with site(service(tmp_path, office())) as at:
            await approved(at, session["id"])


async def approved(at: Site, session_id: str) -> None:
    """Approve, and look at what is in the store then."""
    yes = {"call_id": "h/p", "approved": True, "arguments": {"to": "Bob"}}
    wrong = await at.client.post(f"/sessions/{session_id}/approvals", json={**yes, "arguments": {"x": 1}})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid")
    response = await at.client.post(f"/sessions/{session_id}/approvals", json=yes)
    assert response.status_code == 201, response.text
    outcome = await at.outcome(response.json()["run_id"])
    assert (outcome["status"], outcome["answer"]) == ("completed", "All done.")
    assert outcome["subagents"]["runs"] == 1
    assert DONE == ["wrote a", "paid Bob"]
    (child,) = await children(at, session_id)
    assert (child["status"], child["parent"]) == ("completed", session_id)
    runs = (await at.client.get(f"/sessions/{child['id']}")).json()["runs"]
    assert [run["status"] for run in runs] == ["awaiting_input", "completed"]


async def test_two_levels_deep_each_lies_under_its_caller_and_goes_with_it(tmp_path: Path) -> None:
    async with site(service(tmp_path, office(deep=True))) as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        listed = (await at.client.get("/sessions")).json()["sessions"]
        assert [one["id"] for one in listed] == [session["id"]]
        (clerk,) = await children(at, session["id"])
        (payer,) = await children(at, clerk["id"])
        yes = {"call_id": "h/m/p", "approved": True}
        response = await at.client.post(f"/sessions/{session['id']}/approvals", json=yes)
        assert (await at.outcome(response.json()["run_id"]))["status"] == "completed"
        assert DONE == ["wrote a", "paid Ann"]
        for id in (session["id"], clerk["id"], payer["id"]):
            record = tmp_path / f"{id}.jsonl"
            record.write_bytes((await at.client.get(f"/sessions/{id}/record")).content)
            assert all(run.finished is not None for run in read_record(record).runs)
            assert (await replay(record)).same
        assert (await at.client.delete(f"/sessions/{session['id']}")).status_code == 204
        for id in (clerk["id"], payer["id"]):
            assert (await at.client.get(f"/sessions/{id}")).status_code == 404


async def test_only_its_caller_starts_runs_of_a_sub_agent(tmp_path: Path) -> None:
    async with site(service(tmp_path, office())) as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        (child,) = await children(at, session["id"])
        path = f"/sessions/{child['id']}"
        asked = [
            at.client.post(f"{path}/runs", json={"prompt": "x"}),
            at.client.post(f"{path}/approvals", json={"call_id": "p", "approved": True}),
            at.client.post(f"{path}/answers", json={"call_id": "p", "text": "yes"}),
            at.client.post(f"{path}/messages", json={"text": "x"}),
            at.client.delete(path),
        ]
        for response in await asyncio.gather(*asked):
            assert (response.status_code, response.json()["code"]) == (409, "subagent"), response.text
            assert session["id"] in response.json()["detail"]
        assert DONE == ["wrote a"]


async def test_its_events_are_followed_while_it_runs_and_it_takes_no_place_of_its_own(tmp_path: Path) -> None:
    gate = Gate()
    served = Service(office(gate=gate), store=str(tmp_path / "s.db"), grace=0, max_running=1)
    async with site(served) as at:
        session = await at.start()
        async with at.stream(f"/sessions/{session['id']}/events") as above:
            started = (await above.until("SUBAGENT_STARTED"))[-1].data
            await gate.reached.wait()
            assert served.running == 1
            async with at.stream(f"/runs/{started['run_id']}/events") as below:
                seen = await below.until("TOOL_CALL_RESULT")
                assert seen[0].data["parent"]["session_id"] == session["id"]
                (child,) = await children(at, session["id"])
                assert (child["id"], child["status"]) == (started["session_id"], "running")
                gate.open()
                assert (await below.all())[-1].data["type"] == "RUN_FINISHED"
            async with at.stream(f"/sessions/{child['id']}/events") as again:
                assert (await again.until("RUN_FINISHED"))[-1].data["outcome"]["status"] == "completed"
        assert (await at.outcome(session["run_id"]))["status"] == "completed"


async def test_a_sub_agent_that_is_cancelled_is_an_error_to_its_caller(tmp_path: Path) -> None:
    gate = Gate()
    async with site(service(tmp_path, office(gate=gate))) as at:
        session = await at.start()
        await gate.reached.wait()
        (child,) = await children(at, session["id"])
        assert (await at.client.post(f"/sessions/{child['id']}/cancel")).status_code == 202
        assert (await at.outcome(session["run_id"]))["status"] == "completed"
        (child,) = await children(at, session["id"])
        assert child["status"] == "cancelled"


async def test_the_end_of_the_server_ends_both(tmp_path: Path) -> None:
    gate = Gate()
    async with site(service(tmp_path, office(gate=gate))) as at:
        session = await at.start()
        await gate.reached.wait()
    async with site(service(tmp_path, office())) as at:
        (child,) = await children(at, session["id"])
        assert (await at.status(session["id"]), child["status"]) == ("cancelled", "cancelled")


async def test_what_a_dead_process_leaves_goes_on_with_its_caller(tmp_path: Path) -> None:
    gate = Gate()
    path = tmp_path / "s.db"
    async with site(service(tmp_path, office(gate=gate))) as at:
        session = await at.start()
        await gate.reached.wait()
        await left_behind(path, tmp_path / "t.db")
    async with site(Service(office(), store=str(tmp_path / "t.db"), grace=0)) as at:
        (child,) = await children(at, session["id"])
        assert (await at.status(session["id"]), child["status"]) == ("interrupted", "interrupted")
        assert DONE == ["wrote a"]
        alone = await at.client.post(f"/sessions/{child['id']}/resume")
        assert (alone.status_code, alone.json()["code"]) == (409, "subagent")
        assert (await at.client.post(f"/sessions/{session['id']}/resume")).status_code == 201
        paused = await at.outcome(session["run_id"])
        assert [question["call_id"] for question in paused["questions"]] == ["h/p"]
        response = await at.client.post(
            f"/sessions/{session['id']}/approvals", json={"call_id": "h/p", "approved": True}
        )
        outcome = await at.outcome(response.json()["run_id"])
        assert (outcome["status"], DONE) == ("completed", ["wrote a", "paid Ann"])
        assert (outcome["subagents"]["runs"], outcome["subagents"]["requests"]) == (1, 4)  # one was asked for again


async def left_behind(path: Path, copy: Path) -> None:
    """A copy of a store as it is now, whose process has died."""
    with closing(sqlite3.connect(path)) as ours, closing(sqlite3.connect(copy)) as theirs:
        ours.backup(theirs)
        theirs.execute("DELETE FROM endstop_processes")
        theirs.commit()


async def ag_ui(at: Site, run: str, **more: Any) -> list[dict[str, Any]]:
    """The events that an AG-UI client gets for one input."""
    body = {"threadId": "t", "runId": run, "messages": [], "tools": [], "context": [], "state": None, **more}
    async with at.stream("/ag-ui", method="POST", json=body) as events:
        return [event.data for event in await events.all()]


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        ({"approved": True}, ["wrote a", "paid Ann"]),
        ({"approved": True, "editedArgs": {"to": "Bob"}}, ["wrote a", "paid Bob"]),
        ({"approved": False, "reason": "not her"}, ["wrote a"]),
    ],
)
@pytest.mark.parametrize("deep", [False, True])
async def test_a_sub_agents_approval_over_ag_ui(tmp_path: Path, answer: Any, done: list[str], deep: bool) -> None:
    way, caller = ("h/m/p", ["clerk", "payer"]) if deep else ("h/p", ["payer"])
    async with site(service(tmp_path, office(deep=deep))) as at:
        told = await ag_ui(at, "one", messages=[{"id": "m", "role": "user", "content": "Pay Ann."}])
        (interrupt,) = told[-1]["outcome"]["interrupts"]
        assert interrupt["id"] == way
        about = interrupt["metadata"]["endstop"]
        assert (about["tool"], about["arguments"], about["asker"]["names"]) == ("pay", {"to": "Ann"}, caller)
        calls = [event["toolCallId"] for event in told if event["type"] == "TOOL_CALL_START"]
        assert calls == [interrupt["toolCallId"]], "the interrupt names a call that the client has seen"
        assert not [event for event in told if event["type"] == "TOOL_CALL_RESULT"]

        resume = [{"interruptId": way, "status": "resolved", "payload": answer}]
        told = await ag_ui(at, "two", resume=resume)
        assert told[-1]["outcome"]["type"] == "success", told[-1]
        assert told[-1]["result"]["answer"] == "All done."
        results = [event["toolCallId"] for event in told if event["type"] == "TOOL_CALL_RESULT"]
        assert results == calls, "the caller's call has its result, and the sub-agent's question none"
        assert done == DONE
