"""Filters of the list of sessions that select what a report counts: each counted group of runs by a name and a value.

A report counts runs, and a list has sessions: a session matches if one of its runs does. The values are words, the same
in a report's tables, in the list's menus and in addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..decision import RECOMMENDED
from .endings import short_ending
from .metrics import ANCHORS
from .scoring import Anchor, LabelledRun, RunEnd, WorkState

ENDS: dict[RunEnd, str] = {
    "completion": "with a completion call",
    "text": "with a plain text",
    "limit": "at a limit",
    "other": "in another way",
    "unfinished": "not at all: the record is incomplete",
}
"""How a run ended (`ended`)."""
WORK: dict[WorkState, str] = {
    "checked": "checked and good",
    "said": "reported as done, not checked",
    "said_after_failures": "reported as done after calls that failed",
    "wrong": "checked and wrong",
    "not_said": "did not end as done",
}
"""What is known of the work (`work`)."""
FALSE_POSITIVE = "false positive"
FALSE_POSITIVES: dict[RunEnd, str] = {
    "completion": f"{FALSE_POSITIVE} with a completion call",
    "text": f"{FALSE_POSITIVE} with a plain text",
    "other": f"{FALSE_POSITIVE} in another way",
}
WENT_ON, GOOD_AT_LIMIT, REPEATED = "continued after it was done", "good, but ended at a limit", "repeated itself"
"""What went wrong (`trouble`), with `FALSE_POSITIVE` and those below it."""
REACHED: dict[Anchor, str] = {
    "said": "said that it was done",
    "changed": "changed the work",
    "checked": "passed a check after its last change",
}
NEVER_CHANGED = "never changed anything"
SOLVED = {True: ", solved", False: ", unsolved"}
"""What a run reached (`reached`); after it, whether the run was evaluated as good or bad."""


def filter_values(runs: Iterable[LabelledRun]) -> dict[str, set[str]]:
    """Return the values that a session with these runs has, by the names of the filters."""
    found: dict[str, set[str]] = {}
    for run in runs:
        for name, value in _values(run):
            found.setdefault(name, set()).add(value)
    return found


def _values(run: LabelledRun) -> Iterator[tuple[str, str]]:
    digest = run.digest
    yield "model", digest.model or "unknown"
    yield "policy", digest.policy or "unknown"
    if run.kind:
        yield "kind", kind_name(run.kind)
    for name, tool in digest.tools.items():
        yield "tool", name
        if tool.failed:
            yield "failed", name
    yield "ended", ENDS[run.ended]
    yield "run_ending", short_ending(digest.ending or "cut_off")
    yield "work", WORK[run.known]
    for trouble in _troubles(run):
        yield "trouble", trouble
    for anchor in ANCHORS:
        if run.used_after(anchor) is not None:
            yield "reached", REACHED[anchor]
            if run.good is not None:
                yield "reached", REACHED[anchor] + SOLVED[run.good]
    if run.used_after("changed") is None:
        yield "reached", NEVER_CHANGED


def _troubles(run: LabelledRun) -> Iterator[str]:
    if run.ended_as_done and run.good is False:
        yield FALSE_POSITIVE
        yield FALSE_POSITIVES[run.ended if run.ended in ("completion", "text") else "other"]
    if run.waste is not None and run.waste.steps > 0:
        yield WENT_ON
    if run.ended == "limit" and run.good:
        yield GOOD_AT_LIMIT
    if run.digest.repeated_steps > 0:
        yield REPEATED


def kind_name(kind: str) -> str:
    """Return a kind of task in plain words; a name that the user gave is kept."""
    return kind.replace("_", " ") if kind in RECOMMENDED else kind
