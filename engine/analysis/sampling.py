"""Choice of the sessions that a report shows: the most interesting ones, by kind of problem.

The module also says which records could not be read, or only in part.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ..base.plural import counted
from .scoring import MANY_STEPS_AFTER, LabelledRun

REASONS = {
    "not good": "reported as done, but not good; most tokens first",
    "after done": "went on after the work was reported as done; most such steps first",
    "after change": "made many steps after the last change of the work; most such steps first",
    "limit passed": "ended by a limit, but good; most steps first",
    "repeats": "repeated the same calls with the same results; most such steps first",
    "handed back": "had completions rejected; most rejections first",
    "broken off": "failed, was cancelled or has no end; most steps first",
    "limit": "ended by a limit or got stuck; most steps first",
    "longest": "most steps",
    "shortest": "no problems, and fewest steps",
}
"""Reasons to show a session, the most important first, with the order in which its sessions are taken."""


class SampledSession(Struct, frozen=True, kw_only=True):
    """A session that is shown, with the reasons."""

    record: str
    session_id: str
    reasons: tuple[str, ...]
    """Keys of REASONS."""
    runs: int
    steps: int
    number: int
    """Its position among all sessions that were read, from 1."""
    view_id: str = ""
    """Its id in `endstop view` for the same records (`view_ids`)."""


class SessionSampler:
    """Keeps the most interesting sessions. Memory depends on how many are kept, not on how many are read."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen = 0
        self._heaps: dict[str, list[tuple[float, int, SampledSession]]] = {reason: [] for reason in REASONS}
        self._first: list[SampledSession] = []
        """The first sessions, in case all of them can be shown."""

    def add(self, record: str, runs: Sequence[LabelledRun]) -> None:
        """Add a session."""
        self._seen += 1
        if not self._most or not runs:
            return
        measures = _measures(runs)
        session = SampledSession(
            record=record,
            session_id=runs[0].digest.session_id,
            reasons=tuple(reason for reason in REASONS if reason in measures and reason not in ("longest", "shortest")),
            runs=len(runs),
            steps=sum(run.digest.used.steps for run in runs),
            number=self._seen,
        )
        if len(self._first) < self._most:
            self._first.append(session)
        for reason, measure in measures.items():
            heap, entry = self._heaps[reason], (measure, -self._seen, session)  # the earlier one if equal
            (heapq.heappush if len(heap) < self._most else heapq.heappushpop)(heap, entry)

    def sampled(self) -> tuple[SampledSession, ...]:
        """Return the sessions to show, sorted by their first reason, each once.

        If there are too many, the reasons take turns: each contributes its top session that is not yet taken.
        """
        if self._seen <= self._most:
            return tuple(sorted(self._first, key=_order))
        waiting = [[session for _, _, session in sorted(heap)] for heap in self._heaps.values()]
        selected: dict[int, SampledSession] = {}
        while len(selected) < self._most and any(waiting):
            for heap in waiting:
                while heap and heap[-1].number in selected:
                    heap.pop()
                if heap and len(selected) < self._most:
                    session = heap.pop()
                    selected[session.number] = session
        return tuple(sorted(selected.values(), key=_order))


def _order(session: SampledSession) -> tuple[int, int, int]:
    places = list(REASONS)
    first = places.index(session.reasons[0]) if session.reasons else len(places)
    return first, -session.steps, session.number


def _measures(runs: Sequence[LabelledRun]) -> dict[str, float]:
    """Return how strongly each reason applies to a session; reasons that do not apply are left out."""
    steps = sum(run.digest.used.steps for run in runs)
    tokens = sum(run.digest.used.usage.input_tokens + run.digest.used.usage.output_tokens for run in runs)
    statuses = {run.digest.status for run in runs}
    limited = [run for run in runs if run.ended == "limit"]
    measures: dict[str, float] = {
        "not good": tokens + 1 if any(run.ended_as_done and run.good is False for run in runs) else 0,
        "after done": sum(run.waste.steps for run in runs if run.waste is not None),
        "after change": sum(_many_after_change(run) for run in runs),
        "limit passed": steps if any(run.good for run in limited) else 0,
        "repeats": sum(run.digest.repeated_steps for run in runs),
        "handed back": sum(run.digest.rejections for run in runs),
        "broken off": steps + 1 if statuses & {"failed", "cancelled", None} else 0,
        "limit": steps + 1 if "exhausted" in statuses else 0,
        "longest": steps + 1,
    }
    if not any(value for reason, value in measures.items() if reason != "longest"):
        measures["shortest"] = 1 / (steps + 1)
    return {reason: value for reason, value in measures.items() if value > 0}


def _many_after_change(run: LabelledRun) -> int:
    """Return the number of steps after the last change if it is `MANY_STEPS_AFTER` or more; else 0."""
    after = run.used_after("changed")
    return after.steps if after is not None and after.steps >= MANY_STEPS_AFTER else 0


# ---- ids

MAX_NAMED = 5000
"""Number of sessions up to which those of a count are named."""


def view_ids(own_ids: Mapping[Path, str]) -> dict[Path, str]:
    """Return the id by which `endstop view` names the session of each file.

    That is the session's own id or, for a second file with the same id, `ID~2`. The order of the paths decides which
    file is the second. The result has that order.
    """
    taken: dict[str, int] = {}
    """Number of files with each id."""
    ids = {}
    for path, own in sorted(own_ids.items()):
        id = own
        while id in taken:
            taken[own] += 1
            id = f"{own}~{taken[own]}"
        taken[id] = 1
        ids[path] = id
    return ids


# ---- files that could not be read


class BadRecord(Struct, frozen=True):
    """A file that could not be read, or only in part, with the reason."""

    record: str
    why: str


def partly_read(record: str, damaged: int, lost: int, done: str) -> BadRecord | None:
    """Return the entry for a record with damaged lines or missing events; None if the record is complete.

    done: what the caller did with the rest of the record, as a word for the message: "counted" or "tested".
    """
    if not (damaged or lost):
        return None
    missing = f", and {counted(lost, 'event(s) (is|are) missing')}" if lost else ""
    return BadRecord(record, f"{damaged:,} of its lines cannot be read{missing}; it was {done} without them")
