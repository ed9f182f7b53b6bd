"""Sessions over HTTP: start, read, list, go on, answer, steer, cancel, resume, forget."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from endstop import Engine, read_record
from endstop.decision import SystemMessage
from endstop.providers import Scripted, Unreachable, call, say
from endstop.service.service import Service
from endstop.store.base import EventBatch, NewSession, StoreError
from endstop.tools import workspace_tools

from ..temporary_store import TemporaryStore, opened
from .site import Gate, by_prompt, done, service_with, site


async def test_a_session_is_started_and_read_with_its_runs_and_outcome() -> None:
    async with site() as at:
        response = await at.client.post("/sessions", json={"prompt": "Set the port"})
        session = response.json()
        assert response.status_code == 201
        assert response.headers["location"] == f"sessions/{session['id']}"
        assert session["status"] in ("running", "completed")
        outcome = await at.outcome(session["run_id"])
        assert (outcome["status"], outcome["answer"]) == ("completed", "The port is set.")
        read = (await at.client.get(f"/sessions/{session['id']}")).json()
        assert (read["status"], read["title"], read["can_resume"]) == ("completed", "Set the port", False)
        (run,) = read["runs"]
        assert (run["id"], run["number"], run["prompt"]) == (session["run_id"], 1, "Set the port")
        assert (await at.client.get(f"/runs/{run['id']}")).json() == run
        assert run["outcome"] == outcome


async def test_sessions_are_listed_newest_first_page_by_page_and_by_status_and_agent() -> None:
    gate = Gate()
    async with site(provider=by_prompt({"wait": lambda: [gate, done()]})) as at:
        ids = []
        for number in range(5):
            session = await at.start(f"Task {number}")
            await at.outcome(session["run_id"])
            ids.insert(0, session["id"])
        held = await at.start("wait")
        first = (await at.client.get("/sessions", params={"limit": 4})).json()
        rest = (await at.client.get("/sessions", params={"limit": 4, "before": first["next"]})).json()
        assert [s["id"] for s in first["sessions"] + rest["sessions"]] == [held["id"], *ids]
        assert rest["next"] is None
        running = (await at.client.get("/sessions", params={"status": "running"})).json()["sessions"]
        assert [s["id"] for s in running] == [held["id"]]
        nobody = (await at.client.get("/sessions", params={"agent": "nobody"})).json()
        assert nobody == {"sessions": [], "next": None}
        gate.open()


async def test_a_session_goes_on_with_another_run_and_is_busy_meanwhile() -> None:
    gate = Gate()
    async with site(provider=by_prompt({"more": lambda: [gate, done("More is done.")]})) as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        again = await at.client.post(f"/sessions/{session['id']}/runs", json={"prompt": "more"})
        assert again.status_code == 201
        assert again.json()["run_id"] != session["run_id"]
        busy = await at.client.post(f"/sessions/{session['id']}/runs", json={"prompt": "and more"})
        assert (busy.status_code, busy.json()["code"]) == (409, "busy")
        gate.open()
        assert (await at.outcome(again.json()["run_id"]))["answer"] == "More is done."
        read = (await at.client.get(f"/sessions/{session['id']}")).json()
        assert [run["number"] for run in read["runs"]] == [1, 2]
        assert read["usage"]["output_tokens"] == sum(r["outcome"]["usage"]["output_tokens"] for r in read["runs"])


async def test_a_question_is_answered_once_and_its_run_goes_on() -> None:
    provider = Scripted(call("ask_user", question="Which port?", id="q1"), [done("Port 8080.")])
    async with site(provider=provider) as at:
        session = await at.start()
        assert (await at.outcome(session["run_id"]))["status"] == "awaiting_input"
        asked = (await at.client.get(f"/sessions/{session['id']}")).json()
        assert asked["status"] == "awaiting_input"
        assert asked["question"] == {"call_id": "q1", "text": "Which port?"}
        assert asked["questions"] == [asked["question"]]
        answers = f"/sessions/{session['id']}/answers"
        other = await at.client.post(answers, json={"text": "8080", "call_id": "q9"})
        assert (other.status_code, other.json()["code"]) == (409, "no_open_question")
        answered = await at.client.post(answers, json={"text": "8080", "call_id": "q1"})
        assert answered.status_code == 201
        assert (await at.outcome(answered.json()["run_id"]))["answer"] == "Port 8080."
        late = await at.client.post(answers, json={"text": "8081", "call_id": "q1"})
        assert (late.status_code, late.json()["code"]) == (409, "answered")
        nothing = await at.client.post(answers, json={"text": "8081"})
        assert (nothing.status_code, nothing.json()["code"]) == (409, "no_open_question")


async def test_of_two_answers_at_once_one_is_taken() -> None:
    provider = Scripted(call("ask_user", question="Which port?", id="q1"), [done()])
    async with site(provider=provider) as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        path = f"/sessions/{session['id']}/answers"
        both = await asyncio.gather(*(at.client.post(path, json={"text": text}) for text in ("8080", "9090")))
        assert sorted(response.status_code for response in both) == [201, 409]
        (refused,) = (response.json() for response in both if response.status_code == 409)
        assert refused["code"] in ("answered", "busy", "no_open_question")


async def test_a_run_is_steered_while_it_goes_on_and_not_after() -> None:
    gate = Gate()
    provider = Scripted([say("Working."), gate, call("look")], [done()])
    async with site(provider=provider) as at:
        session = await at.start()
        await gate.reached.wait()
        said = await at.client.post(f"/sessions/{session['id']}/messages", json={"text": "Use port 9090"})
        assert said.status_code == 202
        assert said.json()["run_id"] == session["run_id"]
        gate.open()
        await at.outcome(session["run_id"])
        record = (await at.client.get(f"/sessions/{session['id']}/record")).text
        assert said.json()["message_id"] in record
        late = await at.client.post(f"/sessions/{session['id']}/messages", json={"text": "Use port 9091"})
        assert (late.status_code, late.json()["code"]) == (409, "not_running")


async def test_a_run_can_be_cancelled_again_and_again_but_not_one_that_has_ended_otherwise() -> None:
    gate = Gate()
    async with site(provider=Scripted([gate, done()])) as at:
        session = await at.start()
        await gate.reached.wait()
        path = f"/sessions/{session['id']}/cancel"
        both = await asyncio.gather(at.client.post(path), at.client.post(path, json={"cause": "lunch"}))
        assert {response.status_code for response in both} == {202}
        outcome = await at.outcome(session["run_id"])
        assert outcome["status"] == "cancelled"
        late = await at.client.post(path)
        assert (late.status_code, late.json()["status"]) == (202, "cancelled")
    async with site() as at:
        session = await at.start()
        assert (await at.outcome(session["run_id"]))["status"] == "completed"
        late = await at.client.post(f"/sessions/{session['id']}/cancel")
        assert (late.status_code, late.json()["code"]) == (409, "not_running")


async def test_the_cause_of_a_cancellation_stands_in_the_record() -> None:
    gate = Gate()
    async with site(provider=Scripted([gate, done()])) as at:
        session = await at.start()
        await gate.reached.wait()
        await at.client.post(f"/sessions/{session['id']}/cancel", json={"cause": "lunch"})
        assert (await at.outcome(session["run_id"]))["detail"] == "cancelled from outside: lunch"


async def test_a_session_is_forgotten_but_not_while_it_runs() -> None:
    gate = Gate()
    async with site(provider=Scripted([gate, done()])) as at:
        session = await at.start()
        path = f"/sessions/{session['id']}"
        running = await at.client.delete(path)
        assert (running.status_code, running.json()["code"]) == (409, "running")
        gate.open()
        await at.outcome(session["run_id"])
        gone = await at.client.delete(path)
        assert (gone.status_code, gone.content) == (204, b"")
        for again in (await at.client.get(path), await at.client.delete(path)):
            assert (again.status_code, again.json()["code"]) == (404, "session")


async def test_the_outcome_of_a_run_that_goes_on_can_be_waited_for() -> None:
    gate = Gate()
    async with site(provider=Scripted([gate, done()])) as at:
        session = await at.start()
        path = f"/runs/{session['run_id']}/outcome"
        early = await at.client.get(path)
        assert (early.status_code, early.json()["code"]) == (409, "running")
        waiting = asyncio.create_task(at.client.get(path, params={"wait": 60}))
        gate.open()
        assert (await waiting).json()["status"] == "completed"


async def test_what_was_not_interrupted_cannot_be_resumed() -> None:
    async with site() as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        refused = await at.client.post(f"/sessions/{session['id']}/resume")
        assert (refused.status_code, refused.json()["code"]) == (409, "not_interrupted")


async def test_an_interrupted_run_is_resumed_under_its_own_id() -> None:
    """The process died: its store is opened by another one."""
    store, gate = TemporaryStore(), Gate()
    async with site(service_with(Scripted([say("Half"), gate, done()]), store=store)) as at:
        session = await at.start()
        await gate.reached.wait()
        left = dead(store)
    async with site(service_with(Scripted([done()]), store=left)) as at:
        found = (await at.client.get(f"/sessions/{session['id']}")).json()
        assert (found["status"], found["can_resume"]) == ("interrupted", True)
        outcome = await at.client.get(f"/runs/{session['run_id']}/outcome")
        assert (outcome.status_code, outcome.json()["code"]) == (409, "interrupted")
        assert "its process died" in outcome.json()["detail"]
        resumed = await at.client.post(f"/sessions/{session['id']}/resume")
        assert (resumed.status_code, resumed.json()["run_id"]) == (201, session["run_id"])
        assert (await at.outcome(session["run_id"]))["status"] == "completed"


async def test_the_outcome_of_a_run_whose_provider_was_away_says_so_until_it_is_resumed() -> None:
    answers = iter([Unreachable("refused"), done()])
    async with site(service_with(Scripted(lambda _: next(answers)))) as at:
        session = await at.start()
        while (await at.client.get(f"/sessions/{session['id']}")).json()["status"] == "running":
            await asyncio.sleep(0)
        outcome = await at.client.get(f"/runs/{session['run_id']}/outcome")
        assert (outcome.status_code, outcome.json()["code"]) == (409, "interrupted")
        assert "no outcome: the provider was away: refused. Resume" in outcome.json()["detail"]
        assert (await at.client.post(f"/sessions/{session['id']}/resume")).status_code == 201
        assert (await at.outcome(session["run_id"]))["status"] == "completed"


async def test_who_has_seen_what_was_never_stored_goes_on_where_the_run_was_resumed() -> None:
    store, gate = TemporaryStore(), Gate()
    async with site(service_with(Scripted([say("Half"), gate, done()]), store=store)) as at:
        session = await at.start()
        run = session["run_id"]
        await gate.reached.wait()
        left = dead(store)
    async with opened(left):
        kept = (await left.run(run)).last_seq  # type: ignore[union-attr]
    async with site(service_with(Scripted([done()]), store=left)) as at:
        async with at.stream(f"/runs/{run}/events", headers={"Last-Event-ID": str(kept + 9)}) as waiting:
            await at.client.post(f"/sessions/{session['id']}/resume")
            (first,) = await waiting.until("RUN_RESUMED")
            assert first.id == f"{kept + 1}.1"
        await at.outcome(run)
        last = (await at.service.run(run)).last_seq
        for written in (str(kept + 3), str(kept), str(last), "999"):
            async with at.stream(f"/runs/{run}/events", headers={"Last-Event-ID": written}) as again:
                seen = [event.id for event in await again.all()]
            assert seen == [f"{number}.1" for number in range(kept + 1, last + 1)], written
        async with at.stream(
            f"/sessions/{session['id']}/events", headers={"Last-Event-ID": f"{run}:{kept + 3}"}
        ) as again:
            assert [event.id for event in await again.until("RUN_RESUMED")] == [f"{run}:{kept + 1}.1"]
        async with at.stream(f"/runs/{run}/events", headers={"Last-Event-ID": f"{kept + 2}.1"}) as again:
            assert (await again.all())[0].id == f"{kept + 3}.1"
        async with at.stream(f"/runs/{run}/events") as whole:
            ids = [event.id for event in await whole.all()]
        assert ids == [*map(str, range(1, kept + 1)), *(f"{number}.1" for number in range(kept + 1, last + 1))]
        done_with = await at.client.get(f"/runs/{run}/events", headers={"Last-Event-ID": f"{last}.1"})
        assert done_with.status_code == 204
        for wrong in (f"{last + 1}.1", "3.2", "3.x", "3."):
            lost = await at.client.get(f"/runs/{run}/events", headers={"Last-Event-ID": wrong})
            assert (lost.status_code, lost.json()["code"]) == (400, "last_event_id"), wrong


async def test_a_record_can_be_replayed(tmp_path: Path) -> None:
    async with site() as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        response = await at.client.get(f"/sessions/{session['id']}/record")
    assert response.headers["content-type"] == "application/jsonl"
    path = tmp_path / "session.jsonl"
    path.write_bytes(response.content)
    record = read_record(path)
    assert record.header.session_id == session["id"]
    (run,) = record.runs
    assert run.finished is not None
    assert run.finished.outcome.answer == "The port is set."


async def test_the_request_of_a_step_is_the_one_that_the_model_got() -> None:
    provider = Scripted([done()])
    async with site(provider=provider) as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        path = f"/sessions/{session['id']}/request"
        told = (await at.client.get(path, params={"run": 1, "step": 1})).json()
        missing = await at.client.get(path, params={"run": 1, "step": 2})
        unclear = await at.client.get(path)
    (asked,) = provider.requests
    assert told["messages"] == msgspec.to_builtins([m for m in asked.messages if not isinstance(m, SystemMessage)])
    assert told["system"] == next((m.text for m in asked.messages if isinstance(m, SystemMessage)), "")
    assert [tool["name"] for tool in told["tools"]] == [tool.name for tool in asked.tools]
    assert (told["model"], told["source"]) == ("scripted", "recorded")
    assert (missing.status_code, missing.json()["code"]) == (404, "step")
    assert unclear.status_code == 422


async def test_agents_are_told_with_model_policy_and_tools() -> None:
    async with site() as at:
        (agent,) = (await at.client.get("/agents")).json()["agents"]
    assert agent == {"name": "default", "model": "scripted", "policy": "agent", "tools": ["finish_task", "ask_user"]}


async def test_of_several_agents_one_is_chosen_by_name() -> None:
    engines = {name: Engine(Scripted(lambda _, name=name: [done(f"I am {name}.")])) for name in ("one", "two")}
    async with site(Service(engines, store=TemporaryStore())) as at:
        for given, name in (({}, "one"), ({"agent": "two"}, "two")):
            session = (await at.client.post("/sessions", json={"prompt": "Who?", **given})).json()
            assert session["agent"] == name
            assert (await at.outcome(session["run_id"]))["answer"] == f"I am {name}."
        unknown = await at.client.post("/sessions", json={"prompt": "Who?", "agent": "three"})
        assert (unknown.status_code, unknown.json()["code"]) == (404, "agent")


async def test_without_an_agent_nothing_is_started_and_all_can_be_read() -> None:
    async with site(Service({}, store=TemporaryStore())) as at:
        refused = await at.client.post("/sessions", json={"prompt": "Who?"})
        assert (refused.status_code, refused.json()["code"]) == (503, "no_model")
        assert "--model" in refused.json()["detail"]
        assert (await at.client.get("/sessions")).json() == {"sessions": [], "next": None}
        assert (await at.client.get("/agents")).json() == {"agents": []}


async def test_health_tells_how_many_run_and_whether_it_is_about_to_stop() -> None:
    gate = Gate()
    async with site(service_with(Scripted([gate, done()]), grace=60)) as at:
        assert (await at.client.get("/health")).json() == {"status": "ok", "running": 0}
        session = await at.start()
        at.service.begin_stopping()
        assert (await at.client.get("/health")).json() == {"status": "stopping", "running": 1}
        refused = await at.client.post("/sessions", json={"prompt": "More"})
        assert (refused.status_code, refused.json()["code"]) == (503, "stopping")
        gate.open()
        assert (await at.outcome(session["run_id"]))["status"] == "completed"


async def test_so_many_sessions_run_at_once_and_no_more() -> None:
    gate = Gate()
    provider = by_prompt({"": lambda: [gate, done()]})
    async with site(service_with(provider, max_running=2)) as at:
        first = await at.start()
        await at.start()
        refused = await at.client.post("/sessions", json={"prompt": "Third"})
        assert (refused.status_code, refused.json()["code"]) == (429, "sessions")
        assert int(refused.headers["retry-after"]) >= 1
        gate.open()
        await at.outcome(first["run_id"])
        assert (await at.client.post("/sessions", json={"prompt": "Third"})).status_code == 201


async def test_a_full_disk_is_told_and_what_is_stored_can_be_read() -> None:
    store = FullStore()
    async with site(service_with(by_prompt({}), store=store)) as at:
        before = await at.start()
        await at.outcome(before["run_id"])
        store.full = True
        refused = await at.client.post("/sessions", json={"prompt": "More"})
        assert (refused.status_code, refused.json()["code"]) == (503, "store")
        assert "log" in refused.json()["detail"]
        assert (await at.client.get(f"/sessions/{before['id']}")).json()["status"] == "completed"
        assert b"RUN_FINISHED" in (await at.client.get(f"/sessions/{before['id']}/record")).content
        store.full = False
        again = await at.client.post(f"/sessions/{before['id']}/runs", json={"prompt": "More"})
        assert again.status_code == 201
        assert (await at.outcome(again.json()["run_id"]))["status"] == "completed"


class FullStore(TemporaryStore):
    """A store whose disk may be full."""

    full = False

    async def add(self, session: NewSession) -> None:
        self._check()
        await super().add(session)

    async def commit(self, batch: EventBatch) -> int:
        self._check()
        return await super().commit(batch)

    def _check(self) -> None:
        if self.full:
            raise StoreError(28, "No space left on device")


def dead(store: TemporaryStore) -> TemporaryStore:
    """What a store holds if its process dies now, and everybody knows it."""
    left = store.copy()
    left.execute("DELETE FROM endstop_processes")
    return left


async def test_a_client_brings_the_check_of_its_session_where_the_operator_allows_it(tmp_path: Path) -> None:
    engine = Engine(Scripted(lambda request: "I am done."), tools=workspace_tools(tmp_path))
    (tmp_path / "port").write_text("8080")
    asked = {"prompt": "Set the port", "until": {"commands": "grep -q 8080 port", "timeout": 5}}
    async with site(Service(engine, store=TemporaryStore(), allow_until=True)) as at:
        session = (await at.client.post("/sessions", json=asked)).json()
        assert session["metadata"]["endstop.until"] == {"commands": ["grep -q 8080 port"], "timeout": 5.0}
        assert (await at.outcome(session["run_id"]))["stop_reason"] == "until_met"
        for wrong in ("", {"commands": "true", "env": ["HOME"]}, {"commands": "true", "timeout": -1}, [], {}):
            refused = await at.client.post("/sessions", json={"prompt": "Go", "until": wrong})
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid"), refused.text
    async with site(Service(engine, store=TemporaryStore())) as at:
        refused = await at.client.post("/sessions", json=asked)
        assert (refused.status_code, refused.json()["code"]) == (403, "until")
        assert "--allow-until" in refused.json()["detail"]
