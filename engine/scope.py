"""The shared cancel scope of a round, and who cancelled it.

One scope holds all that is in flight in a round: the stream, the tools, the rest of the inner loop. An accepted
completion cancels it from inside, the caller (disconnect, timeout, shutdown) from outside. The first cause to fire is
the one that is recorded. The stream has a scope of its own inside, because a completion call cuts the stream at once,
before anybody knows whether it will be accepted.
"""

from __future__ import annotations

from typing import Literal

import anyio
from msgspec import Struct


class Cause(Struct, frozen=True):
    """Why a round was cancelled: the call id of an accepted completion, or the caller's word."""

    by: Literal["completion", "caller"]
    detail: str


class RoundScope:
    """The shared scope of one round."""

    def __init__(self) -> None:
        self.shared = anyio.CancelScope()
        self.cause: Cause | None = None

    def cancel(self, cause: Cause) -> None:
        """End everything in flight. Only the first cause is kept."""
        if self.cause is None:
            self.cause = cause
        self.shared.cancel()

    @property
    def cut_by(self) -> str | None:
        """The accepted completion that ended the round, if one did."""
        return self.cause.detail if self.cause is not None and self.cause.by == "completion" else None
