"""Attacks on runs of your own: cancels at every point, records that are cut anywhere, hostile tools and subscribers.

See `docs/guides/faults.md`. Nothing here needs pytest.
"""

from .cancel_points import check_cancel_points
from .cut_records import SideEffects, by_step, check_cut_records
from .hostile import check_hostile_subscribers, check_hostile_tools
from .invariants import INVARIANTS
from .violations import FaultReport, Violation

__all__ = [
    "INVARIANTS",
    "FaultReport",
    "SideEffects",
    "Violation",
    "by_step",
    "check_cancel_points",
    "check_cut_records",
    "check_hostile_subscribers",
    "check_hostile_tools",
]
