"""Import of trajectories in Harbor's Agent Trajectory Interchange Format (ATIF) 1.x, including our own exports.

A user step is a message; an agent step is a response with its calls, their results and its token counts. What an
agent step observed without a call, such as a terminal's output, is a message of the loop after it. Steps copied from
an earlier trajectory, and steps of an agent without a model, are left out; a subagent's trajectory is a separate
session. `export_atif.py` writes our own.
Source: Harbor, RFC 0001 "Agent Trajectory Interchange Format (ATIF) Specification", v1.7.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

from msgspec.structs import replace

from ..decision import Reasoning, Usage
from ..decision.events import ParentCall
from ..decision.messages import ResultStatus
from ..decision.outcome import STATUS_OF, Status
from .content_blocks import MessageContent, parse_content
from .imported_session import ImportedEnding, ImportedSession, ImportedVerdict, Origin, RawCall, Unreadable
from .openai import parse_tools
from .parsing import as_dict, as_json, as_list, as_text, first_text, parse_time, parse_usage
from .session_builder import SessionBuilder

_VERSION = re.compile(r"ATIF-v1\.(\d+)\Z")
_LATEST = 7
_TRAJECTORY_FIELDS = frozenset(
    {"schema_version", "session_id", "trajectory_id", "agent", "steps", "final_metrics", "extra",
     "subagent_trajectories"}
)  # fmt: skip
_AGENT_FIELDS = frozenset({"model_name", "tool_definitions"})
_STEP_FIELDS = frozenset(
    {"step_id", "timestamp", "source", "model_name", "message", "reasoning_content", "tool_calls", "observation",
     "metrics", "extra", "is_copied_context"}
)  # fmt: skip
_OWN_EXTRA = frozenset({"finish_reason", "origin", "run_id", "step"})
"""Fields of a step's `extra` written by `export_atif.py` that are read or carry no content."""
_CALL_FIELDS = frozenset({"tool_call_id", "function_name", "arguments", "extra"})
_RESULT_FIELDS = frozenset({"source_call_id", "content", "extra"})
_METRIC_FIELDS = frozenset({"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra"})
_METRIC_EXTRA = frozenset({"reasoning_tokens", "estimated"})
_STATUSES = frozenset(get_args(Status))
_RESULT_STATUSES = frozenset(get_args(ResultStatus))


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session of a trajectory, then those of its subagents."""
    yield from _sessions(as_dict(data), "")


def matches(data: Any) -> bool:
    """Return whether this is a trajectory in ATIF of any version."""
    return as_text(as_dict(data).get("schema_version")).startswith("ATIF")


def _sessions(data: dict[str, Any], parent: str) -> Iterator[ImportedSession]:
    version = as_text(data.get("schema_version"))
    found = _VERSION.match(version)
    if found is None:
        raise Unreadable(f"this is an ATIF trajectory of version {version[:40]!r}: only ATIF-v1 is read")
    reader = _TrajectoryReader(data, parent)
    if int(found[1]) > _LATEST:
        reader.session.count_loss(f"field: schema_version {version[:20]}")
    for step in as_list(data.get("steps")):
        reader.add_step(as_dict(step))
    reader.finish()
    yield reader.session
    for inner in as_list(data.get("subagent_trajectories")):
        yield from _sessions(as_dict(inner), reader.session.id)


class _TrajectoryReader:
    """Reader that adds the steps of a trajectory to a session."""

    def __init__(self, data: dict[str, Any], parent: str) -> None:
        own = (
            first_text(data, "trajectory_id", "session_id")
            if parent
            else first_text(data, "session_id", "trajectory_id")
        )
        agent = as_dict(data.get("agent"))
        session = self.session = ImportedSession(id=f"{parent}.{own}" if parent else own)
        session.parent = ParentCall(session_id=parent) if parent else None
        session.model, session.tools = as_text(agent.get("model_name")), parse_tools(agent.get("tool_definitions"))
        session.count_unread_fields("field", data, _TRAJECTORY_FIELDS)
        session.count_unread_fields("field", agent, _AGENT_FIELDS, "agent.")
        runs = as_list(as_dict(data.get("extra")).get("runs"))
        session.count_unread_fields("field", as_dict(data.get("extra")), ("runs",), "extra.")
        self._last_run = as_dict(runs[-1]) if runs else {}
        self._metrics = as_dict(data.get("final_metrics"))
        self._builder = SessionBuilder(session)

    def add_step(self, step: dict[str, Any]) -> None:
        session, extra = self.session, as_dict(step.get("extra"))
        if step.get("is_copied_context") is True and step.get("source") == "agent":
            session.count_dropped("copied step", _contents(step))
            return
        counted = ("llm_call_count",) if step.get("llm_call_count") in (0, 1) else ()
        session.count_unread_fields("message field", step, _STEP_FIELDS.union(counted))
        session.count_unread_fields("message field", extra, _OWN_EXTRA, "extra.")
        t = parse_time(step.get("timestamp"))
        match step.get("source"):
            case "system" if not extra.get("context_management"):
                self._builder.add_system(self._content(step.get("message")).text, t)
                self._add_observation(step, t)
            case "user":
                content = self._content(step.get("message"))
                origin: Origin = "nudge" if extra.get("origin", "user") != "user" else "user"
                self._builder.add_prompt(content, origin, t)
            case "agent" if step.get("llm_call_count") != 0:
                self._add_response(step, extra, t)
            case "agent" | "system":
                session.count_dropped("own words", _contents(step))
            case source:
                session.count_unknown("role", source, _contents(step))

    def finish(self) -> None:
        """Read how the session ended, and the token counts given only for the whole session."""
        self.session.ending, self.session.verdict = _ending(self._last_run), _verdict(self._last_run)
        if all(imported.usage is None for imported in self.session.messages):
            totals = {name.removeprefix("total_"): value for name, value in self._metrics.items()}
            self.session.usage = parse_usage({**totals, "cost": totals.get("cost_usd")})

    def _add_response(self, step: dict[str, Any], extra: dict[str, Any], t: float | None) -> None:
        thought = as_text(step.get("reasoning_content"))
        self._builder.add_response(
            self._content(step.get("message")).text,
            [self._call(as_dict(call)) for call in as_list(step.get("tool_calls"))],
            [Reasoning(thought)] if thought else (),
            usage=self._usage(as_dict(step.get("metrics"))),
            raw_finish=as_text(extra.get("finish_reason")),
            model=as_text(step.get("model_name")),
            t=t,
        )
        self._add_observation(step, t)

    def _call(self, call: dict[str, Any]) -> RawCall:
        self.session.count_unread_fields("call field", call, _CALL_FIELDS)
        extra = as_dict(call.get("extra"))
        self.session.count_unread_fields("call field", extra, ("arguments_text",), "extra.")
        arguments = as_text(extra.get("arguments_text")) or as_json(call.get("arguments"))
        return as_text(call.get("tool_call_id")), as_text(call.get("function_name")), arguments

    def _usage(self, metrics: dict[str, Any]) -> Usage | None:
        session, extra = self.session, as_dict(metrics.get("extra"))
        session.count_unread_fields("message field", metrics, _METRIC_FIELDS, "metrics.")
        session.count_unread_fields("message field", extra, _METRIC_EXTRA, "metrics.extra.")
        cached, reasoning = metrics.get("cached_tokens"), extra.get("reasoning_tokens")
        details = {"prompt_tokens_details": {"cached_tokens": cached}, "cost": metrics.get("cost_usd")}
        usage = parse_usage({**metrics, **details, "completion_tokens_details": {"reasoning_tokens": reasoning}})
        return usage if usage is None or extra.get("estimated") is not True else replace(usage, estimated=True)

    def _add_observation(self, step: dict[str, Any], t: float | None) -> None:
        """Add the observation of a step: the results of its calls, or what it observed without a call."""
        for result in map(as_dict, as_list(as_dict(step.get("observation")).get("results"))):
            extra = as_dict(result.get("extra"))
            self.session.count_unread_fields("part field", result, _RESULT_FIELDS, "observation.")
            self.session.count_unread_fields("part field", extra, ("status",), "observation.extra.")
            content = self._content(result.get("content"))
            call_id, status = as_text(result.get("source_call_id")), as_text(extra.get("status"))
            if call_id or self._builder.pending_calls:
                said: ResultStatus = status if status in _RESULT_STATUSES else "ok"  # type: ignore[assignment]
                self._builder.add_result_content(call_id, "", content, said, t)
            elif content.parts:
                self._builder.add_prompt(content, "nudge", t)

    def _content(self, content: Any) -> MessageContent:
        parts = [_as_block(part) for part in content] if isinstance(content, list) else content
        return parse_content(parts, self.session, pictures=True)


def _as_block(part: Any) -> Any:
    """Return a content part. A picture is kept by its URL, unless that is a path of a file that is not here."""
    source = as_dict(as_dict(part).get("source"))
    path = as_text(source.get("path"))
    if as_dict(part).get("type") != "image" or not path.startswith(("http://", "https://", "data:")):
        return part
    return {"type": "image", "source": {"type": "url", "url": path, "media_type": source.get("media_type")}}


def _contents(step: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of a step in the form in which they are counted."""
    results = as_list(as_dict(step.get("observation")).get("results"))
    held = [{"type": "tool_result", "content": as_dict(result).get("content")} for result in results]
    parts = [step.get("message"), *held]
    return {"content": parts, "tool_calls": step.get("tool_calls"), "reasoning": step.get("reasoning_content")}


def _ending(run: dict[str, Any]) -> ImportedEnding | None:
    """Return the ending of the last run, if `export_atif.py` wrote one."""
    reason, status = as_text(run.get("stop_reason")), run.get("status")
    if status not in _STATUSES or not (reason in STATUS_OF or reason.startswith("custom:")):
        return None
    return ImportedEnding(reason=reason, status=status, detail=f"the exported run ended as {reason}")


def _verdict(run: dict[str, Any]) -> ImportedVerdict | None:
    """Return the verdict of the last run, if `export_atif.py` wrote one."""
    if run.get("verdict") not in ("passed", "failed"):
        return None
    details = dict(as_dict(run.get("evaluation")))
    name = as_text(details.pop("name", None)) or "import:verdict"
    return ImportedVerdict(passed=run["verdict"] == "passed", name=name, details=details)
