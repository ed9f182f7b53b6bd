"""Import of tau2-bench results: one session per simulation, verdict in `reward_info`, end in `termination_reason`.

The agent's messages are responses, the simulated user's are prompts. The greeting that the program writes in the
agent's name, the simulated user's own tool calls and the cost of its model are left out and counted. Voice
simulations (`ticks`) are not read. Source: tau2-bench, `src/tau2/data_model/{message,simulation}.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ..decision import Status
from ..decision.reported_usage import dollars
from .content_blocks import message_reasoning
from .imported_session import ImportedEnding, ImportedSession, ImportedVerdict, RawCall, Unreadable, with_responses
from .parsing import as_dict, as_json, as_list, as_number, as_text, first_text, parse_time, parse_usage
from .session_builder import SessionBuilder

_STOPS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
_RESULT_FIELDS = frozenset({"timestamp", "info", "simulations", "tasks"})
_INFO_FIELDS = frozenset({"agent_info"})
_SIMULATION_FIELDS = frozenset(
    {"id", "task_id", "trial", "timestamp", "start_time", "termination_reason", "reward_info", "messages", "agent_cost"}
)
_MESSAGE_FIELDS = frozenset({"role", "content", "tool_calls", "turn_idx", "timestamp"})
_AGENT_FIELDS = _MESSAGE_FIELDS | {"cost", "usage", "raw_data"}
_TOOL_FIELDS = frozenset({"id", "role", "content", "requestor", "error", "turn_idx", "timestamp"})
_RAW_FIELDS = frozenset({"finish_reason", "index", "message"})
_RAW_MESSAGE_FIELDS = frozenset(
    {"role", "content", "tool_calls", "function_call", "reasoning_content", "thinking_blocks"}
)
_ENDINGS: dict[str, tuple[str, Status | None]] = {
    "user_stop": ("custom:user_stop", "completed"),
    "agent_stop": ("custom:agent_stop", "completed"),
    "max_steps": ("step_limit", None),
    "timeout": ("time_limit", None),
    "context_window_exceeded": ("token_limit", None),
    "too_many_errors": ("custom:too_many_errors", "exhausted"),
}
"""Stop reason and status for each termination reason; any other is a failure under its own name."""


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session of each simulation. Those without a response are named at the end, as unreadable."""
    results = data if "simulations" in as_dict(data) else {"simulations": [data]}
    simulations = map(as_dict, as_list(results["simulations"]))
    read = (_SimulationReader(results, simulation).read() for simulation in simulations)
    yield from with_responses(read, "simulations")


def matches(data: Any) -> bool:
    """Return whether these are results, or a simulation."""
    whole = as_dict(data)
    simulations = as_list(whole.get("simulations"))
    return _is_simulation(as_dict(simulations[0])) if simulations else _is_simulation(whole)


def _is_simulation(data: dict[str, Any]) -> bool:
    return {"task_id", "termination_reason"} <= data.keys() and ("messages" in data or "ticks" in data)


class _SimulationReader:
    """Reader of one simulation, as a session."""

    def __init__(self, results: dict[str, Any], simulation: dict[str, Any]) -> None:
        if as_list(simulation.get("ticks")) and not as_list(simulation.get("messages")):
            raise Unreadable("a simulation of tau2-bench by voice (`ticks`), which is not read")
        info = as_dict(results.get("info"))
        id = ".".join(
            f"{name}-{as_text(simulation[f])}"
            for name, f in (("task", "task_id"), ("trial", "trial"))
            if f in simulation
        )
        session = self.session = ImportedSession(id=id, within_file=True, verdict=_verdict(simulation))
        session.model = first_text(as_dict(info.get("agent_info")), "llm")
        session.count_unread_fields("field", results, _RESULT_FIELDS)
        session.count_unread_fields("field", info, _INFO_FIELDS, "info.")
        session.count_unread_fields("field", as_dict(info.get("agent_info")), ("llm",), "info.agent_info.")
        session.count_unread_fields("field", simulation, _SIMULATION_FIELDS, "simulation.")
        self._messages = list(_flat(as_list(simulation.get("messages"))))
        self._builder = SessionBuilder(session)
        session.ending = _ending(as_text(simulation.get("termination_reason")))

    def read(self) -> ImportedSession:
        """Read all messages."""
        for place, message in enumerate(self._messages):
            last = place == len(self._messages) - 1
            match message.get("role"):
                case "assistant" if place == 0 and not message.get("usage") and not message.get("raw_data"):
                    self.session.count_dropped("own words", message)
                case "assistant":
                    self._add_response(message)
                case "tool" if message.get("requestor") == "user":
                    self.session.count_dropped("user's tool", message)
                case "tool":
                    self._add_result(message)
                case "user" if last and any(mark in as_text(message.get("content")) for mark in _STOPS):
                    self.session.count_dropped("last words", message)
                case "user":
                    self._add_user(message)
                case role:
                    self.session.count_unknown("role", role, message)
        return self.session

    def _add_user(self, message: dict[str, Any]) -> None:
        self.session.count_unread_fields("message field", message, _MESSAGE_FIELDS, "user.")
        for call in as_list(message.get("tool_calls")):
            self.session.count_dropped("user's tool", {"tool_calls": [call]})
        text = as_text(message.get("content"))
        if text:
            self._builder.add_user([text], t=parse_time(message.get("timestamp")))

    def _add_response(self, message: dict[str, Any]) -> None:
        session, raw = self.session, as_dict(message.get("raw_data"))
        told = as_dict(raw.get("message"))
        session.count_unread_fields("message field", message, _AGENT_FIELDS, "assistant.")
        session.count_unread_fields("message field", raw, _RAW_FIELDS, "raw_data.")
        session.count_unread_fields("message field", told, _RAW_MESSAGE_FIELDS, "raw_data.message.")
        usage, cost = parse_usage(message.get("usage")), dollars(message.get("cost"))
        self._builder.add_response(
            as_text(message.get("content")),
            [_call(as_dict(call)) for call in as_list(message.get("tool_calls"))],
            message_reasoning(told),
            usage=replace(usage, cost_usd=cost) if usage is not None and cost else usage,
            raw_finish=as_text(raw.get("finish_reason")),
            t=parse_time(message.get("timestamp")),
        )

    def _add_result(self, message: dict[str, Any]) -> None:
        self.session.count_unread_fields("message field", message, _TOOL_FIELDS, "tool.")
        failed = message.get("error") is True
        content, t = as_text(message.get("content")), parse_time(message.get("timestamp"))
        self._builder.add_result(as_text(message.get("id")), "", content, "error" if failed else "ok", t=t)


def _flat(messages: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages. One entry may contain several results."""
    for message in map(as_dict, messages):
        several = [as_dict(one) for one in as_list(message.get("tool_messages"))]
        yield from several or [message]


def _call(call: dict[str, Any]) -> RawCall:
    return as_text(call.get("id")), as_text(call.get("name")), as_json(call.get("arguments"))


def _ending(reason: str) -> ImportedEnding | None:
    if not reason:
        return None
    named, status = _ENDINGS.get(reason, (f"custom:{reason[:60]}", "failed"))
    return ImportedEnding(reason=named, status=status, detail=f"tau2-bench's termination reason: {reason}")


def _verdict(simulation: dict[str, Any]) -> ImportedVerdict | None:
    reward = as_number(as_dict(simulation.get("reward_info")).get("reward"))
    if reward is None:
        return None
    details: dict[str, Any] = {"reward": reward}
    details |= {name: simulation[name] for name in ("task_id", "trial") if name in simulation}
    return ImportedVerdict(passed=reward >= 1 - 1e-6, name="tau2-bench:reward", details=details)
