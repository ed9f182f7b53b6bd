"""Attacks on runs of your own: cancels at every point, records that are cut anywhere, hostile tools and subscribers.

See `docs/guides/faults.md`. Nothing here needs pytest.
"""

from .cancel_points import check_cancel_points
from .invariants import INVARIANTS
from .violations import FaultReport, Violation

__all__ = ["INVARIANTS", "FaultReport", "Violation", "check_cancel_points"]
