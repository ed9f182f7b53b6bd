"""What one policy makes of one recorded run, in words that all who compare policies share."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .summary import Point

Parting = Literal["same", "earlier", "later", "diverges", "refused"]
"""How a policy's run compares with the record.

same: ends at the same step. earlier: would have ended before. later: would have gone on past the recorded end.
diverges: would have said something else to the model. refused: cannot work with the tools that were offered.
"""


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one policy makes of one recorded run."""

    parting: Parting
    step: int | None = None
    """The step after which the two part; None where they are the same."""
    why: str = ""
    """What the policy says there, in words."""
    stops: Point | None = None
    """What would be used at its stop; if `parting` is `diverges`, only supposing that the model goes on as recorded."""
    stop_reason: str = ""
    """Its stop reason there."""
    rule: str = ""
    """The rule or guard that spoke."""
    saved: Point | None = None
    """What the record used after that stop; None where it is unknown. A closing step of the new policy is a request."""
    least_saved_steps: int = 0
    """Steps that the record made beyond the policy's hard limit: saved for certain, whatever the model would do."""
    cut: bool = False
    """True if it would have ended before the step at which the work was reported as done."""
    goes_on: bool = False
    """True if it would have gone on after that step."""
