"""Which sessions to show where there are too many to show all: the worst of each kind, and some that went well."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from msgspec import Struct

from .scoring import LabelledRun

REASONS = {
    "not good": "was reported as done and was not good; the dearest first",
    "after done": "went on after the work was reported as done; most such steps first",
    "limit passed": "ended by a limit and was good; most steps first",
    "repeats": "repeated the same calls with the same results; most such steps first",
    "handed back": "had completions handed back; most of them first",
    "broken off": "failed, was cancelled or has no end; most steps first",
    "limit": "ended by a limit, or got stuck; most steps first",
    "longest": "most steps",
    "shortest": "fewest steps of those that went well",
}
"""Why a session is shown, the most telling reason first, and in which order."""


class SampledSession(Struct, frozen=True, kw_only=True):
    """A session that is shown, and why."""

    record: str
    session_id: str
    reasons: tuple[str, ...]
    """Keys of REASONS."""
    runs: int
    steps: int
    number: int
    """Its place among all that were read."""


class SessionSampler:
    """Keeps the most telling sessions of many, in memory that only depends on how many are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen = 0
        self._heaps: dict[str, list[tuple[float, int, SampledSession]]] = {reason: [] for reason in REASONS}
        self._first: list[SampledSession] = []
        """As many as are kept, whatever they tell."""

    def add(self, record: str, runs: Sequence[LabelledRun]) -> None:
        """One more session."""
        self._seen += 1
        if not self._most or not runs:
            return
        measures = _measures(runs)
        chosen = SampledSession(
            record=record,
            session_id=runs[0].digest.session_id,
            reasons=tuple(reason for reason in REASONS if reason in measures and reason not in ("longest", "shortest")),
            runs=len(runs),
            steps=sum(run.digest.used.steps for run in runs),
            number=self._seen,
        )
        if len(self._first) < self._most:
            self._first.append(chosen)
        for reason, measure in measures.items():
            heap, entry = self._heaps[reason], (measure, -self._seen, chosen)  # of equal ones the first
            (heapq.heappush if len(heap) < self._most else heapq.heappushpop)(heap, entry)

    def sampled(self) -> tuple[SampledSession, ...]:
        """The sessions to show, by their first reason; each once.

        The reasons take turns, each giving its most telling session that is not taken yet, until there are enough.
        """
        if self._seen <= self._most:
            return tuple(sorted(self._first, key=_order))
        waiting = [[chosen for _, _, chosen in sorted(heap)] for heap in self._heaps.values()]
        taken: dict[int, SampledSession] = {}
        while len(taken) < self._most and any(waiting):
            for heap in waiting:
                while heap and heap[-1].number in taken:
                    heap.pop()
                if heap and len(taken) < self._most:
                    chosen = heap.pop()
                    taken[chosen.number] = chosen
        return tuple(sorted(taken.values(), key=_order))


def _order(chosen: SampledSession) -> tuple[int, int, int]:
    places = list(REASONS)
    first = places.index(chosen.reasons[0]) if chosen.reasons else len(places)
    return first, -chosen.steps, chosen.number


def _measures(runs: Sequence[LabelledRun]) -> dict[str, float]:
    """How telling a session is, for each reason that it has."""
    steps = sum(run.digest.used.steps for run in runs)
    tokens = sum(run.digest.used.usage.input_tokens + run.digest.used.usage.output_tokens for run in runs)
    statuses = {run.digest.status for run in runs}
    limited = [run for run in runs if run.ended == "limit"]
    measures: dict[str, float] = {
        "not good": tokens + 1 if any(run.ended_as_done and run.good is False for run in runs) else 0,
        "after done": sum(run.waste.steps for run in runs if run.waste is not None),
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


# ---- files that could not be read


class BadRecord(Struct, frozen=True):
    """A file that could not be read, and why."""

    record: str
    why: str


def partly_read(record: str, damaged: int, lost: int, done: str) -> BadRecord | None:
    """A record of which some lines are damaged or some events lost; None if it is whole. `done`: what was done."""
    if not (damaged or lost):
        return None
    missing = f", and {lost} events are missing" if lost else ""
    return BadRecord(record, f"{damaged} of its lines cannot be read{missing}; it was {done} without them")
