"""What `endstop hook` was started with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ..decision import Policy

AGENT_SECONDS = 60.0
"""Seconds that agents give a hook by default: Claude Code and Codex 600 and Qwen Code and Gemini CLI 60 by their
documentation of 2026; the shortest counts."""
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
    proxy: str = ""
    """URL of a proxy that the agent may have before it; empty to look for it among the agent's variables."""

    @property
    def check_seconds(self) -> float:
        """Seconds that a check may take: it has to end, with all its processes, before the agent gives up."""
        most = max(1.0, self.timeout * CHECK_SHARE)
        return most if self.until_timeout is None else min(self.until_timeout, most)


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's folder for records and states: `$XDG_STATE_HOME/endstop/hook`, else below `~/.local/state`."""
    chosen = environ.get("XDG_STATE_HOME", "")
    base = Path(chosen) if os.path.isabs(chosen) else Path(environ.get("HOME") or "~").expanduser() / ".local" / "state"
    return base / "endstop" / "hook"
