"""Invariants: what must hold for every record of a run, whatever happened to the run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from ...decision import Event, WrongUse
from ...decision import decide as built_in_decide
from ...decision import events as ev
from ...option_groups import Decide
from ...records.reader import SessionRecord, read_record
from ...replay.replay import replay
from .growth import subagent_records
from .limit_breaches import event_tag, past_limits

INVARIANTS = {
    "readable": "the record can be read, and no line of it is damaged",
    "one_end": "a run that has begun has exactly one end, its last event",
    "no_gap": "the events of a run are numbered 1, 2, 3 ..., and their times never go back",
    "one_result": "each call of a finished response has exactly one result, unless it waits for the user",
    "closed": "each step and each attempt that has begun is closed",
    "nothing_after_completion": "nothing begins after an accepted completion, and it stays the outcome",
    "nothing_after_cancel": "no step begins after the run was cancelled",
    "no_crash": "the run does not end with `internal_error`",
    "replays": "`endstop replay` of the record makes the same decisions again",
    "passed_on": "whoever waits for the run gets its outcome, or the cancellation, and no other exception",
    "not_cancelled": "an exception of a tool or a subscriber does not cancel the run",
    "ends": "the run ends in bounded time",
    "within_limits": "no response and no tool continues past a hard limit on time or output tokens",
    "nothing_left": "no task, thread or connection is left once the run has ended",
    "keeps_record": "what the record contained before a resume is still there",
    "not_repeated": "a resumed run repeats no effect, and asks for no finished response again",
    "not_lost": "a resumed run makes every effect, unless it says that the result of a call is unknown",
    "stored": "a store keeps committed data, in order and once, and refuses writers that have lost the session",
    "pure": "a policy decides for all facts that a run can reach, and the same each time",
    "completes": "a model that completes alone, in a step without a failure, is believed",
    "not_leaked": "no secret is in any written data",
    "not_destroyed": "a harmless text is written unchanged",
    "redacts": "a redaction returns the same text each time, and leaves redacted text unchanged",
    "acceptable": "the run ends in one of the ways that the answers of the endpoint allow",
    "same_host": "the conversation goes to no other host",
    "key_hidden": "no key that was sent is in the record",
    "typed_error": "unreadable input raises an error of the documented types, and no other exception",
    "bounded": "time, memory, requests and bytes read stay within their limits, even if the input is endless",
    "same_end": "a resumed run ends as it would have without the cut, unless the result of a call is unknown",
}
"""Invariants, by their names in violations."""

Broken = tuple[str, str]
"""Name of an invariant, and what was seen instead."""


async def broken_in_file(
    path: str | os.PathLike[str],
    cancelled_at: int | None = None,
    decide: Decide = built_in_decide,
    torn: int = 0,
) -> list[Broken]:
    """Return the invariants that a record and its sub-agents' records break; empty if they keep all.

    cancelled_at: number of the last event before the run was cancelled; None if it was not.
    decide: the run's decision function, `RunConfig.decide`, whose own rules are needed for the replay.
    torn: number of damaged lines that each record may have, one for each time that its process was killed.
    """
    try:
        record = read_record(path)
    except WrongUse as error:
        return [("readable", str(error))]
    damaged = [("readable", f"damaged lines {record.damaged}")] if len(record.damaged) > torn else []
    below = await broken_in_subagents(path, decide, torn)
    return [*damaged, *await broken_in_record(record, cancelled_at, decide), *below]


async def broken_in_subagents(
    path: str | os.PathLike[str], decide: Decide = built_in_decide, torn: int = 0
) -> list[Broken]:
    """Return what `broken_in_file` does, but only for sub-agents whose runs have begun, and for their sub-agents."""
    broken: list[Broken] = []
    for record in subagent_records(Path(path)):
        if b'"RUN_STARTED"' in record.read_bytes():
            found = await broken_in_file(record, None, decide, torn)
            broken += [(invariant, f"{record.name}: {seen}") for invariant, seen in found]
    return broken


async def broken_in_record(
    record: SessionRecord, cancelled_at: int | None = None, decide: Decide = built_in_decide
) -> list[Broken]:
    """Return what `broken_in_file` does, for a record that was read. Damaged lines are left to the caller."""
    broken: list[Broken] = []
    wrong = {call: times for call, times in results([run.events for run in record.runs]).items() if times != 1}
    if wrong:
        broken.append(("one_result", f"results by call: {wrong}"))
    for run in record.runs:
        broken += _broken_by(run.events)
        late = [e.step for e in run.events if isinstance(e, ev.StepStarted) and e.seq > (cancelled_at or e.seq)]
        if late:
            broken.append(("nothing_after_cancel", f"steps {late} began after event {cancelled_at}"))
    rules = getattr(decide, "keywords", {}).get("user_rules", ())
    if getattr(decide, "func", decide) is not built_in_decide:
        return broken  # a replay decides by rules, not by a function in their place
    report = await replay(record, rules=rules)
    if not report.same and "no_crash" not in dict(broken):  # the end of a crashed run is not a decision
        broken.append(("replays", "; ".join(str(run.divergence) for run in report.runs if run.divergence)))
    return broken


def _broken_by(events: Sequence[Event]) -> Iterator[Broken]:
    ends = [event.seq for event in events if isinstance(event, ev.RunFinished)]
    last = events[-1]
    if len(ends) != 1 or not isinstance(last, ev.RunFinished):
        yield "one_end", f"RUN_FINISHED has the numbers {ends}, and the last event is {last.seq} {event_tag(last)}"
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        yield "no_gap", f"the numbers are {_first([event.seq for event in events])}"
    if any(after.t < before.t for before, after in pairwise(events)):
        yield "no_gap", "times go back"
    yield from _not_closed(events)
    yield from _after_completion(events)
    yield from (("within_limits", seen) for seen in past_limits(events))
    if isinstance(last, ev.RunFinished) and last.outcome.stop_reason == "internal_error":
        yield "no_crash", str(last.outcome.detail)


def results(runs: Sequence[Sequence[Event]]) -> dict[str, int]:
    """Return, for each call of a session that must have a result, how many it has, by the events of its runs.

    The user's answer is the result of a question, unless it approves a call or grants steps. Results count once if they
    came before their step was begun again. Calls of incomplete responses do not count, nor those that wait for the user
    at the end.
    """
    found: dict[str, int] = {}
    without_result: set[str] = set()
    for events in runs:
        since_step: list[str] = []
        for event in events:
            match event:
                case ev.StepStarted():
                    since_step = []
                case ev.AttemptFailed(beside=False) | ev.RunResumed(interrupted_step=int()):
                    for id in since_step:
                        found[id] -= 1
                    since_step = []
                case ev.ToolCallResult():
                    found[event.call_id] = found.get(event.call_id, 0) + 1
                    since_step.append(event.call_id)
                case ev.QuestionAsked() if event.tool is not None or event.extends:
                    without_result.add(event.call_id)
                case ev.QuestionAnswered() if event.call_id not in without_result:
                    found[event.call_id] = 1
                case _:
                    pass
    messages = [e.message for events in runs for e in events if isinstance(e, ev.ResponseFinished)]
    whole = {call.id for message in messages for call in message.calls}
    last = runs[-1][-1]
    paused = isinstance(last, ev.RunFinished) and last.outcome.status == "awaiting_input"
    asks = any(isinstance(event, ev.QuestionAsked) and not event.extends for event in runs[-1])
    waiting = whole if paused and asks else set[str]()
    counted = {id: found.get(id, 0) for id in (*found, *whole)}
    return {id: n for id, n in counted.items() if (n or id in whole) and not (n == 0 and id in waiting)}


def _not_closed(events: Sequence[Event]) -> Iterator[Broken]:
    steps = Counter({e.step for e in events if isinstance(e, ev.StepStarted)})
    closed = Counter(e.step for e in events if isinstance(e, ev.StepFinished))
    if steps != closed:
        yield "closed", f"steps {sorted(steps)} began, and {sorted(closed.elements())} were closed"
    begun = {event.attempt for event in events if isinstance(event, ev.AttemptStarted)}
    ended = {event.attempt for event in events if isinstance(event, ev.AttemptFailed | ev.ResponseFinished)}
    resumed = any(isinstance(event, ev.RunResumed) for event in events)  # its open attempt ended with the process
    if begun != ended and not (resumed and ended <= begun):
        yield "closed", f"attempts {sorted(begun)} began, and {sorted(ended)} ended"


def _after_completion(events: Sequence[Event]) -> Iterator[Broken]:
    accepted = [event.seq for event in events if isinstance(event, ev.CompletionAccepted)]
    if not accepted:
        return
    began = [e for e in events if e.seq > accepted[0] and isinstance(e, ev.ToolExecutionStarted | ev.StepStarted)]
    if began:
        yield "nothing_after_completion", f"after event {accepted[0]}: {', '.join(map(event_tag, began))}"
    last = events[-1]
    if isinstance(last, ev.RunFinished) and last.outcome.status != "completed":
        yield "nothing_after_completion", f"it was accepted, but the run ended as {last.outcome.stop_reason}"


def _first(numbers: Sequence[int]) -> str:
    wrong = next((i for i, number in enumerate(numbers) if number != i + 1), 0)
    return f"... {', '.join(map(str, numbers[max(0, wrong - 2) : wrong + 2]))} ..."
