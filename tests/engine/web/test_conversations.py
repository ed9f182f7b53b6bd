"""Prompts of texts and images and histories over HTTP, in this process and in a worker that has only the job."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Image, read_record
from endstop.decision import AssistantMessage, Message, SystemMessage, UserMessage
from endstop.durability import Job
from endstop.providers import Scripted
from endstop.records.format import encode_line
from endstop.replay import replay
from endstop.service.service import Service
from msgspec import json

from ..durable.plain import Plain
from ..temporary_store import TemporaryStore
from .site import site

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
PARTS: list[Any] = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"}},
    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
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
            "no image of a known",
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


def test_a_job_keeps_images_and_history_in_its_text() -> None:
    job = Job(run_id="r", session_id="s", agent="a", opening="prompt", images=MESSAGE.images, history=tuple(READ))
    assert json.decode(encode_line(job), type=Job) == job
