"""Items of a response that only another client can act on: the run ends after one request, and says which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from endstop import Engine, Tool
from endstop.providers import Anthropic, Gemini, OpenAICompatible, OpenAIResponses

from . import anthropic_endpoint, gemini_endpoint
from .endpoint import Endpoint, Reply, delta, stream
from .responses_wire import call, completed, done, message, replied

Item = dict[str, Any]
CALL_ID = {"call_id": "call_9", "status": "completed"}
FOR_CLIENTS: dict[str, Item] = {
    "apply_patch_call": {**CALL_ID, "operation": {"type": "update_file", "path": "x", "diff": "@@"}},
    "computer_call": {**CALL_ID, "action": {"type": "click", "x": 1, "y": 2}, "pending_safety_checks": []},
    "local_shell_call": {**CALL_ID, "action": {"type": "exec", "command": ["ls"], "env": {}}},
    "shell_call": {**CALL_ID, "action": {"commands": ["ls"]}},
    "tool_search_call": {**CALL_ID, "execution": "client", "arguments": {"goal": "x"}},
    "custom_tool_call": {**CALL_ID, "name": "sql", "input": "select 1"},
    "mcp_approval_request": {"name": "rm", "server_label": "s", "arguments": "{}"},
    "hologram_call": {**CALL_ID, "action": {"type": "project"}},
    "hologram_approval_request": {"name": "project", "arguments": "{}"},
    "hologram": {"status": "completed", "target": "wall"},
}
"""The items of OpenAI's API reference ("Responses", output items) that a client acts on, and three invented ones."""
DONE: dict[str, Item] = {
    "web_search_call": {"status": "completed", "action": {"type": "search", "query": "x"}},
    "file_search_call": {"status": "completed", "queries": ["x"], "results": None},
    "code_interpreter_call": {"status": "completed", "code": "1", "container_id": "c", "outputs": None},
    "image_generation_call": {"status": "completed", "result": "aGk="},
    "mcp_call": {"name": "f", "server_label": "s", "arguments": "{}", "output": None, "error": None},
    "mcp_list_tools": {"server_label": "s", "tools": []},
    "tool_search_call": {"call_id": None, "execution": "server", "arguments": {}},
    "compaction": {"encrypted_content": "x"},
    "hologram_call": {"status": "completed", "output": "a hologram"},
    "hologram_output": {"call_id": "call_9", "output": ""},
}
"""Items that the provider has dealt with: those of the reference, and two invented ones."""


async def look() -> str:
    """Look."""
    return "42"


async def ended(endpoint: Endpoint, provider: Any) -> tuple[str, str, str, int]:
    async with endpoint:
        outcome = await Engine(provider(endpoint.url), tools=[Tool(look, reads=True)], presets=()).run("go")
        return outcome.status, outcome.stop_reason or "", outcome.detail or "", len(endpoint.requests)


def responses(url: str) -> OpenAIResponses:
    return OpenAIResponses("gpt-5", api_base=url, api_key="k")


def item(kind: str, fields: Item) -> Item:
    return {"id": f"i_{kind}", "type": kind, **fields}


def by_items(*items: Item) -> Reply:
    return replied(*(done(index, one) for index, one in enumerate(items)), completed(items))


def at_the_end(*items: Item) -> Reply:
    return replied(completed(items))


def beside_a_message(*items: Item) -> Reply:
    return by_items(message("I do it."), *items)


def beside_a_call(*items: Item) -> Reply:
    return by_items(call("look", "{}"), *items)


def only_in_the_whole(*items: Item) -> Reply:
    said = message("I do it.")
    return replied(done(0, said), completed([said, *items]))


@pytest.mark.parametrize("comes", [by_items, at_the_end, beside_a_message, beside_a_call, only_in_the_whole])
@pytest.mark.parametrize("kind", FOR_CLIENTS)
async def test_an_item_for_a_client_ends_the_run_after_one_request_by_name(
    kind: str, comes: Callable[..., Reply]
) -> None:
    status, reason, detail, requests = await ended(Endpoint(comes(item(kind, FOR_CLIENTS[kind]))), responses)
    assert (status, reason, requests) == ("failed", "provider_error", 1)
    assert kind in detail


@pytest.mark.parametrize("kind", DONE)
async def test_what_the_provider_has_done_ends_nothing(kind: str) -> None:
    reply = by_items(item(kind, DONE[kind]), message("Done."))
    status, reason, _, requests = await ended(Endpoint(reply), responses)
    assert (status, reason, requests) == ("completed", "text_final", 1)


@pytest.mark.parametrize("kind", [kind for kind, fields in FOR_CLIENTS.items() if "call_id" in fields])
async def test_an_item_with_its_output_in_the_same_response_was_run_by_the_provider(kind: str) -> None:
    output = {"id": "o", "type": f"{kind}_output", "call_id": "call_9", "output": []}
    reply = by_items(item(kind, FOR_CLIENTS[kind]), output, message("Done."))
    assert (await ended(Endpoint(reply), responses))[:2] == ("completed", "text_final")


# ---- the other wires


def use(kind: str, **fields: Any) -> list[Item]:
    return anthropic_endpoint.use(1, "toolu_9", "click", '{"x": 1}', type=kind, **fields)


@pytest.mark.parametrize("kind", ["browser_tool_use", "approval_request"])
@pytest.mark.parametrize("reason", ["tool_use", "end_turn"])
async def test_an_unknown_block_for_a_client_ends_the_run_by_name(kind: str, reason: str) -> None:
    events = [anthropic_endpoint.starts(), *use(kind), *anthropic_endpoint.ends(reason)]
    endpoint = Endpoint(Reply(pieces=[anthropic_endpoint.event(one) for one in events]))
    status, stop, detail, requests = await ended(endpoint, lambda url: Anthropic("claude-x", api_base=url, api_key="k"))
    assert (status, stop, requests) == ("failed", "provider_error", 1)
    assert kind in detail


@pytest.mark.parametrize("kind", ["computerCall", "approvalRequest", "hologram"])
@pytest.mark.parametrize("text", ["", "I do it."])
async def test_an_unknown_part_for_a_client_ends_the_run_by_name(kind: str, text: str) -> None:
    given = [{"text": text}, {kind: {"id": "1", "action": "click"}}]
    reply = gemini_endpoint.gemini(gemini_endpoint.parts(*given), gemini_endpoint.finish("STOP"))
    status, stop, detail, requests = await ended(
        Endpoint(reply), lambda url: Gemini("gemini-x", api_base=url, api_key="k")
    )
    assert (status, stop, requests) == ("failed", "provider_error", 1)
    assert kind in detail


@pytest.mark.parametrize(
    ("called", "named"),
    [
        ({"type": "custom", "custom": {"name": "sql", "input": "select 1"}}, "sql"),
        ({"type": "hologram", "hologram": {"target": "wall"}}, "hologram"),
        ({"type": "custom", "custom": {"name": "look", "input": "free text"}}, "look"),
    ],
)
async def test_a_call_of_chat_that_cannot_run_is_an_error_result(called: Item, named: str) -> None:
    asks = stream(delta(tool_calls=[{"index": 0, "id": "c", **called}]), delta(finish="tool_calls"))
    async with Endpoint(asks, stream(delta(content="Done."), delta(finish="stop"))) as endpoint:
        provider = OpenAICompatible("m", endpoint.url, api_key="k")
        await Engine(provider, tools=[Tool(look, reads=True)], presets=()).run("go")
        asked, answered = endpoint.body(1)["messages"][-2:]
    assert asked["tool_calls"][0]["function"]["name"] == named
    assert answered["content"] not in ("", "42")


async def test_a_custom_call_with_the_arguments_of_our_tool_runs() -> None:
    called = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "look", "input": "{}"}}
    asks = stream(delta(tool_calls=[called]), delta(finish="tool_calls"))
    async with Endpoint(asks, stream(delta(content="Done."), delta(finish="stop"))) as endpoint:
        provider = OpenAICompatible("m", endpoint.url, api_key="k")
        await Engine(provider, tools=[Tool(look, reads=True)], presets=()).run("go")
        assert endpoint.body(1)["messages"][-1]["content"] == "42"
