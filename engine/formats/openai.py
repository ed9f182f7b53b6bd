"""OpenAI's messages: one session is a list of them, or an object that holds one.

Beside `messages` an object may hold what is known of the session (`id`, `model`, `tools`, `usage`, ...), and the
response that came last (`choices`, as the API answers, or under `response`). Logs of requests put the messages under
`request`. Source: OpenAI API reference, "Chat Completions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..decision import ToolSpec
from ..decision.messages import ResultStatus
from .content_blocks import Content, blocks_of, content_of, drop
from .imported_session import Conversation, Ending, Foreign, Judged, Origin, RawCall, Unreadable
from .parsing import (
    TIMES,
    as_json,
    failure_in,
    first_time,
    first_word,
    listed,
    mapping,
    number,
    seconds,
    usage_of,
    word,
)
from .response_items import is_item, joined

MESSAGES = ("messages", "conversation", "history", "transcript", "traj", "input")
"""Fields under which a session's messages are looked for."""
IDS = ("id", "session_id", "sessionId", "conversation_id", "thread_id", "trace_id", "custom_id", "instance_id", "uuid")
_CARRIERS = (
    "content", "tool_calls", "function_call", "reasoning_content", "reasoning", "thinking_blocks", "refusal", "error",
)  # fmt: skip
"""Fields of a message of which one at least holds what was said."""
_MESSAGE = frozenset(
    {*_CARRIERS, *TIMES, "role", "name", "tool_call_id", "finish_reason", "stop_reason", "usage", "model", "is_error",
     "isApiErrorMessage", "status", "id", "uuid", "type", "index", "object", "message"}
)  # fmt: skip
"""Fields of a message that are read, or say nothing of what was said; others are listed as lost."""
READ = frozenset(
    {*MESSAGES, *IDS, "model", "tools", "functions", "usage", "request", "response", "choices", "body", "params",
     "created", "created_at", "timestamp", "time", "date", "reward", "success", "passed", "resolved", "object",
     "error", "exit_status", "output", "instructions", "status", "incomplete_details"}
)  # fmt: skip
"""Fields of a session that are read; others are listed as lost."""
SETTINGS = ("temperature", "top_p", "seed", "max_tokens", "max_completion_tokens", "tool_choice", "reasoning_effort")


def sessions(data: Any) -> Iterator[Foreign]:
    """The sessions in a list of messages, an object with one, or a list of either."""
    if isinstance(data, list) and not is_messages(data):
        for one in data:
            yield from sessions(one)
        return
    whole = {"messages": data} if isinstance(data, list) else mapping(data)
    foreign = Foreign()
    request, response = _exchange(whole)
    messages = messages_in(request)
    if messages is None and not listed(response.get("output")):
        raise Unreadable("it holds no list of messages")
    describe(foreign, whole, request)
    conversation = Conversation(foreign)
    conversation.system(word(request.get("instructions")))
    if messages is None and word(request.get("input")):
        conversation.user(word(request.get("input")))
    for message in joined(messages or [], foreign):
        hear(conversation, message)
    if response:
        _hear_response(conversation, response)
    if isinstance(data, dict):
        hear_failure(conversation, whole)
    yield foreign


def fits(data: Any) -> bool:
    """Whether this looks like a session of OpenAI's messages, or several."""
    if isinstance(data, list):
        return is_messages(data) or any(fits(one) for one in data[:1])
    request, response = _exchange(mapping(data))
    return messages_in(request) is not None or (response.get("object") == "response" and "output" in response)


def is_messages(data: Any) -> bool:
    """Whether these are messages: the first has a role."""
    return bool(listed(data)) and (isinstance(mapping(data[0]).get("role"), str) or is_item(data[0]))


def messages_in(data: dict[str, Any]) -> list[Any] | None:
    """The messages of a session, wherever they stand in it."""
    return next((data[name] for name in MESSAGES if is_messages(data.get(name))), None)


def _exchange(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What holds the messages, and what holds the response to them: the object itself, or parts of it."""
    inside = (mapping(data.get(name)) for name in ("request", "body", "params"))
    request = next((part for part in inside if messages_in(part) is not None), data)
    response = mapping(data.get("response"))
    response = mapping(response.get("body")) or response
    holders = (response, data)
    return request, next((one for one in holders if "choices" in one or is_messages(one.get("output"))), {})


def describe(
    foreign: Foreign, data: dict[str, Any], request: dict[str, Any], also: frozenset[str] = frozenset()
) -> None:
    """What a session says of itself beside its messages. `also`: fields that are read elsewhere."""
    foreign.id = first_word(data, *IDS)
    foreign.model = word(request.get("model")) or word(data.get("model"))
    foreign.tools = tools_of(request.get("tools") or data.get("tools") or data.get("functions"))
    foreign.settings = {name: request[name] for name in SETTINGS if request.get(name) is not None}
    foreign.usage = None if "choices" in data else usage_of(data.get("usage"))
    foreign.judged = judged(data)
    known = READ.union(SETTINGS, also)
    foreign.lose_fields("field", data, known)
    lists = [name for name in MESSAGES if is_messages(request.get(name))]
    for name in lists[1:]:
        foreign.leave_out(f"field: {name}", request[name])


def judged(data: dict[str, Any]) -> Judged | None:
    """The verdict that a session carries: a `reward` (1 or more passes), or a yes or no."""
    reward = number(data.get("reward"))
    if reward is not None:
        return Judged(passed=reward >= 1 - 1e-6, name="import:reward", details={"reward": reward})
    for name in ("success", "passed", "resolved"):
        if isinstance(data.get(name), bool):
            return Judged(passed=data[name], name=f"import:{name}", details={name: data[name]})
    return None


def tools_of(tools: Any) -> tuple[ToolSpec, ...]:
    """Tools as OpenAI's or Anthropic's API takes them; the first of a name."""
    specs: dict[str, ToolSpec] = {}
    for tool in listed(tools):
        spec = mapping(mapping(tool).get("function")) or mapping(tool)
        name = word(spec.get("name"))
        if name:
            schema = mapping(spec.get("parameters") or spec.get("input_schema")) or {"type": "object"}
            specs.setdefault(name, ToolSpec(name=name, description=word(spec.get("description")), parameters=schema))
    return tuple(specs.values())


def hear(conversation: Conversation, message: Any) -> None:
    """Add one message."""
    foreign = conversation.foreign
    if not isinstance(message, dict):
        foreign.lose("no message")
        return
    t = first_time(message)
    role = message.get("role")
    inside = message.get("message")
    if message.get("content") is None and isinstance(inside, dict) and "content" in inside:
        message = {**message, **inside, "role": role, "message": None}  # as Cursor writes its lines
    foreign.lose_fields("message field", message, _MESSAGE)
    if not any(message.get(name) is not None for name in _CARRIERS) and set(message) - _MESSAGE:
        foreign.lose("another form")
        return
    content = content_of(message.get("content"), foreign, pictures=role in ("tool", "function"))
    match role:
        case "system" | "developer":
            drop(content, foreign, calls=True, results=True, reasoning=True)
            conversation.system(content.text, t)
        case "user":
            drop(content, foreign, calls=True, reasoning=True)
            hear_user(conversation, content, t)
        case "assistant":
            drop(content, foreign, results=True)
            _hear_assistant(conversation, message, content, t)
        case "tool" | "function":
            drop(content, foreign, calls=True, results=True, reasoning=True)
            failed = message.get("is_error") is True or message.get("status") == "error"
            id, name = word(message.get("tool_call_id")), word(message.get("name"))
            conversation.result(id, name, content.text, "error" if failed else "ok", content.images, t)
        case "error":
            conversation.failed(content.text or failure_in(message), t=t)
        case _:
            foreign.leave_out(f"role: {word(role)[:40] or 'none'}", message)


def hear_user(conversation: Conversation, content: Content, t: float | None, *, by_loop: bool = False) -> None:
    """A message in the user's role; results of tools may stand in it, as Anthropic has them.

    by_loop: the foreign loop said it, and no user.
    """
    for result in content.results:
        inside = content_of(result.content, conversation.foreign, pictures=True)
        drop(inside, conversation.foreign, calls=True, results=True, reasoning=True)
        status: ResultStatus = "error" if result.is_error else "ok"
        conversation.result(result.call_id, "", inside.text, status, inside.images, t)
    if content.text or not content.results:
        origin: Origin = "nudge" if by_loop else "beside" if content.results else "user"
        conversation.user(content.text, origin, t)


def hear_failure(conversation: Conversation, data: dict[str, Any]) -> None:
    """What a session, or the response in it, says of an end that was none: an error of the provider's, or another."""
    response = mapping(data.get("response"))
    inside = mapping(response.get("body"))
    status = number(response.get("status_code"))
    failure = failure_in(inside) or failure_in(response) or (failure_in(data) if response else "")
    if not failure and status is not None and status >= HTTP_ERROR:
        failure = f"HTTP status {status:g}"
    if failure:
        conversation.failed(failure)
        return
    info = mapping(data.get("info"))
    failure = failure_in(data) or failure_in(info)
    ended_as = word(info.get("exit_status")) or word(data.get("exit_status"))
    if failure:
        conversation.foreign.ending = Ending(reason="custom:error", status="failed", detail=failure)
    elif ended_as:
        conversation.foreign.ending = _ending_of(ended_as)


HTTP_ERROR = 400


def _ending_of(status: str) -> Ending:
    """How a session ended by its `exit_status`, as mini-swe-agent and others write it."""
    named = re.sub(r"[^a-z0-9]+", "_", status.lower())[:60].strip("_") or "ended"
    says = f"the loop's exit status: {status}"
    if named in ("submitted", "completed", "success", "done", "finished"):
        return Ending(reason=f"custom:{named}", status="completed", detail=says)
    limits = "limit" in named or "max" in named
    return Ending(reason=f"custom:{named}", status="exhausted" if limits else "failed", detail=says)


def _hear_assistant(conversation: Conversation, message: dict[str, Any], content: Content, t: float | None) -> None:
    failure = failure_in(message)
    if failure or message.get("is_error") is True or message.get("isApiErrorMessage") is True:
        conversation.failed(content.text or failure, model=word(message.get("model")), t=t)
        return
    refusal = word(message.get("refusal"))
    raw_finish = first_word(message, "finish_reason", "stop_reason")
    if refusal and not content.text:
        content.text, content.refused = refusal, True
    elif refusal:
        conversation.foreign.leave_out("message field: refusal", refusal)
    if mapping(message.get("function_call")) and listed(message.get("tool_calls")):
        conversation.foreign.lose("call")
    beside = blocks_of(message)
    if content.reasoning and beside and beside != content.reasoning:
        conversation.foreign.lose("thought", len(beside))
    conversation.assistant(
        content.text,
        [*content.calls, *calls_of(message)],
        content.reasoning or beside,
        usage=usage_of(message.get("usage")),
        raw_finish=raw_finish or ("refusal" if content.refused else ""),
        model=word(message.get("model")),
        t=t,
    )


def calls_of(message: dict[str, Any]) -> list[RawCall]:
    """The calls of an assistant's message, the old `function_call` included."""
    calls: list[RawCall] = []
    for call in listed(message.get("tool_calls")):
        entry = mapping(call)
        function = mapping(entry.get("function")) or mapping(entry.get("custom")) or entry
        arguments = function.get("arguments") if "input" not in function else {"input": function["input"]}
        calls.append((word(entry.get("id")), word(function.get("name")), as_json(arguments)))
    old = mapping(message.get("function_call"))
    if old and not calls:
        calls.append(("", word(old.get("name")), as_json(old.get("arguments"))))
    return calls


def _hear_response(conversation: Conversation, response: dict[str, Any]) -> None:
    """The response that came last, as the API answered it."""
    foreign, choices = conversation.foreign, listed(response.get("choices"))
    for other in choices[1:]:
        foreign.leave_out("choice", mapping(other).get("message"))
    choice = mapping(next(iter(choices), None))
    message = mapping(choice.get("message"))
    if not message:
        _hear_output(conversation, response)
        return
    known = {"role": "assistant", "usage": response.get("usage"), "model": response.get("model")}
    known |= {"finish_reason": choice.get("finish_reason"), "created": seconds(response.get("created"))}
    hear(conversation, {**known, **message})


def _hear_output(conversation: Conversation, response: dict[str, Any]) -> None:
    """The items that a response of OpenAI's other API holds; its status is the finish word of the last."""
    messages = joined(listed(response.get("output")), conversation.foreign)
    reason = first_word(mapping(response.get("incomplete_details")), "reason") or word(response.get("status"))
    known = {"usage": response.get("usage"), "model": response.get("model"), "finish_reason": reason}
    for place, message in enumerate(messages, 1):
        hear(conversation, {**known, **message} if place == len(messages) and isinstance(message, dict) else message)
