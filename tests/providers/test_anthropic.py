"""The wire of Anthropic's messages: what a response says, what is sent back, and what is an error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Image, ModelOptions, Tool, read_record
from endstop.decision import (
    AssistantMessage,
    FinishReport,
    Message,
    ProviderToolReport,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
    WrongUse,
)
from endstop.decision.events import ProviderToolReported, ResponseFinished
from endstop.providers import Anthropic, Interrupted, ProviderError, Request, Unavailable
from endstop.providers.anthropic_stream import AnthropicStream
from endstop.providers.errors import KINDS
from endstop.replay import replay
from endstop.testing.conformance.providers import CASES, ProviderCase, check
from hypothesis import given
from hypothesis import strategies as st

from .anthropic_endpoint import (
    START,
    AnthropicEndpoint,
    anthropic_to,
    block,
    ends,
    event,
    message,
    starts,
    text,
    thinking,
    use,
)
from .endpoint import Endpoint, Reply, body
from .played import Heard
from .streams import chunks_of

LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}})
DONE = message(text(0, "done"), ends())
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
FOUND = {"type": "web_search_result", "title": "Ports", "url": "http://ports.test", "encrypted_content": "RW5jcnlwdA=="}
CITED = {"type": "web_search_result_location", "cited_text": "It is 8080.", "encrypted_index": "SW5kZXg="}


def model(url: str, **options: Any) -> Anthropic:
    return Anthropic("claude-sonnet-4-5", api_key="placeholder", api_base=url, **options)


def assembled(*events: dict[str, Any] | list[dict[str, Any]], begin: dict[str, Any] | None = None) -> Heard:
    stream, heard = AnthropicStream(), Heard()
    flat = [one for each in events for one in (each if isinstance(each, list) else [each])]
    for value in (begin or starts(), *flat):
        for chunk in stream.feed(event(value)):
            heard.note(chunk)
    for chunk in stream.end():
        heard.note(chunk)
    return heard


def reports(heard: Heard) -> list[ProviderToolReport]:
    return [chunk for chunk in heard.chunks if isinstance(chunk, ProviderToolReport)]


async def sent(messages: Sequence[Message], *, options: dict[str, Any] | None = None, **request: Any) -> dict[str, Any]:
    """The body of a request with these messages."""
    async with Endpoint(DONE) as endpoint:
        await chunks_of(model(endpoint.url, **(options or {})), Request(messages=messages, **request))
    found: dict[str, Any] = endpoint.body()
    return found


def unmarked(value: Any) -> Any:
    """A body without its cache marks."""
    if isinstance(value, dict):
        return {name: unmarked(part) for name, part in value.items() if name != "cache_control"}
    return [*map(unmarked, value)] if isinstance(value, list) else value


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_claude_does_what_every_provider_must(case: ProviderCase) -> None:
    await check(case, anthropic_to, serve=AnthropicEndpoint)


# ---- what a response says


def test_thinking_text_and_calls_come_apart() -> None:
    heard = assembled(
        thinking(0, "I should look.", "c2lnbmVk"),
        text(1, "Looking", " now."),
        use(2, "toolu_1", "look", "", '{"pl', 'ace": "cellar"}'),
        use(3, "toolu_2", "look"),
        ends("tool_use"),
    )
    assert (heard.message.text, heard.reasoning) == ("Looking now.", "I should look.")
    assert heard.calls == [("toolu_1", "look", {"place": "cellar"}), ("toolu_2", "look", {})]
    assert heard.complete == ["toolu_1", "toolu_2"]
    assert heard.message.reasoning == (Reasoning("I should look.", "c2lnbmVk", vendor="anthropic"),)
    assert (heard.assembler.finish, heard.assembler.raw_finish) == ("tool_calls", "tool_use")


def test_a_call_that_comes_whole_is_a_call() -> None:
    whole = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"place": "cellar"}}
    begin = {"type": "message_start", "message": {**START, "content": [whole], "stop_reason": "tool_use"}}
    heard = assembled({"type": "message_stop"}, begin=begin)
    assert heard.calls == [("toolu_1", "look", {"place": "cellar"})]
    assert heard.assembler.raw_finish == "tool_use"


async def test_a_response_that_is_not_streamed_says_the_same() -> None:
    content = [
        {"type": "thinking", "thinking": "I should look.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "Looking now."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"place": "cellar"}},
    ]
    usage = {"input_tokens": 9, "output_tokens": 4}
    async with Endpoint(body({**START, "content": content, "stop_reason": "tool_use", "usage": usage})) as endpoint:
        heard = await Heard().all_of(model(endpoint.url))
    assert (heard.message.text, heard.reasoning) == ("Looking now.", "I should look.")
    assert heard.calls == [("toolu_1", "look", {"place": "cellar"})]
    assert (heard.assembler.raw_finish, heard.assembler.usage) == ("tool_use", Usage(input_tokens=9, output_tokens=4))


SEARCHED = [
    use(0, "srvtoolu_1", "web_search", '{"query": ', '"port"}', type="server_tool_use"),
    block(1, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [FOUND]}),
]
ANSWERED = [
    text(2, "I looked. "),
    block(
        3,
        {"type": "text", "text": "", "citations": []},
        {"type": "text_delta", "text": "It is 8080"},
        {"type": "citations_delta", "citation": CITED},
    ),
    text(4, "."),
    ends(),
]


def test_a_tool_that_the_vendor_runs_is_reported_and_is_no_call() -> None:
    heard = assembled(*SEARCHED, *ANSWERED)
    assert heard.calls == []
    used, found, cited = reports(heard)
    assert (used.id, used.name, json.loads(used.arguments)) == ("srvtoolu_1", "web_search", {"query": "port"})
    assert (found.id, found.name, json.loads(found.result)) == ("srvtoolu_1", "web_search", [FOUND])
    assert (cited.name, json.loads(cited.result)) == ("citation", CITED)
    assert heard.message.text == "I looked. It is 8080."


def test_a_refusal_says_why() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    heard = assembled(ends("refusal", stop_details=details))
    assert (heard.assembler.finish, heard.assembler.raw_finish) == ("content_filter", "refusal")
    assert [(report.name, json.loads(report.result)) for report in reports(heard)] == [("refusal", details)]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("pause_turn", "pause"),
        ("refusal", "content_filter"),
        ("model_context_window_exceeded", "context_full"),
        ("a_new_word", "other"),
    ],
)
def test_the_stop_reason_goes_through_the_table(word: str, reason: str) -> None:
    finishes = [chunk for chunk in assembled(ends(word)).chunks if isinstance(chunk, FinishReport)]
    assert finishes == [FinishReport(reason, word)]  # type: ignore[arg-type]


# ---- usage


def test_input_counts_what_the_cache_gave_and_took() -> None:
    begin = starts(input_tokens=10, cache_creation_input_tokens=200, cache_read_input_tokens=3000)
    heard = assembled(text(0, "Hi"), ends(output=7), begin=begin)
    assert heard.assembler.usage == Usage(input_tokens=3210, output_tokens=7, cached_tokens=3000)


def test_a_later_count_replaces_an_earlier_one_and_what_it_lacks_stays() -> None:
    usage = {"input_tokens": None, "cache_read_input_tokens": 40, "output_tokens": 7}
    details = {"output_tokens_details": {"thinking_tokens": 5}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {**usage, **details}}
    heard = assembled(end, begin=starts(input_tokens=10, cache_read_input_tokens=30))
    assert heard.assembler.usage == Usage(input_tokens=50, output_tokens=7, cached_tokens=40, reasoning_tokens=5)


async def test_the_input_of_a_response_that_was_cut_is_known() -> None:
    async with Endpoint(Reply(pieces=[event(starts(input_tokens=1234)), *map(event, text(0, "Hi"))])) as endpoint:
        outcome = await Engine(model(endpoint.url)).run("Hello.")
    assert outcome.stop_reason == "provider_error"
    assert outcome.usage.input_tokens == 1234
    assert outcome.usage.estimated


# ---- streams that are odd


def test_a_second_start_of_the_same_message_says_nothing_new() -> None:
    heard = assembled(starts(), text(0, "Hi"), starts(), ends())
    assert (heard.message.text, heard.assembler.raw_finish) == ("Hi", "end_turn")


def test_another_message_in_the_middle_of_one_interrupts_it() -> None:
    other = starts()
    other["message"] = {**other["message"], "id": "msg_2"}
    with pytest.raises(Interrupted):
        assembled(text(0, "Hi"), other, text(0, "Hello"), ends())


def test_blocks_without_an_end_end_with_the_message() -> None:
    begun = thinking(0, "I should look.", "c2lnbmVk")[:-1]
    heard = assembled(begun, use(1, "srvtoolu_1", "web_search", '{"query": "x"}', type="server_tool_use")[:-1], ends())
    assert [report.name for report in reports(heard)] == ["web_search"]
    assert heard.message.reasoning[0] == Reasoning("I should look.", "c2lnbmVk", vendor="anthropic")


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (b'{"type": "content_block_delta", "index": "0", "delta": {"type": "text_delta", "text": "Hi"}}', "Hi"),
        (b'{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a\xffb"}}', "a\ufffdb"),
        (
            b'{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a\\ud83db"}}',
            "a\ufffdb",
        ),
        (b'{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi", "x": NaN}}', "Hi"),
        (b'{"type": "content_block_delta", "index": 0, "delta": null}', ""),
        (b'{"type": "a_new_event", "data": {}}', ""),
    ],
)
def test_what_nobody_needs_ends_no_response(odd: bytes, said: str) -> None:
    stream, heard = AnthropicStream(), Heard()
    rest = [event(one) for one in ends()]
    for piece in (event(starts()), b"data: " + odd + b"\n\n", *rest):
        for chunk in stream.feed(piece):
            heard.note(chunk)
    assert (heard.message.text, stream.end()) == (said, [])


NAMES = """
    type index delta content_block message usage text partial_json thinking signature citation stop_reason content id
    name input tool_use_id error input_tokens output_tokens_details stop_details
""".split()
TYPES = """
    message_start content_block_start content_block_delta content_block_stop message_delta message_stop error ping text
    thinking tool_use server_tool_use web_search_tool_result text_delta input_json_delta thinking_delta signature_delta
    citations_delta compaction compaction_delta refusal
""".split()
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just("\ud800")
    | st.sampled_from(TYPES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=20,
)
TYPED = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    st.sampled_from(TYPES[:8]),
    st.dictionaries(st.sampled_from(NAMES), values, max_size=5),
)


@given(st.lists(st.binary(max_size=60) | values | TYPED, max_size=6), st.integers(1, 50))
def test_whatever_the_bytes_only_a_providers_error_comes_out(events: list[Any], cut: int) -> None:
    bodies = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in events]
    whole = b"".join(b"data: " + one + b"\n\n" for one in bodies)
    stream, heard = AnthropicStream(), Heard()
    with suppress(ProviderError):
        for at in range(0, len(whole), cut):
            for chunk in stream.feed(whole[at : at + cut]):
                heard.note(chunk)
        for chunk in stream.end():
            heard.note(chunk)
    for one in bodies:
        with suppress(ProviderError):
            AnthropicStream().read_whole(one)


# ---- errors


@pytest.mark.parametrize(
    ("type", "status", "kind"),
    [
        ("overloaded_error", 529, "server"),
        ("api_error", 500, "server"),
        ("timeout_error", 504, "timeout"),
        ("rate_limit_error", 429, "rate_limit"),
        ("authentication_error", 401, "auth"),
        ("permission_error", 403, "auth"),
        ("not_found_error", 404, "not_found"),
        ("request_too_large", 413, "context_overflow"),
        ("billing_error", 402, "quota"),
        ("invalid_request_error", 400, "bad_request"),
    ],
)
async def test_an_error_has_its_kind_in_a_stream_and_in_place_of_one(type: str, status: int, kind: str) -> None:
    error = {"type": "error", "error": {"type": type, "message": "No."}, "request_id": "req_in_body"}
    begun = Reply(pieces=[event(starts()), *map(event, text(0, "Hi")), event(error)])
    for reply in (begun, body(error, status, **{"request-id": "req_011CSH"})):
        async with Endpoint(reply) as endpoint:
            with pytest.raises(ProviderError) as raised:
                await chunks_of(model(endpoint.url))
        assert type_of(raised.value) == kind
    assert "(request req_011CSH)" in str(raised.value)
    assert raised.value.status == status


def type_of(error: ProviderError) -> str:
    assert type(error) is KINDS[error.kind]
    return error.kind


async def test_an_error_in_the_stream_names_the_request() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    async with Endpoint(Reply(pieces=[event(starts()), event(error)], headers={"request-id": "req_7"})) as endpoint:
        with pytest.raises(Unavailable, match=r"Overloaded \(request req_7\)"):
            await chunks_of(model(endpoint.url))


async def test_without_a_key_there_is_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(WrongUse, match="ANTHROPIC_API_KEY"):
        async with Anthropic("claude-sonnet-4-5"):
            pass


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"api_base": "localhost:80"}, "is not a URL"),
        ({"api_base": "http://127.0.0.1/v1/messages"}, "leave out /v1/messages"),
        ({"server_tools": SEARCH}, "use a list"),
        ({"server_tools": [{"name": "web_search"}]}, "has no type"),
        ({"server_tools": [{"type": "x", "name": object()}]}, "is not JSON"),
        ({"betas": "files-api"}, "give a list of names"),
        ({"settings": {"stream": False}}, "every response is streamed"),
        ({"read_timeout": 0}, "seconds above 0"),
    ],
)
def test_an_argument_that_cannot_work_is_wrong_use(given: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        Anthropic("claude-sonnet-4-5", **given)


@pytest.mark.parametrize("name", ["", " ", "anthropic/", "http://127.0.0.1/v1"])
def test_a_name_that_is_none_is_wrong_use(name: str) -> None:
    with pytest.raises(WrongUse):
        Anthropic(name)


# ---- what is sent


async def test_a_request_has_the_fields_and_headers_of_the_api() -> None:
    async with Endpoint(DONE) as endpoint:
        provider = model(endpoint.url, betas=["a-1", "b-2"], settings={"temperature": 0.5})
        request = Request(messages=[SystemMessage("Be brief."), UserMessage("Hi")], tools=(LOOK,))
        await chunks_of(provider, request)
    headers = endpoint.headers[0]
    assert headers["x-api-key"] == "placeholder"
    assert (headers["anthropic-version"], headers["anthropic-beta"]) == ("2023-06-01", "a-1,b-2")
    assert "authorization" not in headers
    assert unmarked(endpoint.body()) == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 32_000,
        "stream": True,
        "temperature": 0.5,
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "look", "description": "Look.", "input_schema": LOOK.parameters}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }


@pytest.mark.parametrize(("path", "end"), [("", "/v1/messages"), ("/v1", "/v1/messages"), ("/v1/", "/v1/messages")])
def test_the_url_may_have_its_version(path: str, end: str) -> None:
    assert Anthropic("claude", api_base=f"http://127.0.0.1:1{path}").url == f"http://127.0.0.1:1{end}"


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("claude-sonnet-4-5", 32_000),
        ("claude-3-7-sonnet", 32_000),
        ("claude-3-5-haiku", 8_192),
        ("claude-3-opus", 4_096),
    ],
)
async def test_the_limit_on_a_response_is_one_that_the_model_has(name: str, tokens: int) -> None:
    async with Endpoint(DONE) as endpoint:
        provider = Anthropic(f"anthropic/{name}", api_key="k", api_base=endpoint.url)
        await chunks_of(provider)
        await Engine(provider, model_options=ModelOptions(settings={"max_tokens": 99})).run("Hi")
    first, second = endpoint.body(0), endpoint.body(1)
    assert (first["model"], first["max_tokens"], second["max_tokens"]) == (name, tokens, 99)


@pytest.mark.parametrize(("choice", "sent_as"), [("required", {"type": "any"}), ("none", {"type": "none"})])
async def test_a_tool_choice_has_the_vendors_word(choice: Any, sent_as: Any) -> None:
    found = await sent([UserMessage("Hi")], tools=(LOOK,), tool_choice=choice)
    assert found["tool_choice"] == sent_as
    assert "tool_choice" not in await sent([UserMessage("Hi")], tools=(LOOK,))


async def test_settings_of_chat_completions_have_the_names_of_the_api() -> None:
    found = await sent([UserMessage("Hi")], settings={"stop": "END", "seed": 7, "max_completion_tokens": 5, "top_k": 3})
    assert (found["stop_sequences"], found["max_tokens"], found["top_k"]) == (["END"], 5, 3)
    assert not {"stop", "seed", "max_completion_tokens"} & found.keys()


async def test_all_results_of_a_turn_are_in_one_message_before_what_the_user_says() -> None:
    calls = (ToolCall("a", "look", '{"x": 1}'), ToolCall("b", "look", ""))
    results = [
        ToolResult("a", "look", "", images=(Image(b"png"), Image(url="http://pictures.test/1.png"))),
        ToolResult("b", "look", "no such place", "error"),
    ]
    history = [UserMessage("Hi"), AssistantMessage("", calls), *results, UserMessage("Well?")]
    asked, called, answered = unmarked((await sent(history))["messages"])
    assert (asked["role"], called["role"], answered["role"]) == ("user", "assistant", "user")
    assert called["content"] == [
        {"type": "tool_use", "id": "a", "name": "look", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "look", "input": {}},
    ]
    first, second, said = answered["content"]
    assert [part["type"] for part in first["content"]] == ["text", "image", "image"]
    assert first["content"][0]["text"].strip()
    assert first["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": "cG5n"}
    assert first["content"][2]["source"] == {"type": "url", "url": "http://pictures.test/1.png"}
    assert (first["tool_use_id"], first.get("is_error")) == ("a", None)
    assert (second["tool_use_id"], second["is_error"]) == ("b", True)
    assert said == {"type": "text", "text": "Well?"}


async def test_a_system_message_in_the_middle_is_not_lost() -> None:
    history = [SystemMessage("One."), UserMessage("Hi"), AssistantMessage("Yes."), SystemMessage("Two.")]
    found = unmarked(await sent(history))
    assert found["system"] == [{"type": "text", "text": "One."}]
    assert found["messages"][-1] == {"role": "user", "content": [{"type": "text", "text": "Two."}]}


async def test_texts_and_images_of_a_prompt_keep_their_order() -> None:
    asked = UserMessage.of(["This", Image(b"png"), "or this?", Image(url="http://pictures.test/1.png")])
    found = unmarked((await sent([asked]))["messages"])
    assert [part.get("text", part.get("source")) for part in found[0]["content"]] == [
        "This",
        {"type": "base64", "media_type": "image/png", "data": "cG5n"},
        "or this?",
        {"type": "url", "url": "http://pictures.test/1.png"},
    ]
    blind = unmarked((await sent([asked], options={"images": False}))["messages"])
    assert blind[0]["content"] == [{"type": "text", "text": asked.text}]


async def test_a_model_that_cannot_see_gets_no_image() -> None:
    history = [AssistantMessage("", (ToolCall("a", "look"),)), ToolResult("a", "look", "x", images=(Image(b"png"),))]
    found = await sent(history, options={"images": False})
    assert "image" not in json.dumps(found)


async def test_what_another_vendor_signed_is_not_sent() -> None:
    blocks = (
        Reasoning("Mine.", "bWluZQ==", vendor="anthropic"),
        Reasoning("Hers.", "aGVycw==", vendor="gemini"),
        Reasoning("", '{"type":"reasoning"}', redacted=True, vendor="openai-responses"),
        Reasoning("Cut"),
        Reasoning("Through litellm.", "b2xk"),
        Reasoning("", "aGlkZGVu", redacted=True),
    )
    found = unmarked(await sent([UserMessage("Hi"), AssistantMessage("Hello.", reasoning=blocks), UserMessage("So?")]))
    assert found["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Mine.", "signature": "bWluZQ=="},
        {"type": "thinking", "thinking": "Through litellm.", "signature": "b2xk"},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "text", "text": "Hello."},
    ]


# ---- the prompt cache


def marked(value: Any) -> list[dict[str, Any]]:
    """The blocks of a body that are marked for the cache."""
    if isinstance(value, list):
        return [found for part in value for found in marked(part)]
    if not isinstance(value, dict):
        return []
    inner = [found for part in value.values() for found in marked(part)]
    return [*inner, value] if "cache_control" in value else inner


async def test_tools_system_and_the_two_latest_stable_messages_are_marked() -> None:
    messages: list[Message] = [SystemMessage("Be brief."), UserMessage("One")]
    memo: dict[Any, Any] = {}
    async with Endpoint(DONE) as endpoint:
        provider = model(endpoint.url)
        for said in ("Two", "Three"):
            request = Request(messages=messages, ephemeral=[UserMessage("Now.")], tools=(LOOK, LOOK), memo=memo)
            await chunks_of(provider, request)
            messages += [AssistantMessage("Yes."), UserMessage(said)]
        await chunks_of(model(endpoint.url, cache=False), Request(messages=messages, tools=(LOOK,)))
    one, two, none = (marked(endpoint.body(number)) for number in range(3))
    assert [block.get("text") for block in one] == ["Be brief.", None, "One"]
    assert [block.get("text") for block in two] == ["Be brief.", None, "One", "Two"]
    assert none == []


def item(**fields: Any) -> AssistantMessage:
    return AssistantMessage("Hm.", reasoning=(Reasoning("", json.dumps(fields), True, "anthropic"),))


TURNS = st.lists(
    st.sampled_from(
        [
            UserMessage("Go."),
            AssistantMessage("Yes.", (ToolCall("a", "look"),)),
            ToolResult("a", "look", "seen"),
            item(type="server_tool_use", id="s"),
            item(type="web_search_tool_result", tool_use_id="s"),
        ]
    ),
    max_size=4,
)


@given(st.lists(st.tuples(TURNS, TURNS, st.booleans()), min_size=1, max_size=6))
def test_a_request_is_the_same_whether_or_not_others_came_before_it(requests: list[Any]) -> None:
    """With marks for the cache, which depend on the request before, it is the same without them."""
    for provider in (Anthropic("claude", api_key="k"), Anthropic("claude", api_key="k", cache=False)):
        compare(provider, requests)


def compare(provider: Anthropic, requests: list[Any]) -> None:
    memo: dict[Any, Any] = {}
    messages: list[Message] = [SystemMessage("Be brief.")]
    edition = 0
    for more, ephemeral, compacted in requests:
        if compacted:
            del messages[1:2]
            edition += 1
        messages += more
        request = Request(messages=messages, ephemeral=ephemeral, memo=memo, edition=edition)
        alone = Request(messages=messages, ephemeral=ephemeral)
        bodies = (json.loads(provider.encode_request(each)) for each in (request, alone))
        assert unmarked(next(bodies)) == unmarked(next(bodies))


# ---- what goes back


class Looker:
    """A tool that says what it saw."""

    async def look(self, place: str = "") -> str:
        """Look somewhere."""
        return f"nothing in {place}"


def looking(provider: Anthropic) -> Engine[Any, Any]:
    return Engine(provider, tools=[Tool(Looker().look, reads=True)], presets=())


async def test_thinking_goes_back_byte_for_byte_with_the_calls_it_led_to(tmp_path: Path) -> None:
    signatures = ["c2ln+/bmVk==", "ZXY=" * 300]
    first = message(
        thinking(0, "Hm — größer?\n", signatures[0]),
        block(1, {"type": "redacted_thinking", "data": "aGlk+/ZGVu"}),
        text(2, "Looking."),
        use(3, "toolu_1", "look", '{"place": "ü"}'),
        thinking(4, "", signatures[1]),
        use(5, "toolu_2", "look", '{"place":  "b"}'),
        ends("tool_use"),
    )
    async with Endpoint(first, DONE) as endpoint:
        await looking(model(endpoint.url)).run("Go.", record=tmp_path / "r.jsonl")
    assert unmarked(endpoint.body(1)["messages"][1]["content"]) == [
        {"type": "thinking", "thinking": "Hm — größer?\n", "signature": signatures[0]},
        {"type": "redacted_thinking", "data": "aGlk+/ZGVu"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"place": "ü"}},
        {"type": "thinking", "thinking": "", "signature": signatures[1]},
        {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {"place": "b"}},
    ]
    recorded = read_record(tmp_path / "r.jsonl")
    (said,) = [e.message for e in recorded.runs[0].events if isinstance(e, ResponseFinished)][:1]
    assert [block.signature for block in said.reasoning if not block.redacted] == signatures
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_server_tools_and_citations_go_back_as_they_came() -> None:
    called = use(5, "toolu_1", "look", '{"place": "b"}')
    first = message(*SEARCHED, *ANSWERED[:-1], called, ends("tool_use"))
    async with Endpoint(first, DONE) as endpoint:
        outcome = await looking(model(endpoint.url, server_tools=[SEARCH])).run("Go.")
    assert outcome.answer == "done"
    assert unmarked(endpoint.body(1)["tools"])[0] == SEARCH
    assert unmarked(endpoint.body(1)["messages"][1]["content"]) == [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "port"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [FOUND]},
        {"type": "text", "text": "I looked. "},
        {"type": "text", "text": "It is 8080", "citations": [CITED]},
        {"type": "text", "text": "."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"place": "b"}},
    ]


async def test_a_block_that_only_the_vendor_understands_goes_back_as_it_came() -> None:
    compaction = block(
        0,
        {"type": "compaction", "content": None},
        {"type": "compaction_delta", "content": "Summary.", "encrypted_content": "RQ=="},
    )
    hop = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}, "trigger": None}
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    first = message(compaction, block(1, hop), use(2, "toolu_1", "look", "{}", caller=caller), ends("tool_use"))
    async with Endpoint(first, DONE) as endpoint:
        await looking(model(endpoint.url)).run("Go.")
    assert unmarked(endpoint.body(1)["messages"][1]["content"]) == [
        {"type": "compaction", "content": "Summary.", "encrypted_content": "RQ=="},
        hop,
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, "caller": caller},
    ]


async def test_a_paused_response_is_sent_back_as_it_is_and_goes_on() -> None:
    used = SEARCHED[0]
    result = block(0, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [FOUND]})
    async with Endpoint(message(used, ends("pause_turn")), message(result, text(1, "8080"), ends())) as endpoint:
        engine = Engine(model(endpoint.url, server_tools=[SEARCH]))
        session = engine.session()
        outcome = await session.run("Which port?")
        await session.run("Thank you.")
    assert (outcome.answer, outcome.steps) == ("8080", 2)
    use_block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "port"}}
    paused, after = unmarked(endpoint.body(1)["messages"]), unmarked(endpoint.body(2)["messages"])
    assert [turn["role"] for turn in paused] == ["user", "assistant"]
    assert paused[1]["content"] == [use_block]
    assert [turn["role"] for turn in after] == ["user", "assistant", "user"]
    assert [part["type"] for part in after[1]["content"]] == ["server_tool_use", "web_search_tool_result", "text"]


async def test_a_use_without_its_result_is_left_out_once_the_user_has_spoken() -> None:
    item = '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}'
    blocks = (Reasoning("", item, redacted=True, vendor="anthropic"),)
    history = [UserMessage("Hi"), AssistantMessage("Searching.", reasoning=blocks)]
    spoken = unmarked((await sent([*history, UserMessage("Never mind.")]))["messages"])
    assert spoken[1]["content"] == [{"type": "text", "text": "Searching."}]
    assert [part["type"] for part in unmarked((await sent(history))["messages"])[1]["content"]] == [
        "server_tool_use",
        "text",
    ]


async def test_a_use_stays_open_while_the_vendors_code_waits_for_a_tool_of_ours() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    code = use(0, "srvtoolu_1", "code_execution", '{"code": "look()"}', type="server_tool_use")
    first = message(code, use(1, "toolu_1", "look", "{}", caller=caller), ends("tool_use"))
    async with Endpoint(first, DONE) as endpoint:
        await looking(model(endpoint.url)).run("Go.")
    asked, called, answered = unmarked(endpoint.body(1)["messages"])
    assert [part["type"] for part in called["content"]] == ["server_tool_use", "tool_use"]
    assert [part["type"] for part in answered["content"]] == ["tool_result"]
    assert asked["role"] == "user"


async def test_what_the_vendors_tools_did_is_in_the_events_of_a_run(tmp_path: Path) -> None:
    async with Endpoint(message(*SEARCHED, *ANSWERED)) as endpoint:
        outcome = await Engine(model(endpoint.url)).run("Which port?", record=tmp_path / "r.jsonl")
    assert outcome.answer == "I looked. It is 8080."
    events = read_record(tmp_path / "r.jsonl").runs[0].events
    names = [e.name for e in events if isinstance(e, ProviderToolReported)]
    assert names == ["web_search", "web_search", "citation"]
