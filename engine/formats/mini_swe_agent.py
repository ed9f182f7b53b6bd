"""Import of mini-SWE-agent trajectories (`.traj.json`): conversation in `messages`, ending in `info.exit_status`.

Version 1 writes an action as a code block in the response's text, version 2 as calls of `bash` (in the chat API's form,
or in the Responses API's). Each response is a step, and an action in text becomes a call of `bash`. The session ends at
a command whose first words are `COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`; what follows is its result.
Sources: mini-SWE-agent, documentation "Output files", `agents/default.py`, `models/utils/actions_*.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ..decision import AssistantMessage, Status, ToolCall
from ..decision.messages import ResultStatus
from .content_blocks import parse_content
from .imported_session import ImportedEnding, ImportedSession, Origin, Unreadable
from .openai import add_message, read_verdict
from .parsing import as_dict, as_json, as_list, as_number, as_text, first_text, parse_time
from .response_items import is_item, merge_items
from .session_builder import SessionBuilder

BASH = "bash"
_FORMAT = "mini-swe-agent"
_ACTION = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\n(?:(.*?)\n```|.*)", re.DOTALL)
"""An action in text, in the forms that the project's prompts ask for."""
_RETURN_CODE = re.compile(r"\s*<returncode>(-?\d+)</returncode>")
_TIMED_OUT = "The last command <command>"
_SUBMITTED = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
_SESSION_FIELDS = frozenset(
    {"info", "messages", "trajectory_format", "instance_id", "reward", "success", "passed", "resolved"}
)
_INFO_FIELDS = frozenset({"exit_status", "submission", "model_stats", "mini_version", "config"})
_EXTRA_FIELDS = frozenset(
    {"actions", "cost", "exit_status", "interrupt_type", "model_response", "n_actions", "raw_output", "response",
     "returncode", "submission", "timestamp"}
)  # fmt: skip
_RESPONSE_FIELDS = frozenset(
    {"choices", "created", "id", "model", "object", "provider", "service_tier", "system_fingerprint", "usage"}
)
_CHOICE_FIELDS = frozenset({"finish_reason", "index", "logprobs", "message", "native_finish_reason"})
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking_blocks")
_MODELS_MESSAGE_FIELDS = frozenset({"content", "role", "tool_calls", "function_call", "refusal"})
_EXIT_STATUSES: dict[str, tuple[str, Status | None]] = {
    "Submitted": ("custom:submitted", "completed"),
    "TimeExceeded": ("time_limit", None),
    "RepeatedFormatError": ("invalid_calls", None),
    "ContextWindowExceededError": ("token_limit", None),
    "KeyboardInterrupt": ("cancelled", None),
    "UserInterruption": ("cancelled", None),
}
_LIMITS = "LimitsExceeded"
"""Exit status of a session that a limit ended: `_limit` tells which limit."""
_PROVIDER_ERRORS = frozenset(
    {"APIConnectionError", "APIError", "AuthenticationError", "BadRequestError", "ContentPolicyViolationError",
     "InternalServerError", "NotFoundError", "PermissionDeniedError", "RateLimitError", "ServiceUnavailableError",
     "Timeout"}
)  # fmt: skip
"""litellm exceptions that end a session with their name as its exit status."""


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session of a trajectory, or of a bare list of its messages."""
    if not matches(data):
        raise Unreadable("it is not a mini-SWE-agent trajectory")
    whole = {"messages": data} if isinstance(data, list) else data
    reader = _TrajectoryReader(whole)
    reader.read()
    yield reader.session


def matches(data: Any) -> bool:
    """Return whether this is a trajectory, or the messages of one with actions in text."""
    if isinstance(data, list):
        return any(_is_observation(message) for message in data[:6])
    whole = as_dict(data)
    named = as_text(whole.get("trajectory_format")).startswith(_FORMAT) or "mini_version" in as_dict(whole.get("info"))
    return named and isinstance(whole.get("messages"), list)


def _is_observation(message: Any) -> bool:
    one = as_dict(message)
    return one.get("role") == "user" and bool(_RETURN_CODE.match(as_text(one.get("content"))))


class _TrajectoryReader:
    """Reader that adds the messages of a trajectory to a session."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.session = ImportedSession(id=as_text(data.get("instance_id")), verdict=read_verdict(data))
        self._messages = as_list(data["messages"])
        self._info = as_dict(data.get("info"))
        self._builder = SessionBuilder(self.session)
        self._begun = False
        """Whether the prompt was read."""
        self._exit_status = ""
        """Exit status according to the last messages; empty until one of them names it."""
        self.session.count_unread_fields("field", data, _SESSION_FIELDS)
        self.session.count_unread_fields("field", self._info, _INFO_FIELDS, "info.")

    def read(self) -> None:
        config = as_dict(self._info.get("config"))
        self.session.count_unread_fields(
            "field", config, ("agent", "model", "agent_type", "model_type"), "info.config."
        )
        self.session.model = first_text(as_dict(config.get("model")), "model_name")
        for message in self._messages:
            for one in self._merged(message):
                self._add(one)
        status = as_text(self._info.get("exit_status")) or self._exit_status
        self.session.ending = _ending(status, self._info, as_dict(config.get("agent")))
        submission = as_text(self._info.get("submission")).strip()
        last = self.session.messages[-1].message if self.session.messages else None
        if submission not in (getattr(last, "content", "") or getattr(last, "text", "")):
            self.session.count_dropped("field: info.submission", submission)

    def _merged(self, message: Any) -> list[Any]:
        """Return chat API messages: one for each message of the Responses API, and any other message unchanged."""
        entry = as_dict(message)
        if entry.get("object") == "response":
            merged = merge_items([{"type": "reasoning"}, *as_list(entry.get("output"))], self.session)
            (response, *more) = merged
            for one in more:
                self.session.count_dropped("choice", one)
            blocks = as_list(response.get("thinking_blocks"))[1:]
            known = {name: entry.get(name) for name in ("usage", "model", "extra")}
            status = first_text(as_dict(entry.get("incomplete_details")), "reason") or as_text(entry.get("status"))
            return [{**response, **known, "thinking_blocks": blocks, "finish_reason": status, "role": "assistant"}]
        if is_item(entry):
            return [{**one, "extra": entry.get("extra")} for one in merge_items([_without_extra(entry)], self.session)]
        return [message]

    def _add(self, message: Any) -> None:
        entry = as_dict(message)
        extra = as_dict(entry.get("extra"))
        self.session.count_unread_fields("message field", extra, _EXTRA_FIELDS, "extra.")
        match entry.get("role"):
            case "assistant":
                self._add_response(entry, extra)
            case "exit":
                self._add_exit(entry)
            case "tool":
                self._count_hidden_output(entry, extra)
                failed = bool(as_number(extra.get("returncode"))) or _return_code(entry.get("content")) != 0
                add_message(self._builder, {**_without_extra(entry), "is_error": failed, **_time(extra)})
            case "user" if self._builder.pending_calls and "interrupt_type" not in extra:
                self._add_observation(entry, extra)
            case "user":
                self._add_user(entry, extra)
            case _:
                add_message(self._builder, _without_extra(entry) if entry else message)

    def _add_response(self, entry: dict[str, Any], extra: dict[str, Any]) -> None:
        message = {**_without_extra(entry), **self._told(as_dict(extra.get("response"))), **_time(extra)}
        message |= {name: value for name, value in entry.items() if name != "extra" and value is not None}
        if not as_list(message.get("tool_calls")):
            message |= _text_action(entry, extra, self._builder.steps)
        self._add_to_builder(message, as_number(extra.get("cost")))

    def _add_to_builder(self, message: dict[str, Any], cost: float | None) -> None:
        specific = as_dict(message.pop("provider_specific_fields", None))
        self.session.count_unread_fields("message field", specific, (), "provider_specific_fields.")
        add_message(self._builder, message)
        last = self.session.messages[-1]
        if cost is not None and cost > 0 and last.usage is not None and isinstance(last.message, AssistantMessage):
            self.session.messages[-1] = replace(last, usage=replace(last.usage, cost_usd=cost))

    def _told(self, response: dict[str, Any]) -> dict[str, Any]:
        """Return the response's data other than the message: reasoning, usage, model, finish reason, time."""
        choice = as_dict(next(iter(as_list(response.get("choices"))), None))
        message = as_dict(choice.get("message"))
        reasoning: dict[str, Any] = {name: message[name] for name in _REASONING_FIELDS if name in message}
        known = _MODELS_MESSAGE_FIELDS | reasoning.keys()
        self.session.count_unread_fields("message field", message, known, "extra.response.message.")
        self.session.count_unread_fields("message field", choice, _CHOICE_FIELDS, "extra.response.choice.")
        self.session.count_unread_fields("message field", response, _RESPONSE_FIELDS, "extra.response.")
        told = {"usage": response.get("usage"), "model": response.get("model")}
        return {**told, **reasoning, "finish_reason": choice.get("finish_reason"), "created": response.get("created")}

    def _add_observation(self, entry: dict[str, Any], extra: dict[str, Any]) -> None:
        """Add the message after an action in text. It is the action's result, whatever it says."""
        content = parse_content(entry.get("content"), self.session, pictures=True)
        self._count_hidden_output(entry, extra)
        code = extra.get("returncode", _return_code(content.text))
        submits = not _RETURN_CODE.match(content.text) and any(map(_submits, self._builder.pending_calls))
        self._exit_status = "Submitted" if submits else ""
        failed = bool(code) or content.text.startswith(_TIMED_OUT)
        status: ResultStatus = "error" if failed else "ok"
        self._builder.add_result_content("", "", content, status, parse_time(extra.get("timestamp")))

    def _add_user(self, entry: dict[str, Any], extra: dict[str, Any]) -> None:
        self._add_refused_response(extra)
        own: Origin = "nudge" if extra.get("interrupt_type") == "FormatError" else "user"
        origin: Origin = "nudge" if self._begun and "interrupt_type" not in extra else own
        self._begun = True
        content = parse_content(entry.get("content"), self.session, pictures=True)
        self._builder.add_prompt(content, origin, parse_time(extra.get("timestamp")))

    def _add_refused_response(self, extra: dict[str, Any]) -> None:
        """Add the response that version 2 keeps next to the message that rejects it."""
        response = as_dict(extra.get("response"))
        text = as_text(extra.get("model_response"))
        if response.get("object") == "response":
            for one in self._merged({**response, "extra": {name: extra.get(name) for name in ("cost", "timestamp")}}):
                self._add(one)
            return
        message = as_dict(as_dict(next(iter(as_list(response.get("choices"))), None)).get("message"))
        if message or text:
            whole = {"role": "assistant", "content": text, **_no_nulls(message), **self._told(response), **_time(extra)}
            self._add_to_builder(whole, as_number(extra.get("cost")))

    def _add_exit(self, entry: dict[str, Any]) -> None:
        """Add the last entry: the result of the command that submitted, or the loop's own message."""
        pending = self._builder.pending_calls
        extra, content = as_dict(entry.get("extra")), as_json(entry.get("content"))
        submitting = [call.id for call in pending if _submits(call)]
        known = content == _LIMITS or content in _EXIT_STATUSES or content in _PROVIDER_ERRORS
        named = content if known else ""
        self._exit_status = as_text(extra.get("exit_status")) or named or ("Submitted" if submitting else "")
        if self._exit_status == "Submitted" and pending:
            self._builder.add_result(
                (submitting or [pending[0].id])[0], "", content, t=parse_time(extra.get("timestamp"))
            )
        elif content and content != self._exit_status:
            self.session.count_dropped("own words", content)

    def _count_hidden_output(self, entry: dict[str, Any], extra: dict[str, Any]) -> None:
        """Count output of a command that was not shown to the model in full."""
        raw = as_text(extra.get("raw_output")).strip()
        if raw and raw not in parse_content(entry.get("content"), ImportedSession(), pictures=True).text:
            self.session.count_dropped("message field: extra.raw_output", raw)


def _text_action(entry: dict[str, Any], extra: dict[str, Any], steps: int) -> dict[str, Any]:
    """Return the call in a response's text and the text without it; empty if it has no call or several."""
    text = as_text(entry.get("content"))
    found = [action for action in _ACTION.finditer(text) if action[1] is not None]
    noted = [as_text(as_dict(action).get("command")) for action in as_list(extra.get("actions"))]
    if len(noted or found) != 1 or len(found) > 1:
        return {}
    command = noted[0] if noted else found[0][1].strip()
    call = {"id": f"{steps + 1}.0", "function": {"name": BASH, "arguments": {"command": command}}}
    if not found or found[0][1].strip() != command:
        return {"tool_calls": [call]}
    spoken = "\n\n".join(filter(None, (text[: found[0].start()].strip(), text[found[0].end() :].strip())))
    return {"tool_calls": [call], "content": spoken}


def _without_extra(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "extra"}


def _no_nulls(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value is not None}


def _time(extra: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": extra["timestamp"]} if "timestamp" in extra else {}


def _return_code(content: Any) -> int:
    """Return the exit code at the start of an observation; 0 if there is none."""
    found = _RETURN_CODE.match(as_text(content))
    return int(found[1]) if found else 0


def _submits(call: ToolCall) -> bool:
    """Return whether a call's command submits the work: the output after its mark is the submission."""
    return any(mark in call.arguments for mark in _SUBMITTED)


def _ending(status: str, info: dict[str, Any], agent: dict[str, Any]) -> ImportedEnding | None:
    """Return the ending for an exit status, which is the name of the exception that ended the loop."""
    if not status:
        return None
    detail = f"mini-SWE-agent's exit status: {status}"
    if status == _LIMITS:
        return ImportedEnding(reason=_limit(as_dict(info.get("model_stats")), agent), detail=detail)
    if status in _PROVIDER_ERRORS:
        return ImportedEnding(reason="provider_error", detail=detail)
    named = re.sub(r"[^a-z0-9]+", "_", status.lower())[:60].strip("_") or "ended"
    reason, ends_as = _EXIT_STATUSES.get(status, (f"custom:{named}", "failed"))
    return ImportedEnding(reason=reason, status=ends_as, detail=detail)


def _limit(stats: dict[str, Any], agent: dict[str, Any]) -> str:
    """Return the limit that a session exceeded: its steps, otherwise its cost."""
    limit, calls = as_number(agent.get("step_limit")), as_number(stats.get("api_calls"))
    return "step_limit" if limit and calls is not None and calls >= limit else "cost_limit"
