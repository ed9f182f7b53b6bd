"""Foreign data imported, for tests: the sessions, their events, and what the events amount to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from endstop.decision import Event, Facts, Message, Outcome, SystemMessage, ToolCall, ToolResult, Transcript, fold
from endstop.decision import events as ev
from endstop.formats import FORMATS, ImportedSession, ImportOptions, events_of
from endstop.testing import check_transcript


class Heard:
    """One session, imported and checked for what holds for all."""

    def __init__(self, session: ImportedSession, format: str, kinds: ImportOptions) -> None:
        self.session = session
        self.events = events_of(session, "session", format, kinds)
        self.transcript = Transcript()
        for event in self.events:
            self.transcript.feed(event)
        check_transcript(self.messages, [call.id for call in self.transcript.open_calls])
        check_runs(self.events)

    @property
    def messages(self) -> list[Message]:
        return self.transcript.messages

    @property
    def said(self) -> list[Message]:
        """The messages without the system prompt."""
        return [message for message in self.messages if not isinstance(message, SystemMessage)]

    @property
    def results(self) -> list[ToolResult]:
        return [message for message in self.messages if isinstance(message, ToolResult)]

    @property
    def outcomes(self) -> list[Outcome]:
        return [event.outcome for event in self.of(ev.RunFinished)]

    @property
    def stops(self) -> list[str]:
        return [outcome.stop_reason for outcome in self.outcomes]

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def hear(format: str, data: Any, **kinds: Any) -> Heard:
    """The one session in this data."""
    (session,) = FORMATS[format].sessions(data)
    return Heard(session, format, ImportOptions(**kinds))


def check_runs(events: Sequence[Event]) -> None:
    """Raise AssertionError unless these are runs as the engine would write them."""
    runs: list[list[Event]] = []
    for event in events:
        if isinstance(event, ev.RunStarted):
            runs.append([])
        runs[-1].append(event)
    for run in runs:
        assert [event.seq for event in run] == list(range(1, len(run) + 1))
        assert all(one.t <= other.t for one, other in pairwise(run))
        facts = Facts()
        for event in run:
            facts = fold(facts, event)
        (last,) = (event for event in run if isinstance(event, ev.RunFinished))
        assert last is run[-1]
        outcome = last.outcome
        assert (outcome.steps, outcome.rounds, outcome.requests) == (facts.steps, facts.rounds, facts.requests)
        assert outcome.usage == facts.usage
        decisions = [event.decision for event in run if isinstance(event, ev.DecisionMade)]
        assert decisions[-1].__class__.__name__ == ("Pause" if outcome.status == "awaiting_input" else "Stop")
        assert all(type(decision).__name__ == "GoOn" for decision in decisions[:-1])
        rounds = sum(isinstance(event, ev.RoundStarted) for event in run)
        assert len(decisions) == max(1, rounds), "one decision for each round"
        steps = [event.step for event in run if isinstance(event, ev.StepStarted)]
        assert steps == list(range(facts.steps - len(steps) + 1, facts.steps + 1))
    ids = [run[0].run_id for run in runs]  # type: ignore[union-attr]
    assert len(set(ids)) == len(ids)


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def says(text: str | None = None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A response in OpenAI's format."""
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **more}


def call(id: str | None, name: str, arguments: Any = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def answer(id: str | None, content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


def called(id: str, name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id, name, arguments)
