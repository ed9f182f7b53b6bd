"""Import of Trae Agent trajectories (`trajectory_*.json`): requests in `llm_interactions`, results in `agent_steps`.

A request has only the messages that are new in it, and a step has the results of its response's calls. `success` is
false from the start, so it means something only with an `end_time`: without one, the loop was interrupted. A
`task_done` after which the session went on was rejected, with the text of the next message in the user's role.
Sources: trae-agent, `docs/TRAJECTORY_RECORDING.md`, `trae_agent/utils/trajectory_recorder.py`, `agent/base_agent.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..decision import Usage
from .imported_session import ImportedEnding, ImportedSession, Unreadable
from .parsing import as_dict, as_json, as_list, as_number, as_text, parse_time, parse_usage
from .session_builder import SessionBuilder

DONE = "task_done"
_TOO_MANY_STEPS = "Task execution exceeded maximum steps"
"""Beginning of `final_result` if the limit on steps ended the loop."""
_SESSION_FIELDS = frozenset(
    {"agent_steps", "end_time", "execution_time", "final_result", "llm_interactions", "max_steps", "model", "provider",
     "start_time", "success", "task"}
)  # fmt: skip
_INTERACTION_FIELDS = frozenset({"input_messages", "model", "provider", "response", "timestamp", "tools_available"})
_RESPONSE_FIELDS = frozenset({"content", "finish_reason", "model", "tool_calls", "usage"})
_STEP_FIELDS = frozenset(
    {"error", "lakeview_summary", "llm_messages", "llm_response", "reflection", "state", "step_number", "timestamp",
     "tool_calls", "tool_results"}
)  # fmt: skip
_MESSAGE_FIELDS = frozenset({"content", "role", "tool_call", "tool_result"})


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session of a trajectory. Raises Unreadable if no request was made in it."""
    if not matches(data):
        raise Unreadable("it is not a Trae Agent trajectory")
    if not data["llm_interactions"] and not data["agent_steps"]:
        raise Unreadable("it contains no request: the loop ended before the first one")
    reader = _TrajectoryReader(data)
    reader.read()
    yield reader.session


def matches(data: Any) -> bool:
    """Return whether this is a trajectory of Trae Agent."""
    whole = as_dict(data)
    return all(isinstance(whole.get(name), list) for name in ("llm_interactions", "agent_steps")) and "task" in whole


class _TrajectoryReader:
    """Reader that adds the requests of a trajectory, with the results of their calls, to a session."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.session = ImportedSession(model=as_text(data.get("model")))
        self._data = data
        self._builder = SessionBuilder(self.session)
        self._answered: set[str] = set()
        """Ids of the calls whose results were read; the next request repeats them."""
        self._failed = ""
        """The latest error of a step."""
        self.session.count_unread_fields("field", data, _SESSION_FIELDS)

    def read(self) -> None:
        """Read the whole trajectory."""
        interactions = iter(self._data["llm_interactions"])
        for step in map(as_dict, self._data["agent_steps"]):
            self.session.count_unread_fields("field", step, _STEP_FIELDS, "agent_steps.")
            t, error, told = parse_time(step.get("timestamp")), as_text(step.get("error")), step.get("llm_response")
            self._failed = error
            if told is None:
                self._begin()
                self._builder.add_failure(error, model=self.session.model, t=t)
                continue
            self._add_interaction(as_dict(next(interactions, {"response": told, "timestamp": step.get("timestamp")})))
            for result in map(as_dict, as_list(step.get("tool_results"))):
                self._add_result(result, t)
        for interaction in interactions:
            self._add_interaction(as_dict(interaction))
        self.session.ending = self._ending()

    def _begin(self) -> None:
        """Add the task as the prompt, if no request contains it."""
        if not self.session.messages:
            t = parse_time(self._data.get("start_time"))
            self._builder.add_user([as_text(self._data.get("task"))], t=t)

    def _add_interaction(self, interaction: dict[str, Any]) -> None:
        self.session.count_unread_fields("field", interaction, _INTERACTION_FIELDS, "llm_interactions.")
        t = parse_time(interaction.get("timestamp"))
        for message in map(as_dict, as_list(interaction.get("input_messages"))):
            self._add_message(message, t)
        self._begin()
        response = as_dict(interaction.get("response"))
        self.session.count_unread_fields("message field", response, _RESPONSE_FIELDS, "response.")
        calls = [
            (as_text(call.get("call_id")), as_text(call.get("name")), as_json(call.get("arguments")))
            for call in map(as_dict, as_list(response.get("tool_calls")))
        ]
        self._builder.add_response(
            as_text(response.get("content")),
            calls,
            usage=_usage(response.get("usage"), as_text(interaction.get("provider") or self._data.get("provider"))),
            raw_finish=as_text(response.get("finish_reason")),
            model=as_text(response.get("model") or interaction.get("model")),
            t=t,
        )

    def _add_message(self, message: dict[str, Any], t: float | None) -> None:
        self.session.count_unread_fields("message field", message, _MESSAGE_FIELDS)
        text, result = as_text(message.get("content")), as_dict(message.get("tool_result"))
        refused = next((call for call in self._builder.pending_calls if call.name == DONE), None)
        if message.get("role") == "system":
            self._builder.add_system(text)
        elif result:
            if as_text(result.get("call_id")) not in self._answered:
                self._add_result(result, t)
        elif message.get("role") != "user":
            self.session.count_unknown("role", message.get("role"), message)
        elif refused is not None:
            self._builder.add_result(refused.id, DONE, text, "rejected", t=t)
        elif text:
            self._builder.add_user([text], "nudge" if self._builder.steps else "user", t)

    def _add_result(self, result: dict[str, Any], t: float | None) -> None:
        self._answered.add(as_text(result.get("call_id")))
        failed = result.get("success") is False
        output, error = as_json(result.get("result")), as_json(result.get("error"))
        text = "\n".join(filter(None, (output, error)))
        self._builder.add_result(as_text(result.get("call_id")), "", text, "error" if failed else "ok", t=t)

    def _ending(self) -> ImportedEnding | None:
        """Return how the loop ended according to the trajectory; None if the last events tell it better."""
        if not as_text(self._data.get("end_time")):
            return None
        final = as_text(self._data.get("final_result"))
        if self._data.get("success") is True:
            finished = any(one.name == DONE for one in self._builder.pending_calls)
            detail = "Trae Agent's own word: success"
            return None if finished else ImportedEnding(reason="custom:success", status="completed", detail=detail)
        if final.startswith(_TOO_MANY_STEPS):
            return ImportedEnding(reason="step_limit", detail=final[:500])
        last = self.session.messages[-1]
        if last.failure is not None:
            return None
        detail = self._failed or final or "Trae Agent says that it did not succeed"
        return ImportedEnding(reason="custom:error", status="failed", detail=detail[:500])


def _usage(usage: Any, provider: str) -> Usage | None:
    """Return the tokens of a response; None if they are unknown, which is written as 0.

    Only Anthropic counts cached tokens separately from the other input tokens.
    """
    counts = {name: count for name, count in as_dict(usage).items() if as_number(count) is not None}
    if provider != "anthropic":
        cached = counts.pop("cache_read_input_tokens", 0)
        counts.pop("cache_creation_input_tokens", None)
        counts["input_tokens_details"] = {"cached_tokens": cached}
    return parse_usage({**counts, "output_tokens_details": {"reasoning_tokens": counts.pop("reasoning_tokens", 0)}})
