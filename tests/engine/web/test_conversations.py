"""Prompts of texts and images and histories over HTTP, in this process and in a worker that has only the job."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Image, RecordOptions, Redaction, read_record
from endstop.decision import AssistantMessage, Message, SystemMessage, ToolResult, UserMessage
from endstop.durability import Job
from endstop.providers import Scripted, call
from endstop.records.format import encode_line
from endstop.replay import replay
from endstop.service.active import ActiveSession
from endstop.service.admission import redacted_message
from endstop.service.service import Service
from endstop.store.base import NewSession, StoredMessage
from endstop.tools import ask_user
from msgspec import json

from ..durable.plain import Plain
from ..held import Held
from ..temporary_store import TemporaryStore
from .site import site

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
PARTS: list[Any] = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"}},
    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
]
BAD_PARTS: list[Any] = [
    [],
    [{"type": "input_audio", "input_audio": {}}],
    [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/a"}}],
    [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
    " ",
]
MESSAGE = UserMessage.of(["What is this?", Image(PNG), Image(url="https://example.com/a.png")])
HISTORY = [
    {"role": "system", "content": "Theirs."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
]
READ: list[Message] = [SystemMessage("Mine."), UserMessage("Hi"), AssistantMessage("Hello"), MESSAGE]


class Asked:
    """A model that answers `ok`, and the messages of its requests."""

    def __init__(self) -> None:
        self.requests: list[list[Message]] = []

    def engine(self) -> Engine:
        return Engine(Scripted(self._answer), system="Mine.")

    def _answer(self, request: Any) -> str:
        self.requests.append(list(request.messages))
        return "ok"


async def test_a_session_begins_with_a_history_and_a_prompt_of_parts_and_its_record_replays(tmp_path: Path) -> None:
    asked, path = Asked(), tmp_path / "r.jsonl"
    async with site(Service(asked.engine(), store=TemporaryStore())) as at:
        session = (await at.client.post("/sessions", json={"prompt": PARTS, "history": HISTORY})).json()
        await at.outcome(session["run_id"])
        assert asked.requests == [READ]
        assert session["title"].startswith("What is this?")
        (run,) = (await at.client.get(f"/sessions/{session['id']}")).json()["runs"]
        assert run["prompt"] == MESSAGE.text
        again = await at.client.post(f"/sessions/{session['id']}/runs", json={"prompt": PARTS[1:]})
        await at.outcome(again.json()["run_id"])
        assert asked.requests[1] == [*READ, AssistantMessage("ok"), UserMessage.of([*MESSAGE.images])]
        path.write_bytes((await at.client.get(f"/sessions/{session['id']}/record")).content)
    assert read_record(path).runs[0].started.images == MESSAGE.images
    assert (await replay(path)).same


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": [{"type": "input_audio", "input_audio": {}}]}, "the prompt has a part of a kind that is not known"),
        ({"prompt": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/a"}}]}, "on this host"),
        (
            {"prompt": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
            "not an image of a known",
        ),
        ({"prompt": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}, "the prompt is a result of a call"),
        ({"prompt": "x", "history": [{"role": "critic", "content": "x"}]}, "history[0] has a role"),
        ({"prompt": "x", "history": [{"role": "tool", "tool_call_id": "t", "content": "x"}]}, "history[0] is a result"),
        ({"prompt": "x", "history": "Hi"}, "history"),
    ],
)
async def test_what_no_provider_could_read_is_refused_and_nothing_is_stored(body: Any, why: str) -> None:
    asked = Asked()
    async with site(Service(asked.engine(), store=TemporaryStore())) as at:
        response = await at.client.post("/sessions", json=body)
        assert response.status_code in (400, 422)
        assert why in response.json()["detail"]
        assert (await at.client.get("/sessions")).json()["sessions"] == []
    assert asked.requests == []


async def test_the_text_of_a_prompt_of_parts_has_the_bound_of_a_text() -> None:
    async with site(Service(Asked().engine(), store=TemporaryStore())) as at:
        response = await at.client.post("/sessions", json={"prompt": [{"type": "text", "text": "x" * 200_001}]})
    assert (response.status_code, response.json()["code"]) == (422, "too_long")


async def test_a_worker_that_takes_the_run_from_a_queue_has_its_images_and_history(tmp_path: Path) -> None:
    asked = Asked()
    queue = Plain(str(tmp_path / "queue.db"))
    async with Service(asked.engine(), store=TemporaryStore(), queue=queue, grace=0) as service:
        session = await service.start(MESSAGE, history=HISTORY)
        assert session.run_id is not None
        assert await service.outcome(session.run_id, wait=30) is not None
    assert asked.requests == [READ]


async def test_an_answer_over_http_is_a_text_or_parts_also_in_a_worker(tmp_path: Path) -> None:
    for queue in (None, Plain(str(tmp_path / "queue.db"))):
        model = Scripted([call("ask_user", question="Which?")], "ok")
        engine = Engine(model, presets=[ask_user])
        async with site(Service(engine, store=TemporaryStore(), queue=queue, grace=0)) as at:
            session = (await at.client.post("/sessions", json={"prompt": "Draw it"})).json()
            await at.outcome(session["run_id"])
            to = f"/sessions/{session['id']}/answers"
            for bad in BAD_PARTS:
                response = await at.client.post(to, json={"text": bad})
                assert response.status_code in (400, 422), bad
                assert "the answer" in response.json()["detail"]
            answered = await at.client.post(to, json={"text": PARTS})
            assert answered.status_code == 201
            assert (await at.outcome(answered.json()["run_id"]))["status"] == "completed"
        result = model.requests[1].messages[-1]
        assert isinstance(result, ToolResult)
        assert (result.content, result.images) == (MESSAGE.text, MESSAGE.images)


async def test_a_message_over_http_is_a_text_or_parts_and_comes_with_the_next_request() -> None:
    held = Held()
    model = Scripted([call("look", path="a")], "ok")
    async with site(Service(Engine(model, tools=[held.tool]), store=TemporaryStore())) as at:
        session = (await at.client.post("/sessions", json={"prompt": "Draw it"})).json()
        await held.called.wait()
        to = f"/sessions/{session['id']}/messages"
        for bad in BAD_PARTS:
            response = await at.client.post(to, json={"text": bad})
            assert response.status_code in (400, 422), bad
            assert "the message" in response.json()["detail"]
        assert (await at.client.post(to, json={"text": PARTS})).status_code == 202
        held.go.set()
        await at.outcome(session["run_id"])
    assert model.requests[1].messages[-1] == MESSAGE


async def test_messages_with_images_that_come_too_late_are_one_prompt_of_the_next_run() -> None:
    store = TemporaryStore()
    engine = Engine(Scripted("ok"), record_options=RecordOptions(redact=Redaction()))
    async with Service(engine, store=store) as service:
        first = ActiveSession("s", "")
        secret = Image(url="https://example.com/a.png?key=sk-proj-" + "Ab1" * 16)
        said = [UserMessage("Hurry."), MESSAGE, UserMessage.of(["And:", secret])]
        kept = [redacted_message(one, engine.config.record_options.redact) for one in said]
        await store.add(NewSession(id="s", owner="", agent="main", title="t", created_at="2026-01-01T00:00:00.000Z"))
        for number, one in enumerate(kept):
            stored = StoredMessage(id=f"m{number}", session_id="s", text=one.text, images=one.images, created_at="")
            await store.add_message(stored)
        waiting = await service.store.undelivered_messages("s")
        assert [one.said for one in waiting] == kept
        assert kept[2].images == (), "its URL holds a secret"
        joined = first.join_messages(waiting[:2])
    assert joined == UserMessage.of(["Hurry.", "", *MESSAGE.parts])


def test_a_job_keeps_images_and_history_in_its_text() -> None:
    job = Job(run_id="r", session_id="s", agent="a", opening="prompt", images=MESSAGE.images, history=tuple(READ))
    assert json.decode(encode_line(job), type=Job) == job
