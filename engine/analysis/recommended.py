"""The recommended limits by kind of task (`decision/recommended.py`), held against runs that were made."""

from __future__ import annotations

from msgspec import Struct

from ..decision import RECOMMENDED
from .metrics import Group, Share, share_of


class Fit(Struct, frozen=True, kw_only=True):
    """One kind's recommended limits, and the runs that would have been done within them.

    Runs that were done and are not known to be bad count, and those that a limit of steps cut off: as done in neither,
    since how many steps they needed nobody knows.
    """

    kind: str
    soft_steps: int
    steps: int
    """The hard limit."""
    within_soft: Share
    within_hard: Share


class Recommendation(Struct, frozen=True, kw_only=True):
    """Which recommended limits fit a group of runs."""

    fits: tuple[Fit, ...]
    p90: int | None
    """Nine of ten of the runs that count were done in so many steps; None if more than one in ten was cut off."""
    best: str | None
    """The first kind within whose soft limit nine of ten were done; None if there is none, or no run counts."""


ENOUGH = 0.9
"""The share of runs that the soft limit lets through: a task that needs more is unusual."""


def recommend(group: Group) -> Recommendation:
    """Hold the recommended limits against these runs."""
    whole = group.fits.runs + group.cut_off
    fits = tuple(
        Fit(
            kind=kind,
            soft_steps=limits.soft_steps or 0,
            steps=limits.hard_steps,
            within_soft=share_of(group.fits.within(limits.soft_steps or 0), whole),
            within_hard=share_of(group.fits.within(limits.hard_steps), whole),
        )
        for kind, limits in RECOMMENDED.items()
    )
    best = next((fit.kind for fit in fits if whole and fit.within_soft.runs >= ENOUGH * whole), None)
    return Recommendation(fits=fits, p90=_p90(group, whole), best=best)


def _p90(group: Group, whole: int) -> int | None:
    reached = 0
    for steps, times in sorted(group.fits.counts.items()):
        reached += times
        if reached >= ENOUGH * whole:
            return steps
    return None
