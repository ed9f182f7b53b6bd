"""Import of Inspect logs: `.eval`, a ZIP archive with a file for each sample, and `.json` with all of them.

A sample is a session: its `messages`, its `scores` as the verdict, its `error` or `limit` as the ending. Token counts,
finish reasons, times and the tools come from the events of its requests; requests outside the conversation, such as a
grader's, are left out and counted. Source: Inspect, `inspect_ai/log/_log.py`, `model/_chat_message.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..decision import Usage
from ..decision.messages import ResultStatus
from .content_blocks import MessageContent, count_dropped_parts, parse_content
from .file_values import FileValue, decode_json
from .imported_session import (
    ImportedEnding,
    ImportedSession,
    ImportedVerdict,
    Origin,
    RawCall,
    Unreadable,
    with_responses,
)
from .openai import parse_tools
from .packed_files import Allowance, member_names, unpack
from .parsing import as_dict, as_json, as_list, as_number, as_text, first_text, parse_time, usage_from_counts
from .session_builder import SessionBuilder

_VERSIONS = (1, 2, 3)
_SUFFIX = ".eval"
_HEADERS = ("header.json", "_journal/start.json")
_SAMPLES = "samples/"
_ATTACHMENT = "attachment://"
_LOG_FIELDS = frozenset({"version", "status", "eval", "samples"})
_EVAL_FIELDS = frozenset({"task", "model", "created", "eval_id", "run_id", "task_id"})
_SAMPLE_FIELDS = frozenset(
    {"id", "epoch", "input", "messages", "output", "scores", "events", "model_usage", "attachments", "uuid", "error",
     "limit"}
)  # fmt: skip
_MESSAGE_FIELDS = frozenset(
    {"id", "content", "source", "role", "tool_calls", "tool_call_id", "model", "function", "error"}
)
_CALL_FIELDS = frozenset({"id", "function", "arguments", "type", "view"})
_PART_FIELDS = frozenset({"type", "text", "reasoning", "signature", "redacted", "image", "detail", "refusal"})
_LIMITS = {
    "token": "token_limit",
    "context": "token_limit",
    "time": "time_limit",
    "working": "time_limit",
    "message": "step_limit",
    "turn": "step_limit",
    "cost": "cost_limit",
    "operator": "cancelled",
}
_GRADES = {"C": True, "I": False}


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the sessions of a log or of one sample. Those without a response are reported at the end, as unreadable."""
    log = data if "samples" in as_dict(data) else {"samples": [data]}
    version = log.get("version", _VERSIONS[-1])
    if version not in _VERSIONS:
        raise Unreadable(f"this is an Inspect log of version {version}: only {', '.join(map(str, _VERSIONS))} are read")
    if not as_list(log.get("samples")):
        raise Unreadable("an Inspect log without samples")
    samples = map(as_dict, as_list(log["samples"]))
    yield from with_responses((_SampleReader(log, sample).read() for sample in samples), "samples")


def matches(data: Any) -> bool:
    """Return whether this is a log, or a sample of a log."""
    whole = as_dict(data)
    if "task" in as_dict(whole.get("eval")) and "status" in whole:
        return True
    return {"id", "epoch", "messages", "input"} <= whole.keys()


def read_store(path: Path) -> Iterator[FileValue] | None:
    """Return the samples of a log in an archive, each with the log's data about all of them; None for any other file.

    Any other ZIP archive may be called `.eval`, too: a log has a header, or the journal of one that is being written.
    """
    if path.suffix != _SUFFIX or not path.is_file():
        return None
    return None if member_names(path).isdisjoint(_HEADERS) else _read_archive(path)


def _read_archive(path: Path) -> Iterator[FileValue]:
    header: dict[str, Any] = {}
    found = 0
    for unpacked in unpack(path, Allowance()):
        sample = unpacked.name.startswith(_SAMPLES)
        if not sample and unpacked.name not in _HEADERS:
            continue
        found += sample
        value = FileValue(place=unpacked.name, number=found, error=unpacked.error)
        try:
            data = decode_json(unpacked.path.read_bytes())
        except Unreadable as error:
            value.error = value.error or str(error)
        else:
            header = (
                header if sample else {**header, **{name: data[name] for name in ("version", "eval") if name in data}}
            )
            value.data = {**header, "samples": [data]}
        if sample or value.error:
            yield value
    if not found:
        raise Unreadable("an Inspect log without samples")


class _SampleReader:
    """Reader of one sample, as a session."""

    def __init__(self, log: dict[str, Any], sample: dict[str, Any]) -> None:
        self._sample = sample
        self._attachments = as_dict(sample.get("attachments"))
        evaluation = as_dict(log.get("eval"))
        model = as_text(evaluation.get("model"))
        session = self.session = ImportedSession(id=_sample_id(sample), within_file=True, model=model)
        session.count_unread_fields("field", log, _LOG_FIELDS)
        session.count_unread_fields("field", evaluation, _EVAL_FIELDS, "eval.")
        session.count_unread_fields("field", sample, _SAMPLE_FIELDS, "sample.")
        self._builder = SessionBuilder(session)
        self._requests = [
            as_dict(event) for event in as_list(sample.get("events")) if as_dict(event).get("event") == "model"
        ]
        session.tools = next(filter(None, (parse_tools(event.get("tools")) for event in self._requests)), ())

    def read(self) -> ImportedSession:
        """Read the whole sample."""
        session, sample = self.session, self._sample
        for message in map(as_dict, as_list(sample.get("messages"))):
            self._add_message(self._resolve(message))
        for event in self._requests:
            error = as_text(event.get("error"))
            session.count_dropped("other request", error or self._resolve(_said(event)))
        session.ending, session.verdict = _ending(sample), self._verdict()
        if all(one.usage is None for one in session.messages):
            session.usage = _usage(next(iter(as_dict(sample.get("model_usage")).values()), None))
        return session

    def _resolve(self, value: Any) -> Any:
        """Return the value with its attachments, which are stored separately because they are long or repeat."""
        if isinstance(value, str) and value.startswith(_ATTACHMENT):
            return self._attachments.get(value.removeprefix(_ATTACHMENT), value)
        if isinstance(value, dict):
            return {name: self._resolve(part) for name, part in value.items()}
        return [self._resolve(part) for part in value] if isinstance(value, list) else value

    def _add_message(self, message: dict[str, Any]) -> None:
        session, role = self.session, message.get("role")
        session.count_unread_fields("message field", message, _MESSAGE_FIELDS)
        content = self._content(message.get("content"))
        match role:
            case "system":
                self._builder.add_system(content.text)
            case "user":
                own = self._builder.steps > 0 and message.get("source") not in ("input", "operator")
                origin: Origin = "nudge" if own else "user"
                self._builder.add_prompt(content, origin)
            case "assistant":
                self._add_response(message, content)
            case "tool":
                self._add_result(message, content)
            case _:
                session.count_unknown("role", role, message)

    def _add_response(self, message: dict[str, Any], content: MessageContent) -> None:
        request = self._take_request(message)
        output = as_dict(request.get("output"))
        choice = as_dict(next(iter(as_list(output.get("choices"))), None))
        if not request and as_dict(self._sample.get("output")).get("choices"):
            output, choice = self._last_output(message)
        count_dropped_parts(content, self.session, calls=True, results=True)
        self._builder.add_response(
            content.text,
            [self._call(as_dict(call)) for call in as_list(message.get("tool_calls"))],
            content.reasoning,
            usage=_usage(output.get("usage")),
            raw_finish=as_text(choice.get("stop_reason")),
            model=first_text(message, "model") or as_text(output.get("model")),
            t=parse_time(request.get("completed") or request.get("timestamp")),
        )

    def _take_request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the request that a response came from, by its id; without an id, the first one with the same text."""
        for event in self._requests:
            said = _said(event)
            same = said.get("id") == message["id"] if message.get("id") else self._is_same(said, message)
            if same:
                self._requests.remove(event)
                return event
        return {}

    def _is_same(self, said: dict[str, Any], message: dict[str, Any]) -> bool:
        calls = [[as_dict(call).get("id") for call in as_list(one.get("tool_calls"))] for one in (said, message)]
        return bool(said) and self._resolve(said.get("content")) == message.get("content") and calls[0] == calls[1]

    def _last_output(self, message: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the sample's output, for the last response of a log without events."""
        output = as_dict(self._sample.get("output"))
        choice = as_dict(as_list(output.get("choices"))[0])
        said = as_dict(choice.get("message"))
        same = said.get("id") == message.get("id") and self._is_same(said, message)
        return (output, choice) if same else ({}, {})

    def _call(self, call: dict[str, Any]) -> RawCall:
        self.session.count_unread_fields("call field", call, _CALL_FIELDS)
        return as_text(call.get("id")), as_text(call.get("function")), as_json(call.get("arguments"))

    def _add_result(self, message: dict[str, Any], content: MessageContent) -> None:
        error = as_dict(message.get("error"))
        status: ResultStatus = "denied" if error.get("type") == "approval" else "error" if error else "ok"
        text = content.text or as_text(error.get("message"))
        if content.text and as_text(error.get("message")) not in content.text:
            self.session.count_dropped("message field: error", as_text(error.get("message")))
        id, name = as_text(message.get("tool_call_id")), as_text(message.get("function"))
        self._builder.add_result(id, name, text, status, content.images)

    def _content(self, content: Any) -> MessageContent:
        parts = [self._part(part) for part in content] if isinstance(content, list) else content
        return parse_content(parts, self.session, pictures=True)

    def _part(self, part: Any) -> Any:
        """Return a part of a message in the form shared with other formats."""
        entry = as_dict(part)
        match entry.get("type"):
            case "reasoning":
                self.session.count_unread_fields("part field", entry, _PART_FIELDS, "reasoning.")
                if entry.get("redacted") is True:
                    return {"type": "redacted_thinking", "data": entry.get("reasoning")}
                return {"type": "reasoning", "text": entry.get("reasoning"), "signature": entry.get("signature")}
            case "image":
                return {"type": "image_url", "image_url": {"url": as_text(entry.get("image"))}}
            case "text":
                self.session.count_unread_fields("part field", entry, _PART_FIELDS, "text.")
                return {"type": "text", "text": entry.get("text")}
            case "tool_use":
                return {"type": "server_tool_use"}
            case _:
                return part

    def _verdict(self) -> ImportedVerdict | None:
        """Return the verdict of the first scorer; the scores of others are in its details."""
        scores = {name: as_dict(score).get("value") for name, score in as_dict(self._sample.get("scores")).items()}
        for name, value in scores.items():
            number = as_number(value)
            passed = value if isinstance(value, bool) else _GRADES.get(as_text(value))
            if passed is None and number is not None:
                passed = number >= 1 - 1e-6
            if passed is not None:
                return ImportedVerdict(passed=passed, name=f"inspect:{name}", details={"scores": scores})
        self.session.count_loss("field: sample.scores", len(scores))
        return None


def _sample_id(sample: dict[str, Any]) -> str:
    """Return the sample's id and epoch, as far as it has them: only both together are unique in a log."""
    id, epoch = as_text(sample.get("id")), as_text(sample.get("epoch"))
    return ".".join(part for part in (id, f"epoch-{epoch}" if epoch else "") if part)


def _said(event: dict[str, Any]) -> dict[str, Any]:
    """Return the message of a request's response."""
    choice = next(iter(as_list(as_dict(event.get("output")).get("choices"))), None)
    return as_dict(as_dict(choice).get("message"))


def _usage(counted: Any) -> Usage | None:
    """Return the token counts. The input, including cached tokens, is the part of the total that is not output."""
    tokens = as_dict(counted)
    total, output = as_number(tokens.get("total_tokens")), as_number(tokens.get("output_tokens")) or 0
    input = tokens.get("input_tokens") if total is None else max(0, total - output)
    return usage_from_counts(
        input,
        output,
        cached=tokens.get("input_tokens_cache_read"),
        reasoning=tokens.get("reasoning_tokens"),
        cost=tokens.get("total_cost"),
    )


def _ending(sample: dict[str, Any]) -> ImportedEnding | None:
    """Return the ending of a sample, if an error or a limit ended it."""
    error, limit = as_dict(sample.get("error")), as_dict(sample.get("limit"))
    if error:
        return ImportedEnding(reason="custom:error", status="failed", detail=as_text(error.get("message"))[:500])
    if not limit:
        return None
    kind = as_text(limit.get("type"))
    detail = f"Inspect's limit: {kind} {as_json(limit.get('limit'))}"
    status = None if kind in _LIMITS else "exhausted"
    return ImportedEnding(reason=_LIMITS.get(kind, "custom:limit"), status=status, detail=detail)  # type: ignore[arg-type]
