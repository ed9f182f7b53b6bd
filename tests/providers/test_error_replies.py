"""C1, C2: what providers say when they refuse or fail, in all shapes, is of the right kind."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from endstop.decision import UserMessage
from endstop.providers import LiteLLM, Request
from endstop.providers.chat_stream import ChatStream
from endstop.providers.error_replies import build_error, parse_error_body, parse_error_value
from endstop.providers.errors import ProviderError
from endstop.providers.retry import DEFAULT_RETRIES
from hypothesis import given
from hypothesis import strategies as st

from ..shared_data import SHARED
from .endpoint import Endpoint, body, delta, stream
from .error_bodies import BODIES, TEXTS


def sent(body: Any) -> bytes:
    return (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogateescape")


def headers_of(headers: dict[str, str]) -> dict[str, str]:
    soon = str(int((time.time() + 9) * 1000))
    return {name: soon if value == "NOW+9000ms" else value for name, value in headers.items()}


def test_C1_C2_a_refusal_is_of_its_kind() -> None:
    wrong = []
    for vendor, status, headers, said, kind, wait in BODIES:
        given = headers_of(headers)
        error = build_error(parse_error_body(sent(said), given), status=status, headers=given)
        if error.kind != kind or (wait is not None and error.retry_after != pytest.approx(wait, abs=2)):
            wrong.append((vendor, status, error.kind, error.retry_after))
    assert wrong == []


def test_C1_C2_a_text_is_of_its_kind_as_it_is_and_as_a_message() -> None:
    wrong = []
    for status, text, kinds in TEXTS:
        shapes = [text]
        if isinstance(text, str) and text and text[0] != "<":
            shapes += [
                {"error": {"message": text}},
                {"error": text},
                {"object": "error", "message": text},
                [{"error": text}],
            ]
        for shape in shapes:
            error = build_error(parse_error_body(sent(shape)), status=status)
            wrong += [] if error.kind in kinds.split("|") else [(status, shape, error.kind)]
    assert wrong == []


def kept() -> list[Any]:
    path = SHARED / "data" / "wire" / "error_bodies.json"
    return json.loads(path.read_text()) if path.exists() else []


@pytest.mark.skipif(not kept(), reason="the recorded material is not here")
def test_C1_C2_of_the_recorded_refusals_all_are_of_their_kind() -> None:
    wrong = []
    for row in kept():
        wanted, _, wait = row["wanted"].partition(" ra=")
        error = build_error(parse_error_body(row["body"], row["headers"]), status=row["status"], headers=row["headers"])
        right = error.kind in wanted.partition(" (")[0].split("|")
        if wait:
            right = right and error.retry_after == float(wait.replace("..", ""))
        wrong += [] if right else [(row["vendor"], wanted, error.kind, error.retry_after)]
    assert wrong == []


@pytest.mark.parametrize("frame", ["data: %s\n\n", "event: error\ndata: %s\n\n", "error: %s\n\n"])
def test_C2_an_error_in_the_middle_of_a_stream_is_told_with_its_message(frame: str) -> None:
    wrong = []
    for vendor, _, _, said, kind, _ in BODIES:
        if isinstance(said, str):  # no stream holds a page
            continue
        error = failure_in_a_stream((frame % json.dumps(said)).encode())
        same_kind = kind not in ("context_overflow", "quota") or error.kind == kind
        if parse_error_value(said).message not in error.message or not same_kind:
            wrong.append((vendor, error.kind, error.message))
    assert wrong == []


def failure_in_a_stream(rest: bytes) -> ProviderError:
    """What is raised when this follows a delta of text."""
    reader = ChatStream()
    reader.feed(b'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n')

    def read() -> None:
        reader.feed(rest)
        reader.end()

    with pytest.raises(ProviderError) as raised:
        read()
    return raised.value


def test_C2_what_no_wait_mends_is_not_tried_again() -> None:
    assert not DEFAULT_RETRIES.keys() & {"quota", "context_overflow", "auth", "not_found", "bad_request"}


def test_C2_an_error_after_the_finish_does_not_take_the_response_away() -> None:
    reader = ChatStream()
    reader.feed(b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n')
    reader.feed(b'data: {"error": {"message": "late"}}\n\nerror: {"message": "late"}\n\n')
    assert reader.end() == []


WAITS: list[tuple[dict[str, str], str, float | None]] = [
    ({"retry-after": "7"}, "", 7),
    ({"retry-after": "1.5"}, "", 1.5),
    ({"retry-after": "-1"}, "", 0),
    ({"retry-after": "nan"}, "", None),
    ({"retry-after": "1e308"}, "", 86400),
    ({"retry-after": "soon"}, "", None),
    ({"retry-after": "Sun, 22 Nov 2026 02:00:10 GMT", "date": "Sun, 22 Nov 2026 02:00:00 GMT"}, "", 10),
    ({"retry-after": "Sun, 22 Nov 2020 02:00:00 GMT"}, "", 0),
    ({"retry-after": "SOON, as HTTP"}, "", 3600),
    ({"retry-after-ms": "2500", "retry-after": "9"}, "", 2.5),
    ({"x-ratelimit-reset": "SOON"}, "", 3600),
    ({"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "SOON"}, "", 3600),
    ({"anthropic-ratelimit-tokens-remaining": "9", "anthropic-ratelimit-tokens-reset": "SOON"}, "", None),
    ({}, "Please try again in 9m36.1s.", 576.1),
    ({}, "Please try again in 1h2m3s.", 3723),
    ({}, "Please retry after 20 seconds.", 20),
    ({}, "Please retry in 31.7s.", 31.7),
    ({}, "Try again in 2 minutes", 120),
    ({}, "Slow down.", None),
]


@pytest.mark.parametrize(("headers", "text", "wait"), WAITS)
def test_C2_how_long_to_wait_is_read_wherever_it_stands(headers: dict[str, str], text: str, wait: float | None) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=3600)
    forms = {"SOON": soon.isoformat(), "SOON, as HTTP": format_datetime(soon)}
    headers = {name: forms.get(value, value) for name, value in headers.items()}
    body = json.dumps({"error": {"message": text or "slow"}})
    error = build_error(parse_error_body(body, headers), status=429, headers=headers)
    assert error.kind == "rate_limit"
    assert error.retry_after == (None if wait is None else pytest.approx(wait, abs=60 if wait == 3600 else 0.001))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["error", "message", "code", "type", "raw", "detail", "retryDelay"]), inner)
    ),
    max_leaves=12,
)


@given(json_values | st.binary(max_size=80), st.none() | st.integers(100, 999))
def test_C5_whatever_a_body_holds_it_is_an_error_with_a_message(body: Any, status: int | None) -> None:
    said = parse_error_body(body) if isinstance(body, bytes) else parse_error_value(body)
    error = build_error(said, status=status, headers={"retry-after": str(body)[:50]})
    assert error.message
    assert error.retry_after is None or 0 <= error.retry_after <= 86400


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("in_stream", [False, True])
async def test_C1_C2_litellms_errors_are_of_their_kind(in_stream: bool) -> None:
    """All that a real litellm makes of them; a body that it does not take for an error is left out."""
    wrong = []
    asked = [row for row in BODIES if isinstance(row[3], dict) and row[1] >= 400 and "error" in row[3]]
    for vendor, status, headers, value, kind, _ in asked:
        if in_stream and kind not in ("context_overflow", "quota", "auth"):
            continue  # the status tells the others apart, and a stream has none
        reply = stream(delta(content="a"), value, done=False) if in_stream else body(value, status, **headers)
        async with Endpoint(reply) as at:
            model = LiteLLM("openai/m", api_base=at.url, api_key="placeholder")
            error = None
            try:
                async with model.stream(Request(messages=[UserMessage("x")])) as chunks:
                    async for _ in chunks:
                        pass
            except ProviderError as raised:
                error = raised
        if error is None or error.kind != kind:
            wrong.append((vendor, kind, error and error.kind))
    assert len(wrong) <= len(asked) * 0.03, wrong
