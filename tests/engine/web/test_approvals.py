"""Approvals over HTTP and AG-UI: a call waits for the yes, with what is wrong said as a 4xx."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from endstop import Engine, tool
from endstop.providers import Scripted, call
from endstop.service.service import Service
from endstop.tools import ask_user

from .site import done, site

DONE: list[str] = []


@tool(approval=True)
def delete(path: str) -> str:
    "Delete a folder."
    DONE.append(f"delete {path}")
    return f"{path} is gone"


@tool
def write(path: str) -> str:
    "Write a file."
    DONE.append(f"write {path}")
    return "written"


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


def service(path: Path, *calls: Any) -> Service:
    return Service(Engine(Scripted([*calls], *[done()] * 3), tools=[delete, write, ask_user]), store=str(path / "s.db"))


async def test_a_call_is_approved_over_http_and_wrong_approvals_are_refused(tmp_path: Path) -> None:
    async with site(service(tmp_path, call("delete", path="prod", id="d1"), call("write", path="b", id="w"))) as at:
        session = await at.start()
        paused = await at.outcome(session["run_id"])
        assert paused["questions"][0]["arguments"] == {"path": "prod"}
        (question,) = (await at.client.get(f"/sessions/{session['id']}")).json()["questions"]
        assert question == {
            "call_id": "d1",
            "text": 'May delete run with {"path":"prod"}?',
            "tool": "delete",
            "arguments": {"path": "prod"},
        }
        assert DONE == []
        path = f"/sessions/{session['id']}/approvals"

        async def refused(body: Any, at_path: str = path) -> tuple[int, str]:
            response = await at.client.post(at_path, json=body)
            return response.status_code, response.json()["code"]

        yes = {"call_id": "d1", "approved": True}
        assert await refused({**yes, "call_id": "d9"}) == (409, "no_open_question")
        assert await refused({"approved": True}) == (422, "invalid")
        assert await refused({**yes, "arguments": {"path": 7}}) == (422, "invalid")
        assert await refused({**yes, "arguments": {"paht": "x"}}) == (422, "invalid")
        assert await refused({**yes, "arguments": "x"}) == (422, "invalid")
        assert await refused({**yes, "reason": "x"}) == (422, "invalid")
        assert await refused({**yes, "approved": False, "arguments": {"path": "x"}}) == (422, "invalid")
        assert await refused(yes, "/sessions/session_other/approvals") == (404, "session")
        assert DONE == []
        approved = await at.client.post(path, json={**yes, "arguments": {"path": "test"}})
        assert approved.status_code == 201
        assert (await at.outcome(approved.json()["run_id"]))["status"] == "completed"
        assert DONE == ["delete test", "write b"]
        assert await refused(yes) == (409, "answered")


async def test_a_call_is_denied_over_http(tmp_path: Path) -> None:
    async with site(service(tmp_path, call("delete", path="prod", id="d1"))) as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        body = {"call_id": "d1", "approved": False, "reason": "not today"}
        denied = await at.client.post(f"/sessions/{session['id']}/approvals", json=body)
        assert (await at.outcome(denied.json()["run_id"]))["status"] == "completed"
        assert DONE == []
        record = (await at.client.get(f"/sessions/{session['id']}/record")).text
        assert "did not approve it and said: not today" in record


async def test_several_calls_are_answered_in_one_request_or_none_of_them_is(tmp_path: Path) -> None:
    calls = [call("delete", path=path, id=path) for path in ("a", "b", "c")]
    question = call("ask_user", question="Which?", id="q")
    async with site(service(tmp_path, *calls, question)) as at:
        session = await at.start()
        assert len((await at.outcome(session["run_id"]))["questions"]) == 4
        path = f"/sessions/{session['id']}/answers/all"

        async def refused(*answers: Any) -> tuple[int, str, str]:
            response = await at.client.post(path, json={"answers": answers})
            said = response.json()
            return response.status_code, said["code"], said["detail"]

        yes = {"call_id": "a", "approved": True}
        for wrong, code, said in (
            ({"call_id": "b", "approved": True, "arguments": {"path": 7}}, "invalid", "'b'"),
            ({"call_id": "b", "approved": True, "reason": "x"}, "invalid", "'b'"),
            ({"call_id": "b", "approved": False, "arguments": {"path": "x"}}, "invalid", "'b'"),
            ({"call_id": "b"}, "invalid", "'b'"),
            ({"call_id": "b", "text": "yes", "approved": True}, "invalid", "'b'"),
            ({"call_id": "q", "text": "this", "reason": "x"}, "invalid", "'q'"),
            ({"call_id": "q", "approved": True}, "invalid", "'q'"),
            ({"call_id": "q", "text": " "}, "invalid", "answer to 'q' is empty"),
            ({"call_id": "q", "text": "x" * 200_001}, "too_long", "'q' has 200,001"),
            (yes, "invalid", "'a' is given two answers"),
        ):
            status, given, detail = await refused(yes, wrong)
            assert (status, given) == (422, code), wrong
            assert said in detail, wrong
        assert (await refused(yes, {"call_id": "d", "approved": True}))[:2] == (409, "no_open_question")
        assert (await refused())[:2] == (422, "invalid")
        (run,) = (await at.client.get(f"/sessions/{session['id']}")).json()["runs"]
        assert (run["id"], DONE) == (session["run_id"], []), "nothing was taken"
        answers = [
            yes,
            {"call_id": "b", "approved": True, "arguments": {"path": "test"}},
            {"call_id": "c", "approved": False, "reason": "no"},
            {"call_id": "q", "text": "this"},
        ]
        taken = await at.client.post(path, json={"answers": answers})
        assert taken.status_code == 201
        assert (await at.outcome(taken.json()["run_id"]))["status"] == "completed"
        assert DONE == ["delete a", "delete test"]
        assert (await refused(yes))[:2] == (409, "answered")


async def test_some_of_several_calls_are_answered_together_and_the_rest_stay_open(tmp_path: Path) -> None:
    calls = [call("delete", path=path, id=path) for path in ("a", "b", "c")]
    async with site(service(tmp_path, *calls)) as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        path = f"/sessions/{session['id']}/answers/all"
        two = [{"call_id": "a", "approved": True}, {"call_id": "b", "approved": False}]
        taken = (await at.client.post(path, json={"answers": two})).json()
        paused = await at.outcome(taken["run_id"])
        assert ([question["call_id"] for question in paused["questions"]], DONE) == (["c"], [])
        last = await at.client.post(path, json={"answers": [{"call_id": "c", "approved": True}]})
        assert (await at.outcome(last.json()["run_id"]))["status"] == "completed"
        assert DONE == ["delete a", "delete c"]


async def test_of_two_approvals_at_once_one_is_taken(tmp_path: Path) -> None:
    async with site(service(tmp_path, call("delete", path="prod", id="d1"))) as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        path, body = f"/sessions/{session['id']}/approvals", {"call_id": "d1", "approved": True}
        both: list[httpx.Response] = await asyncio.gather(*(at.client.post(path, json=body) for _ in range(2)))
        assert sorted(response.status_code for response in both) == [201, 409]
        (taken,) = (response.json() for response in both if response.status_code == 201)
        await at.outcome(taken["run_id"])
        assert DONE == ["delete prod"]


async def test_a_question_that_is_no_approval_cannot_be_approved() -> None:
    async with site(provider=Scripted(call("ask_user", question="Which?", id="q1"), [done()])) as at:
        session = await at.start()
        assert (await at.outcome(session["run_id"]))["status"] == "awaiting_input"
        path = f"/sessions/{session['id']}/approvals"
        response = await at.client.post(path, json={"call_id": "q1", "approved": True})
        assert (response.status_code, response.json()["code"]) == (422, "invalid")


async def ask(at: Any, run_id: str, **given: Any) -> list[dict[str, Any]]:
    body = {"threadId": "t1", "runId": run_id, "messages": [], **given}
    async with at.stream("/ag-ui", method="POST", json=body) as events:
        return [event.data for event in await events.all()]


async def test_ag_ui_shows_an_interrupt_of_a_tool_call_and_takes_edited_arguments(tmp_path: Path) -> None:
    calls = call("delete", path="prod", id="d1"), call("write", path="b", id="w"), call("delete", path="c", id="d2")
    async with site(service(tmp_path, *calls)) as at:
        first = await ask(at, "r1", messages=[{"id": "m", "role": "user", "content": "Tidy up"}])
        assert not [event for event in first if event["type"] == "TOOL_CALL_RESULT"]
        one, two = first[-1]["outcome"]["interrupts"]
        assert (one["id"], one["reason"], one["toolCallId"]) == ("d1", "tool_call", "d1")
        assert set(one["responseSchema"]["properties"]) == {"approved", "editedArgs", "reason"}
        assert two["metadata"]["endstop"] == {"tool": "delete", "arguments": {"path": "c"}}
        resume = [
            {"interruptId": "d1", "status": "resolved", "payload": {"approved": True, "editedArgs": {"path": "test"}}},
            {"interruptId": "d2", "status": "resolved", "payload": {"approved": False, "reason": "no"}},
        ]
        second = await ask(at, "r2", resume=resume)
        assert DONE == ["delete test", "write b"]
        results = {event["toolCallId"]: event for event in second if event["type"] == "TOOL_CALL_RESULT"}
        assert {id: event["content"] for id, event in results.items() if id in ("d1", "w", "d2")} == {
            "d1": "test is gone",
            "w": "written",
            "d2": "Not run: the user did not approve it and said: no",
        }
        assert results["d2"]["metadata"]["endstop"]["status"] == "denied"
        session = (await at.client.get("/sessions")).json()["sessions"][0]["id"]
        runs = (await at.client.get(f"/sessions/{session}")).json()["runs"]
        assert len(runs) == 2, "both answers begin one run"
        assert second[-1]["outcome"]["type"] == "success"


@pytest.mark.parametrize(
    ("entry", "ran"),
    [
        ({"status": "resolved", "payload": True}, ["delete prod"]),
        ({"status": "resolved", "payload": "yes"}, ["delete prod"]),
        ({"status": "resolved", "payload": {"approved": False}}, []),
        ({"status": "cancelled"}, []),
    ],
)
async def test_ag_ui_takes_a_yes_a_no_and_a_cancellation(tmp_path: Path, entry: Any, ran: list[str]) -> None:
    async with site(service(tmp_path, call("delete", path="prod", id="d1"))) as at:
        await ask(at, "r1", messages=[{"id": "m", "role": "user", "content": "Tidy up"}])
        second = await ask(at, "r2", resume=[{"interruptId": "d1", **entry}])
        assert (second[-1]["outcome"]["type"], ran) == ("success", DONE)


async def test_ag_ui_refuses_edited_arguments_that_do_not_fit(tmp_path: Path) -> None:
    async with site(service(tmp_path, call("delete", path="prod", id="d1"))) as at:
        await ask(at, "r1", messages=[{"id": "m", "role": "user", "content": "Tidy up"}])
        good = {"interruptId": "d1", "status": "resolved", "payload": True}
        for payload, before in (
            ({"approved": True, "editedArgs": {"path": 7}}, []),
            ({"approved": False, "editedArgs": {"path": "x"}}, []),
            (True, [good]),
        ):
            resume = [*before, {"interruptId": "d1", "status": "resolved", "payload": payload}]
            body = {"threadId": "t1", "runId": "r2", "messages": [], "resume": resume}
            response = await at.client.post("/ag-ui", json=body)
            assert (response.status_code, DONE) == (422, [])
