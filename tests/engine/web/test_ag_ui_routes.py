"""AG-UI over HTTP: a client that knows nothing of endstop runs, pauses, answers and reads again."""

from __future__ import annotations

import asyncio
from typing import Any

from endstop import Accept, Completion, Engine, Hooks, Image, Progress, RunContext
from endstop.decision import ToolResult, UserMessage
from endstop.providers import Scripted, call, say
from endstop.service.service import Service
from endstop.store.base import EventBatch, StoredSession
from endstop.tools import ask_user, finish_task
from endstop.web import BearerTokens, WebLimits

from ..temporary_store import TemporaryStore
from .site import Event, Gate, Site, done, service_with, site


def _input(
    text: str | None = "Set the port", *, thread: str = "thread-1", run: str = "run-1", **more: Any
) -> dict[str, Any]:
    messages = [] if text is None else [{"id": "m1", "role": "user", "content": text}]
    return {"threadId": thread, "runId": run, "messages": messages, "tools": [], "context": [], "state": None, **more}


async def _run(at: Site, body: dict[str, Any], **given: Any) -> list[Event]:
    async with at.stream("/ag-ui", method="POST", json=body, **given) as events:
        return await events.all()


async def test_a_client_runs_what_it_asks_for_under_its_own_ids() -> None:
    async with site(provider=Scripted([say("Working."), done()])) as at:
        told = await _run(at, _input())
        types = [event.data["type"] for event in told]
        assert (types[0], types[-1]) == ("RUN_STARTED", "RUN_FINISHED")
        assert {"TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TOOL_CALL_START"} <= set(types)
        for end in (told[0], told[-1]):
            assert (end.data["threadId"], end.data["runId"]) == ("thread-1", "run-1")
        (session,) = (await at.client.get("/sessions")).json()["sessions"]
        await at.outcome(session["run_id"])  # readers see the end of a run a moment before it is stored
        (session,) = (await at.client.get("/sessions")).json()["sessions"]
        assert (session["title"], session["status"]) == ("Set the port", "completed")


async def test_a_thread_goes_on_where_it_was_and_belongs_to_its_owner() -> None:
    alice, bob = {"authorization": "Bearer a-token"}, {"authorization": "Bearer b-token"}
    tokens = BearerTokens({"alice": "a-token", "bob": "b-token"})
    async with site(auth=tokens, provider=Scripted([done("One.")], [done("Two.")], [done("Bob's.")])) as at:
        await _run(at, _input(), headers=alice)
        await _run(at, _input("More", run="run-2"), headers=alice)
        await _run(at, _input("Mine", run="run-3"), headers=bob)
        (hers,) = (await at.client.get("/sessions", headers=alice)).json()["sessions"]
        (his,) = (await at.client.get("/sessions", headers=bob)).json()["sessions"]
        assert hers["id"] != his["id"]
        runs = (await at.client.get(f"/sessions/{hers['id']}", headers=alice)).json()["runs"]
        assert [run["outcome"]["answer"] for run in runs] == ["One.", "Two."]


async def test_an_image_and_metadata_of_the_client_and_the_tokens_owner_reach_the_run() -> None:
    seen: list[RunContext] = []

    def gate(completion: Completion, run: Progress) -> Accept:
        seen.append(run.context)
        return Accept()

    model = Scripted(call("ask_user", question="Which?", id="q1"), done("Red."), done("Blue."))
    engine = Engine(model, presets=[ask_user, finish_task], hooks=Hooks(gates=[gate]))
    bearer, url = {"authorization": "Bearer a-token"}, "https://example.com/a.png"
    image = {"type": "image", "source": {"type": "url", "value": url}}
    parts = [{"type": "text", "text": "What colour?"}, image]
    asked = [{"id": "m1", "role": "user", "content": parts}]
    answered = [{"id": "m2", "role": "tool", "toolCallId": "q1", "content": parts}]
    props = {"metadata": {"plan": "free"}, "authorization": "secret"}
    tokens = BearerTokens({"alice": "a-token"})
    async with site(Service(engine, store=TemporaryStore()), auth=tokens) as at:
        await _run(at, _input(None) | {"messages": asked, "forwardedProps": props}, headers=bearer)
        await _run(at, _input(None, run="run-2") | {"messages": answered, "forwardedProps": props}, headers=bearer)
        other = {"metadata": {"plan": "paid"}}
        told = await _run(at, _input(run="run-3") | {"forwardedProps": other}, headers=bearer)
        (session,) = (await at.client.get("/sessions", headers=bearer)).json()["sessions"]
        events = (await at.client.get(f"/sessions/{session['id']}/record", headers=bearer)).text
    said = UserMessage.of(["What colour?", Image(url=url)])
    assert model.requests[0].messages[-1] == said
    assert model.requests[1].messages[-1] == ToolResult("q1", "ask_user", said.text, images=said.images)
    assert [(one.owner, one.metadata) for one in seen] == [("alice", {"plan": "free"})] * 2
    assert [event.data["value"] for event in told if event.data.get("name") == "endstop.input_ignored"] == [
        ["forwardedProps.metadata: the session has its own since it began"]
    ]
    assert "secret" not in events


async def test_a_question_is_an_interrupt_and_its_resumption_the_answer() -> None:
    provider = Scripted(call("ask_user", question="Which port?", id="q1"), [done("Port 8080.")])
    async with site(provider=provider) as at:
        asked = (await _run(at, _input()))[-1].data
        assert asked["outcome"]["type"] == "interrupt"
        (interrupt,) = asked["outcome"]["interrupts"]
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": "8080"}]
        told = await _run(at, _input(None, run="run-2", resume=resume))
        assert told[-1].data["type"] == "RUN_FINISHED"
        assert told[-1].data["outcome"]["type"] == "success"
        again = await at.client.post("/ag-ui", json=_input(None, run="run-3", resume=resume))
        assert (again.status_code, again.json()["code"]) == (422, "invalid")


class LateStore(TemporaryStore):
    """Stores the end of a run only after its session was read once more since `told`."""

    def __init__(self) -> None:
        super().__init__()
        self.told = False
        self._seen = asyncio.Event()

    async def commit(self, batch: EventBatch) -> int:
        if batch.finished is not None:
            await self._seen.wait()
        return await super().commit(batch)

    async def session(self, id: str) -> StoredSession | None:
        found = await super().session(id)
        if self.told and found is not None:
            self._seen.set()
        return found


async def test_a_question_may_be_answered_before_the_end_of_the_run_that_asked_it_is_stored() -> None:
    provider = Scripted(call("ask_user", question="Which port?", id="q1"), [done("Port 8080.")])
    store = LateStore()
    async with site(service_with(provider, store=store)) as at:
        asked = await _run(at, _input())
        store.told = asked[-1].data["type"] == "RUN_FINISHED"
        resume = [{"interruptId": "q1", "status": "resolved", "payload": "8080"}]
        told = await _run(at, _input(None, run="run-2", resume=resume))
        assert told[-1].data["result"]["answer"] == "Port 8080."


async def test_two_questions_are_answered_with_one_input() -> None:
    both = [*call("ask_user", question="Which port?", id="q1"), *call("ask_user", question="Which host?", id="q2")]
    async with site(provider=Scripted(both, [done("Both.")])) as at:
        asked = (await _run(at, _input()))[-1].data
        assert [one["id"] for one in asked["outcome"]["interrupts"]] == ["q1", "q2"]
        resume = [{"interruptId": id, "status": "resolved", "payload": "8080"} for id in ("q1", "q2")]
        told = await _run(at, _input(None, run="run-2", resume=resume))
        assert told[0].data["runId"] == "run-2"
        assert told[-1].data["result"]["answer"] == "Both."


async def test_a_session_is_told_in_ag_ui_from_its_beginning_and_resumed() -> None:
    async with site(provider=Scripted([say("Working."), done()], [done("More.")])) as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        await at.client.post(f"/sessions/{session['id']}/runs", json={"prompt": "More"})
        path = f"/sessions/{session['id']}/ag-ui"
        async with at.stream(path) as events:
            first = await events.until("RUN_FINISHED")
            second = await events.until("RUN_FINISHED")
        whole = first + second
        assert whole[0].data["threadId"] == session["id"]
        for number, event in enumerate(whole[:-1]):
            if event.id is not None:
                async with at.stream(path, headers={"Last-Event-ID": event.id}) as events:
                    rest = await events.until("RUN_FINISHED")
                    if event.id.startswith(f"{session['run_id']}:") and event is not first[-1]:
                        rest += await events.until("RUN_FINISHED")
                assert rest == whole[number + 1 :], event.id


async def test_an_input_that_asks_for_nothing_is_refused() -> None:
    async with site() as at:
        for body in ({}, _input(None), _input(thread=" "), _input(messages="x")):
            refused = await at.client.post("/ag-ui", json=body)
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid"), body
        long = await at.client.post("/ag-ui", json=_input("x" * 200_001))
        assert (long.status_code, long.json()["code"]) == (422, "too_long")
        assert (
            await at.client.post("/ag-ui", content=b"{}", headers={"content-type": "text/plain"})
        ).status_code == 415
        assert (await at.client.get("/sessions")).json()["sessions"] == []


async def test_a_thread_that_runs_is_busy_and_ends_with_its_reader_if_that_wants_it() -> None:
    gate = Gate()
    async with site(provider=Scripted([gate, done()])) as at:
        async with at.stream("/ag-ui?on_disconnect=cancel", method="POST", json=_input()) as events:
            await events.until("STEP_STARTED")
            busy = await at.client.post("/ag-ui", json=_input("More", run="run-2"))
            assert (busy.status_code, busy.json()["code"]) == (409, "busy")
            (session,) = (await at.client.get("/sessions")).json()["sessions"]
        assert (await at.outcome(session["run_id"]))["detail"] == "cancelled from outside: disconnect"


async def test_a_reader_for_whom_there_is_no_place_begins_nothing() -> None:
    gate = Gate()
    limits = WebLimits(requests_per_second=None, subscribers=1)
    async with site(provider=Scripted([gate, done()], [done()]), limits=limits) as at:
        begun = await at.start()
        async with at.stream(f"/runs/{begun['run_id']}/events"):
            refused = await at.client.post("/ag-ui", json=_input())
            assert (refused.status_code, refused.json()["code"]) == (429, "subscribers")
        assert len((await at.client.get("/sessions")).json()["sessions"]) == 1
        gate.open()


async def test_what_is_refused_keeps_no_readers_place() -> None:
    limits = WebLimits(requests_per_second=None, subscribers=1)
    async with site(provider=Scripted([done()]), limits=limits) as at:
        refused = await at.client.post("/ag-ui", json=_input(forwardedProps={"agent": "nobody"}))
        assert refused.status_code in (404, 422)
        assert (await _run(at, _input()))[-1].data["type"] == "RUN_FINISHED"
