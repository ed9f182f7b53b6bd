"""The scripted provider is read by the vendors' own clients, and a tap changes nothing between two programs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest

from .drive import serving
from .scenarios import ANSWER, CIRCLES, SCENARIOS, USEFUL, Scenario, Toolbox
from .schemas import arguments, fitting
from .scripted_provider import ScriptedProvider
from .tap import Exchange, Tap
from .wires import WIRES, Call, Reply, Text, Tokens, Tool, wire_of

SHELL = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
STRICT = {**SHELL, "additionalProperties": False}
ASKED: Any = [{"role": "user", "content": "Write it."}]


@asynccontextmanager
async def playing(scenario: Scenario) -> AsyncIterator[tuple[ScriptedProvider, Tap]]:
    """A provider behind a tap."""
    provider = ScriptedProvider(scenario)
    async with serving(provider) as url, Tap(url) as tap:
        yield provider, tap


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_openais_client_reads_chat_completions(streamed: bool) -> None:
    tools: Any = [{"type": "function", "function": {"name": "bash", "parameters": STRICT, "strict": True}}]
    async with (
        playing(SCENARIOS["a"]) as (provider, tap),
        openai.AsyncOpenAI(base_url=f"{tap.url}/v1", api_key="k") as client,
    ):
        if streamed:
            async with client.chat.completions.stream(
                model="m", messages=ASKED, tools=tools, stream_options={"include_usage": True}
            ) as stream:
                said: Any = await stream.get_final_completion()
        else:
            said = await client.chat.completions.create(model="m", messages=ASKED, tools=tools)
    message, (sent,) = said.choices[0].message, provider.answered
    assert message.content == "I write the file."
    assert json.loads(message.tool_calls[0].function.arguments) == {"command": "echo one > one.txt; echo wrote"}
    assert Tokens(said.usage.prompt_tokens, said.usage.completion_tokens) == sent.tokens
    assert (sent.step, sent.side, sent.ended, sent.counted) == (0, False, "whole", True)


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_openais_client_reads_responses(streamed: bool) -> None:
    tools: Any = [{"type": "function", "name": "exec_command", "parameters": SHELL, "strict": False}]
    async with (
        playing(SCENARIOS["a"]) as (provider, tap),
        openai.AsyncOpenAI(base_url=f"{tap.url}/v1", api_key="k") as client,
    ):
        if streamed:
            async with client.responses.stream(model="m", input=ASKED, tools=tools) as stream:
                said: Any = await stream.get_final_response()
        else:
            said = await client.responses.create(model="m", input=ASKED, tools=tools)
    text, call = said.output
    assert text.content[0].text == "I write the file."
    assert json.loads(call.arguments) == {"command": "echo one > one.txt; echo wrote"}
    assert [Tokens(said.usage.input_tokens, said.usage.output_tokens)] == [one.tokens for one in provider.answered]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_anthropics_client_reads_messages(streamed: bool) -> None:
    tools: Any = [{"name": "Bash", "input_schema": SHELL}]
    asked: Any = {"model": "m", "max_tokens": 100, "messages": ASKED, "tools": tools}
    async with (
        playing(SCENARIOS["a"]) as (provider, tap),
        anthropic.AsyncAnthropic(base_url=tap.url, api_key="k") as client,
    ):
        if streamed:
            async with client.messages.stream(**asked) as stream:
                said: Any = await stream.get_final_message()
        else:
            said = await client.messages.create(**asked)
    text, call = said.content
    assert (text.text, call.input) == ("I write the file.", {"command": "echo one > one.txt; echo wrote"})
    assert [Tokens(said.usage.input_tokens, said.usage.output_tokens)] == [one.tokens for one in provider.answered]


@pytest.mark.parametrize("method", ["streamGenerateContent?alt=sse", "streamGenerateContent", "generateContent"])
async def test_generate_content_comes_as_events_as_an_array_and_whole(method: str) -> None:
    declared = [{"name": "run_shell_command", "parameters": json.loads(json.dumps(SHELL).replace("object", "OBJECT"))}]
    body = {"contents": [{"role": "user", "parts": [{"text": "Go."}]}], "tools": [{"functionDeclarations": declared}]}
    async with (
        playing(SCENARIOS["a"]) as (provider, tap),
        aiohttp.ClientSession() as client,
        client.post(f"{tap.url}/v1beta/models/flash:{method}", json=body) as response,
    ):
        text = await response.text()
    if "alt=sse" in method:
        chunks = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line]
    else:
        chunks = json.loads(text) if "stream" in method else [json.loads(text)]
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    usage, (sent,) = chunks[-1]["usageMetadata"], provider.answered
    assert parts[-1]["functionCall"]["args"] == {"command": "echo one > one.txt; echo wrote"}
    assert (usage["promptTokenCount"], usage["candidatesTokenCount"]) == sent.tokens
    assert {chunk["modelVersion"] for chunk in chunks} == {"flash"}


HISTORIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "assistant", "tool_calls": [{}]}, {"role": "tool"}] * 2},
    ),
    "chat as text": (
        "/v1/chat/completions",
        {"messages": [{"role": "assistant", "content": "Calling tools:\n[]"}, {"role": "user"}] * 2},
    ),
    "Responses": (
        "/v1/responses",
        {
            "input": [
                *({"type": "function_call"}, {"type": "function_call"}, {"type": "function_call_output"}),
                *({"type": "reasoning"}, {"role": "assistant"}, {"type": "function_call"}),
                *({"type": "function_call_output"}, {"role": "user"}),
            ]
        },
    ),
    "Messages": (
        "/v1/messages?beta=true",
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}, {"role": "user", "content": "x"}] * 2},
    ),
    "generateContent": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "model", "parts": [{"functionCall": {}}]}, {"role": "user", "parts": []}] * 2},
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_the_step_is_known_by_the_conversation(name: str) -> None:
    path, body = HISTORIES[name]
    wire = wire_of(path)
    assert wire is not None
    assert wire.read(path, body).steps == 2


async def test_side_requests_get_what_their_schema_asks_for() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {"next_speaker": {"type": "STRING", "enum": ["user", "model"]}, "sure": {"type": "NUMBER"}},
    }
    body = {"contents": [], "generationConfig": {"responseJsonSchema": schema}}
    async with playing(SCENARIOS["c"]) as (provider, tap), aiohttp.ClientSession() as client:
        async with client.post(f"{tap.url}/v1beta/models/lite:generateContent", json=body) as response:
            said = (await response.json())["candidates"][0]["content"]["parts"][0]["text"]
        async with client.post(f"{tap.url}/v1/messages/count_tokens", json={}) as response:
            counted = await response.json()
    assert json.loads(said) == {"next_speaker": "user", "sure": 0}
    assert counted["input_tokens"] > 0
    assert [one.side for one in provider.answered] == [True]


async def test_faults_come_once_or_always_as_the_scenario_says() -> None:
    tools = [{"type": "function", "function": {"name": "bash", "parameters": SHELL}}]
    messages = [*ASKED, {"role": "assistant", "tool_calls": [{}]}]
    seen = {}
    for name in "efh":
        async with playing(SCENARIOS[name]) as (_, tap), aiohttp.ClientSession() as client:
            body = {"messages": messages, "tools": tools, "stream": True}
            for _ in range(2):
                async with client.post(f"{tap.url}/v1/chat/completions", json=body) as response:
                    with suppress(aiohttp.ClientError):
                        await response.read()
        seen[name] = [(one.status, one.whole) for one in tap.exchanges()]
    assert seen == {
        "e": [(200, False), (200, True)],
        "f": [(429, True), (200, True)],
        "h": [(400, True), (400, True)],
    }


async def test_a_tap_sees_what_was_sent_and_what_came_back() -> None:
    async with playing(SCENARIOS["a"]) as (_, near), Tap(near.url) as tap, aiohttp.ClientSession() as client:
        for number in range(3):
            async with client.post(f"{tap.url}/v1/messages", json={"n": number, "stream": number > 0}) as response:
                got = await response.read()
            assert tap.exchanges()[-1].reply == got
    there, here = tap.exchanges(), near.exchanges()
    assert [json.loads(one.body)["n"] for one in here] == [0, 1, 2]
    assert [_said(one) for one in there] == [_said(one) for one in here]
    assert all(one.whole and one.asked <= one.begun <= one.ended for one in here)


def _said(one: Exchange) -> object:
    return one.method, one.path, one.headers, one.body, one.status, one.reply_headers, one.reply


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_ids_of_calls_differ_in_one_response(wire: Any) -> None:
    reply = Reply("x", "m", (Text("a"), Call("bash", {"n": 1}), Call("bash", {"n": 2})), Tokens(1, 2))
    assert len({id for id, _ in reply.calls}) == 2
    assert "bash" in json.dumps(wire.whole(reply))


def test_a_shell_gets_its_command_in_whatever_form_it_asks_for() -> None:
    listed = {"type": "array", "items": {"type": "string"}}
    forms = {
        "command": {"type": "string"},
        "cmd": {"type": ["string", "null"]},
        "commands": {"anyOf": [{"type": "string"}, listed]},
    }
    assert arguments({"properties": forms, "required": ["note"]}, "ls", "look") == {
        "command": "ls",
        "cmd": "ls",
        "commands": ["ls"],
    }
    assert arguments({"properties": {"command": listed}}, "ls", "look") == {"command": ["bash", "-lc", "ls"]}
    assert fitting({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}, "b": {}}}, "x") == {
        "a": 3,
        "b": "x",
    }


def test_a_run_ends_by_the_agents_own_completion_or_by_a_text() -> None:
    shell, completion = Tool("bash", SHELL), Tool("final_answer", {"properties": {"answer": {"type": "string"}}})
    circle = SCENARIOS["c"].script
    assert circle(CIRCLES, Toolbox((shell,), "")) == [Text(ANSWER)]
    assert circle(CIRCLES, Toolbox((shell, completion), "")) == [Call("final_answer", {"answer": ANSWER})]
    submits = Toolbox((shell,), "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
    assert circle(CIRCLES, submits)[-1] == Call("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})
    assert not Toolbox((completion,), "").works


def test_each_of_the_useful_steps_brings_something_that_none_before_it_did(tmp_path: Path) -> None:
    tools = Toolbox((Tool("bash", SHELL),), "")
    seen = []
    for step in range(USEFUL):
        _, call = SCENARIOS["i"].script(step, tools)
        assert isinstance(call, Call)
        command = call.arguments["command"]
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        )
        seen.append((command, done.stdout + done.stderr))
    assert len(set(seen)) == USEFUL
    assert all(said for _, said in seen)
    assert SCENARIOS["i"].script(USEFUL, tools) == [Text(ANSWER)]
