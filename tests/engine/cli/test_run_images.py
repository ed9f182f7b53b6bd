"""`endstop run --image`: images beside the prompt of the command line."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from endstop import Image, read_record
from endstop.decision import UserMessage

from ...console import endstop
from ...servers import ChatServer, call

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
DONE = [call("finish_task", summary="A cat.")]
URL = "https://example.com/a.png"
DATA = f"data:image/png;base64,{b64encode(PNG).decode()}"


def content(server: ChatServer, request: int) -> Any:
    return server.requests[request]["messages"][-1]["content"]


async def test_images_come_after_the_text_in_their_order_and_are_recorded(tmp_path: Path) -> None:
    record, file = tmp_path / "r.jsonl", tmp_path / "a.png"
    file.write_bytes(PNG)
    async with ChatServer(DONE, DONE) as server:
        at = ("--model", "scripted", "--api-base", server.url)
        images = ("--image", file, "--image", URL)
        done = await endstop("run", "What is this?", *images, *at, "--record", record)
        assert done.code == 0, done.err
        again = await endstop("run", "And this?", "--image", DATA, "--api-base", server.url, "--resume", record)
        assert again.code == 0, again.err
    assert content(server, 0) == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": DATA}},
        {"type": "image_url", "image_url": {"url": URL}},
    ]
    assert [part["type"] for part in content(server, 1)] == ["text", "image_url"]
    first, second = (run.started for run in read_record(record).runs)
    assert first.images == (Image(PNG), Image(url=URL))
    assert second.prompt == UserMessage.of(["And this?", Image(PNG)]).text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("none.png", "--image 'none.png': cannot read none.png"),
        ("http://localhost/a.png", "--image 'http://localhost/a.png': 'http://localhost/a.png' is on this host"),
        ("https://ann:geheim@example.com/a.png", "contains a login"),
        ("data:image/png;base64,####", "the data URL is not valid base64"),
        (__file__, "bytes are not an image of a known type"),
    ],
)
async def test_an_image_that_no_provider_could_read_is_a_usage_error(given: str, words: str, tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    async with ChatServer(DONE) as server:
        at = ("--model", "scripted", "--api-base", server.url, "--record", record)
        done = await endstop("run", "What is this?", "--image", given, *at)
    assert (done.code, server.requests, record.exists()) == (2, [], False)
    assert words in done.err
    assert "geheim" not in done.err


@pytest.mark.parametrize("instead", [["--answer", "8080"], []])
async def test_an_image_without_a_prompt_that_it_belongs_to_is_a_usage_error(
    instead: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    done = await endstop("run", "--resume", tmp_path / "r.jsonl", "--image", tmp_path / "a.png", *instead)
    assert done.code == 2
    assert "--image goes with a prompt" in done.err
