"""False stops: good sessions that a policy would have ended before their work was done, and what it saves in bad ones.

They are counted by the verdict on the session, which comes from its record or from a label. All of it assumes that the
model continues as recorded, whatever the policy says to it (`Finding.stops`).
"""

from __future__ import annotations

from msgspec import Struct

from .guarantee import exact_interval
from .statistics import Interval, RatioEstimator, clamp_share


class StoppedSessions(Struct, frozen=True, kw_only=True):
    """The sessions with one verdict under one policy."""

    sessions: int
    stopped: int
    """Number of sessions that would have ended a step or more before they did."""
    premature: int
    """Number of these that would have ended before their work was done (`Finding.premature`). If they were good, these
    are the false stops."""
    before_change: int
    """Number of sessions that would have ended before the last change of their work."""
    premature_share: Interval | None
    """`premature` as a share of `sessions`, with its exact interval; None without sessions."""
    saved_steps: int
    saved_steps_share: Interval | None
    """`saved_steps` as a share of all steps of these sessions. None for fewer than two sessions, or without steps."""


class StoppedSessionsAggregator:
    """Adds up the `StoppedSessions` of one verdict, session by session."""

    def __init__(self) -> None:
        self._stopped = self._premature = self._before_change = 0
        self._steps = RatioEstimator()

    def add(self, steps: int, saved: int, premature: bool, before_change: bool) -> None:
        """Add a session. steps: the steps it made. saved: those that it would not have made."""
        self._stopped += saved > 0
        self._premature += premature
        self._before_change += before_change
        self._steps.add(saved, steps)

    def total(self) -> StoppedSessions:
        """Return the results of the sessions so far."""
        saved = self._steps
        return StoppedSessions(
            sessions=saved.n,
            stopped=self._stopped,
            premature=self._premature,
            before_change=self._before_change,
            premature_share=exact_interval(self._premature, saved.n),
            saved_steps=int(saved.numerator),
            saved_steps_share=clamp_share(saved.interval()) if saved.numerator else None,
        )
