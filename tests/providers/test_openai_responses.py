"""OpenAI's Responses API over real HTTP on loopback: what is heard, what is sent, and what goes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, tool
from endstop.cli.factory import build_provider
from endstop.decision import (
    AnyChunk,
    AssistantMessage,
    FinishReport,
    Image,
    ProviderToolReport,
    Reasoning,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserMessage,
    WrongUse,
)
from endstop.decision.messages import Usage
from endstop.providers import OpenAIResponses, Request
from endstop.providers.errors import Interrupted, ProtocolError, ProviderError, RateLimited
from endstop.records.reader import read_record
from endstop.testing.conformance.providers import CASES, ProviderCase, check
from endstop.testing.conformance.providers import Endpoint as ChatEndpoint

from .endpoint import Endpoint, Reply, body
from .played import Heard
from .responses_wire import (
    ResponsesEndpoint,
    added,
    call,
    completed,
    done,
    event,
    in_words_of_this_api,
    items,
    message,
    replied,
    text,
)
from .streams import chunks_of

LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}})
ENCRYPTED = (
    '{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Think \\u00e9."}],'
    '"encrypted_content":"gAAA\\u002f=="}'
)
"""A reasoning item in a form that no encoder of ours would write."""


def responses(url: str, **options: Any) -> OpenAIResponses:
    return OpenAIResponses("gpt-5", api_key="placeholder", base_url=url, **options)


async def heard(reply: Reply, **options: Any) -> Heard:
    async with Endpoint(reply) as endpoint:
        return await Heard().all_of(responses(endpoint.url, **options))


async def failing(reply: Reply) -> tuple[list[AnyChunk], ProviderError]:
    got = Heard()
    async with Endpoint(reply) as endpoint:
        with pytest.raises(ProviderError) as error:
            await got.all_of(responses(endpoint.url))
    return got.chunks, error.value


def reports(got: Heard) -> list[ProviderToolReport]:
    return [chunk for chunk in got.chunks if isinstance(chunk, ProviderToolReport)]


def raw_done(index: int, item: str) -> bytes:
    """An item that is done, as these very bytes."""
    head = '{"type":"response.output_item.done","output_index":'
    return f'event: response.output_item.done\ndata: {head}{index},"item":{item}}}\n\n'.encode()


# ---- what is heard


@pytest.mark.parametrize("case", [in_words_of_this_api(case) for case in CASES], ids=str)
async def test_it_does_what_every_provider_must(case: ProviderCase) -> None:
    def made(at: ChatEndpoint) -> OpenAIResponses:
        return OpenAIResponses("conformance", api_key=at.key, base_url=at.url, read_timeout=at.timeout)

    await check(case, made, serve=ResponsesEndpoint)


async def test_items_without_any_delta_are_heard_once() -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    got = await heard(items(reasoning, message("A", "B"), call("look", '{"at": 1}')))
    assert (got.reasoning, got.message.text, got.calls) == ("Hm.", "AB", [("call_1", "look", {"at": 1})])


async def test_what_no_delta_brought_of_an_item_comes_from_the_whole_item() -> None:
    got = await heard(replied(text(0, "The por"), done(0, message("The port", " is 8080.")), completed()))
    assert got.message.text == "The port is 8080."


async def test_what_was_shown_stands_where_the_whole_item_says_something_else() -> None:
    got = await heard(replied(text(0, "The port."), done(0, message("A longer text.")), completed()))
    assert got.message.text == "The port."


async def test_a_response_whose_items_come_only_at_its_end_is_heard() -> None:
    got = await heard(replied(completed([message("ok"), call("look", "{}")])))
    assert (got.message.text, got.calls) == ("ok", [("call_1", "look", {})])


async def test_items_without_indexes_are_told_apart_by_their_ids() -> None:
    deltas = (event("response.function_call_arguments.delta", item_id=f"fc_{id}", delta='{"x":1}') for id in "ab")
    begun = (event("response.output_item.added", item=call(f"t{id}", "", id)) for id in "ab")
    got = await heard(replied(*begun, *deltas, completed()))
    assert got.calls == [("a", "ta", {"x": 1}), ("b", "tb", {"x": 1})]


async def test_a_response_that_was_not_streamed_is_heard() -> None:
    response = completed([message("ok")], usage={"input_tokens": 5, "output_tokens": 7})["response"]
    got = await heard(body(response))
    assert (got.message.text, got.assembler.raw_finish) == ("ok", "completed")
    assert got.assembler.usage == Usage(input_tokens=5, output_tokens=7)


async def test_two_messages_and_two_parts_of_reasoning_are_set_apart() -> None:
    parts = [{"type": "summary_text", "text": one} for one in ("One.", "Two.")]
    got = await heard(
        items({"id": "rs_1", "type": "reasoning", "summary": parts}, message("First."), message("Last.", id="msg_2"))
    )
    assert (got.reasoning, got.message.text) == ("One.\n\nTwo.", "First.\n\nLast.")


async def test_a_call_without_arguments_is_complete_when_its_item_is() -> None:
    got = Heard()
    reply, request = replied(done(0, call("look", "{}")), text(1, "more"), completed()), Request(messages=[])
    async with Endpoint(reply) as endpoint, responses(endpoint.url).stream(request) as chunks:
        async for chunk in chunks:
            got.note(chunk)
            if isinstance(chunk, TextDelta):
                break
    assert got.complete == ["call_1"]


@pytest.mark.parametrize(
    ("reason", "raw", "finish"),
    [
        ("max_output_tokens", "max_output_tokens", "length"),
        ("max_messages", "max_messages", "length"),
        ("content_filter", "content_filter", "content_filter"),
        ("new_reason", "new_reason", "other"),
        (None, "incomplete", "length"),
    ],
)
async def test_an_incomplete_response_says_why(reason: str | None, raw: str, finish: str) -> None:
    details = None if reason is None else {"reason": reason}
    got = await heard(replied(text(0, "Hal"), completed([], "incomplete", incomplete_details=details)))
    assert [chunk for chunk in got.chunks if isinstance(chunk, FinishReport)] == [FinishReport(finish, raw)]


async def test_a_users_finish_word_comes_first() -> None:
    end = completed([], "incomplete", incomplete_details={"reason": "new_reason"})
    got = await heard(replied(text(0, "Done."), end), finish_words={"new_reason": "stop"})
    assert (got.assembler.finish, got.assembler.raw_finish) == ("stop", "new_reason")


async def test_a_refusal_is_heard_and_ends_as_filtered() -> None:
    refused = message(content=[{"type": "refusal", "refusal": "I cannot."}])
    got = await heard(items(refused))
    assert (got.message.text, got.assembler.finish, got.assembler.raw_finish) == (
        "I cannot.",
        "content_filter",
        "completed",
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", "server"),
        ("rate_limit_exceeded", "rate_limit"),
        ("invalid_prompt", "bad_request"),
        ("vector_store_timeout", "timeout"),
        ("image_too_large", "bad_request"),
        ("insufficient_quota", "quota"),
        ("context_length_exceeded", "context_overflow"),
    ],
)
async def test_a_failed_response_is_an_error_of_its_kind_with_its_usage(code: str, kind: str) -> None:
    end = completed([], "failed", error={"code": code, "message": "It went wrong."}, usage={"input_tokens": 3})
    chunks, error = await failing(replied(text(0, "Hal"), end))
    assert (error.kind, "It went wrong." in error.message) == (kind, True)
    assert [type(chunk).__name__ for chunk in chunks] == ["TextDelta", "UsageReport"]


async def test_a_failed_response_without_a_reason_is_an_error() -> None:
    assert "without a reason" in (await failing(replied(completed([], "failed", error=None))))[1].message


@pytest.mark.parametrize(
    "error",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down."},
        {"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "Slow down."}},
        {"error": {"code": "rate_limit_exceeded", "message": "Slow down."}},
    ],
)
@pytest.mark.parametrize("named", [True, False])
async def test_an_error_in_the_stream_is_raised_in_each_of_its_forms(error: dict[str, Any], named: bool) -> None:
    line = f"data: {json.dumps(error)}\n\n"
    _, raised = await failing(Reply(pieces=[(f"event: error\n{line}" if named else line).encode()]))
    assert (type(raised), "Slow down." in raised.message) == (RateLimited, True)


async def test_a_stream_in_another_format_is_refused_with_its_beginning() -> None:
    chat = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    _, error = await failing(Reply(pieces=[f"data: {json.dumps(chat)}\n\ndata: [DONE]\n\n".encode()]))
    assert (type(error), "Responses API" in error.message, "choices" in error.message) == (ProtocolError, True, True)


async def test_a_stream_that_ends_with_done_but_without_the_end_of_the_response_is_interrupted() -> None:
    _, error = await failing(Reply(pieces=[*replied(text(0, "Hal")).pieces, b"data: [DONE]\n\n"]))
    assert type(error) is Interrupted


@pytest.mark.parametrize(
    "line",
    [
        '{"type": "response.output_text.delta", "output_index": [1], "delta": "ok"}',
        '{"type": "response.output_text.delta", "output_index": 0, "delta": "ok", "logprobs": NaN}',
        '{"type": "response.output_text.delta", "output_index": 1e400, "delta": "ok"}',
    ],
)
async def test_an_event_with_odd_values_is_read(line: str) -> None:
    end = replied(completed()).pieces[0]
    got = await heard(Reply(pieces=[f"data: {line}\n\n".encode(), end]))
    assert got.message.text == "ok"


@pytest.mark.parametrize(
    "event_of_odd_types",
    [
        {"type": "response.output_item.done", "output_index": 0, "item": None},
        {"type": "response.output_item.done", "output_index": 0, "item": [1]},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "name": {}}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": {"text": "x"}},
        {"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "content": "x"}},
        {"type": "response.something.new", "delta": 1},
        {"type": "keepalive", "sequence_number": 3},
        {"type": 7},
    ],
)
async def test_events_of_odd_types_break_nothing(event_of_odd_types: dict[str, Any]) -> None:
    got = await heard(replied(text(5, "ok"), event_of_odd_types | {"output_index": 9}, completed()))
    assert got.message.text == "ok"


@pytest.mark.parametrize("response", [None, [], {}, {"output": 3, "usage": "many"}, {"usage": {"input_tokens": "x"}}])
async def test_an_end_with_odd_fields_is_an_end(response: Any) -> None:
    got = await heard(replied(text(0, "ok"), event("response.completed", response=response)))
    assert (got.message.text, got.assembler.finish, got.assembler.usage) == ("ok", "stop", None)


async def test_usage_beside_which_reasoning_is_counted_extra_holds_it() -> None:
    details = {"output_tokens_details": {"reasoning_tokens": 40}, "input_tokens_details": {"cached_tokens": 8}}
    got = await heard(
        items(message("ok"), usage={"input_tokens": 10, "output_tokens": 5, "total_tokens": 55, **details})
    )
    assert got.assembler.usage == Usage(input_tokens=10, output_tokens=45, cached_tokens=8, reasoning_tokens=40)


# ---- tools of the provider, and citations


SEARCHED = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "ports"},
}
RAN = {
    "id": "ci_1",
    "type": "code_interpreter_call",
    "status": "completed",
    "code": "print(1)",
    "container_id": "cntr_1",
    "outputs": [{"type": "logs", "logs": "1"}],
}
ASKED = {
    "id": "mcp_1",
    "type": "mcp_call",
    "server_label": "wiki",
    "name": "ask",
    "arguments": '{"q":1}',
    "output": "42",
}


async def test_tools_that_the_provider_runs_are_reported() -> None:
    found = {"id": "fs_1", "type": "file_search_call", "queries": ["port"], "results": None}
    drawn = {"id": "ig_1", "type": "image_generation_call", "result": "A" * 100_000}
    clicked = {"id": "cu_1", "type": "computer_call", "call_id": "c9", "action": {"type": "click"}}
    got = await heard(items(SEARCHED, found, RAN, ASKED, drawn, clicked, message("ok")))
    assert [(one.id, one.name, one.arguments, one.result) for one in reports(got)] == [
        ("ws_1", "web_search", '{"type": "search", "query": "ports"}', ""),
        ("fs_1", "file_search", '["port"]', ""),
        ("ci_1", "code_interpreter", "print(1)", '[{"type": "logs", "logs": "1"}]'),
        ("mcp_1", "wiki.ask", '{"q":1}', "42"),
        ("ig_1", "image_generation", "", "(an image: 100000 characters of base64)"),
        ("c9", "computer", '{"type": "click"}', ""),
    ]
    assert got.calls == []


async def test_citations_of_a_message_are_reported() -> None:
    cited = {"type": "url_citation", "url": "https://example.org/", "title": "Ports", "start_index": 0, "end_index": 2}
    part = {"type": "output_text", "text": "ok", "annotations": [cited]}
    got = await heard(items(message(content=[part])))
    assert [(one.id, one.name, json.loads(one.result)) for one in reports(got)] == [("msg_1", "citations", [cited])]


# ---- what is sent


async def sent(request: Request, **options: Any) -> Any:
    async with Endpoint(items(message("ok"))) as endpoint:
        await chunks_of(responses(endpoint.url, **options), request)
        return endpoint.body()


async def test_a_request_is_stateless_and_asks_for_encrypted_reasoning() -> None:
    request = Request(messages=[SystemMessage("Be brief."), UserMessage("Which port?")], tools=(LOOK,))
    assert await sent(request) == {
        "model": "gpt-5",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "Which port?"}],
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": "Look.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
    }


@pytest.mark.parametrize(
    ("model", "asks"),
    [("gpt-5.4", True), ("o3", True), ("grok-4", True), ("gpt-4o", False), ("openai/gpt-4.1", False)],
)
async def test_only_models_that_reason_are_asked_for_reasoning(model: str, asks: bool) -> None:
    async with Endpoint(items(message("ok"))) as endpoint:
        for encrypted in (None, not asks):
            await chunks_of(OpenAIResponses(model, base_url=endpoint.url, encrypted_reasoning=encrypted))
        assert ["include" in endpoint.body(number) for number in (0, 1)] == [asks, not asks]


@pytest.mark.parametrize(("choice", "as_sent"), [("auto", None), ("required", "required"), ("none", "none")])
async def test_the_tool_choice_is_sent_in_the_words_of_the_api(choice: Any, as_sent: str | None) -> None:
    request = Request(messages=[UserMessage("go")], tools=(LOOK,), tool_choice=choice)
    assert (await sent(request)).get("tool_choice") == as_sent


async def test_settings_are_sent_under_the_names_of_this_api() -> None:
    request = Request(messages=[UserMessage("go")], settings={"max_tokens": 7, "include": ["web_search_call.results"]})
    given = {"reasoning_effort": "high", "reasoning": {"summary": "auto"}, "temperature": 0, "store": True}
    body = await sent(request, settings=given)
    assert body["max_output_tokens"] == 7
    assert body["reasoning"] == {"summary": "auto", "effort": "high"}
    assert (body["temperature"], body["store"]) == (0, True)
    assert body["include"] == ["reasoning.encrypted_content", "web_search_call.results"]
    assert not body.keys() & {"max_tokens", "reasoning_effort"}


async def test_results_go_out_with_their_images() -> None:
    asked = AssistantMessage("I look.", (ToolCall("c1", "look", '{"at":1}'), ToolCall("c2", "look", "{broken")))
    results = [ToolResult("c1", "look", "A port.", images=(Image(b"abc"),)), ToolResult("c2", "look", "")]
    request = Request(messages=[UserMessage("go"), asked, *results])
    picture = {"type": "input_image", "image_url": "data:image/png;base64,YWJj", "detail": "auto"}
    calls = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
        {"type": "function_call", "call_id": "c2", "name": "look", "arguments": '{"invalid_json": "{broken"}'},
    ]
    empty = {"type": "function_call_output", "call_id": "c2", "output": "(no output)"}
    seen = {"type": "function_call_output", "call_id": "c1"}
    shown = [{"type": "input_text", "text": "A port."}, picture]
    assert (await sent(request))["input"] == [*calls, {**seen, "output": shown}, empty]
    assert (await sent(request, images=False))["input"] == [*calls, {**seen, "output": "A port."}, empty]


async def test_a_prompt_goes_out_with_its_images() -> None:
    prompt = UserMessage.of(["What is this?", Image(url="https://example.org/a.png"), "And why?"])
    request = Request(messages=[prompt])
    assert (await sent(request))["input"][0]["content"] == [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
        {"type": "input_text", "text": "And why?"},
    ]
    assert (await sent(request, images=False))["input"] == [{"role": "user", "content": prompt.text}]


async def test_ephemeral_messages_come_last_and_only_once() -> None:
    request = Request(messages=[UserMessage("go")], ephemeral=[UserMessage("Two steps left.")])
    assert [item["content"] for item in (await sent(request))["input"]] == ["go", "Two steps left."]


async def test_server_tools_are_offered_beside_ours() -> None:
    body = await sent(
        Request(messages=[UserMessage("go")], tools=(LOOK,)), server_tools=[{"type": "web_search"}, {"type": "mcp"}]
    )
    assert [tool["type"] for tool in body["tools"]] == ["function", "web_search", "mcp"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"server_tools": {"type": "web_search"}}, "use a list"),
        ({"server_tools": [{"name": "x"}]}, "web_search"),
        ({"server_tools": [{"type": "function", "name": "x"}]}, "give it to the engine"),
        ({"server_tools": [{"type": "custom"}]}, "needs the name"),
        ({"server_tools": [{"type": "mcp", "headers": object()}]}, "not JSON"),
        ({"settings": {"previous_response_id": "resp_1"}}, "whole session"),
        ({"settings": {"input": "x"}}, "pass the prompt to"),
        ({"settings": {"tools": []}}, "give tools to the engine"),
        ({"base_url": "http://127.0.0.1:1/v1/responses"}, "leave out /responses"),
        ({"base_url": "nowhere"}, "not a URL"),
        ({"model": ""}, "OpenAIResponses('gpt-5.4')"),
    ],
)
def test_what_cannot_work_is_said_at_once(options: dict[str, Any], says: str) -> None:
    with pytest.raises(WrongUse, match=says.replace("(", r"\(").replace(")", r"\)").replace("'", ".")):
        OpenAIResponses(**{"model": "gpt-5", "api_key": "x", **options})


async def test_the_name_of_a_model_loses_its_prefix_for_openais_own_server_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    own = OpenAIResponses("openai/gpt-5")
    assert (own.model, own.model_name, own.endpoint, repr(own)) == (
        "openai/gpt-5",
        "gpt-5",
        "",
        "OpenAIResponses('openai/gpt-5')",
    )
    with pytest.raises(WrongUse, match="set OPENAI_API_KEY"):
        await own.__aenter__()
    assert OpenAIResponses("openai/gpt-5", base_url="https://openrouter.ai/api/v1").model_name == "openai/gpt-5"


@pytest.mark.parametrize(
    ("model", "base", "by_hand", "made"),
    [
        ("openai/gpt-5.4", None, None, "OpenAIResponses('openai/gpt-5.4')"),
        ("openai/responses/gpt-5.4", None, None, "OpenAIResponses('openai/gpt-5.4')"),
        (
            "openai/gpt-5.4",
            "http://127.0.0.1:1/v1",
            None,
            "OpenAICompatible('openai/gpt-5.4', 'http://127.0.0.1:1/v1')",
        ),
        ("grok-4", "http://127.0.0.1:1/v1", "openai-responses", "OpenAIResponses('grok-4', 'http://127.0.0.1:1/v1')"),
        ("gpt-5.4", None, "openai", "OpenAICompatible('gpt-5.4', 'https://api.openai.com/v1')"),
        ("openai/gpt-5.4", None, "litellm", "LiteLLM('openai/gpt-5.4')"),
    ],
)
def test_the_command_line_reaches_openais_models_on_this_wire(
    model: str, base: str | None, by_hand: str | None, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "placeholder")
    assert repr(build_provider(model, base, by_hand)) == made


# ---- what goes back


async def next_input(reply: Reply, **options: Any) -> tuple[bytes, list[Any]]:
    """What the request after this response holds after the prompt, whose calls are all answered with `42`."""

    @tool
    async def look() -> str:
        """Look."""
        return "42"

    async with Endpoint(reply, items(message("Done."))) as endpoint:
        await Engine(responses(endpoint.url, **options), tools=[look], presets=()).run("go")
        return endpoint.requests[1], endpoint.body(1)["input"][1:]


OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "42"}
ASKS = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}


def with_reasoning(*rest: dict[str, Any]) -> Reply:
    tail = [done(index, item) for index, item in enumerate(rest, 1)]
    return Reply(pieces=[raw_done(0, ENCRYPTED), *replied(*tail, completed()).pieces])


async def test_encrypted_reasoning_goes_back_byte_for_byte_before_what_it_led_to() -> None:
    raw, items = await next_input(with_reasoning(call("look", "{}")))
    assert ENCRYPTED.encode() in raw
    assert items == [json.loads(ENCRYPTED), ASKS, OUTPUT]


async def test_items_go_back_in_the_order_in_which_they_came() -> None:
    whole = with_reasoning(message("I search."), SEARCHED, message("Now:"), call("look", "{}"))
    _, items = await next_input(whole)
    said = [{"role": "assistant", "content": text} for text in ("I search.", "Now:")]
    assert items == [json.loads(ENCRYPTED), said[0], SEARCHED, said[1], ASKS, OUTPUT]


async def test_a_call_at_which_the_stream_was_cut_keeps_the_reasoning_that_led_to_it() -> None:
    arguments = event("response.function_call_arguments.delta", output_index=1, delta='{"summary": "x"}')
    late = [added(1, call("finish_task", "")), arguments, text(2, "too late"), completed()]
    cut = Reply(pieces=[raw_done(0, ENCRYPTED), *replied(*late).pieces])
    async with Endpoint(cut, items(message("Again."))) as endpoint:
        session = Engine(responses(endpoint.url)).session()
        assert (await session.run("go")).stop_reason == "completed"
        await session.run("once more")
        assert ENCRYPTED.encode() in endpoint.requests[1]
        assert [item.get("type", item.get("role")) for item in endpoint.body(1)["input"]] == [
            "user",
            "reasoning",
            "function_call",
            "function_call_output",
            "user",
        ]


async def test_a_session_that_begins_with_the_messages_of_another_sends_its_reasoning() -> None:
    async with Endpoint(with_reasoning(message("Port 8080.")), items(message("Sure."))) as endpoint:
        engine = Engine(responses(endpoint.url), presets=())
        session = engine.session()
        await session.run("Which port?")
        await engine.session(history=session.messages()).run("Sure?")
        assert ENCRYPTED.encode() in endpoint.requests[1]


async def test_a_resumed_record_sends_the_reasoning_that_stands_in_it(tmp_path: Path) -> None:
    record = tmp_path / "session.jsonl"
    async with Endpoint(with_reasoning(message("Port 8080.")), items(message("Sure."))) as endpoint:
        await Engine(responses(endpoint.url), presets=()).session(record=record).run("Which port?")
        session = Engine(responses(endpoint.url), presets=()).session()
        session.load(read_record(record).runs)
        await session.run("Sure?")
        assert ENCRYPTED.encode() in endpoint.requests[1]


async def test_what_only_the_vendor_kept_does_not_go_back() -> None:
    stored = {"id": "rs_1", "type": "reasoning", "summary": []}
    assert (await next_input(items(stored, call("look", "{}"))))[1] == [ASKS, OUTPUT]


async def test_calls_of_a_clients_tools_do_not_go_back_nor_the_reasoning_that_led_to_them() -> None:
    clicked = {"id": "cu_1", "type": "computer_call", "call_id": "c9", "action": {"type": "click"}}
    approval = {"id": "mcpr_1", "type": "mcp_approval_request", "name": "rm", "arguments": "{}", "server_label": "x"}
    async with Endpoint(with_reasoning(clicked, approval), items(message("Done."))) as endpoint:
        session = Engine(responses(endpoint.url), presets=()).session()
        assert (await session.run("go")).stop_reason == "provider_error"
        await session.run("on")
        assert [item.get("role") for item in endpoint.body(1)["input"]] == ["user", "user"]


async def test_calls_that_the_vendor_answered_go_back_with_their_answers() -> None:
    ran = {"id": "sh_1", "type": "shell_call", "call_id": "c9", "action": {"commands": ["ls"]}}
    printed = {"id": "sho_1", "type": "shell_call_output", "call_id": "c9", "output": [{"stdout": "a"}]}
    assert (await next_input(items(ran, printed, RAN, ASKED, call("look", "{}"))))[1] == [
        ran,
        printed,
        RAN,
        ASKED,
        ASKS,
        OUTPUT,
    ]


async def test_fields_that_only_the_vendor_understands_go_back_with_their_message_and_call() -> None:
    said, called = (
        message("I look.", phase="commentary"),
        call("look", "{}", namespace="eyes", caller={"type": "program"}),
    )
    _, items = await next_input(replied(done(0, said), done(1, called), completed()))
    assert items[:2] == [said, called]
    assert OUTPUT.items() <= items[2].items()


async def test_items_of_another_wire_are_not_sent() -> None:
    request = Request(
        messages=[
            UserMessage("go"),
            AssistantMessage("Hm.", reasoning=(Reasoning("", "{}", True, "anthropic"), Reasoning("Hm", "c2ln"))),
            UserMessage("And?"),
        ]
    )
    assert (await sent(request))["input"][1] == {"role": "assistant", "content": "Hm."}


async def test_the_bytes_of_a_request_are_the_beginning_of_the_next() -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "42"

    calls = [with_reasoning(call("look", "{}", f"call_{number}")) for number in range(4)]
    async with Endpoint(*calls, items(message("Done."))) as endpoint:
        await Engine(responses(endpoint.url), tools=[look], presets=(), system="Be brief.").run("go")
        for earlier, later in zip(endpoint.requests, endpoint.requests[1:], strict=False):
            assert later.startswith(earlier.removesuffix(b"]}"))


# ---- custom tools


async def test_a_custom_tool_calls_ours_with_the_text_that_the_model_wrote() -> None:
    written: list[str] = []

    @tool
    async def sql(input: str) -> str:
        """Run SQL."""
        written.append(input)
        return "1 row"

    asked = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": 'select "é" \\ 1\n'}
    deltas = [event("response.custom_tool_call_input.delta", output_index=0, delta=one) for one in ('select "', "é")]
    first = replied(added(0, {**asked, "input": ""}), *deltas, done(0, asked), completed())
    offered = {"type": "custom", "name": "sql", "description": "Run SQL."}
    async with Endpoint(first, items(message("Done."))) as endpoint:
        provider = responses(endpoint.url, server_tools=[offered])
        outcome = await Engine(provider, tools=[sql], presets=()).run("go")
        assert endpoint.body(0)["tools"] == [offered]
        assert endpoint.body(1)["input"][1:] == [
            {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": asked["input"]},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "1 row"},
        ]
    assert (written, outcome.answer) == ([asked["input"]], "Done.")


async def test_a_custom_call_that_is_not_ours_is_reported() -> None:
    asked = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c1", "name": "x_search", "input": "from:us"}
    got = await heard(items(asked, message("ok")))
    assert [(one.name, one.arguments) for one in reports(got)] == [("x_search", "from:us")]
    assert got.calls == []
