"""Tests of Gemini's generateContent behind the proxy. Tests that all wires share are in `test_wires.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from endstop import read_record
from endstop.decision import AssistantMessage, ToolCall, Usage
from endstop.decision import events as ev
from endstop.formats.gemini_content import merge_contents
from endstop.providers.prices import Prices
from endstop.proxy.day_budgets import DayBudgets
from endstop.proxy.exchange import ArraySplitter
from endstop.proxy.gemini_wire import GEMINI, GeminiEnd
from endstop.proxy.wire import WireRequest, read_messages
from hypothesis import given
from hypothesis import strategies as st

from ...shared_data import recorded, replies_in, streams
from .agents import proxied
from .gemini_client import KEY
from .test_proxy_tracing import Seen

MODEL = "gemini-3-pro"
PATH = f"/v1beta/models/{MODEL}:generateContent"
STREAM = f"/v1beta/models/{MODEL}:streamGenerateContent"
GO: dict[str, Any] = {
    "contents": [{"role": "user", "parts": [{"text": "go"}]}],
    "tools": [{"functionDeclarations": [{"name": "work"}, {"name": "finish_task"}]}],
}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": arguments}}


def response(*parts: dict[str, Any], finish: str = "STOP", **more: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    usage = {"promptTokenCount": 1_000, "candidatesTokenCount": 30, "totalTokenCount": 1_030}
    ended = {**candidate, "finishReason": finish} if finish else candidate
    return {"candidates": [ended], "usageMetadata": usage, "modelVersion": MODEL, "responseId": "r1", **more}


def request(**more: Any) -> WireRequest:
    return WireRequest(
        **{"model": MODEL, "streams": True, "system": "", "items": [], "tools": (), "body": {}, **more}  # type: ignore[arg-type]
    )


class Sends:
    """Sends these responses, one for each request: as events, as an array, or whole. seen: path and body of each."""

    def __init__(self, *responses: list[dict[str, Any]], newline: str = "\r\n") -> None:
        self.responses = list(responses)
        self.newline = newline
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.sent: list[bytes] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.path_qs, await request.json()))
        events = self.responses.pop(0)
        if "stream" not in request.path:
            return web.json_response(events[0])
        if "alt" in request.query:
            kind, body = "text/event-stream", "".join(f"data: {json.dumps(one)}{self.newline * 2}" for one in events)
        else:
            kind, body = "application/json", json.dumps(events, indent=1).replace("\n", self.newline)
        self.sent.append(body.encode())
        return web.Response(body=self.sent[-1], headers={"content-type": kind})


async def post(client: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> bytes:
    async with client.post(url, json=body, headers={"x-goog-api-key": KEY}) as reply:
        assert reply.status == 200
        return await reply.read()


def events_in(body: bytes, query: str) -> list[dict[str, Any]]:
    if not query:
        return list(json.loads(body))
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]


def parts_in(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for one in events for part in one["candidates"][0]["content"]["parts"] if part != {"text": ""}]


FORMS = pytest.mark.parametrize("query", ["?alt=sse", ""], ids=["events", "array"])


# ---- one event with several parts


@FORMS
async def test_a_call_behind_the_completion_in_one_event_never_reaches_the_agent(query: str, tmp_path: Path) -> None:
    said = [{"text": "It is done. "}, {**call("finish_task", summary="done"), "thoughtSignature": "c2ln"}]
    provider = Sends([response(*said, call("work", n=1)), response({"text": "More."})])
    async with proxied(provider, tmp_path) as (url, client, proxy):
        body = await post(client, url + STREAM + query, GO)
        assert proxy.statistics.total.cuts == {"completion": 1}
    events = events_in(body, query)
    assert parts_in(events) == said
    assert events[-1]["candidates"][0]["finishReason"] == "STOP"
    assert events[-1]["candidates"][0]["finishMessage"].startswith("endstop cut this response: ")
    assert b"\n:" not in body  # Google's clients take a comment for an error


@FORMS
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("offer_completion", [False, True], ids=["", "offers"])
async def test_an_event_with_several_parts_is_passed_on_as_it_came_where_nothing_is_cut(
    query: str, newline: str, offer_completion: bool, tmp_path: Path
) -> None:
    parts = [{"text": "a", "thought": True}, {"text": "I look. "}, call("work", n=1.0e-7), call("work", n=2)]
    provider = Sends(
        [response(*parts, finish=""), response({"text": '}]\\"'}), response({"text": ""})], newline=newline
    )
    body = {**GO, "tools": [{"functionDeclarations": [{"name": "work"}]}]}
    async with proxied(provider, tmp_path, offer_completion=offer_completion) as (url, client, _):
        assert await post(client, url + STREAM + query, body) == provider.sent[0]


@FORMS
async def test_the_call_that_the_proxy_offered_is_taken_out_of_an_event_and_the_text_before_it_stays(
    query: str, tmp_path: Path
) -> None:
    provider = Sends([response({"text": "It is done."}, call("finish_task", summary="The port is 8080."))])
    body = {**GO, "tools": [{"functionDeclarations": [{"name": "work"}]}]}
    async with proxied(provider, tmp_path, offer_completion=True) as (url, client, _):
        events = events_in(await post(client, url + STREAM + query, body), query)
    assert [part["text"] for part in parts_in(events)] == ["It is done.", "\n\nThe port is 8080."]
    (_, sent) = provider.seen[0]
    assert [[one["name"] for one in tool["functionDeclarations"]] for tool in sent["tools"]] == [
        ["work", "finish_task"]
    ]


TEXTS = st.text(st.sampled_from('[]{}",\\:a \n'), max_size=8)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS, lambda inside: st.lists(inside) | st.dictionaries(TEXTS, inside), max_leaves=8
)


@given(
    elements=st.lists(st.dictionaries(TEXTS, VALUES), max_size=5),
    indent=st.sampled_from([None, 2]),
    size=st.integers(1, 9),
)
def test_the_elements_of_an_array_are_found_wherever_it_is_cut(
    elements: list[Any], indent: int | None, size: int
) -> None:
    body = json.dumps(elements, indent=indent).encode()
    splitter, found, place = ArraySplitter(), list[bytes](), 0
    for begin in range(0, len(body), size):
        for event, end in splitter.feed(body[begin : begin + size]):
            place += len(event)
            assert begin + end == place
            found.append(event)
    assert b"".join(found) == body
    assert splitter.end() == b""
    *ones, last = found
    assert last.strip(b"[ \n") == b"]"
    assert [json.loads(one.lstrip(b"[, \n")) for one in ones] == elements


def test_one_response_in_place_of_an_array_is_one_event_to_which_nothing_is_added() -> None:
    body = json.dumps(response({"text": "a"}, call("work"))).encode()
    assert [event for event, _ in ArraySplitter().feed(body)] == [body]
    end = GeminiEnd(request(in_array=True))
    end.see(body)
    assert end.cut(Usage()) == b""


def test_the_pieces_of_an_event_are_its_parts_as_they_stand_and_the_finish_reason_alone() -> None:
    args = b'{"big":123456789012345678901234567890,"f":1.0e-7}'
    data = b'{"candidates":[{"content":{"parts":[{"text":"a"},{"functionCall":{"name":"w","args":%s}}],"role":"model"},'
    data = data % args + b'"groundingMetadata":{"a":1},"finishReason":"STOP","index":0}],"responseId":"r"}'
    first, second, last = GeminiEnd(request()).pieces(b"data: " + data + b"\r\n\r\n")
    assert args in second
    assert (b"groundingMetadata" in first, b"finishReason" in second) == (False, False)
    (candidate,) = json.loads(last[6:])["candidates"]
    assert candidate["content"]["parts"] == [{"text": ""}]
    assert (candidate["finishReason"], candidate["groundingMetadata"]) == ("STOP", {"a": 1})


# ---- conversations


def test_results_without_ids_belong_to_the_next_call_of_their_tool() -> None:
    calls = [ToolCall(f"4.{number}", name, "{}") for number, name in enumerate(("look", "work", "look"))]
    answers = [("work", "w", "x7"), ("look", "first", "x8"), ("look", "second", "4.2")]
    parts = [{"functionResponse": {"id": id, "name": name, "response": {"output": text}}} for name, text, id in answers]
    tail = [{"role": "model", "parts": [{"text": "as the agent keeps it"}]}, {"role": "user", "parts": parts}]
    for items in (tail, tail[1:]):
        results = [one.message for one in read_messages(items, calls)][1:]
        assert [(one.call_id, one.content) for one in results] == [("4.1", "w"), ("4.0", "first"), ("4.2", "second")]  # type: ignore[union-attr]


def test_names_with_underscores_single_parts_and_contents_of_each_event_are_read() -> None:
    contents = [
        {"parts": {"text": "go"}},
        *({"role": "model", "parts": [{"text": text}]} for text in ("I l", "ook.")),
        {"role": "model", "parts": [{"function_call": {"name": "work", "args": {"n": 1}}}]},
        {"role": "function", "parts": {"function_response": {"name": "work", "response": {"error": "no"}}}},
    ]
    assert len(merge_contents(contents)) == 3
    prompt, said, result = (one.message for one in read_messages(contents))
    assert prompt.text == "go"  # type: ignore[union-attr]
    assert said == AssistantMessage("I look.", (ToolCall("1.0", "work", '{"n":1}'),))
    assert (result.call_id, result.content, result.status) == ("1.0", "no", "error")  # type: ignore[union-attr]
    declared = {"function_declarations": {"name": "work", "parameters": {"type": "OBJECT", "required": ["n"]}}}
    body = {"contents": contents[0], "tools": [declared], "system_instruction": {"parts": {"text": "Be brief."}}}
    read = GEMINI.read(body, STREAM + "?key=1&alt=sse")
    assert (read.model, read.streams, read.in_array, read.system) == (MODEL, True, False, "Be brief.")
    assert [(tool.name, tool.parameters["required"]) for tool in read.tools] == [("work", ["n"])]


@pytest.mark.parametrize(
    ("path", "model", "streams", "in_array"),
    [
        (PATH, MODEL, False, False),
        (STREAM, MODEL, True, True),
        (STREAM + "?%24alt=sse", MODEL, True, False),
        (f"/v1/projects/p/locations/l/publishers/google/models/{MODEL}:generateContent", MODEL, False, False),
        ("/v1beta/tunedModels/mine-1:streamGenerateContent?alt=json", "mine-1", True, True),
        ("/v1beta/models/b%3AstreamGenerateContent?alt=sse", "b", True, False),
    ],
)  # fmt: skip
def test_the_path_says_the_model_and_how_the_response_comes(
    path: str, model: str, streams: bool, in_array: bool
) -> None:
    read = GEMINI.read({"contents": GO["contents"]}, path)
    assert (read.model, read.streams, read.in_array) == (model, streams, in_array)


@pytest.mark.parametrize(
    "body", [{}, {"contents": []}, {"contents": "go"}, {**GO, "generationConfig": {"candidateCount": 2}}]
)
def test_what_cannot_be_followed_is_refused_by_the_reader(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the request"):
        GEMINI.read(body, PATH)


@pytest.mark.parametrize(
    ("path", "stream"),
    [
        (PATH, STREAM + "?alt=sse"),
        (PATH + "?key=AIza%2B1&alt=json", STREAM + "?key=AIza%2B1&alt=sse"),
        ("/v1/models/m%3agenerateContent/", "/v1/models/m%3astreamGenerateContent/?alt=sse"),
    ],
)
def test_the_path_of_a_stream_differs_only_in_what_asks_for_it(path: str, stream: str) -> None:
    assert GEMINI.stream_path(path) == stream


# ---- what is sent for an agent that does not stream, and what it gets


async def test_an_agent_that_does_not_stream_gets_its_response_from_a_stream(tmp_path: Path) -> None:
    call_part = {**call("work", n=1), "thoughtSignature": "c2ln"}
    signed = {"text": "", "thoughtSignature": "ZW5k"}
    events = [
        response({"text": "Hm. ", "thought": True}, finish=""),
        response({"text": "I l"}, finish=""),
        response({"text": "ook."}, call_part, finish=""),
        response(signed),
    ]
    provider = Sends(events)
    async with proxied(provider, tmp_path) as (url, client, proxy):
        body = json.loads(await post(client, f"{url}{PATH}?key={KEY}", GO))
        assert proxy.statistics.total.usage.input_tokens == 1_000
    assert body["candidates"][0]["content"]["parts"] == [
        {"text": "Hm. ", "thought": True},
        {"text": "I look."},
        call_part,
        signed,
    ]
    assert {**body, "candidates": None} == {**events[-1], "candidates": None}
    assert provider.seen == [(f"{STREAM}?key={KEY}&alt=sse", GO)]


@pytest.mark.parametrize(
    ("config", "asks"),
    [
        ({"mode": "NONE"}, False),
        ({"mode": "ANY", "allowedFunctionNames": ["work"]}, False),
        ({"mode": "ANY", "allowed_function_names": ["work", "finish_task"]}, True),
        ({"mode": "AUTO"}, True),
    ],
)
async def test_a_stream_is_asked_for_only_where_the_completion_may_be_called(
    config: dict[str, Any], asks: bool, tmp_path: Path
) -> None:
    provider = Sends([response({"text": "I look."})])
    async with proxied(provider, tmp_path) as (url, client, _):
        await post(client, url + PATH, {**GO, "toolConfig": {"functionCallingConfig": config}})
    assert (":stream" in provider.seen[0][0]) == asks


def test_the_request_for_closing_words_keeps_the_rest_of_its_tool_settings() -> None:
    config = {"retrieval_config": {"language_code": "de"}, "function_calling_config": {"mode": "ANY"}}
    kept = {"retrieval_config": {"language_code": "de"}, "functionCallingConfig": {"mode": "NONE"}}
    assert GEMINI.without_calls({"tool_config": config}) == {"tool_config": kept}


# ---- around it


async def test_a_key_is_in_no_record_and_counts_for_its_own_budget(tmp_path: Path) -> None:
    provider = Sends([response({"text": f"Your key is {KEY}."})], [response({"text": "hi"})])
    budgets = DayBudgets({}, {"output_tokens": 20.0}, Prices())
    async with proxied(provider, tmp_path, budgets=budgets) as (url, client, _):
        await post(client, url + STREAM, GO)
        async with client.post(f"{url}{STREAM}?key={KEY}", json=GO) as reply:  # the same key, at another place
            said = await reply.json()
            assert (reply.status, reply.headers["x-endstop"]) == (400, "stopped")
    assert said["error"].pop("message").startswith("endstop made no request: ")
    reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "endstop_budget", "domain": "endstop"}
    assert said == {"error": {"code": 400, "status": "INVALID_ARGUMENT", "details": [reason]}}
    assert KEY not in "".join(record.read_text(encoding="utf-8") for record in tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("method", "counted"), [("countTokens", 0), ("computeTokens", 0), ("predict", 1), ("generateContent", 1)]
)
async def test_counting_tokens_costs_nothing_and_other_methods_of_a_model_do(
    method: str, counted: int, tmp_path: Path
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"totalTokens": 3})

    provider = Sends()
    provider.handle = answer  # type: ignore[method-assign]
    budgets = DayBudgets({"input_tokens": 1e9}, {}, Prices())
    async with proxied(provider, tmp_path, budgets=budgets) as (url, client, proxy):
        path = f"{url}/v1beta/models/{MODEL}:{method}"
        async with client.post(path, json={"model": MODEL, "instances": ["go" * 50]}) as reply:
            assert reply.status == 200
        assert (proxy.statistics.total.usage.input_tokens > 0) == bool(counted)


async def test_a_request_without_tools_beside_a_run_is_a_run_of_its_own(tmp_path: Path) -> None:
    provider = Sends(
        [response(call("work"))], [response({"text": '{"model": "flash"}'})], [response({"text": "Done."})]
    )
    answered = {"role": "user", "parts": [{"functionResponse": {"name": "work", "response": {"output": "ok"}}}]}
    said = {"role": "model", "parts": [call("work")]}
    router = {"contents": [{"role": "user", "parts": [{"text": "go"}, {"text": "Which model?"}]}]}
    async with proxied(provider, tmp_path, completion=("finish_task",), stream_upstream=False) as (url, client, _):
        for body in (GO, router, {**GO, "contents": [*GO["contents"], said, answered]}):
            await post(client, url + PATH, body)
    runs = [run for path in tmp_path.rglob("*.jsonl") for run in read_record(path).runs]
    steps = [sum(isinstance(event, ev.StepStarted) for event in run.events) for run in runs]
    assert sorted(steps) == [1, 2]
    results = [event.content for run in runs for event in run.events if isinstance(event, ev.ToolCallResult)]
    assert results == ["ok"]


async def test_a_span_has_geminis_name_and_settings(tmp_path: Path) -> None:
    seen = Seen()
    config = {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 7, "stopSequences": ["END"]}
    provider = Sends([response({"text": "hi"})])
    async with proxied(provider, tmp_path, tracer_provider=seen.provider) as (url, client, _):
        await post(client, url + STREAM + "?alt=sse", {**GO, "generationConfig": config})
    (span,) = seen.of(f"chat {MODEL}")
    assert span.attributes is not None
    assert span.attributes["gen_ai.provider.name"] == "gcp.gemini"
    named = [span.attributes[f"gen_ai.request.{name}"] for name in ("temperature", "top_p", "max_tokens")]
    assert named == [0.5, 0.9, 7]
    assert span.attributes["gen_ai.request.stop_sequences"] == ("END",)


@pytest.mark.parametrize("path", recorded(streams(other=True)))
@FORMS
async def test_a_recorded_stream_comes_through_byte_by_byte(path: Path, query: str, tmp_path: Path) -> None:
    body = b"".join(replies_in(path)[0].pieces)
    kind = "text/event-stream" if query else "application/json"

    async def play(request: web.Request) -> web.Response:
        return web.Response(body=body, headers={"content-type": kind})

    provider = Sends()
    provider.handle = play  # type: ignore[method-assign]
    async with proxied(provider, tmp_path) as (url, client, _):
        assert await post(client, url + STREAM + query, GO) == body
