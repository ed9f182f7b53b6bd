"""Attacks on your own runs: cancellation at every point, cut records, hostile tools and subscribers, secrets.

See `docs/guides/faults.md`. Nothing here needs pytest.
"""

from .cancel_points import check_cancel_points
from .cut_process import SideEffects
from .cut_records import by_step, check_cut_records
from .fuzzed_inputs import check_fuzzed_inputs
from .fuzzed_responses import check_fuzzed_responses
from .harmless_texts import HARMLESS
from .hostile import check_hostile_subscribers, check_hostile_tools
from .hostile_endpoints import HOSTILE_ENDPOINTS, check_hostile_endpoints
from .invariants import INVARIANTS
from .policy_checks import check_policy
from .redaction_checks import check_leaks, check_redaction
from .secret_shapes import SECRETS, SecretShape
from .store_checks import check_store
from .violations import FaultReport, Violation

__all__ = [
    "HARMLESS",
    "HOSTILE_ENDPOINTS",
    "INVARIANTS",
    "SECRETS",
    "FaultReport",
    "SecretShape",
    "SideEffects",
    "Violation",
    "by_step",
    "check_cancel_points",
    "check_cut_records",
    "check_fuzzed_inputs",
    "check_fuzzed_responses",
    "check_hostile_endpoints",
    "check_hostile_subscribers",
    "check_hostile_tools",
    "check_leaks",
    "check_policy",
    "check_redaction",
    "check_store",
]
