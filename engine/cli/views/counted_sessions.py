"""The sessions that a backtest counts, so that each of its numbers can lead to them in `endstop view`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...analysis.backtest import SessionCase
from ...analysis.sampling import MAX_NAMED, view_ids
from .view_links import session_link, sessions_link


class CountedSessions:
    """Sessions by policy and by what is counted. `add` is the `on_case` of `backtest_records`."""

    def __init__(self) -> None:
        self._own_ids: dict[Path, str] = {}
        self._records: dict[tuple[str, str], list[Path]] = {}
        self._ids: dict[Path, str] | None = None

    def add(self, policy: str, case: SessionCase) -> None:
        """Add a session."""
        record = Path(case.record)
        self._own_ids[record] = case.session_id
        for name in _counts(case):
            found = self._records.setdefault((policy, name), [])
            if len(found) <= MAX_NAMED:
                found.append(record)

    def link(self, policy: str, name: str) -> str:
        """Return the link to the sessions of a count; empty if there are none or too many."""
        found = self._records.get((policy, name), [])
        return sessions_link(map(self._id, found)) if len(found) <= MAX_NAMED else ""

    def session(self, case: SessionCase) -> str:
        """Return the link to a session that was added."""
        return session_link(self._id(Path(case.record)))

    def _id(self, record: Path) -> str:
        if self._ids is None:
            self._ids = view_ids(self._own_ids)
        return self._ids[record]


def _counts(case: SessionCase) -> Iterator[str]:
    """Yield what counts a session, as in `PolicyTotals`."""
    finding, verdict = case.finding, case.verdict
    yield finding.parting
    counts = {
        "cut": finding.cut,
        "supposed_before_change": finding.supposed_before_change,
        "false_negatives": finding.goes_on,
        "stopped": finding.supposed_steps > 0,
        "premature": finding.supposed_premature,
        "good_cut": finding.supposed_steps > 1,
    }
    for name, counted in counts.items():
        if counted:
            yield name
            yield f"{name}, {verdict}"
