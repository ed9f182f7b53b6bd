"""What `endstop hook` was started with."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from ..decision import Policy

AGENT_SECONDS = 60.0
"""Seconds that agents give a hook whose configuration says nothing else."""
CHECK_SHARE = 0.8
"""Share of these seconds that a check may take."""


class HookSettings(Struct, frozen=True, kw_only=True):
    """Settings of `endstop hook`.

    policy: as `followed_policy` returns it. folder: for records, states and the log. until: commands; none without a
    check. guard, score: as of `Until`.
    """

    policy: Policy
    folder: Path
    until: tuple[str, ...] = ()
    guard: tuple[str, ...] = ()
    score: str | None = None
    until_timeout: float | None = None
    timeout: float = AGENT_SECONDS
    """Seconds after which the agent stops waiting for the hook."""
    watch: bool = False
    """Whether to answer nothing, and only to record."""
    keep_days: int | None = None
    """Days after a session's last event when its record is deleted; None for never."""
    proxy: str = ""
    """URL of a proxy that the agent may have before it; empty to look for it among the agent's variables."""

    @property
    def check_seconds(self) -> float:
        """Seconds that a check may take: it has to end, with all its processes, before the agent gives up."""
        most = max(1.0, self.timeout * CHECK_SHARE)
        return most if self.until_timeout is None else min(self.until_timeout, most)
