"""Gemini's own wire: what it says, what goes back, errors, settings; over real HTTP on loopback."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Tool, read_record
from endstop.cli.factory import build_provider
from endstop.decision import (
    AssistantMessage,
    FinishReport,
    Image,
    Message,
    ProviderToolReport,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UsageReport,
    UserMessage,
    WrongUse,
)
from endstop.providers import BadRequest, Gemini, Interrupted, ProtocolError, ProviderError, RateLimited, Request
from endstop.providers.gemini_format import RequestEncoder
from endstop.providers.gemini_schema import adapt_schema
from endstop.providers.gemini_stream import GeminiStream
from endstop.replay import replay
from endstop.testing.conformance.providers import CASES, ProviderCase, check

from .endpoint import Endpoint, Reply
from .gemini_endpoint import GeminiEndpoint, event, finish, gemini, gemini_to, parts
from .played import Heard
from .streams import chunks_of, unmerged

USER = UserMessage("Which port?")
LOOK = ToolSpec(
    name="look", description="Look.", parameters={"type": "object", "properties": {"place": {"type": "string"}}}
)
DONE = gemini(parts({"text": "8080"}), finish("STOP"))


def model(url: str, name: str = "gemini-2.5-flash", **options: Any) -> Gemini:
    return Gemini(name, api_key="placeholder-key", api_base=url, **options)


def read(*values: dict[str, Any]) -> list[Any]:
    stream = GeminiStream()
    return stream.feed(b"".join(map(event, values))) + stream.end()


def assembled(*values: dict[str, Any]) -> Heard:
    heard = Heard()
    for chunk in read(*values):
        heard.note(chunk)
    return heard


def call(name: str = "look", /, *, signature: str = "", id: str = "", **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "args": arguments, **({"id": id} if id else {})}
    return {"functionCall": function, **({"thoughtSignature": signature} if signature else {})}


async def sent(messages: Sequence[Message], name: str = "gemini-2.5-flash", **request: Any) -> dict[str, Any]:
    """The body of a request with these messages."""
    async with Endpoint(DONE) as endpoint:
        await chunks_of(model(endpoint.url, name), Request(messages=messages, **request))
    body: dict[str, Any] = endpoint.body()
    return body


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_gemini_does_what_every_provider_must(case: ProviderCase) -> None:
    await check(case, gemini_to, serve=GeminiEndpoint)


# ---- what a response says


def test_text_thoughts_and_calls_come_apart() -> None:
    heard = assembled(
        parts({"text": "I should ", "thought": True}),
        parts({"text": "look.", "thought": True}),
        parts({"text": "Looking"}, {"text": " now."}),
        parts(call(place="cellar"), call(place="attic")),
        finish("STOP"),
    )
    assert (heard.message.text, heard.reasoning) == ("Looking now.", "I should look.")
    assert heard.calls == [("1.0", "look", {"place": "cellar"}), ("1.1", "look", {"place": "attic"})]
    assert heard.complete == ["1.0", "1.1"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "retry"),
        ("UNEXPECTED_TOOL_CALL", "retry"),
        ("MISSING_THOUGHT_SIGNATURE", "error"),
        ("ESCALATION", "content_filter"),
        ("PUP_LIMITED_DISABLED", "error"),
        ("CONTINUATION", "length"),
        ("A_NEW_WORD", "other"),
    ],
)
def test_the_finish_word_goes_through_the_table(word: str, reason: str) -> None:
    finishes = [chunk for chunk in read(finish(word)) if isinstance(chunk, FinishReport)]
    assert finishes == [FinishReport(reason, word)]  # type: ignore[arg-type]


def test_a_blocked_prompt_is_filtered_and_says_why() -> None:
    feedback = {"blockReason": "OTHER", "blockReasonMessage": "Not this one."}
    report, end, used = read({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 7}})
    assert end == FinishReport("content_filter", "OTHER")
    assert (report.name, json.loads(report.result)) == ("prompt_feedback", feedback)
    assert used == UsageReport(Usage(input_tokens=7))


def test_what_ends_a_response_early_is_shown() -> None:
    ratings = [{"category": "HARM_CATEGORY_HARASSMENT", "blocked": True}]
    candidate = {"finishReason": "SAFETY", "finishMessage": "Blocked.", "safetyRatings": ratings}
    reports = [chunk for chunk in read({"candidates": [candidate]}) if isinstance(chunk, ProviderToolReport)]
    assert [(report.name, json.loads(report.result)) for report in reports] == [
        ("safety_ratings", ratings),
        ("finish_message", "Blocked."),
    ]


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}, (9, 4, 0, 0)),
        (
            {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 5, "totalTokenCount": 18},
            (9, 9, 0, 5),
        ),
        (
            {"promptTokenCount": 9, "candidatesTokenCount": 9, "thoughtsTokenCount": 5, "totalTokenCount": 18},
            (9, 9, 0, 5),
        ),
        ({"promptTokenCount": 9, "cachedContentTokenCount": 6}, (9, 0, 6, 0)),
        ({"promptTokenCount": 17, "toolUsePromptTokenCount": 102, "candidatesTokenCount": 3}, (119, 3, 0, 0)),
    ],
)
def test_usage_counts_thoughts_and_the_results_of_searches(counts: dict[str, int], usage: tuple[int, ...]) -> None:
    (report,) = [chunk for chunk in read(finish("STOP", **counts)) if isinstance(chunk, UsageReport)]
    got = report.usage
    assert (got.input_tokens, got.output_tokens, got.cached_tokens, got.reasoning_tokens) == usage


def test_a_text_after_calls_goes_back_after_them() -> None:
    message = assembled(
        parts(call(place="attic")), parts({"text": "That is"}, {"text": " all."}), finish("STOP")
    ).message
    body = json.loads(RequestEncoder("gemini-2.5-flash").encode(Request(messages=[message]), {}))
    assert body["contents"][0]["parts"] == [call(place="attic"), {"text": "That is all."}]


def test_usage_is_reported_at_the_first_count_and_at_the_end_and_never_invented() -> None:
    counted = [{"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": count}} for count in (1, 2, 3)]
    said = [parts({"text": "a"}) | usage for usage in counted]
    chunks = read({"usageMetadata": {"trafficType": "ON_DEMAND"}}, *said, finish("STOP"))
    reported = [chunk.usage.output_tokens for chunk in chunks if isinstance(chunk, UsageReport)]
    assert reported == [1, 3]
    assert not [chunk for chunk in read(finish("STOP")) if isinstance(chunk, UsageReport)]


USED = {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1}}
TRAFFIC = {"usageMetadata": {"trafficType": "ON_DEMAND"}}


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([parts({"text": "a"}) | USED], [False]),
        ([parts({"text": "a"}) | USED, finish("STOP")], [False, False]),
        ([parts({"text": "a"}) | USED, finish("STOP"), USED], [False, False, True]),
        ([finish("STOP") | USED, parts({"text": "a"})], [True, True]),
        ([parts({"text": "a"}) | USED, finish("STOP") | TRAFFIC], [False, False]),
        ([{"promptFeedback": {"blockReason": "SAFETY"}} | USED], [True]),
    ],
)
def test_a_response_is_whole_once_its_usage_has_come_with_the_finish_reason_or_after_it(
    values: list[dict[str, Any]], wanted: list[bool]
) -> None:
    parser = GeminiStream()
    found = []
    for value in values:
        parser.feed(event(value))
        found.append(parser.whole)
    assert (found, parser.done) == (wanted, False)


def test_what_google_runs_is_reported_with_its_result_and_is_no_call() -> None:
    heard = assembled(
        parts({"executableCode": {"language": "PYTHON", "code": "print(6)"}}),
        parts({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "6\n"}}),
        parts({"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["a"]}, "id": "x1"}}),
        parts({"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"n": 1}, "id": "x1"}}),
        parts({"text": "6"}, groundingMetadata={"webSearchQueries": ["a"], "groundingChunks": [{"web": {"uri": "u"}}]}),
        finish("STOP"),
    )
    code, search, grounding = [chunk for chunk in heard.chunks if isinstance(chunk, ProviderToolReport)]
    assert code == ProviderToolReport(
        "code_execution_1",
        "code_execution",
        '{"language":"PYTHON","code":"print(6)"}',
        '{"outcome":"OUTCOME_OK","output":"6\\n"}',
    )
    assert search == ProviderToolReport("x1", "google_search_web", '{"queries":["a"]}', '{"n":1}')
    assert (grounding.name, grounding.arguments) == ("grounding", '{"queries":["a"]}')
    assert json.loads(grounding.result)["groundingChunks"] == [{"web": {"uri": "u"}}]
    assert heard.calls == []


def partial(path: str = "", more: bool = True, **value: Any) -> dict[str, Any]:
    pieces = {"partialArgs": [{"jsonPath": path, **value}]} if path else {}
    return parts({"functionCall": {**pieces, **({"willContinue": True} if more else {})}})


BEGUN = parts({"functionCall": {"name": "look", "willContinue": True}, "thoughtSignature": "c2ln"})


def test_arguments_that_come_in_pieces_are_put_together() -> None:
    heard = assembled(
        BEGUN,
        partial("$.rooms[0].name", stringValue="the c", willContinue=True),
        partial("$.rooms[0].name", stringValue="ellar"),
        partial("$.rooms[1]['a \\'b\\'']", boolValue=True),
        partial("$.depth", numberValue=2.0),
        partial("$.none", nullValue="NULL_VALUE"),
        partial(more=False),
        parts(call(place="attic")),
        finish("STOP"),
    )
    rooms = [{"name": "the cellar"}, {"a 'b'": True}]
    assert heard.calls == [
        ("1.0", "look", {"rooms": rooms, "depth": 2, "none": None}),
        ("1.1", "look", {"place": "attic"}),
    ]


def test_arguments_in_pieces_that_break_off_are_truncated() -> None:
    open_text = partial("$.place", stringValue="the c", willContinue=True)
    assert assembled(BEGUN, open_text, finish("MAX_TOKENS")).assembler.truncated == "1.0"
    assert assembled(BEGUN, open_text, finish("STOP")).assembler.truncated == "1.0"
    whole = assembled(BEGUN, partial("$.place", stringValue="attic"), finish("STOP"))
    assert (whole.assembler.truncated, whole.calls) == (None, [("1.0", "look", {"place": "attic"})])


@pytest.mark.parametrize("path", ["", "$", "$.a[999999999].b", "$[0]", "$.place.deeper"])
def test_a_path_that_leads_nowhere_is_ignored(path: str) -> None:
    heard = assembled(
        BEGUN, partial("$.place", stringValue="attic"), partial(path or "$.", stringValue="x"), partial(more=False),
        finish("STOP"),
    )  # fmt: skip
    assert heard.calls[0][2]["place"] == "attic"


# ---- bytes


def test_a_stream_gives_the_same_chunks_however_it_is_cut() -> None:
    values = [
        parts({"text": "größte \N{PILE OF POO}", "thought": True}, {"text": "\u2028 text", "thoughtSignature": "c2ln"}),
        parts(call(place="größte", signature="YQ==", id="f1")),
        finish("STOP", promptTokenCount=4, candidatesTokenCount=2),
    ]
    for newline in ("\n", "\r\n", "\r"):
        texts = [f": ping{newline}{newline}data: {json.dumps(one, ensure_ascii=False)}{newline * 2}" for one in values]
        body = "".join(texts).encode()
        for size in (1, 2, 3, 7, len(body)):
            stream = GeminiStream()
            chunks = [chunk for at in range(0, len(body), size) for chunk in stream.feed(body[at : at + size])]
            assert unmerged(chunks + stream.end()) == unmerged(read(*values))


async def test_a_body_in_gzip_is_read() -> None:
    body = gzip.compress(b"".join(map(event, (parts({"text": "8080"}), finish("STOP")))))
    reply = Reply(headers={"content_encoding": "gzip"}, pieces=[body[:9], body[9:]])
    async with Endpoint(reply) as endpoint:
        outcome = await Engine(model(endpoint.url)).run("Which port?")
    assert outcome.answer == "8080"


@pytest.mark.parametrize("listed", [True, False])
async def test_a_body_that_is_no_event_stream_is_read(listed: bool) -> None:
    whole = {**parts({"text": "8080"}, finishReason="STOP"), "usageMetadata": {"promptTokenCount": 3}}
    value = [parts({"text": ""}), whole] if listed else whole
    reply = Reply(content_type="application/json", pieces=[json.dumps(value, indent=1).encode()])
    async with Endpoint(reply) as endpoint:
        heard = await Heard().all_of(model(endpoint.url))
    assert (heard.message.text, heard.assembler.raw_finish) == ("8080", "STOP")
    assert heard.assembler.usage == Usage(input_tokens=3)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ([parts({"text": "half"})], Interrupted),
        ([{"choices": [{"delta": {"content": "chat"}}]}], ProtocolError),
        ([parts({"text": 5})], ProtocolError),
        (
            [parts({"text": "a"}), {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}],
            ProviderError,
        ),
    ],
)
def test_a_stream_that_is_not_whole_is_an_error(values: list[dict[str, Any]], error: type[ProviderError]) -> None:
    with pytest.raises(error):
        read(*values)


async def test_an_error_reply_of_google_says_how_long_to_wait() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}]
    envelope = {
        "code": 429,
        "message": "Resource has been exhausted.",
        "status": "RESOURCE_EXHAUSTED",
        "details": details,
    }
    refusal = Reply(status=429, content_type="application/json", pieces=[json.dumps({"error": envelope}).encode()])
    async with Endpoint(refusal) as endpoint:
        with pytest.raises(RateLimited, match="Resource has been exhausted") as raised:
            await chunks_of(model(endpoint.url))
    assert raised.value.retry_after == 34.4


# ---- what goes back


THOUGHTS = [
    parts({"text": "Think.", "thought": True}),
    parts({"text": "I look. ", "thoughtSignature": "dGV4dA=="}, {"text": "Now."}),
    parts({"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "Y29kZQ=="}),
    parts({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
    parts(call(place="cellar", signature="Y2FsbA==", id="f1"), call(place="attic")),
    parts({"text": "", "thoughtSignature": "ZW1wdHk="}),
    finish("STOP"),
]


def seen(place: str) -> str:
    """See a place."""
    return f"the {place} is empty"


async def test_signatures_go_back_byte_for_byte_with_the_parts_that_they_came_with() -> None:
    tool = Tool(seen, name="look", reads=True)
    async with Endpoint(gemini(*THOUGHTS), DONE) as endpoint:
        outcome = await Engine(model(endpoint.url), tools=[tool], presets=()).run("Look around.")
    assert outcome.answer == "8080"
    question, response, results = endpoint.body()["contents"]
    assert question == {"role": "user", "parts": [{"text": "Look around."}]}
    assert response == {
        "role": "model",
        "parts": [
            {"text": "I look. ", "thoughtSignature": "dGV4dA=="},
            {"text": "Now."},
            {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "Y29kZQ=="},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            call(place="cellar", signature="Y2FsbA==", id="f1"),
            call(place="attic"),
            {"text": "", "thoughtSignature": "ZW1wdHk="},
        ],
    }
    answer = [{"output": f"the {place} is empty"} for place in ("cellar", "attic")]
    assert results == {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "look", "response": answer[0], "id": "f1"}},
            {"functionResponse": {"name": "look", "response": answer[1]}},
        ],
    }


async def test_a_signed_thought_goes_back_and_an_unsigned_one_does_not() -> None:
    signed = Reasoning("Think.", "c2ln", vendor="gemini")
    body = await sent([USER, AssistantMessage("Hm.", reasoning=(signed, Reasoning("Wait."))), USER])
    thought = {"text": "Think.", "thought": True, "thoughtSignature": "c2ln"}
    assert body["contents"][1]["parts"] == [thought, {"text": "Hm."}]


async def test_what_another_vendor_signed_or_a_redaction_spoiled_is_left_out() -> None:
    spoiled = (
        Reasoning("", "{half", redacted=True, vendor="gemini"),
        Reasoning("", "b3RoZXI=", redacted=True, vendor="openai-responses"),
        Reasoning("Think.", "c2ln", vendor="anthropic"),
        Reasoning("", '{"signature":"c2ln","text":99}', redacted=True, vendor="gemini"),
    )
    body = await sent([USER, AssistantMessage("Hm.", reasoning=spoiled), USER])
    assert body["contents"][1]["parts"] == [{"text": "Hm."}]


@pytest.mark.parametrize(
    ("name", "signature"),
    [("gemini-2.5-flash", None), ("gemini-3-pro-preview", "skip_thought_signature_validator")],
)
async def test_calls_of_another_model_are_marked_for_gemini_3(name: str, signature: str | None) -> None:
    calls = (ToolCall("a", "look", '{"place":"cellar"}'), ToolCall("b", "look", "{half"))
    results = [ToolResult(call.id, "look", "", status) for call, status in zip(calls, ("ok", "invalid"), strict=True)]
    body = await sent([USER, AssistantMessage(calls=calls), *results], name)  # type: ignore[list-item]
    first, second = body["contents"][1]["parts"]
    assert first.get("thoughtSignature") == signature
    assert second == {"functionCall": {"name": "look", "args": {"invalid_json": "{half"}}}
    responses = [part["functionResponse"]["response"] for part in body["contents"][2]["parts"]]
    assert responses == [{"output": "(no output)"}, {"error": "(no output)"}]


PIXEL = Image(b"pixel")
INLINE = {"inlineData": {"mimeType": "image/png", "data": "cGl4ZWw="}}
URL = "https://example.org/a.png"
LINK = {"fileData": {"fileUri": URL, "mimeType": "image/png"}}
SHOWN = UserMessage.of(["Look:", PIXEL, "and", Image(url=URL)])


async def test_images_of_results_go_inside_them_for_gemini_3_and_after_them_before() -> None:
    shot = AssistantMessage(calls=(ToolCall("a", "look"),))
    images = (PIXEL, Image(url=URL))
    messages = [USER, shot, ToolResult("a", "look", "a shot", images=images)]
    older = (await sent(messages))["contents"]
    assert older[3] == {"role": "user", "parts": [{"text": "What look (a) shows:"}, INLINE, LINK]}
    latest = (await sent(messages, "gemini-3-flash-preview"))["contents"]
    assert latest[2]["parts"][0]["functionResponse"]["parts"] == [INLINE, LINK]
    assert len(latest) == 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [{"text": "Look:"}, INLINE, {"text": "and"}, LINK]),
        ({"images": False}, [{"text": SHOWN.text}]),
    ],
)
async def test_images_of_a_prompt_stand_at_their_places(options: dict[str, Any], expected: list[Any]) -> None:
    async with Endpoint(DONE) as endpoint:
        await chunks_of(model(endpoint.url, **options), Request(messages=[SHOWN]))
    assert endpoint.body()["contents"] == [{"role": "user", "parts": expected}]


async def test_system_tools_and_tool_choice_stand_in_their_fields() -> None:
    body = await sent([SystemMessage("Be brief."), USER], tools=(LOOK,), tool_choice="required")
    assert body == {
        "contents": [{"role": "user", "parts": [{"text": "Which port?"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "look", "description": "Look.", "parametersJsonSchema": LOOK.parameters}
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
    }


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"max_tokens": 5, "top_p": 0.5}, {"generationConfig": {"maxOutputTokens": 5, "topP": 0.5}}),
        ({"stop": "END", "seed": 1}, {"generationConfig": {"stopSequences": ["END"], "seed": 1}}),
        ({"reasoning_effort": "low"}, {"generationConfig": {"thinkingConfig": {"thinkingBudget": 1024}}}),
        (
            {"thinkingConfig": {"includeThoughts": True}, "reasoning_effort": "low"},
            {"generationConfig": {"thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True}}},
        ),
        ({"safety_settings": [{"category": "C"}]}, {"safetySettings": [{"category": "C"}]}),
        ({"generationConfig": {"topK": 3}}, {"generationConfig": {"topK": 3}}),
        ({"cachedContent": "cachedContents/1"}, {"cachedContent": "cachedContents/1"}),
    ],
)
async def test_settings_go_under_the_names_that_gemini_has_for_them(
    given: dict[str, Any], fields: dict[str, Any]
) -> None:
    body = await sent([USER], settings=given)
    assert {name: value for name, value in body.items() if name != "contents"} == fields


async def test_effort_is_a_level_for_gemini_3() -> None:
    body = await sent([USER], "gemini-3-pro-preview", settings={"reasoning_effort": "high"})
    assert body["generationConfig"] == {"thinkingConfig": {"thinkingLevel": "high"}}


def test_a_schema_is_put_into_the_subset_and_the_rest_into_words() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Arguments",
        "type": "object",
        "properties": {
            "kind": {"const": "a"},
            "name": {"type": "number", "exclusiveMinimum": 0, "description": "A number."},
            "place": {"oneOf": [{"$ref": "#/definitions/Place"}, {"type": "null"}]},
            "both": {"allOf": [{"properties": {"x": {}}, "required": ["x"]}, {"required": ["y"]}], "title": "Both"},
            "title": {"type": "array", "items": {"title": "T", "type": "string", "format": "uuid"}},
        },
        "required": ["kind"],
        "additionalProperties": False,
        "definitions": {"Place": {"type": "string", "minLength": 1}},
    }
    assert adapt_schema(schema) == {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a"]},
            "name": {"type": "number", "description": "A number. (exclusiveMinimum: 0)"},
            "place": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
            "both": {"properties": {"x": {}}, "required": ["x", "y"]},
            "title": {"type": "array", "items": {"type": "string", "description": '(format: "uuid")'}},
        },
        "required": ["kind"],
        "additionalProperties": False,
        "$defs": {"Place": {"type": "string", "minLength": 1}},
    }


# ---- where it goes, and with which key


async def test_the_model_is_in_the_url_and_the_key_in_googles_header() -> None:
    async with Endpoint(DONE) as endpoint:
        await chunks_of(model(endpoint.url, "models/gemini-2.5-flash"))
    assert model("http://h/v1").url == "http://h/v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert model("http://h/v1", "tunedModels/mine").url == "http://h/v1/tunedModels/mine:streamGenerateContent?alt=sse"
    assert endpoint.headers[0]["x-goog-api-key"] == "placeholder-key"
    assert "authorization" not in endpoint.headers[0]


async def test_an_access_token_is_sent_as_vertex_takes_it() -> None:
    async with Endpoint(DONE) as endpoint:
        await chunks_of(Gemini("gemini-2.5-flash", access_token="ya29.token", api_base=endpoint.url))
    assert endpoint.headers[0]["authorization"] == "Bearer ya29.token"
    assert "x-goog-api-key" not in endpoint.headers[0]


async def test_what_google_runs_is_offered_beside_the_tools() -> None:
    async with Endpoint(DONE) as endpoint:
        provider = model(endpoint.url, server_tools=[{"googleSearch": {}}])
        await chunks_of(provider, Request(messages=[USER]))
        await chunks_of(provider, Request(messages=[USER], tools=(LOOK,)))
    assert endpoint.body(0)["tools"] == [{"googleSearch": {}}]
    assert [list(tool) for tool in endpoint.body(1)["tools"]] == [["functionDeclarations"], ["googleSearch"]]


@pytest.mark.parametrize("variable", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
async def test_the_key_is_found_in_the_environment_and_needed_for_google(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(WrongUse, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
        async with Gemini("gemini-2.5-flash"):
            pass
    monkeypatch.setenv(variable, "found\n")
    async with Endpoint(DONE) as endpoint:
        await chunks_of(Gemini("gemini-2.5-flash", api_base=endpoint.url))
    assert endpoint.headers[0]["x-goog-api-key"] == "found"
    assert (Gemini("gemini-2.5-flash").endpoint, repr(Gemini("g"))) == ("", "Gemini('g')")


async def test_the_command_line_takes_gemini_by_its_prefix_or_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "found")
    by_name = build_provider("gemini/gemini-2.5-flash", None, None)
    assert (repr(by_name), by_name.model) == ("Gemini('gemini/gemini-2.5-flash')", "gemini/gemini-2.5-flash")
    async with Endpoint(DONE) as endpoint:
        outcome = await Engine(build_provider("gemini-2.5-flash", endpoint.url, "gemini")).run("Which port?")
    assert outcome.answer == "8080"
    assert isinstance(by_name, Gemini)
    assert by_name.url.endswith("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"api_key": "a", "access_token": "b"}, "only one of them"),
        ({"api_base": "nowhere"}, "not a URL"),
        ({"server_tools": {"googleSearch": {}}}, "use a list"),
        ({"server_tools": ["googleSearch"]}, "is not a tool"),
        ({"server_tools": [{"googleSearch": object()}]}, "is not JSON"),
    ],
)
def test_arguments_that_cannot_work_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(WrongUse, match=why):
        Gemini("gemini-2.5-flash", **options)


async def test_a_refused_request_says_what_google_said() -> None:
    error = {
        "error": {"code": 400, "message": "Unknown name \"foo\" at 'generation_config'", "status": "INVALID_ARGUMENT"}
    }
    reply = Reply(status=400, content_type="application/json", pieces=[json.dumps(error).encode()])
    async with Endpoint(reply) as endpoint:
        with pytest.raises(BadRequest, match="Unknown name"):
            await chunks_of(model(endpoint.url, settings={"foo": 1}))
    assert endpoint.body()["generationConfig"] == {"foo": 1}


async def test_signatures_lie_in_the_record_and_go_back_from_it(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    tool = Tool(seen, name="look", reads=True)
    async with Endpoint(gemini(*THOUGHTS), DONE) as endpoint:
        await Engine(model(endpoint.url), tools=[tool], presets=()).run("Look around.", record=record)
        engine = Engine(model(endpoint.url), tools=[tool], presets=())
        session = engine.session(read_record(record).header.session_id, record=record)
        session.load(read_record(record).runs)
        await session.run("And now?")
    first, again = endpoint.body(1)["contents"], endpoint.body(2)["contents"]
    assert again[: len(first)] == first
    assert [part["thoughtSignature"] for part in again[1]["parts"] if "thoughtSignature" in part] == [
        "dGV4dA==",
        "Y29kZQ==",
        "Y2FsbA==",
        "ZW1wdHk=",
    ]
    assert (await replay(str(record))).same
