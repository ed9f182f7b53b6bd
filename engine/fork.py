"""Forks: a new session that continues from a decision of a recorded run with other settings, prompt or tool results.

A fork's record is complete in itself. It begins with copies: the earlier runs of the session, and the events of the
forked run up to the decision, which the fork's policy then makes again. `RunStarted.origin` says where each run was
copied from, and up to which event; code that counts tokens, cost or steps over many records counts the copies as the
origin's (`SummaryBuilder`).

Everything here is computed from a record. `Session.fork` makes the session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from .config import RunConfig
from .decision import Event, ToolCall, UserMessage, WrongUse
from .decision import events as ev
from .decision.compared_results import ComparedResult, fingerprint
from .decision.decisions import made_by_policy
from .journal import RecordTarget
from .records.format import REDACTION_MARK, DrainedChunk, encode_line, step_of_attempt
from .records.reader import RecordedRun, SessionRecord, read_record
from .tools.results import truncate
from .validation import check_recorded_functions, check_recorded_tools, preview

EDITABLE = ("ok", "error", "unknown")
"""Statuses of results that came from a tool and may therefore be replaced."""
COMPARED = ("model", "policy", "system", "prompt", "tools", "tool_choice", "settings")
"""Fields of RUN_STARTED that are compared; `Origin.changed` names those that differ."""


class HasConfig(Protocol):
    """Protocol of an engine."""

    @property
    def config(self) -> RunConfig:
        """Everything that its runs are made from."""
        ...


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """Decision of a recorded run at which a fork may begin."""

    record: SessionRecord
    number: int
    """Index of the run, from 0."""
    at: int

    @property
    def run(self) -> RecordedRun:
        """The run that is forked."""
        return self.record.runs[self.number]

    @property
    def events(self) -> Sequence[Event]:
        """The events of the run before the decision."""
        return [event for event in self.run.events if event.seq < self.at]

    @classmethod
    def find(cls, record: SessionRecord, at: int, run: int | str | None = None) -> ForkPoint:
        """Return the point before decision `at` of a run, given by its number (from 1) or id; by default the last run.

        Raises WrongUse if there is no such run or decision, or if events before it are redacted or missing.
        """
        if not isinstance(at, int):
            raise WrongUse(f"at is {preview(at)}: write the number (`seq`) of a decision")
        number = _run_number(record, run)
        _check_decision(record, number, at)
        point = cls(record, number, at)
        for copied in (*record.runs[:number], RecordedRun(events=list(point.events), after_cut=[])):
            _check_whole(record.path, copied)
            _check_not_redacted(record.path, copied)
        return point

    def copies(
        self,
        config: RunConfig,
        session_id: str,
        run_id: str,
        started_at: str,
        prompt: UserMessage | None,
        results: Mapping[str, str],
    ) -> list[RecordedRun]:
        """Return the runs with which the record of a fork begins; the last one ends before the decision.

        Raises WrongUse if the engine lacks a tool or a hook of the run, or a prompt or a result cannot be replaced.
        """
        origin = self.run.started
        check_recorded_functions(origin.functions, config.functions)
        check_recorded_tools(origin.tools, config.toolbox)
        _check_results(self, results)
        _check_new_prompt(origin, prompt)
        begins = replace(
            origin,
            **config.recorded_settings(origin.history),
            run_id=run_id,
            session_id=session_id,
            started_at=started_at,
            prompt=origin.prompt if prompt is None else prompt.text,
            images=origin.images if prompt is None else prompt.images,
        )
        changed = tuple(name for name in COMPARED if getattr(begins, name) != getattr(origin, name))
        earlier = [_copied(run.started, run.events, session_id, results) for run in self.record.runs[: self.number]]
        forked = _copied(begins, self.events, session_id, results, run_id=origin.run_id, changed=changed)
        runs = [*earlier, forked]
        after_cut = [run.after_cut for run in self.record.runs[: self.number]] + [self._after_cut()]
        return [RecordedRun(events=run, after_cut=rest) for run, rest in zip(runs, after_cut, strict=True)]

    def _after_cut(self) -> list[DrainedChunk]:
        """Return the chunks that were read after the cuts of the copied responses."""
        steps = {event.step for event in self.events if isinstance(event, ev.ResponseFinished)}
        return [rest for rest in self.run.after_cut if step_of_attempt(rest.attempt) in steps]


def read_origin(source: SessionRecord | RecordTarget, session_id: str) -> SessionRecord:
    """Return the record of a session that is to be forked. Raises WrongUse if it has none that can be read."""
    if isinstance(source, SessionRecord):
        return source
    if isinstance(source, str | os.PathLike):
        return read_record(source)
    raise WrongUse(
        f"session {session_id} has no record file to fork: give it one (`record=`), or `source=read_record(path)`"
    )


def check_new_record(record: RecordTarget) -> None:
    """Raise WrongUse if the record of a fork exists already: a fork is a new session."""
    if isinstance(record, str | os.PathLike) and os.path.exists(record):
        raise WrongUse(f"{os.fspath(record)} exists already: a fork is a new session, so name a new file")


def describe_origin(origin: ev.Origin) -> str:
    """Describe, for people, where a fork comes from and what is different in it."""
    words = f"forked from {origin.session_id} at decision {origin.at}"
    parts = [f"another {name.replace('_', ' ')}" for name in origin.changed if name != "tools"]
    parts += ["other tools"] if "tools" in origin.changed else []
    parts += [f"an edited result of {call_id}" for call_id in origin.edited]
    return f"{words}, with {_joined(parts)}" if parts else words


def _joined(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


# ---- the copy


def _copied(
    started: ev.RunStarted,
    events: Sequence[Event],
    session_id: str,
    results: Mapping[str, str],
    *,
    run_id: str = "",
    changed: tuple[str, ...] = (),
) -> list[Event]:
    """Return the events of a run as its copy has them. run_id: the run's id in the origin, if the copy's differs."""
    first = events[0]
    assert isinstance(first, ev.RunStarted)
    answered = {event.call_id for event in events if isinstance(event, ev.ToolCallResult)}
    origin = ev.Origin(
        session_id=first.session_id,
        run_id=run_id or first.run_id,
        at=events[-1].seq + 1,
        edited=tuple(call_id for call_id in results if call_id in answered),
        changed=changed,
    )
    calls = _calls_in(events)
    compared = first.policy.repetition.results
    rest = [
        _with_result(event, calls, results, compared) if isinstance(event, ev.ToolCallResult) else event
        for event in events[1:]
    ]
    return [replace(started, session_id=session_id, origin=origin), *rest]


def _with_result(
    event: ev.ToolCallResult, calls: Mapping[str, ToolCall], results: Mapping[str, str], compared: ComparedResult
) -> ev.ToolCallResult:
    if event.call_id not in results:
        return event
    content = truncate(results[event.call_id])
    mark = fingerprint(calls[event.call_id], content, (), compared) if event.fingerprint else ""
    return replace(event, content=content, fingerprint=mark, images=(), attached="")


def _calls_in(events: Sequence[Event]) -> dict[str, ToolCall]:
    return {call.id: call for event in events if isinstance(event, ev.ResponseFinished) for call in event.message.calls}


# ---- checks


def _run_number(record: SessionRecord, run: int | str | None) -> int:
    ids = [one.started.run_id for one in record.runs]
    if run is None:
        return len(ids) - 1
    if isinstance(run, str) and run in ids:
        return ids.index(run)
    if isinstance(run, int) and 1 <= run <= len(ids):
        return run - 1
    listed = ", ".join(f"{number} ({id})" for number, id in enumerate(ids, 1))
    raise WrongUse(f"{record.path} has no run {run!r}: its runs are {listed}")


def _decisions_of(run: RecordedRun) -> list[ev.DecisionMade]:
    """Return the decisions of a run. An import ends a run with one that no policy made."""
    return (
        []
        if ev.is_imported(run.started.engine)
        else [event for event in run.events if isinstance(event, ev.DecisionMade)]
    )


def _check_decision(record: SessionRecord, number: int, at: int) -> None:
    run, name = record.runs[number], f"{record.path}, run {number + 1}"
    made = _decisions_of(run)
    seqs = [event.seq for event in made if made_by_policy(event.decision)]
    if not made:
        imported = "it was imported, and a policy never decided in it"
        why = imported if ev.is_imported(run.started.engine) else "it ended or was killed before one"
        raise WrongUse(f"{name} holds no decision to fork at: {why}{_elsewhere(record, number, at)}")
    if at in seqs:
        return
    if any(event.seq == at for event in made):
        why = "was not made by the policy: the run was cancelled, or ended by an internal error"
    else:
        event = next((event for event in run.events if event.seq == at), None)
        why = "is not a decision" if event is None else f"is not a decision, but {type(event).__struct_config__.tag}"
    raise WrongUse(f"{name}: event {at} {why}{_nearest(seqs, at)}{_elsewhere(record, number, at)}")


def _nearest(seqs: Sequence[int], at: int) -> str:
    """Name the decisions before and after this event, as the end of a sentence."""
    before = max((seq for seq in seqs if seq < at), default=None)
    after = min((seq for seq in seqs if seq > at), default=None)
    parts = [
        *([f"the last one before it is {before}"] if before is not None else []),
        *([f"the next one is {after}"] if after is not None else []),
    ]
    return f"; {', '.join(parts)}" if parts else "; the run has none"


def _elsewhere(record: SessionRecord, number: int, at: int) -> str:
    """Name the other runs in which this event is a decision, as the end of a sentence."""
    others = [
        f"run {other + 1}"
        for other, run in enumerate(record.runs)
        if other != number and any(event.seq == at and made_by_policy(event.decision) for event in _decisions_of(run))
    ]
    return f"; it is one in {_joined(others)}: name that run" if others else ""


def _check_whole(path: str, run: RecordedRun) -> None:
    """Raise WrongUse if events are missing in this part of a record."""
    for expected, event in enumerate(run.events, 1):
        if event.seq != expected:
            raise WrongUse(
                f"{path}: events {expected} to {event.seq - 1} of run {run.started.run_id} cannot be read: they are "
                "missing, or from a newer endstop; a fork needs all events before its decision"
            )


def _check_not_redacted(path: str, run: RecordedRun) -> None:
    mark = REDACTION_MARK.encode()
    if "redaction" in run.started.functions or any(mark in encode_line(event) for event in run.events):
        raise WrongUse(
            f"{path} is redacted: its texts are not what was said, so the model of a fork would read something else; "
            "fork the record that was not redacted"
        )


def _check_new_prompt(origin: ev.RunStarted, prompt: UserMessage | None) -> None:
    if prompt is not None and origin.prompt is None:
        raise WrongUse(f"run {origin.run_id} began with the answer to a question, so there is no prompt to replace")


def _check_results(point: ForkPoint, results: Mapping[str, str]) -> None:
    for call_id, text in results.items():
        _check_result(point, call_id)
        if not isinstance(text, str):
            raise WrongUse(f"the new result of {call_id} is {type(text).__name__}: write a text")


def _check_result(point: ForkPoint, call_id: str) -> None:
    """Raise WrongUse if the result of this call cannot be replaced in a fork at this point."""
    where = f"result of {call_id}: "
    runs = [*(run.events for run in point.record.runs[: point.number]), point.events]
    found = [event for run in runs for event in _results_in(run) if event.call_id == call_id]
    if not found:
        later = any(event.call_id == call_id for run in point.record.runs for event in _results_in(run.events))
        if later:
            raise WrongUse(f"{where}it came after decision {point.at}, so it is not part of the fork")
        known = ", ".join(event.call_id for run in runs for event in _results_in(run)) or "none"
        raise WrongUse(f"{where}no call of this id has a result before decision {point.at}; those that have: {known}")
    kinds = {spec.name: spec.kind for run in point.record.runs for spec in run.started.tools}
    kind = kinds.get(found[0].name, "ordinary")
    if kind != "ordinary":
        raise WrongUse(f"{where}it is one of {found[0].name}, a {kind} tool, which endstop answers by its own rules")
    if found[-1].status not in EDITABLE:
        raise WrongUse(f"{where}its tool did not run (it is {found[-1].status}), so there is nothing to replace")


def _results_in(events: Sequence[Event]) -> Iterator[ev.ToolCallResult]:
    return (event for event in events if isinstance(event, ev.ToolCallResult))
