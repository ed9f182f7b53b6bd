"""Import of sessions as OpenAI chat messages: a list of messages, or an object with such a list.

An object may also contain the session's `id`, `model`, `tools`, `usage` and so on, and the last response (`choices`, as
the API returns it, possibly under `response`). Request logs have the messages under `request`.
Source: OpenAI API reference, "Chat Completions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..decision import ToolSpec
from .content_blocks import MessageContent, count_dropped_parts, message_reasoning, parse_content
from .imported_session import ImportedEnding, ImportedSession, ImportedVerdict, Origin, RawCall, Unreadable
from .parsing import (
    TIME_FIELDS,
    as_dict,
    as_json,
    as_list,
    as_number,
    as_text,
    describe_failure,
    first_text,
    message_time,
    parse_time,
    parse_usage,
)
from .response_items import is_item, merge_items
from .session_builder import SessionBuilder

MESSAGE_LIST_FIELDS = ("messages", "conversation", "history", "transcript", "traj", "input")
"""Fields that may hold the messages of a session, in the order in which they are tried."""
ID_FIELDS = (
    "id",
    "session_id",
    "sessionId",
    "conversation_id",
    "thread_id",
    "trace_id",
    "custom_id",
    "instance_id",
    "uuid",
)
_CONTENT_FIELDS = (
    "content", "tool_calls", "function_call", "reasoning_content", "reasoning", "thinking_blocks", "refusal", "error",
)  # fmt: skip
"""Fields with the content of a message, one of which must be present."""
_MESSAGE_FIELDS = frozenset(
    {*_CONTENT_FIELDS, *TIME_FIELDS, "role", "name", "tool_call_id", "finish_reason", "stop_reason", "usage",
     "model", "is_error", "isApiErrorMessage", "status", "id", "uuid", "type", "index", "object", "message"}
)  # fmt: skip
"""Fields of a message that are read or carry no content; others are counted as losses."""
SESSION_FIELDS = frozenset(
    {*MESSAGE_LIST_FIELDS, *ID_FIELDS, "model", "tools", "functions", "usage", "request", "response", "choices",
     "body", "params", "created", "created_at", "timestamp", "time", "date", "reward", "success", "passed",
     "resolved", "object", "error", "exit_status", "output", "instructions", "status", "incomplete_details"}
)  # fmt: skip
"""Fields of a session that are read; others are counted as losses."""
SETTING_FIELDS = (
    "temperature",
    "top_p",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "tool_choice",
    "reasoning_effort",
)
HTTP_ERROR = 400


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the sessions in a list of messages, an object with one, or a list of either."""
    if isinstance(data, list) and not is_message_list(data):
        for one in data:
            yield from sessions(one)
        return
    whole = {"messages": data} if isinstance(data, list) else as_dict(data)
    session = ImportedSession()
    request, response = _request_and_response(whole)
    messages = find_messages(request)
    if messages is None and not as_list(response.get("output")):
        raise Unreadable("it contains no list of messages")
    read_metadata(session, whole, request)
    builder = SessionBuilder(session)
    builder.add_system(as_text(request.get("instructions")))
    if messages is None and as_text(request.get("input")):
        builder.add_user([as_text(request.get("input"))])
    for message in merge_items(messages or [], session):
        add_message(builder, message)
    if response:
        _add_response(builder, response)
    if isinstance(data, dict):
        add_failure(builder, whole)
    yield session


def matches(data: Any) -> bool:
    """Return whether this looks like one or more sessions of OpenAI messages."""
    if isinstance(data, list):
        return is_message_list(data) or any(matches(one) for one in data[:1])
    request, response = _request_and_response(as_dict(data))
    return find_messages(request) is not None or (response.get("object") == "response" and "output" in response)


def is_message_list(data: Any) -> bool:
    """Return whether this is a list of messages or response items, judged by its first entry."""
    return bool(as_list(data)) and (isinstance(as_dict(data[0]).get("role"), str) or is_item(data[0]))


def find_messages(data: dict[str, Any]) -> list[Any] | None:
    """Return the list of messages in a session; None if there is none."""
    return next((data[name] for name in MESSAGE_LIST_FIELDS if is_message_list(data.get(name))), None)


def _request_and_response(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the objects with the messages and with the response to them: parts of `data`, or `data` itself."""
    inside = (as_dict(data.get(name)) for name in ("request", "body", "params"))
    request = next((part for part in inside if find_messages(part) is not None), data)
    response = as_dict(data.get("response"))
    response = as_dict(response.get("body")) or response
    holders = (response, data)
    return request, next((one for one in holders if "choices" in one or is_message_list(one.get("output"))), {})


def read_metadata(
    session: ImportedSession, data: dict[str, Any], request: dict[str, Any], also: frozenset[str] = frozenset()
) -> None:
    """Read the fields of a session other than its messages. `also`: further fields that the caller reads."""
    session.id = first_text(data, *ID_FIELDS)
    session.model = as_text(request.get("model")) or as_text(data.get("model"))
    session.tools = parse_tools(request.get("tools") or data.get("tools") or data.get("functions"))
    session.settings = {name: request[name] for name in SETTING_FIELDS if request.get(name) is not None}
    session.usage = None if "choices" in data else parse_usage(data.get("usage"))
    session.verdict = read_verdict(data)
    known = SESSION_FIELDS.union(SETTING_FIELDS, also)
    session.count_unread_fields("field", data, known)
    lists = [name for name in MESSAGE_LIST_FIELDS if is_message_list(request.get(name))]
    for name in lists[1:]:
        session.count_dropped(f"field: {name}", request[name])


def read_verdict(data: dict[str, Any]) -> ImportedVerdict | None:
    """Return the verdict of a session: a `reward` (passed from 1 on), or a `success`, `passed` or `resolved` flag."""
    reward = as_number(data.get("reward"))
    if reward is not None:
        return ImportedVerdict(passed=reward >= 1 - 1e-6, name="import:reward", details={"reward": reward})
    for name in ("success", "passed", "resolved"):
        if isinstance(data.get(name), bool):
            return ImportedVerdict(passed=data[name], name=f"import:{name}", details={name: data[name]})
    return None


def parse_tools(tools: Any) -> tuple[ToolSpec, ...]:
    """Parse tool definitions in OpenAI's or Anthropic's form. If several have the same name, the first counts."""
    specs: dict[str, ToolSpec] = {}
    for tool in as_list(tools):
        spec = as_dict(as_dict(tool).get("function")) or as_dict(tool)
        name = as_text(spec.get("name"))
        if name:
            schema = as_dict(spec.get("parameters") or spec.get("input_schema")) or {"type": "object"}
            specs.setdefault(name, ToolSpec(name=name, description=as_text(spec.get("description")), parameters=schema))
    return tuple(specs.values())


def add_message(builder: SessionBuilder, message: Any) -> None:
    """Add one message in OpenAI's form. Unreadable parts of it are counted as losses."""
    session = builder.session
    if not isinstance(message, dict):
        session.count_loss("no message")
        return
    t = message_time(message)
    role = message.get("role")
    session.count_unread_fields("message field", message, _MESSAGE_FIELDS)
    if not any(message.get(name) is not None for name in _CONTENT_FIELDS) and set(message) - _MESSAGE_FIELDS:
        session.count_loss("another form")
        return
    content = parse_content(message.get("content"), session, pictures=role in ("tool", "function", "user"))
    match role:
        case "system" | "developer":
            count_dropped_parts(content, session, calls=True, results=True, reasoning=True)
            builder.add_system(content.text, t)
        case "user":
            add_user_message(builder, content, t)
        case "assistant":
            count_dropped_parts(content, session, results=True)
            _add_assistant_message(builder, message, content, t)
        case "tool" | "function":
            failed = message.get("is_error") is True or message.get("status") == "error"
            id, name = as_text(message.get("tool_call_id")), as_text(message.get("name"))
            builder.add_result_content(id, name, content, "error" if failed else "ok", t)
        case "error":
            builder.add_failure(content.text or describe_failure(message), t=t)
        case _:
            session.count_unknown("role", role, message)


def add_user_message(builder: SessionBuilder, content: MessageContent, t: float | None) -> None:
    """Add a message in the user's role, which may contain tool results (Anthropic)."""
    count_dropped_parts(content, builder.session, calls=True, reasoning=True)
    builder.add_result_blocks(content, t)
    if content.text or not content.results:
        origin: Origin = "beside" if content.results else "user"
        builder.add_user(content.parts, origin, t)


def _add_assistant_message(
    builder: SessionBuilder, message: dict[str, Any], content: MessageContent, t: float | None
) -> None:
    failure = describe_failure(message)
    if failure or message.get("is_error") is True or message.get("isApiErrorMessage") is True:
        builder.add_failure(content.text or failure, model=as_text(message.get("model")), t=t)
        return
    refusal = as_text(message.get("refusal"))
    raw_finish = first_text(message, "finish_reason", "stop_reason")
    if refusal and not content.text:
        content.text, content.refused = refusal, True
    elif refusal:
        builder.session.count_dropped("message field: refusal", refusal)
    if as_dict(message.get("function_call")) and as_list(message.get("tool_calls")):
        builder.session.count_loss("call")
    other_reasoning = message_reasoning(message)
    if content.reasoning and other_reasoning and other_reasoning != content.reasoning:
        builder.session.count_loss("thought", len(other_reasoning))
    builder.add_response(
        content.text,
        [*content.calls, *parse_calls(message)],
        content.reasoning or other_reasoning,
        usage=parse_usage(message.get("usage")),
        raw_finish=raw_finish or ("refusal" if content.refused else ""),
        model=as_text(message.get("model")),
        t=t,
    )


def parse_calls(message: dict[str, Any]) -> list[RawCall]:
    """Return the calls of an assistant message, including the deprecated `function_call`."""
    calls: list[RawCall] = []
    for call in as_list(message.get("tool_calls")):
        entry = as_dict(call)
        function = as_dict(entry.get("function")) or as_dict(entry.get("custom")) or entry
        arguments = function.get("arguments") if "input" not in function else {"input": function["input"]}
        calls.append((as_text(entry.get("id")), as_text(function.get("name")), as_json(arguments)))
    old = as_dict(message.get("function_call"))
    if old and not calls:
        calls.append(("", as_text(old.get("name")), as_json(old.get("arguments"))))
    return calls


def _add_response(builder: SessionBuilder, response: dict[str, Any]) -> None:
    """Add the last response, as the API returned it."""
    session, choices = builder.session, as_list(response.get("choices"))
    for other in choices[1:]:
        session.count_dropped("choice", as_dict(other).get("message"))
    choice = as_dict(next(iter(choices), None))
    message = as_dict(choice.get("message"))
    if not message:
        _add_output_items(builder, response)
        return
    known = {"role": "assistant", "usage": response.get("usage"), "model": response.get("model")}
    known |= {"finish_reason": choice.get("finish_reason"), "created": parse_time(response.get("created"))}
    add_message(builder, {**known, **message})


def _add_output_items(builder: SessionBuilder, response: dict[str, Any]) -> None:
    """Add the output items of the Responses API. The response's status is the last message's finish reason."""
    messages = merge_items(as_list(response.get("output")), builder.session)
    reason = first_text(as_dict(response.get("incomplete_details")), "reason") or as_text(response.get("status"))
    known = {"usage": response.get("usage"), "model": response.get("model"), "finish_reason": reason}
    for place, message in enumerate(messages, 1):
        add_message(builder, {**known, **message} if place == len(messages) and isinstance(message, dict) else message)


def add_failure(builder: SessionBuilder, data: dict[str, Any]) -> None:
    """Add the error with which a session or its last response ended, or its exit status."""
    response = as_dict(data.get("response"))
    inside = as_dict(response.get("body"))
    status = as_number(response.get("status_code"))
    failure = describe_failure(inside) or describe_failure(response) or (describe_failure(data) if response else "")
    known = int(status) if status is not None and status >= HTTP_ERROR else None
    if not failure and known is not None:
        failure = f"HTTP status {known}"
    if failure:
        builder.add_failure(failure, status=known)
        return
    info = as_dict(data.get("info"))
    failure = describe_failure(data) or describe_failure(info)
    ended_as = as_text(info.get("exit_status")) or as_text(data.get("exit_status"))
    if failure:
        builder.session.ending = ImportedEnding(reason="custom:error", status="failed", detail=failure)
    elif ended_as:
        builder.session.ending = _parse_exit_status(ended_as)


def _parse_exit_status(status: str) -> ImportedEnding:
    """Return the ending for an `exit_status`, which mini-swe-agent and others write."""
    named = re.sub(r"[^a-z0-9]+", "_", status.lower())[:60].strip("_") or "ended"
    says = f"the loop's exit status: {status}"
    if named in ("submitted", "completed", "success", "done", "finished"):
        return ImportedEnding(reason=f"custom:{named}", status="completed", detail=says)
    limits = "limit" in named or "max" in named
    return ImportedEnding(reason=f"custom:{named}", status="exhausted" if limits else "failed", detail=says)
