"""Pictures that tools return: to the models that can see them, in the form that the wire takes; text for all others."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Tool, read_record
from endstop.decision import Image
from endstop.providers import LiteLLM, OpenAICompatible, Provider

from .endpoint import Endpoint, call_delta, delta, stream
from .test_history import TEXT, anthropic, block, ends

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm and what it imports warn of themselves

PICTURE = Image(b"\x89PNG...", "image/png")
DATA = f"data:image/png;base64,{b64encode(PICTURE.data).decode()}"
THERE = Image(url="http://127.0.0.1/a.png")
PNG = Image(b"\x89PNG\r\n\x1a\n....", "image/png")
PNG_DATA = f"data:image/png;base64,{b64encode(PNG.data).decode()}"
WEB = Image(url="https://example.com/a.png")
TWO_CALLS = stream(
    call_delta(index=0, id="call_1", name="look", arguments='{"at": 1}'),
    call_delta(index=1, id="call_2", name="look", arguments='{"at": 2}'),
    delta(finish="tool_calls"),
)
DONE = stream(delta(content="done", finish="stop"))


def showing(provider: Provider) -> Engine:
    async def look(at: int) -> Any:
        return PICTURE if at == 1 else ["two of them", PICTURE, THERE]

    return Engine(provider, tools=[Tool(look, name="look", description="Look.", reads=True)], presets=())


async def shown(provider: Provider, endpoint: Endpoint) -> list[dict[str, Any]]:
    assert (await showing(provider).run("go")).answer == "done"
    return [message for message in endpoint.body()["messages"] if message["role"] != "system"]


async def test_on_the_direct_path_pictures_follow_the_last_result_and_results_stay_text() -> None:
    async with Endpoint(TWO_CALLS, DONE) as endpoint:
        messages = await shown(OpenAICompatible("m", endpoint.url), endpoint)
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[2]["content"] == "[image: image/png, 7 bytes]"
    assert messages[3]["content"] == f"two of them\n[image: image/png, 7 bytes]\n[image: {THERE.url}]"
    assert [part.get("text") or part["image_url"]["url"] for part in messages[4]["content"]] == [
        "What look (call_1) shows:",
        DATA,
        "What look (call_2) shows:",
        DATA,
        THERE.url,
    ]


async def test_a_model_that_cannot_see_has_the_text_alone() -> None:
    async with Endpoint(TWO_CALLS, DONE) as endpoint:
        messages = await shown(OpenAICompatible("m", endpoint.url, images=False), endpoint)
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool"]
    assert b"base64" not in endpoint.requests[-1]


@pytest.mark.parametrize(("model", "sees"), [("openai/gpt-4o", True), ("openai/some-model", False)])
async def test_through_litellm_a_model_sees_if_litellm_says_so(model: str, sees: bool) -> None:
    async with Endpoint(TWO_CALLS, DONE) as endpoint:
        await shown(LiteLLM(model, api_base=endpoint.url, api_key="placeholder"), endpoint)
        assert (DATA.encode() in endpoint.requests[-1]) is sees


async def test_to_claude_a_picture_goes_inside_of_its_result() -> None:
    arguments = {"type": "input_json_delta", "partial_json": '{"at": 1}'}
    head = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    async with Endpoint(anthropic(*block(0, head, arguments), ends("tool_use")), TEXT) as endpoint:
        base = endpoint.url.removesuffix("/v1")
        messages = await shown(LiteLLM("anthropic/claude-sonnet-4-5", api_base=base, api_key="placeholder"), endpoint)
    (result,) = messages[-1]["content"]
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "toolu_1")
    assert [part["type"] for part in result["content"]] == ["text", "image"]
    assert result["content"][1]["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": b64encode(PICTURE.data).decode(),
    }


async def test_with_pictures_the_bytes_of_a_request_stay_the_beginning_of_the_next_one() -> None:
    async with Endpoint(TWO_CALLS, TWO_CALLS, DONE) as endpoint:
        await shown(OpenAICompatible("m", endpoint.url), endpoint)
    for number in (0, 1):
        assert endpoint.requests[number + 1].startswith(endpoint.requests[number].removesuffix(b"]}") + b",")


async def test_the_record_keeps_a_picture_once_and_gives_it_back(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    async with Endpoint(TWO_CALLS, DONE) as endpoint:
        assert (await showing(OpenAICompatible("m", endpoint.url)).run("go", record=record)).answer == "done"
    results = [e for run in read_record(record).runs for e in run.events if type(e).__name__ == "ToolCallResult"]
    assert [result.images for result in results] == [(PICTURE,), (PICTURE, THERE)]
    assert record.read_text(encoding="utf-8").count(b64encode(PICTURE.data).decode()) == 2


async def test_structured_content_is_json_as_it_is() -> None:
    async def look(at: int) -> dict[str, Any]:
        return {"at": at, "rows": [1, None, "ü"]}

    async with Endpoint(TWO_CALLS, DONE) as endpoint:
        engine = Engine(OpenAICompatible("m", endpoint.url), tools=[Tool(look, description="Look.")], presets=())
        await engine.run("go")
    result = next(message for message in endpoint.body()["messages"] if message["role"] == "tool")
    assert json.loads(result["content"]) == {"at": 1, "rows": [1, None, "ü"]}


# ---- images of a prompt

PROMPT = ["What is this?", PNG, "And this?", WEB]
PARTS: list[Any] = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": PNG_DATA}},
    {"type": "text", "text": "And this?"},
    {"type": "image_url", "image_url": {"url": WEB.url}},
]


async def asked(provider: Provider, endpoint: Endpoint) -> Any:
    """What stands in the prompt's message on the wire."""
    assert (await Engine(provider, system="").run(PROMPT)).answer == "done"
    return endpoint.body()["messages"][0]["content"]


async def test_on_the_direct_path_texts_and_images_of_a_prompt_keep_their_order() -> None:
    async with Endpoint(DONE) as endpoint:
        assert await asked(OpenAICompatible("m", endpoint.url), endpoint) == PARTS


async def test_a_model_that_cannot_see_has_marks_in_place_of_the_images_of_a_prompt() -> None:
    async with Endpoint(DONE) as endpoint:
        text = await asked(OpenAICompatible("m", endpoint.url, images=False), endpoint)
    assert text == f"What is this?\n[image 1: image/png, 12 bytes]\nAnd this?\n[image 2: {WEB.url}]"


@pytest.mark.parametrize(
    ("model", "images", "sent"),
    [
        ("openai/gpt-4o", None, True),
        ("openai/some-model", None, True),
        ("openai/some-model", True, True),
        ("openai/gpt-4o", False, False),
    ],
)
async def test_through_litellm_images_of_a_prompt_are_sent_unless_the_user_says_that_the_model_is_blind(
    model: str, images: bool | None, sent: bool
) -> None:
    async with Endpoint(DONE) as endpoint:
        content = await asked(LiteLLM(model, api_base=endpoint.url, api_key="placeholder", images=images), endpoint)
    assert (content == PARTS) if sent else isinstance(content, str)


async def test_to_claude_images_of_a_prompt_are_blocks_and_a_url_is_passed_on() -> None:
    async with Endpoint(TEXT) as endpoint:
        base = endpoint.url.removesuffix("/v1")
        provider = LiteLLM("anthropic/claude-sonnet-4-5", api_base=base, api_key="placeholder")
        await Engine(provider, system="").run(PROMPT)
        blocks = endpoint.body()["messages"][0]["content"]
    assert [block["type"] for block in blocks] == ["text", "image", "text", "image"]
    assert blocks[1]["source"]["media_type"] == "image/png"
    assert blocks[3]["source"] == {"type": "url", "url": WEB.url}
