"""The mix of step kinds: what the steps of some sessions brought, as shares; and drift, when two mixes differ.

The guarantee of a fitted policy holds for work like that on which it was fitted. The mix shows whether other records
are such work: the distance of two mixes is the share of steps that would have to be of another kind for both to be the
same (total variation), from 0 to 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import fsum

from msgspec import Struct

DRIFT = 0.2
"""The distance above which the guarantee does not hold. Random halves of one agent's sessions, 50 in each, are 0.03 to
0.13 apart in the median, and different agents 0.11 to 0.67 (12 agents, 2,700 sessions of
docs/explanation/evidence.md)."""
LEAST_SESSIONS = 20
"""Minimum number of sessions; with fewer, the distance says more about chance than about the work."""


class MixComparison(Struct, frozen=True, kw_only=True):
    """How the steps of some records compare with those that a policy was fitted on."""

    policy: str
    guarantee: str
    """The guarantee of `endstop fit`, in words."""
    sessions: int
    distance: float | None
    """From 0 to 1; None if the policy's file has no mix, because an older endstop fitted it."""
    differences: dict[str, float]
    """Share here minus share there, by kind of step, from -1 to 1; the largest difference first."""

    @property
    def holds(self) -> bool | None:
        """Whether the records are like those of the fit, as far as the mix tells; None if that is unknown."""
        if self.distance is None or self.sessions < LEAST_SESSIONS:
            return None
        return self.distance <= DRIFT


def add_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the total number of steps of each kind."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def shares_of(counts: Mapping[str, int]) -> dict[str, float]:
    """Return the share of each kind, the largest first. Empty without steps."""
    total = sum(counts.values())
    return {kind: round(many / total, 4) for kind, many in sorted(counts.items(), key=lambda item: -item[1]) if many}


def compare_mix(
    policy: str, guarantee: str, fitted_on: Mapping[str, float] | None, counts: Mapping[str, int], sessions: int
) -> MixComparison:
    """Compare the steps of these sessions with the shares that a policy was fitted on; None if those are unknown."""
    here = shares_of(counts)
    distance, differences = None, {}
    if fitted_on and here:
        found = {kind: here.get(kind, 0.0) - fitted_on.get(kind, 0.0) for kind in {**here, **fitted_on}}
        distance = fsum(map(abs, found.values())) / 2
        largest = sorted(found.items(), key=lambda item: (-abs(item[1]), item[0]))
        differences = {kind: round(share, 4) for kind, share in largest if share}
    return MixComparison(
        policy=policy, guarantee=guarantee, sessions=sessions, distance=distance, differences=differences
    )
